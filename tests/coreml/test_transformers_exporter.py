"""The export backend of transformers: a model is exported, saved, read back and run through transformers' own classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.exporters import AutoHfExporter, ExportedModel

import modellint
from modellint.transformers_exporter import CoreMLConfig, CoreMLExporter

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 50,
}


@pytest.fixture
def encoder() -> Any:
    torch.manual_seed(0)
    return transformers.BertModel(transformers.BertConfig(**SIZES)).eval()


@pytest.fixture
def inputs() -> dict[str, torch.Tensor]:
    return {
        "input_ids": torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]]),
        "attention_mask": torch.ones(1, 8, dtype=torch.int64),
    }


def test_saved_read_back_and_run(encoder: Any, inputs: dict[str, torch.Tensor], tmp_path: Path) -> None:
    exporter = AutoHfExporter.from_config({"export_format": "coreml"})
    exported = exporter.export(encoder, inputs, {"precision": "fp32"})
    assert exporter.results[0].verification.verdict == "agrees"
    expected = encoder(**inputs)
    outputs = exported(**inputs)
    assert type(outputs) is type(expected)
    torch.testing.assert_close(outputs.last_hidden_state, expected.last_hidden_state, rtol=0, atol=1e-5)
    # A second time, over what is there.
    exported.save_pretrained(tmp_path)
    exported.save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "export.json", "model.mlpackage"]
    back = ExportedModel.from_pretrained(tmp_path)
    torch.testing.assert_close(back(**inputs).pooler_output, expected.pooler_output, rtol=0, atol=1e-5)
    with pytest.raises(TypeError, match="attention_mask is missing"):
        back(input_ids=inputs["input_ids"])
    with pytest.raises(ValueError, match="CPU"):
        back.to("cuda")


def test_model_and_inputs_are_left_as_they_were(encoder: Any, inputs: dict[str, torch.Tensor]) -> None:
    config, names = encoder.config.to_dict(), list(inputs)
    CoreMLExporter().export(
        encoder,
        inputs,
        CoreMLConfig(precision="fp32", flexible={"input_ids": {1: (4, 8)}, "attention_mask": {1: (4, 8)}}),
    )
    assert encoder.config.to_dict() == config
    assert list(inputs) == names


def test_cache_is_refused_with_what_to_do() -> None:
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_key_value_heads=2)).eval()
    with pytest.raises(RuntimeError, match="'prefill'") as caught:
        CoreMLExporter().export_for_generation(model, {"input_ids": torch.tensor([[1, 2, 3, 4]])}, CoreMLConfig())
    assert "takes a cache is not exported" in str(caught.value.__cause__)


def test_what_does_not_agree_is_not_made() -> None:
    class Drawn(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(x, 0.5, training=True)

    with pytest.raises(modellint.ExportError):
        CoreMLExporter().export(Drawn(), {"x": torch.ones(1, 4)}, CoreMLConfig())


def test_quantizer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"coremltools\.optimize"):
        CoreMLConfig(quantizer="int8")  # type: ignore[arg-type]


@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_mask_of_flexible_size(frontend: str) -> None:
    """Attention and a choice between two numbers by a mask whose sizes are known at a run; a query without keys gives zeros."""

    class Masked(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            kept = mask.bool()[:, None, None, :].expand(-1, 1, x.shape[1], -1)
            penalty = torch.where(kept, 0.0, -1e4)
            heads = x.reshape(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
            attended = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, kept)
            return attended + (heads @ heads.transpose(-1, -2) + penalty).softmax(-1) @ heads

    result = modellint.export(
        Masked(),
        {"x": torch.rand(1, 8, 8), "mask": torch.tensor([[1, 1, 0, 1, 1, 1, 1, 1]])},
        flexible={"x": {1: (4, 16)}, "mask": {1: (4, 16)}},
        ranges={"mask": (0, 2)},
        precision="fp32",
        frontend=frontend,
    )
    assert result.verification.verdict == "agrees"
