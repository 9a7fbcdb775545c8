"""Programs read from saved packages: the same numbers, bit by bit, as those in memory."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import coremltools.optimize.coreml as compression
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from modellint.destinations.coreml.mil.executor import Executor
from modellint.destinations.coreml.private.entry_points import ct, silence
from modellint.destinations.coreml.private.mil_programs import (
    Image,
    PackageError,
    function_names,
    images,
    program_of,
    read_package,
)

SHAPE = (1, 3, 12, 12)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.norm(self.convolution(x))).mean((2, 3)))


class Sum(nn.Module):
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        return self.total * 2


def converted(model: nn.Module, inputs: list[Any], *sample: Tensor, **options: Any) -> Any:
    with silence(), torch.no_grad():
        traced = torch.jit.trace(model.eval(), sample)
        return ct.convert(traced, inputs=inputs, skip_model_load=True, **options)


def net(**options: Any) -> Any:
    torch.manual_seed(0)
    options = {"inputs": [ct.TensorType(name="x", shape=SHAPE)], "minimum_deployment_target": ct.target.iOS18} | options
    return converted(Net(), options.pop("inputs"), torch.randn(SHAPE), **options)


@cache
def plain(target: str, precision: str = "FLOAT16") -> Any:
    return net(minimum_deployment_target=ct.target[target], compute_precision=ct.precision[precision])


def same(mlmodel: Any, path: Path, given: dict[str, Tensor], steps: int = 1) -> Any:
    """Assert that the package computes what the program in memory computes, and return its specification."""
    with silence():
        mlmodel.save(str(path))
    assert mlmodel._mil_program is not None
    program, spec = read_package(path)
    first, second = Executor(program_of(mlmodel)), Executor(program)
    for _ in range(steps):
        ours, theirs = first(given), second(given)
        assert list(ours) == list(theirs)
        for name, value in ours.items():
            assert torch.equal(value, theirs[name]) if isinstance(value, Tensor) else value == theirs[name]
    return spec


@pytest.mark.parametrize("precision", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("target", ["iOS15", "iOS18"])
def test_a_network(tmp_path: Path, precision: str, target: str) -> None:
    same(plain(target, precision), tmp_path / "net.mlpackage", {"x": torch.randn(SHAPE)})


@pytest.mark.parametrize("name", ["palettize_weights", "linear_quantize_weights", "prune_weights"])
@pytest.mark.parametrize("target", ["iOS16", "iOS18"])
def test_compressed_weights(tmp_path: Path, name: str, target: str) -> None:
    config = {
        "palettize_weights": compression.OpPalettizerConfig(mode="uniform", nbits=4, weight_threshold=0),
        "linear_quantize_weights": compression.OpLinearQuantizerConfig(weight_threshold=0),
        "prune_weights": compression.OpMagnitudePrunerConfig(target_sparsity=0.5, weight_threshold=0),
    }[name]
    with silence():
        whole = plain(target)
        made = getattr(compression, name)(whole, compression.OptimizationConfig(config))
    kinds = {one.op_type for one in program_of(made).functions["main"].operations}
    assert any(kind.startswith("constexpr_") for kind in kinds)
    x = torch.randn(SHAPE)
    same(made, tmp_path / "net.mlpackage", {"x": x})
    error = next(iter(Executor(program_of(made))({"x": x}).values())) - next(
        iter(Executor(program_of(whole))({"x": x}).values())
    )
    assert 0 < error.abs().max() < 1


def test_a_state_over_several_steps(tmp_path: Path) -> None:
    made = converted(
        Sum(),
        [ct.TensorType(name="x", shape=(1, 4))],
        torch.zeros(1, 4),
        states=[ct.StateType(ct.TensorType(shape=(1, 4)), name="total")],
        minimum_deployment_target=ct.target.iOS18,
    )
    same(made, tmp_path / "sum.mlpackage", {"x": torch.randn(1, 4)}, steps=3)
    run = Executor(read_package(tmp_path / "sum.mlpackage")[0])
    x = torch.tensor([[1.0, 2.0, -3.0, 0.5]])
    for step in (1, 2, 3):
        assert torch.equal(next(iter(run({"x": x}).values())), 2 * step * x)
    assert torch.equal(run.states["total"], 3 * x)


def test_an_image_and_labels(tmp_path: Path) -> None:
    made = net(
        inputs=[ct.ImageType(name="x", shape=SHAPE, scale=1 / 255, color_layout=ct.colorlayout.BGR)],
        classifier_config=ct.ClassifierConfig([f"kind{at}" for at in range(6)]),
    )
    pixels = torch.randint(0, 256, SHAPE).float()
    spec = same(made, tmp_path / "net.mlpackage", {"x": pixels})
    assert images(spec) == {"x": Image("BGR", 12, 12)}


def test_functions(tmp_path: Path) -> None:
    description = ct.utils.MultiFunctionDescriptor()
    with silence():
        for name in ("one", "two"):
            made = plain("iOS18", "FLOAT32" if name == "one" else "FLOAT16")
            made.save(str(tmp_path / f"{name}.mlpackage"))
            description.add_function(str(tmp_path / f"{name}.mlpackage"), "main", name)
        description.default_function_name = "two"
        ct.utils.save_multifunction(description, str(tmp_path / "both.mlpackage"))
    program, spec = read_package(tmp_path / "both.mlpackage")
    assert function_names(program) == ("two", "one")
    assert images(spec, "one") == {}
    x = torch.randn(SHAPE)
    for function, name in ((None, "two"), ("two", "two"), ("one", "one")):
        alone, _ = read_package(tmp_path / f"{name}.mlpackage")
        ours, theirs = Executor(program, function)({"x": x}), Executor(alone)({"x": x})
        assert torch.equal(*(next(iter(values.values())) for values in (ours, theirs)))
    with pytest.raises(KeyError, match="no function 'three', but two, one"):
        Executor(program, "three")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="does not exist"):
        read_package(tmp_path / "none.mlpackage")
    with pytest.raises(PackageError, match="no saved Core ML model"):
        read_package(tmp_path)
    spec = ct.proto.Model_pb2.Model()
    spec.specificationVersion = 4
    spec.pipeline.models.add()
    (tmp_path / "pipeline.mlmodel").write_bytes(spec.SerializeToString())
    with pytest.raises(PackageError, match="of kind pipeline"):
        read_package(tmp_path / "pipeline.mlmodel")


def test_weights_are_not_copied() -> None:
    made = net(compute_precision=ct.precision.FLOAT32)
    program = program_of(made)
    held = {
        id(one.outputs[0].val): one.outputs[0].val
        for one in program.functions["main"].operations
        if one.op_type == "const" and np.ndim(one.outputs[0].val) > 1
    }
    assert held
    run = Executor(program)
    x = torch.randn(SHAPE)
    before = next(iter(run({"x": x}).values()))
    for array in held.values():
        if array.dtype == np.float32:
            array *= 2
    assert not torch.equal(before, next(iter(run({"x": x}).values())))
