"""The catalogue of transformers: types that need sizes and inputs of their own, and those that it leaves out."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from modellint.sweep.catalogue import transformers_models  # noqa: E402
from modellint.sweep.catalogue.transformers_overrides import FORMS, LEFT_OUT  # noqa: E402


def _is_known(kind: str) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return kind in MODEL_MAPPING_NAMES


@pytest.mark.parametrize(
    ("kind", "shapes"),
    [
        ("vivit", {"pixel_values": (1, 4, 3, 64, 64)}),
        ("lightglue", {"pixel_values": (1, 2, 3, 64, 64)}),
        ("timesfm", {"past_values": (1, 64), "past_values_padding": (1, 64), "freq": (1, 1)}),
        ("instructblip", {"pixel_values": (1, 3, 64, 64), "input_ids": (1, 8), "qformer_input_ids": (1, 8)}),
        ("udop", {"input_ids": (1, 8), "bbox": (1, 8, 4), "pixel_values": (1, 3, 64, 64), "decoder_input_ids": (1, 8)}),
        ("wav2vec2-bert", {"input_features": (1, 16, 160)}),
        ("mimi_encoder", {"input_values": (1, 1, 9600)}),
        ("video_llama_3_vision", {"pictures": (16, 768)}),
        ("xmod", {"input_ids": (1, 8)}),
        ("oneformer", {"pixel_values": (1, 3, 64, 64), "task_inputs": (1, 77)}),
    ],
)
def test_a_small_form_runs(kind: str, shapes: dict[str, tuple[int, ...]]) -> None:
    if not _is_known(kind):
        pytest.skip(f"this version of transformers has no {kind}")
    model, inputs = transformers_models.build(kind)
    assert {name: tuple(value.shape) for name, value in inputs.items()} == shapes
    assert sum(parameter.numel() for parameter in model.parameters()) < 2_000_000
    with torch.no_grad():
        outputs = model(**inputs)
    assert all(value.isfinite().all() for value in outputs.values() if isinstance(value, torch.Tensor))


def test_numbers_are_those_that_are_told() -> None:
    """Masks and tokens as they are told: a mask of padding that is all ones would leave nothing of the series."""
    if not _is_known("timesfm"):
        pytest.skip("this version of transformers has no timesfm")
    _, inputs = transformers_models.build("timesfm")
    assert not inputs["past_values_padding"].any()
    _, inputs = transformers_models.build("instructblip")
    assert inputs["input_ids"].eq(5).sum() == 4


def test_types_that_are_left_out_are_not_listed() -> None:
    listed = {name for name, _ in transformers_models.models()}
    assert not listed & LEFT_OUT.keys()
    assert not FORMS.keys() & LEFT_OUT.keys()
    assert all(LEFT_OUT.values())
    assert {"bert", "vit"} <= listed
