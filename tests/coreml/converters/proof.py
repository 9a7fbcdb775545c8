"""Converted by both routes with the supplied converters, executed, and held against PyTorch."""

from __future__ import annotations

import gc
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn

from modellint.destinations.coreml.capture.routes import arguments
from modellint.destinations.coreml.convert.conversion import captures, convert
from modellint.destinations.coreml.mil.executor import Executor
from modellint.destinations.coreml.private.mil_programs import output_names
from modellint.destinations.coreml.supplied_converters.registration import table
from modellint.live.inputs.model_inputs import Inputs
from modellint.settings import Destination

HUGE = {"fp32": 3.4e38, "fp16": 65504.0}
"""From here on a number stands for an infinite one: Core ML's constants know no other."""

EPSILON = {"fp32": torch.finfo(torch.float32).eps, "fp16": torch.finfo(torch.float16).eps}

LARGE = 1e6
"""Inputs above it are there for what becomes of them, and are no measure of rounding."""


class Outcome(NamedTuple):
    """What came of one route."""

    ulps: float
    """The largest error, in units in the last place of the largest number that goes in or comes out; infinite for another kind of error."""
    used: dict[str, str]
    """The converters that took part, and their exactness."""
    problem: str = ""


class Held(nn.Module):
    """A model in another, as most operators of a real one are: those of the outermost a trace calls by other names."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *given: Tensor) -> Any:
        return self.model(*given)


def proven(
    model: nn.Module, samples: list[list[Tensor]], route: str, target: str = "iOS15", precision: str = "fp32"
) -> Outcome:
    """The largest error by a route, over all samples."""
    # Loaded by now, without what it says when it is imported.
    from coremltools.converters.mil.mil import Program

    model = Held(model)
    inputs = Inputs(tuple(samples[0]))
    destination = Destination(target)
    with (
        captures(model.eval(), inputs, destination, route, supplied=True) as found,
        # Checked once, when it is whole, and not behind each of a hundred passes.
        mock.patch.object(Program, "validate"),
    ):
        made = convert(found[0], destination, precision, supplied=True)
    made.program.validate()
    used = {one.operator: one.exactness for one in made.used}
    _settle()
    execute = Executor(made.program)
    names = output_names(made.program)
    worst, problem = 0.0, ""
    for sample in samples:
        with torch.no_grad():
            wanted = model(*sample)
        given = arguments(model, Inputs(tuple(sample)), route)
        results = execute(dict(zip(execute.inputs, given, strict=True)))
        scale = max(map(_magnitude, sample), default=0.0)
        for name, one in zip(names, wanted, strict=True):
            error, said = distance(results[name], one, scale, precision)
            if error > worst:
                worst, problem = error, said
    return Outcome(worst, used, problem)


@cache
def _settle() -> None:
    """Leave what is loaded by now out of the garbage collections that coremltools asks for after each conversion."""
    gc.collect()
    gc.freeze()


def distance(got: Any, wanted: Tensor, scale: float = 0.0, precision: str = "fp32") -> tuple[float, str]:
    """How far a tensor is from another, in units in the last place of the largest finite element, or of ``scale``; and where."""
    if tuple(got.shape) != tuple(wanted.shape) and got.numel() != 1:
        return float("inf"), f"the shape {tuple(got.shape)} for {tuple(wanted.shape)}"
    if got.is_floating_point() != wanted.is_floating_point():
        return float("inf"), f"{got.dtype} for {wanted.dtype}"
    left, right = _bounded(got.reshape(-1).double(), precision), _bounded(wanted.reshape(-1).double(), precision)
    off = left.isnan() != right.isnan()
    if bool(off.any()):
        return float("inf"), f"not a number: {_some(left, right, off)}"
    off = (left != right) & (left.isinf() | right.isinf()) & ~right.isnan()
    if bool(off.any()):
        return float("inf"), f"infinite: {_some(left, right, off)}"
    known = right.isfinite()
    left, right = left[known], right[known]
    if not right.numel() or torch.equal(left, right):
        return 0.0, ""
    error = (left - right).abs()
    largest = max(scale, float(right.abs().max()))
    unit = EPSILON[precision] * max(largest, torch.finfo(torch.float32).tiny)
    return float(error.max()) / unit, _some(left, right, error == error.max())


def _some(got: Tensor, wanted: Tensor, which: Tensor) -> str:
    return f"{got[which][:3].tolist()} for {wanted[which][:3].tolist()} in {len(wanted)} elements"


def _bounded(values: Tensor, precision: str) -> Tensor:
    return torch.where(values.abs() >= HUGE[precision], values.sign() * float("inf"), values)


def allowed(exactness: str) -> float:
    """The units in the last place that a class allows."""
    return 0.0 if exactness == "bit-equal" else float(exactness.removeprefix("≤ ").removesuffix(" ulps"))


def _magnitude(given: Tensor) -> float:
    """The largest plain number of an input."""
    size = given.double().abs()
    return float(size[size < LARGE].max()) if bool((size < LARGE).any()) else 0.0


HALVES = 16.0
"""The units of half precision that anything may be off: it rounds after each operation, so some steps in a row add up."""


def limit(operator: str, outcome: Outcome, precision: str = "fp32") -> float:
    """The units in the last place that an expression of an operator may be off: by its class, and those of what took part."""
    stated = (one.exactness for one in table().get(operator, ()))
    return max(map(allowed, (*stated, *outcome.used.values())), default=0.0) if precision == "fp32" else HALVES
