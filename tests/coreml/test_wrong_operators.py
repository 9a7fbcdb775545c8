"""OPS012 against real conversions: an error comes out wrong by the routes that it names, and what it leaves alone is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from comparing import verified
from torch import Tensor, nn
from torch.nn import functional

from modellint.data.coreml_faults import conversions
from modellint.live.check import check_subject, live_rules
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.measure.coreml_faults import namespace
from modellint.results.diagnostic import Diagnostic, Severity
from modellint.rule_index import load_rules
from modellint.settings import Destination

pytestmark = pytest.mark.filterwarnings("ignore")
RULES = {rule.code: rule for rule in live_rules(load_rules()) if rule.code == "OPS012"}
INFINITE = float("-inf")


def told(model: nn.Module, *inputs: Tensor) -> list[Diagnostic]:
    return check_subject(Subject(model.eval(), Inputs(inputs), Path.cwd(), Destination()), RULES)


KNOWN = {
    **dict.fromkeys(("diagonal", "var-of-all", "instance-norm-running-statistics", "quotient-of-one"), Severity.ERROR),
    **dict.fromkeys(("power-of-two", "avg-pool-ceil", "max-pool-ceil", "narrow-from-the-end"), Severity.ERROR),
    **dict.fromkeys(("unique-counts", "unique-inverse", "var-correction", "softplus-threshold"), Severity.ERROR),
    **dict.fromkeys(("antialias", "fill-by-a-tensor", "flip-of-a-scalar", "masked-fill-broadcast"), Severity.ERROR),
    **dict.fromkeys(
        ("vector-times-matrices", "cross-without-dim", "nearest-scale", "mean-of-integers"), Severity.ERROR
    ),
    "fraction-filled-in-integers": Severity.ERROR,
    **dict.fromkeys(("rms-norm-epsilon", "rms-norm-zeros", "logcumsumexp", "sum-of-truths"), Severity.WARNING),
    **dict.fromkeys(("atan2-half-turn", "any-of-floats", "all-of-integers", "sum-in-integers"), Severity.WARNING),
}


@pytest.mark.parametrize("fault", [fault for fault in conversions() if fault.id in KNOWN], ids=lambda fault: fault.id)
def test_known_faults_are_told(fault: Any) -> None:
    for program in fault.programs:
        model, inputs, *_ = namespace(program)["make"]()
        assert [finding.severity for finding in told(model, *inputs)] == [KNOWN[fault.id]], program.name


class Computed(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.full((6, 6), INFINITE))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x[0, 0] + self.mask.triu(1), -1)


def _normalized() -> nn.Module:
    layer = nn.InstanceNorm2d(3, track_running_stats=True)
    layer.running_mean += 1  # type: ignore[operator]
    return layer


FORMS: dict[str, nn.Module | Callable[[Tensor], Tensor]] = {
    "a fraction": lambda x: x % 1.0 + 1,
    "another remainder": lambda x: x % 2 + 1,
    "a quotient that is the output": lambda x: x // 1,
    "a rounded quotient": lambda x: x // 1 + 1,
    "a quotient cut off": lambda x: torch.div(x, 1, rounding_mode="trunc") + 1,
    "a variance of few": lambda x: x[0, 0].var(),
    "a variance of few along an axis": lambda x: x.var(1),
    "a variance that divides by n": lambda x: x[0, 0].var(correction=0),
    "a map made smaller": lambda x: functional.interpolate(x, size=(3, 3), mode="bilinear", antialias=True),
    "a map made larger": lambda x: functional.interpolate(x, size=(9, 9), mode="bilinear", antialias=True),
    "the last two": lambda x: x.narrow(3, -2, 2),
    "two of the last": lambda x: x.narrow(3, -3, 2),
    "running statistics": _normalized(),
    "statistics of the input": nn.InstanceNorm2d(3),
    "a triangle of a kept infinity": Masked(),
    "a triangle of infinity": lambda x: torch.softmax(x[0, 0] + torch.full((6, 6), INFINITE).triu(1), -1),
    "a triangle": lambda x: x[0, 0].triu(1),
    "a mean in ceil mode": nn.AvgPool2d(3, 2, ceil_mode=True),
    "a mean in ceil mode without what is padded": nn.AvgPool2d(3, 2, ceil_mode=True, count_include_pad=False),
    "a mean in ceil mode that ends evenly": nn.AvgPool2d(2, 2, ceil_mode=True),
    "a maximum in ceil mode": nn.MaxPool2d(3, 2, ceil_mode=True),
    "a maximum in ceil mode behind the input": nn.MaxPool2d(1, 5, ceil_mode=True),
    "a map by a factor": lambda x: functional.interpolate(x, scale_factor=1.7),
    "a map by a whole factor": lambda x: functional.interpolate(x, scale_factor=2),
    "a map by a factor and a half": lambda x: functional.interpolate(x, scale_factor=1.5),
    "a map by a factor that is computed anew": lambda x: functional.interpolate(
        x, scale_factor=1.7, recompute_scale_factor=True
    ),
    "a mean of integers": lambda x: (10 * x).long().mean(1, dtype=torch.float32),
    "a mean of truth values": lambda x: (x > 0).mean(1, dtype=torch.float32),
    "a mean of floats in their own type": lambda x: x.mean(1, dtype=torch.float32),
    "a sum of integers": lambda x: (10 * x).long().sum(1, dtype=torch.int32),
    "a fraction in integers": lambda x: torch.full_like(x.long(), 2.7) + x,
    "a new fraction in integers": lambda x: x.long().new_full((6,), 2.7) + x,
    "a whole number in integers": lambda x: torch.full_like(x.long(), 2) + x,
    "a fraction in floats": lambda x: torch.full_like(x, 2.7) + x,
    "a product along the first of three": lambda x: torch.cross(x, x.flip(1)),
    "a product along one that is named": lambda x: torch.cross(x, x.flip(1), dim=1),
    "any of truth values": lambda x: (x > 9).any(1),
    "a diagonal": lambda x: x[0, 0].diagonal() * 2,
    "a fill": lambda x: torch.zeros_like(x).fill_(0.5) + x,
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_called_wrong_is(form: str) -> None:
    made, x = FORMS[form], torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    model = (made if isinstance(made, nn.Module) else Computed(made)).eval()
    findings = told(model, x)
    assert all(finding.severity is Severity.ERROR for finding in findings)
    wrong = {route for finding in findings for route in RULES["OPS012"].silent_by(finding)}
    assert wrong == {route for route in ("trace", "export") if verified(model, x, frontend=route).verdict == "differs"}


@pytest.mark.parametrize("route", ["trace", "export"])
def test_a_number_over_a_tensor_is_divided_right_where_a_call_divides(route: str) -> None:
    x = torch.tensor([[0.01, 0.5]])
    model = Computed(lambda x: torch.div(0.3, x)).eval()
    assert told(model, x) == []
    assert verified(model, x, frontend=route).verdict == "agrees"


def test_what_one_is_added_to_may_be_inverted() -> None:
    x = torch.tensor([[0.01, 0.5]])
    assert told(Computed(lambda x: 1 / (1 + x.exp())).eval(), x) == []
    (finding,) = told(Computed(lambda x: 1 / (x.exp() - 1)).eval(), x)
    assert finding.severity is Severity.WARNING
