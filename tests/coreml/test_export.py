"""`modellint.export`: the package is right, agrees with the model, and is there as a whole or not at all."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import modellint
from modellint.destinations.coreml.capture.routes import traced
from modellint.destinations.coreml.convert import export
from modellint.destinations.coreml.package.emulated_predictor import Predictor
from modellint.destinations.coreml.private.entry_points import ct
from modellint.destinations.coreml.private.mil_programs import read_package
from modellint.live.inputs.model_inputs import Inputs
from modellint.results.exported import Change
from modellint.results.verification import AGREES

pytestmark = pytest.mark.filterwarnings("ignore")

HERE = Path(__file__).parent
LABELS = ("ant", "bee", "cat", "dog", "elk")


class Net(nn.Module):
    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 4, 3)
        self.linear = nn.Linear(4, len(LABELS))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.linear(self.conv(image).relu().mean((2, 3))).softmax(-1)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)

    def forward(self, ids: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.embedding(ids) * scale
        return y, y.sum(-1)


class Adding(nn.Module):
    """Updates a buffer in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


class Holding(nn.Module):
    """Has a module that updates a buffer in place."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Adding()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + 1


class Binding(nn.Module):
    """Updates a buffer by binding it anew, which a trace loses."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = 0.5 * self.mean + x
        return self.mean * 2


class Branching(nn.Module):
    """No route keeps both branches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x - 1


class Eigenvalues(nn.Module):
    """No route converts it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.linalg.eigvals(x @ x.mT).abs().sum()


class WriteThroughView(nn.Module):
    """A trace converts to something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        z = y.view(-1)
        z.add_(1)
        return y * 2


class Overflowing(nn.Module):
    """Float16 cannot hold what is in between."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 1e4).square() / 1e6


def exported(model: nn.Module, *inputs: torch.Tensor, **options: Any) -> modellint.ExportResult:
    return modellint.export(model, inputs, root=HERE, **options)


def image(channels: int = 3) -> torch.Tensor:
    return torch.rand(1, channels, 8, 8, generator=torch.Generator().manual_seed(0))


def spec_of(path: Path) -> Any:
    return ct.models.MLModel(str(path), skip_model_load=True).get_spec()


def kinds(features: Any) -> dict[str, str]:
    return {one.name: one.type.WhichOneof("Type") for one in features}


def executed(path: Path, *inputs: torch.Tensor, count: int = 1) -> list[list[Any]]:
    program, _ = read_package(path)
    found: list[list[Any]] = Predictor(program)(inputs, count)
    return found


# What is written.


def test_package_is_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "Net.mlpackage"
    model, x = Net().eval(), image()
    result = exported(
        model,
        x,
        output=path,
        output_names=["probabilities"],
        author="A. Uthor",
        license="MIT",
        description="What it does",
        version="2.1",
        input_descriptions={"image": "A photo"},
        output_descriptions={"probabilities": "Of each class"},
    )
    assert result.path == path
    assert result.frontend == "trace"
    assert result.verification.ok
    assert result.report.convertible
    assert list(tmp_path.iterdir()) == [path]
    loaded = ct.models.MLModel(str(path), skip_model_load=True)
    assert (loaded.author, loaded.license, loaded.short_description, loaded.version) == (
        "A. Uthor",
        "MIT",
        "What it does",
        "2.1",
    )
    description = loaded.get_spec().description
    assert [(one.name, one.shortDescription) for one in description.input] == [("image", "A photo")]
    assert [(one.name, one.shortDescription) for one in description.output] == [("probabilities", "Of each class")]
    assert list(description.input[0].type.multiArrayType.shape) == [1, 3, 8, 8]
    assert result.mlmodel.get_spec() == loaded.get_spec()
    ((found,),) = executed(path, x)
    assert torch.allclose(found.float(), model(x), atol=1e-2)


