"""Each supplied converter on a few random inputs by both routes; benchmarks/converters.py takes hundreds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from proof import Outcome, allowed, limit, proven
from signatures import Case, Line, Several, drawn, lines, values

from modellint.coreml.conversion import NotConverted
from modellint.coreml.converters.registration import table

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


def test_every_converter_has_a_signature() -> None:
    proved = {f"aten::{line.operator}" for line in lines()}
    supplied = {one.operator for converters in table().values() for one in converters}
    assert supplied - proved == set()
