"""Each supplied converter on a few random inputs by both routes; benchmarks/converters.py takes hundreds."""

from __future__ import annotations

import pytest
import torch
from proof import limit, proven
from signatures import Line, Several, drawn, lines, values

from modellint.coreml.converters.registration import table

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    ("line", "route"),
    [
        pytest.param(line, route, id=f"{line.operator}: {line.expression} by {route}")
        for line in lines()
        for route in line.routes
    ],
)
def test_agrees_as_its_class_says(line: Line, route: str) -> None:
    (found,) = drawn(line, 1, 3)
    chance = torch.Generator().manual_seed(0)
    samples = [[one for case in found for one in values(case, chance)] for _ in range(4)]
    torch.manual_seed(0)
    outcome = proven(Several(found), samples, route)
    assert outcome.ulps <= limit(line.operator, outcome), outcome.problem


def test_every_converter_has_a_signature() -> None:
    proved = {f"aten::{line.operator}" for line in lines()}
    supplied = {one.operator for converters in table().values() for one in converters}
    assert supplied - proved == set()
