"""Each supplied converter on a few random inputs by both routes; benchmarks/converters.py takes hundreds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from proof import limit, proven
from signatures import Case, Line, Several, cases, lines, values

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize("line", lines(), ids=lambda line: f"{line.operator}: {line.expression}")
def test_agrees_as_its_class_says(line: Line, route: str) -> None:
    @settings(
        max_examples=1,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(cases(line), min_size=3, max_size=3))
    def check(found: list[Case]) -> None:
        chance = torch.Generator().manual_seed(0)
        samples = [[one for case in found for one in values(case, chance)] for _ in range(4)]
        torch.manual_seed(0)
        outcome = proven(Several(found), samples, route)
        assert outcome.ulps <= limit(line.operator, outcome), outcome.problem

    check()
