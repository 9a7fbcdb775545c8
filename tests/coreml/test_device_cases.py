"""Published results of devices: the executor computes the same, or verification says that devices do something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import modellint
from modellint.authoring import coreml
from modellint.data.device_results import CASES, DEPARTURES, DeviceCase
from modellint.destinations.coreml.mil.device_departures import departures

pytestmark = pytest.mark.filterwarnings("ignore")


class Sums(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.logsumexp(x, 1)


def made(case: DeviceCase) -> tuple[nn.Module, tuple[Any, ...]]:
    namespace: dict[str, Any] = {}
    exec(case.program, namespace)
    model, inputs = namespace["make"]()
    return model, inputs


def is_mended(case: DeviceCase) -> bool:
    """Whether the installed coremltools makes a program that is right, where the published one was not."""
    return bool(case.mended) and coreml.is_at_least(coreml.here(), case.mended)


def verified(case: DeviceCase) -> Any:
    model, inputs = made(case)
    precision = "fp32" if case.precision == "float32" else "fp16"
    return modellint.verify(model, inputs, frontend=case.route, precision=precision)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_nothing_is_said_to_agree_that_a_device_is_known_to_compute_otherwise(case: DeviceCase) -> None:
    if is_mended(case):
        model, inputs = made(case)
        assert_close(executed(case), model(*inputs), case)
        return
    verification = verified(case)
    assert verification.verdict in ("differs", "undecided")
    if case.told_by == "executor":
        assert verification.verdict == "differs"
    else:
        assert verification.is_open_on_devices
        published = DEPARTURES[case.told_by]
        assert [each.numbers for each in verification.departures] == [published.numbers]


COUNTED = [case for case in CASES if case.told_by == "executor" and case.device_output is not None]


@pytest.mark.parametrize("case", COUNTED, ids=[case.name for case in COUNTED])
def test_the_executor_gives_the_numbers_of_the_device(case: DeviceCase) -> None:
    model, inputs = made(case)
    wanted = model(*inputs) if is_mended(case) else torch.tensor(numbers(case.device_output))
    assert_close(executed(case), wanted, case)


def assert_close(output: torch.Tensor, wanted: torch.Tensor, case: DeviceCase) -> None:
    limit = 1e-2 if case.precision == "float16" and is_mended(case) else 1e-4
    torch.testing.assert_close(output.float(), wanted.float(), rtol=limit, atol=limit, equal_nan=True)


def executed(case: DeviceCase) -> torch.Tensor:
    """What the program that is converted gives, by the executor."""
    import coremltools as ct

    from modellint.destinations.coreml.mil.executor import Executor

    model, inputs = made(case)
    half = case.precision == "float16"
    options = {"compute_precision": ct.precision.FLOAT16 if half else ct.precision.FLOAT32, "skip_model_load": True}
    if case.route == "trace":
        captured: Any = torch.jit.trace(model, inputs)
        types = [ct.TensorType(shape=value.shape, dtype=numpy_type(value)) for value in inputs]
        converted = ct.convert(captured, inputs=types, **options)
    else:
        converted = ct.convert(torch.export.export(model, inputs).run_decompositions({}), **options)
    executor = Executor(converted._mil_program)
    (output,) = executor(dict(zip(executor.inputs, inputs, strict=True))).values()
    return output


def numbers(nested: Any) -> Any:
    if isinstance(nested, list):
        return [numbers(each) for each in nested]
    return float(nested)


def numpy_type(value: Tensor) -> Any:
    import numpy as np

    return np.float32 if value.is_floating_point() else np.int32


def test_each_departure_has_a_condition_and_is_about_operations_that_are_executed() -> None:
    from modellint.destinations.coreml.mil.operation_registry import operations

    known = {each.name: each for kind in departures().values() for each in kind}
    assert set(known) == set(DEPARTURES)
    assert all(each.as_it_stands is not None or each.of_numbers is not None for each in known.values())
    assert set(departures()) <= set(operations())


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (nn.Softplus(), (torch.linspace(-9, 9, 8),)),
        (nn.AvgPool2d(7, stride=4, padding=2), (torch.randn(1, 2, 16, 16),)),
        (nn.Conv2d(2, 2, (3, 2), stride=2), (torch.randn(1, 2, 9, 9),)),
        (nn.BatchNorm2d(3).eval(), (torch.randn(1, 3, 4, 4),)),
        (nn.InstanceNorm2d(3), (torch.randn(1, 3, 4, 4),)),
        (nn.ReflectionPad1d(8), (torch.randn(1, 1, 32),)),
    ],
)
def test_what_is_alike_and_not_affected_is_left_alone(model: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    import coremltools as ct

    from modellint.destinations.coreml.mil.executor import Executor

    traced = torch.jit.trace(model.eval(), inputs)
    converted = ct.convert(traced, inputs=[ct.TensorType(shape=inputs[0].shape)], skip_model_load=True)
    executor = Executor(converted._mil_program)
    executor(dict(zip(executor.inputs, inputs, strict=True)))
    assert not executor.departures


@pytest.mark.parametrize(
    ("model", "inputs", "half", "name"),
    [
        (Sums(), (torch.full((3, 32), 8.0),), True, "log-sum-exp"),
        (Sums(), (torch.full((3, 32), 8.0),), False, ""),
        (Sums(), (torch.full((3, 32), 90.0),), False, "log-sum-exp"),
        (nn.Softplus(), (torch.full((1, 4), 11.0),), True, "softplus"),
        (nn.Softplus(), (torch.full((1, 4), 11.0),), False, ""),
        (nn.BatchNorm3d(2).eval(), (torch.randn(1, 2, 3, 3, 3),), True, "batch-norm-3d"),
        (nn.InstanceNorm3d(2), (torch.randn(1, 2, 3, 3, 3),), False, "instance-norm-3d"),
    ],
)
def test_a_departure_is_met_on_the_numbers_of_one_run(
    model: nn.Module, inputs: tuple[Tensor, ...], half: bool, name: str
) -> None:
    """On the example alone: other inputs may meet it where this does not."""
    import coremltools as ct

    from modellint.destinations.coreml.mil.executor import Executor

    precision = ct.precision.FLOAT16 if half else ct.precision.FLOAT32
    traced = torch.jit.trace(model.eval(), inputs)
    converted = ct.convert(
        traced, inputs=[ct.TensorType(shape=inputs[0].shape)], compute_precision=precision, skip_model_load=True
    )
    executor = Executor(converted._mil_program)
    executor(dict(zip(executor.inputs, inputs, strict=True)))
    assert [*executor.departures] == [name] * bool(name)


def test_a_device_that_was_asked_decides_what_was_open() -> None:
    from modellint.results.verification import Departed, Recorded, Verification

    departed = Departed("softplus", "", "", None, "gives 0", "", ("apple/coremltools#2687",), "")
    found = Verification("agrees", single="agrees", departures=(departed,)).on_devices()
    assert (found.verdict, found.is_open_on_devices) == ("undecided", True)
    for verdict in ("agrees", "differs"):
        told = found.with_recorded(Verification(verdict, recorded=Recorded(1, 1)))
        assert (told.verdict, told.reason, told.is_open_on_devices) == (verdict, "", False)


AROUND = [case for case in CASES if case.told_by in DEPARTURES and DEPARTURES[case.told_by].around]


@pytest.mark.parametrize("case", AROUND, ids=[case.name for case in AROUND])
def test_an_export_goes_around_what_a_device_is_known_to_compute_otherwise(case: DeviceCase, tmp_path: Path) -> None:
    model, inputs = made(case)
    precision = "fp32" if case.precision == "float32" else "fp16"
    exported = modellint.export(
        model, inputs, output=tmp_path / "net.mlpackage", frontend=case.route, precision=precision
    )
    assert exported.verification.ok
    assert not exported.verification.departures
    assert DEPARTURES[case.told_by].around in [change.what for change in exported.summary.changes]


def kinds(path: Path) -> list[str]:
    """The operations of a package that are no constants, in order."""
    from modellint.destinations.coreml.private.mil_programs import read_package

    program, _ = read_package(path)
    return [operation.op_type for operation in program.functions["main"].operations if operation.op_type != "const"]


def test_nothing_is_put_around_attention_of_nine(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.told_by == "attention-of-ten")
    model, inputs = made(case)
    path = tmp_path / "net.mlpackage"
    assert modellint.export(model, (inputs[0][:9],), output=path, precision="fp32").verification.ok
    assert "concat" not in kinds(path)
    assert modellint.export(model, inputs, output=path, precision="fp32", force=True).verification.ok
    found = kinds(path)
    at = found.index("softmax")
    assert found[at - 3 : at + 1] == ["add", "split", "concat", "softmax"]


def test_softplus_in_half_precision_is_right_beyond_ten_and_far_below(tmp_path: Path) -> None:
    x = torch.tensor([[-50.0, -12.0, -3.0, 0.0, 3.0, 9.99, 10.0, 10.01, 11.0, 300.0]])
    path = tmp_path / "net.mlpackage"
    assert modellint.export(nn.Softplus(), (x,), output=path).verification.ok
    assert kinds(path)[1:-1] == ["minimum", "softplus", "maximum"]


def test_a_normalization_of_five_axes_keeps_its_name_and_its_shape_as_an_output(tmp_path: Path) -> None:
    model = nn.InstanceNorm3d(3, affine=True).eval()
    path = tmp_path / "net.mlpackage"
    inputs = (torch.randn(2, 3, 4, 5, 6),)
    exported = modellint.export(model, inputs, output=path, precision="fp32", output_names=["normalized"])
    assert exported.verification.ok
    assert [(each.name, each.shape) for each in exported.summary.outputs] == [("normalized", "2x3x4x5x6")]
    assert kinds(path) == ["reshape", "instance_norm", "reshape"]