def test_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = exported(Net(), image())
    assert result.path is None
    assert not list(tmp_path.iterdir())
    result.mlmodel.save("Net.mlpackage")
    assert kinds(spec_of(Path("Net.mlpackage")).description.input) == {"image": "multiArrayType"}


@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_several_inputs_and_outputs(tmp_path: Path, frontend: str) -> None:
    path = tmp_path / "Two.mlpackage"
    ids, scale = torch.randint(0, 10, (2, 3)), torch.rand(2, 3, 4)
    result = exported(
        Two(), ids, scale, output=path, frontend=frontend, precision="fp32", output_names=["embedded", "sums"]
    )
    assert [(one.name, one.dtype, one.shape) for one in result.summary.inputs] == [
        ("ids", "int32", "2x3"),
        ("scale", "float32", "2x3x4"),
    ]
    assert [(one.name, one.shape) for one in result.summary.outputs] == [("embedded", "2x3x4"), ("sums", "2x3")]


def test_keyword_arguments_keep_their_names(tmp_path: Path) -> None:
    given = {"scale": torch.rand(2, 3, 4), "ids": torch.randint(0, 10, (2, 3))}
    result = modellint.export(Two(), given, root=HERE, precision="fp32")
    assert [one.name for one in result.summary.inputs] == ["ids", "scale"]


@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_flexible_shapes(frontend: str) -> None:
    result = exported(Net(), image(), flexible={0: {0: (1, 4), 2: (8, 32)}}, frontend=frontend, precision="fp32")
    assert result.summary.inputs[0].shape == "1..4x3x8..32x8"
    assert result.summary.outputs[0].shape == "?x5"
    assert {"1x3x8x8", "4x3x32x8"} <= {one.label for one in result.verification.cases}


class SingleOnly(nn.Module):
    """A model that counts its calls and takes a single row only, whatever it says of its sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return x.reshape(1, 4) + self.calls


def test_what_does_not_run_at_two_is_traced_from_where_it_stood() -> None:
    sizes: list[tuple[int, float]] = []
    model = SingleOnly()
    model.register_forward_pre_hook(lambda module, given: sizes.append((len(given[0]), float(module.calls))))
    traced(model, Inputs((torch.ones(1, 4),), flexible={0: {0: (1, 8)}}), None)
    assert sizes == [(2, 0.0), (1, 0.0)]


class SingleApart(nn.Module):
    """A model that goes another way for a single row, as decoders do for a single token."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        if x.shape[1] == 1:
            return x.reshape(1, 1, 2, 2).sum(-1) * y.sum()
        return x.unflatten(-1, (2, 2)).sum(-1) * y.sum()


def test_a_flexible_size_of_one_is_traced_at_two() -> None:
    x, y = torch.randn(1, 1, 4), torch.randn(1, 4)
    flexible = {0: {1: (1, 8)}, 1: {0: (1, 8)}}
    result = exported(SingleApart(), x, y, flexible=flexible, frontend="trace", precision="fp32")
    assert result.verification.verdict == "agrees"
    assert {"1x1x4, 1x4", "1x8x4, 8x4"} <= {case.label for case in result.verification.cases}


@pytest.mark.parametrize("frontend", ["trace", "export"])
@pytest.mark.parametrize(
    ("layout", "given", "color"),
    [
        ("rgb", {"scale": 1 / 255, "bias": (-0.4, -0.5, -0.6)}, 20),
        ("bgr", {"layout": "bgr", "scale": 1 / 64}, 30),
        ("grayscale", {"layout": "grayscale", "scale": 1 / 255, "bias": -0.5}, 10),
    ],
)
def test_image_is_scaled_as_told(tmp_path: Path, frontend: str, layout: str, given: dict[str, Any], color: int) -> None:
    path = tmp_path / "Net.mlpackage"
    channels = 1 if layout == "grayscale" else 3
    model = Net(channels).eval()
    exported(model, image(channels), output=path, images={"image": given}, frontend=frontend, precision="fp32")
    (feature,) = spec_of(path).description.input
    assert feature.type.WhichOneof("Type") == "imageType"
    assert (feature.type.imageType.colorSpace, feature.type.imageType.height) == (color, 8)
    pixels = torch.randint(0, 256, (1, channels, 8, 8)).float()
    bias = torch.tensor(given.get("bias", 0.0)).reshape(1, -1, 1, 1)
    ((found,),) = executed(path, pixels)
    assert torch.allclose(found, model(pixels * given["scale"] + bias), atol=1e-6)


