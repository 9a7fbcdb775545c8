"""Converted by both routes with the supplied converters, executed, and held against PyTorch."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from modellint.coreml.capture_routes import arguments
from modellint.coreml.conversion import captures, convert
from modellint.coreml.converters.registration import table
from modellint.coreml.mil.executor import Executor
from modellint.coreml.private_mil import output_names
from modellint.live.subject import Inputs
from modellint.settings import Destination

HUGE = 3.4e38
"""From here on a number stands for an infinite one: Core ML's constants know no other."""


LARGE = 1e6
"""Inputs above it are there for what becomes of them, and are no measure of rounding."""


class Outcome(NamedTuple):
    """What came of one route."""

    ulps: float
    """The largest error, in units in the last place of the largest number that goes in or comes out; infinite for another kind of error."""
    used: dict[str, str]
    """The converters that took part, and their exactness."""
    problem: str = ""


def proven(model: nn.Module, samples: list[list[Tensor]], route: str) -> Outcome:
    """The largest error by a route, over all samples."""
    inputs = Inputs(tuple(samples[0]))
    destination = Destination()
    with captures(model.eval(), inputs, destination, route, supplied=True) as found:
        made = convert(found[0], destination, "fp32", supplied=True)
    used = {one.operator: one.exactness for one in made.used}
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
            error, said = distance(results[name], one, scale)
            if error > worst:
                worst, problem = error, said
    return Outcome(worst, used, problem)


def distance(got: Any, wanted: Tensor, scale: float = 0.0) -> tuple[float, str]:
    """How far a tensor is from another, in units in the last place of the largest finite element, or of ``scale``; and where."""
    if tuple(got.shape) != tuple(wanted.shape) and got.numel() != 1:
        return float("inf"), f"the shape {tuple(got.shape)} for {tuple(wanted.shape)}"
    left, right = got.reshape(-1).double(), wanted.reshape(-1).double()
    left, right = _bounded(left), _bounded(right)
    if not torch.equal(left.isnan(), right.isnan()):
        return float("inf"), f"not a number: {got.tolist()} for {wanted.tolist()}"[:300]
    known = ~right.isnan()
    left, right = left[known], right[known]
    if not torch.equal(left[right.isinf()], right[right.isinf()]) or bool(left[~right.isinf()].isinf().any()):
        return float("inf"), f"infinite: {got.tolist()} for {wanted.tolist()}"[:300]
    left, right = left[~right.isinf()], right[~right.isinf()]
    if not right.numel() or torch.equal(left, right):
        return 0.0, ""
    largest = max(scale, float(right.abs().max()))
    unit = torch.finfo(torch.float32).eps * max(largest, torch.finfo(torch.float32).tiny)
    return float((left - right).abs().max()) / unit, f"{got.tolist()} for {wanted.tolist()}"[:300]


def _bounded(values: Tensor) -> Tensor:
    return torch.where(values.abs() >= HUGE, values.sign() * float("inf"), values)


def allowed(exactness: str) -> float:
    """The units in the last place that a class allows."""
    return 0.0 if exactness == "bit-equal" else float(exactness.removeprefix("<= ").removesuffix(" ulps"))


def _magnitude(given: Tensor) -> float:
    """The largest plain number of an input."""
    size = given.double().abs()
    return float(size[size < LARGE].max()) if bool((size < LARGE).any()) else 0.0


def limit(operator: str, outcome: Outcome) -> float:
    """The units in the last place that an expression of an operator may be off: by its class, and those of what took part."""
    stated = (one.exactness for one in table().get(operator, ()))
    return max(map(allowed, (*stated, *outcome.used.values())), default=0.0)
