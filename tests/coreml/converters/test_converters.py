"""Each supplied converter on a few random inputs by both routes; benchmarks/converters.py takes hundreds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from proof import HALVES, Outcome, allowed, limit, proven
from signatures import Case, Line, Several, drawn, lines, values, varied
from torch import nn

import modellint
from modellint.destinations.coreml.convert.conversion import NotConverted
from modellint.destinations.coreml.supplied_converters.registration import table

pytestmark = pytest.mark.filterwarnings("ignore")

TOGETHER = 8
"""How many signatures make one model: most of a conversion's time does not depend on its size."""


def stated(line: Line) -> float:
    return max((allowed(one.exactness) for one in table().get(line.operator, ())), default=0.0)


def groups() -> Iterator[tuple[tuple[Line, ...], str]]:
    """Signatures of one class by one route."""
    for route in ("trace", "export"):
        ordered = sorted((line for line in lines() if route in line.routes), key=stated)
        for _, alike in itertools.groupby(ordered, stated):
            while group := tuple(itertools.islice(alike, TOGETHER)):
                yield group, route


def tried(found: list[Case], route: str) -> Outcome:
    chance = torch.Generator().manual_seed(0)
    samples = [[one for case in found for one in values(case, chance)] for _ in range(6)]
    torch.manual_seed(0)
    return proven(Several(found), samples, route)


@pytest.mark.parametrize(
    ("group", "route"),
    [
        pytest.param(group, route, id=f"{group[0].operator} to {group[-1].operator} by {route} {at}")
        for at, (group, route) in enumerate(groups())
    ],
)
def test_agree_as_their_classes_say(group: tuple[Line, ...], route: str) -> None:
    found = [(line, drawn(line, 1, 2)[0]) for line in group]
    try:
        if tried([case for _, cases in found for case in cases], route).ulps <= min(map(stated, group)):
            return
    except NotConverted:
        pass
    for line, cases in found:
        outcome = tried(cases, route)
        assert outcome.ulps <= limit(line.operator, outcome), f"{line.operator}: {line.expression}: {outcome.problem}"


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize(
    ("target", "precision"), [("iOS15", "fp16"), ("iOS16", "fp16"), ("iOS17", "fp32"), ("iOS18", "fp16")]
)
def test_other_targets_and_precisions(target: str, precision: str, route: str) -> None:
    """Some of them; benchmarks/converters.py takes all."""
    some = [line for line in lines() if route in line.routes][7::16]
    found = [case for line in some for case in drawn(varied(line, "half") or line, 1, 1)[0]]
    chance = torch.Generator().manual_seed(1)
    plain = [
        [one.half().float() if one.is_floating_point() else one for case in found for one in values(case, chance)]
        for _ in range(3)
    ]
    torch.manual_seed(0)
    outcome = proven(Several(found), plain, route, target, precision)
    assert outcome.ulps <= (HALVES if precision == "fp16" else max(map(stated, some))), outcome.problem


def test_every_converter_has_a_signature() -> None:
    proved = {line.operator if "::" in line.operator else f"aten::{line.operator}" for line in lines()}
    supplied = {one.operator for converters in table().values() for one in converters}
    assert supplied - proved == set()


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("route", ["trace", "export"])
def test_a_triangular_system_of_many_rows_is_solved_block_by_block(route: str, upper: bool) -> None:
    class Solved(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            # Larger on the diagonal than beside it, so that the solution stays small; the other triangle is not read.
            return torch.linalg.solve_triangular(0.1 * x.tanh() + 2 * torch.eye(37), y.tanh(), upper=upper)

    chance = torch.Generator().manual_seed(3)
    inputs = (torch.randn(2, 37, 37, generator=chance), torch.randn(2, 37, 3, generator=chance))
    exported = modellint.export(Solved().eval(), inputs, precision="fp32", frontend=route)
    assert exported.verification is not None and exported.verification.verdict == "agrees"
    assert max(output.max_abs_error for output in exported.verification.outputs) < 1e-5