@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_classifier_gives_the_label_of_the_largest(tmp_path: Path, frontend: str) -> None:
    path = tmp_path / "Net.mlpackage"
    model, x = Net().eval(), image()
    result = exported(model, x, output=path, labels=LABELS, output_names=["animal"], frontend=frontend)
    description = spec_of(path).description
    assert kinds(description.output) == {"animal": "stringType", "animal_probs": "dictionaryType"}
    assert description.predictedFeatureName == "animal"
    assert result.verification.half
    ((label, probabilities),) = executed(path, x)
    assert list(probabilities) == list(LABELS)
    assert label == LABELS[int(model(x).argmax())]
    assert probabilities[label] == pytest.approx(float(model(x).max()), abs=1e-2)


def test_classifier_without_probabilities_is_told() -> None:
    logits = nn.Sequential(nn.Flatten(), nn.Linear(4, 5))
    with torch.no_grad():
        logits[1].weight.mul_(30)
    result = exported(logits, torch.rand(1, 4), labels=LABELS)
    assert any("no probabilities" in note for note in result.summary.notes)


@pytest.mark.parametrize(
    ("model", "frontend", "names", "route"),
    [
        (Adding, None, ["total"], "trace"),
        (Holding, "trace", ["inner_total"], "trace"),
        (Holding, "export", ["inner_total"], "export"),
        (Binding, None, ["mean"], "export"),
    ],
)
def test_states(
    tmp_path: Path, model: Callable[[], nn.Module], frontend: str | None, names: list[str], route: str
) -> None:
    path = tmp_path / "Net.mlpackage"
    x = torch.rand(1, 4)
    result = exported(model(), x, output=path, states=True, deployment_target="iOS18", frontend=frontend)
    assert [one.name for one in spec_of(path).description.state] == names
    assert [(one.name, one.dtype, one.shape) for one in result.summary.states] == [(names[0], "float16", "1x4")]
    assert result.frontend == route
    assert any("start at zero" in note for note in result.summary.notes) == (model is Binding)
    first, second = executed(path, x, count=2)
    assert not torch.equal(first[0], second[0])


@pytest.mark.parametrize(("model", "frontend"), [(Adding, "trace"), (Adding, "export"), (Binding, "export")])
def test_states_are_compared_in_single_precision_too(model: Callable[[], Any], frontend: str) -> None:
    made = model().eval()
    (buffer,) = made.buffers()
    buffer.fill_(1 / 3)
    result = exported(
        made, torch.rand(1, 4), states=True, deployment_target="iOS18", frontend=frontend, precision="fp32"
    )
    assert all(one.error <= 1e-5 for one in result.verification.outputs)
    halves = [case.half is not None for case in result.verification.cases if "prediction" in case.label]
    # Further sequences are for the float32 program alone.
    assert halves[:6] == [True] * 6
    assert not any(halves[6:])
    (half,) = result.verification.half
    assert 1e-5 < half.error < 1e-3
    assert "; with float16 states off by " in repr(result)


def test_states_that_nobody_asked_for_are_refused() -> None:
    with pytest.raises(modellint.ExportError, match="forward updates mean: --state") as caught:
        exported(Binding(), torch.rand(1, 4), deployment_target="iOS18")
    assert {one.route: one.reason for one in caught.value.summary.attempts}[
        "export"
    ] == "it keeps states (mean): --state"


# What is not.


def exported_by_trace() -> modellint.ExportError:
    with pytest.raises(modellint.ExportError, match="not exported") as caught:
        exported(WriteThroughView(), torch.rand(2, 4), frontend="trace")
    return caught.value


def test_route_that_agrees_is_taken() -> None:
    result = exported(WriteThroughView(), torch.rand(2, 4))
    assert result.frontend == "export"
    (attempt,) = result.summary.attempts
    # It is not converted at all, as a finding is known against it.
    assert (attempt.route, attempt.stage) == ("trace", "finding")
    assert attempt.reason.startswith("MUT001 at ")
    assert "something else" in attempt.reason
    verification = exported_by_trace().verification
    assert verification is not None
    assert verification.verdict == "differs"


def test_model_that_does_not_convert(tmp_path: Path) -> None:
    path = tmp_path / "Net.mlpackage"
    with pytest.raises(modellint.ExportError, match="does not convert") as caught:
        exported(Eigenvalues(), torch.rand(2, 4), output=path)
    error = caught.value
    assert error.verification is None
    assert error.report.convertible is False
    assert "OPS001" in {one.code for one in error.report.diagnostics}
    assert [one.route for one in error.summary.attempts] == ["trace", "export", "decomposed"]
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.report == error.report
    assert not list(tmp_path.iterdir())


def test_model_that_does_not_agree_is_written_by_force_only(tmp_path: Path) -> None:
    path = tmp_path / "Net.mlpackage"
    x = torch.rand(2, 4)
    with pytest.raises(modellint.ExportError, match="differs from PyTorch") as caught:
        exported(Branching(), x, output=path)
    assert caught.value.verification is not None
    assert caught.value.verification.verdict == "differs"
    assert not list(tmp_path.iterdir())
    result = exported(Branching(), x, output=path, force=True)
    assert not result.verification.ok
    assert "by force" in repr(result)
    assert list(tmp_path.iterdir()) == [path]


def test_precision_that_is_not_enough() -> None:
    x = torch.rand(2, 4)
    with pytest.raises(modellint.ExportError, match="float16 is not precise enough") as caught:
        exported(Overflowing(), x)
    assert caught.value.verification is not None
    assert caught.value.verification.half_ok is False
    assert exported(Overflowing(), x, precision="fp32").verification.ok


class Waves(nn.Module):
    """Large numbers, which are no usual input, float16 knows too coarsely."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)


def test_precision_is_judged_on_usual_inputs() -> None:
    result = exported(Waves(), torch.randn(4, 50, generator=torch.Generator().manual_seed(0)))
    assert result.frontend == "trace"
    assert result.verification.half_ok
    assert result.verification.first_difference is None


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "Net.mlpackage"
    path.mkdir()
    (path / "mine").write_text("kept")
    with pytest.raises(FileExistsError, match="force=True"):
        exported(Net(), image(), output=path)
    with pytest.raises(modellint.ExportError):
        exported(Eigenvalues(), torch.rand(2, 4), output=path, force=True)
    assert [one.name for one in path.iterdir()] == ["mine"]
    exported(Net(), image(), output=path, force=True)
    assert kinds(spec_of(path).description.input) == {"image": "multiArrayType"}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"images": {"x": {}}}, "the model's arguments are image"),
        ({"images": {"image": {"layout": "grayscale"}}}, "a grayscale image is a tensor of 1x1xHEIGHTxWIDTH"),
        ({"images": {"image": {"scale": (1, 2, 3)}}}, "one scale for all channels"),
        ({"images": {"image": {"bias": (1, 2)}}}, "3 channels, and 2 numbers"),
        ({"images": {"image": {"std": 0.2}}}, "one scale for all channels"),
        ({"images": {"image": {}}, "flexible": {0: {0: (1, 4)}}}, "height and width"),
        ({"labels": LABELS[:3]}, "there are 3 labels, and the model returns 5 numbers"),
        ({"labels": [*LABELS[:4], "ant"]}, "'ant' stands there twice"),
        ({"states": True}, "states need iOS18"),
        ({"output_names": ["a", "b"]}, "2 names for 1 outputs"),
        ({"output_names": ["no name"]}, "letters, digits and underscores"),
        ({"input_descriptions": {"x": "?"}}, "the package has image"),
        ({"output": "Net.mlmodel"}, r"must end in \.mlpackage"),
        ({"frontend": "onnx"}, "frontend must be one of"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        exported(Net(), image(), **options)


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        exported(Net(), image(), output=tmp_path / "nowhere" / "Net.mlpackage")


def test_package_is_compared_with_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not with the copy that was fixed."""

    def fixed(other: Callable[[nn.Module], nn.Module]) -> Callable[..., export.Fixed]:
        change = Change("fixed", "a name", ("blocks.0", "blocks.1"), "bit-equal", "said of it", "REG002")
        return lambda model, *_: export.Fixed(other(model), (change,))

    monkeypatch.setattr(export, "fixed_model", fixed(copy.deepcopy))
    result = exported(Net(), image())
    assert "  fixed     a name (REG002): blocks.0, blocks.1 (bit-equal, said of it)" in repr(result).splitlines()
    monkeypatch.setattr(export, "fixed_model", fixed(lambda model: Net().eval()))
    with pytest.raises(modellint.ExportError, match="differs from PyTorch"):
        exported(Net(), image())


# What stays as it was.


def _global_state() -> dict[str, Any]:
    from coremltools.converters.mil.frontend.torch.torch_op_registry import _TORCH_OPS_REGISTRY
    from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY

    return {
        "converters": list(_TORCH_OPS_REGISTRY.name_to_func_mapping.items()),
        "passes": {name: type(one) for name, one in PASS_REGISTRY.passes.items()},
        "grad": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "torch": torch.get_rng_state().tolist(),
        "python": random.getstate(),
        "numpy": numpy.random.get_state()[1].tolist(),
    }


@pytest.mark.parametrize("model", [Net, Eigenvalues, Branching])
def test_process_and_model_are_left_as_they_were(model: Callable[[], nn.Module]) -> None:
    made = model().train()
    calls: list[int] = []
    made.register_forward_hook(lambda *_: calls.append(1))
    made.note = "mine"
    for parameter in made.parameters():
        parameter.grad = torch.ones_like(parameter)
    x = image()
    before = {name: value.clone() for name, value in made.state_dict().items()}
    attributes, process = sorted(vars(made)), _global_state()
    try:
        exported(made, x)
    except modellint.ExportError:
        assert model is not Net
    assert _global_state() == process
    assert sorted(vars(made)) == attributes
    assert made.training
    assert len(made._forward_hooks) == 1
    assert not made._forward_pre_hooks
    assert all(torch.equal(value, before[name]) for name, value in made.state_dict().items())
    assert all(bool((one.grad == 1).all()) for one in made.parameters() if one.grad is not None)
    assert torch.equal(x, image())


def test_images_leave_no_hook() -> None:
    model = Net()
    exported(model, image(), images={"image": {"scale": 1 / 255}})
    assert not model._forward_pre_hooks


class Scaled(nn.Module):
    """A constant of bfloat16, as some language models scale their embeddings by."""

    def __init__(self, rounds: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.tensor([5.7, 0.3, -1.1, 2.9], dtype=torch.bfloat16))
        self.rounds = rounds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor = torch.tensor(32**0.5, dtype=torch.bfloat16)
        scale = self.scale * factor if self.rounds else self.scale[None]
        return self.layer(x) * scale.to(x.dtype) * factor.type(x.dtype)


def test_constants_of_bfloat16_are_widened(tmp_path: Path) -> None:
    model = Scaled().eval()
    made = modellint.export(model, (torch.randn(2, 4),), precision="fp32", output=tmp_path / "Net.mlpackage")
    assert made.verification.verdict == "agrees"
    assert made.summary.route == "export"
    assert model.scale.dtype is torch.bfloat16


def test_numbers_that_are_rounded_to_bfloat16_are_refused() -> None:
    with pytest.raises(modellint.ExportError, match=r"(?i)bfloat16"):
        modellint.export(Scaled(rounds=True).eval(), (torch.randn(2, 4),), precision="fp32")


class Counting(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"logits": x * 2, "layers": 3, "cache": None}


def test_output_that_is_no_tensor_is_told() -> None:
    made = modellint.export(Counting(), (torch.randn(2, 4),), precision="fp32")
    assert made.summary.notes == ("the output layers is no tensor, and is left out",)


class FloorOfFloor(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.div(torch.floor(x), 2, rounding_mode="floor")


class GeluOfTanh(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(torch.tanh(x), approximate="tanh")


class Registered(dict[str, torch.Tensor]):
    """An output whose class is registered for flattening without names for its parts, as diffusers registers its own."""


pytree.register_pytree_node(
    Registered,
    lambda output: (list(output.values()), list(output)),
    lambda parts, keys: Registered(zip(keys, parts, strict=True)),
)


class ReturnsRegistered(nn.Module):
    """Returns one."""

    def forward(self, x: torch.Tensor) -> Registered:
        """Of two tensors."""
        return Registered(up=x + 1, down=x - 1)


class Denoising(nn.Module):
    """Returns by the name of what it takes."""

    def forward(self, sample: torch.Tensor) -> dict[str, torch.Tensor]:
        """Of one tensor."""
        return {"sample": sample * 2, "sample_output": sample + 1}


class Passing(nn.Module):
    """Returns its mask as it is."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Of two tensors."""
        return {"logits": x * mask, "mask": mask}


@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_input_may_be_returned_as_it_is(frontend: str) -> None:
    inputs = (torch.rand(2, 3), torch.ones(2, 3, dtype=torch.int32))
    result = modellint.export(Passing(), inputs, frontend=frontend, precision="fp32")
    assert result.verification.verdict == AGREES
    assert [output.name for output in result.summary.outputs] == ["logits", "mask_output"]


class Twice(nn.Module):
    """Returns a tensor under two names, as classes of outputs do with the last of the hidden states."""

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        """Of two tensors, as three outputs."""
        y = x * 2
        return {"last": y, "all": (x + 1, y)}


@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_an_output_that_is_returned_twice_has_both_names(frontend: str) -> None:
    result = modellint.export(Twice(), (torch.rand(2, 3),), frontend=frontend, precision="fp32")
    assert result.verification.verdict == AGREES
    assert [output.name for output in result.summary.outputs] == ["last", "all_0", "all_1"]


@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_output_may_be_called_as_an_input(frontend: str) -> None:
    result = modellint.export(Denoising(), (torch.rand(2, 3),), frontend=frontend, precision="fp32")
    assert result.verification.verdict == AGREES
    assert [output.name for output in result.summary.outputs] == ["sample_output", "sample_output_output"]


def test_outputs_that_are_registered_without_names_have_their_keys() -> None:
    result = exported(ReturnsRegistered(), torch.rand(2, 3))
    assert result.verification.verdict == AGREES
    assert [output.name for output in result.summary.outputs] == ["up", "down"]


@pytest.mark.parametrize("model", [FloorOfFloor(), GeluOfTanh()], ids=lambda model: type(model).__name__)
def test_words_that_are_also_names_of_values(model: nn.Module) -> None:
    made = modellint.export(model.eval(), (torch.randn(3, 4),), precision="fp32", frontend="export")
    assert (made.verification.verdict, made.summary.route) == ("agrees", "export")
