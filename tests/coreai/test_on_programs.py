"""Verdicts and comparisons for Core AI, by coreai-torch and Apple's interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from judging import judged
from torch import nn

import modellint
from modellint.destinations.coreai.converter_process import ConverterProcess, Hung
from modellint.results.verification import AGREES, DIFFERS, NOT_CONVERTED, UNDECIDED

pytest.importorskip("coreai_torch", reason="coreai-torch is not installed: pip install '.[coreai]'")

HERE = Path(__file__).parent


class Lacking(nn.Module):
    def forward(self, x):
        y = torch.cumprod(x, 1)
        z = nn.functional.elu(y)
        return torch.sort(z, 1)[0], torch.isnan(x)


class Refused(nn.Module):
    def forward(self, x):
        y = x * 2654435761
        return torch.cumprod(x, 1) + y


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.ones(3))

    def forward(self, x):
        self.count.add_(x)
        return self.count * 2


class Several(nn.Module):
    def forward(self, x, *, scale):
        return {"b": x * scale, "a": (x.sum(), x)}


@dataclass
class Sum:
    sum: torch.Tensor
    others: dict[str, torch.Tensor]


torch.export.register_dataclass(Sum, serialized_type_name="tests.Sum")


class OfClass(nn.Module):
    def forward(self, x):
        return Sum(x + x, {"product": x * x})


class Scaled(nn.Module):
    def forward(self, x):
        return torch.add(x, x, alpha=3)


class Killing(nn.Module):
    def forward(self, x):
        cache = torch.zeros(2, 4)
        cache[:, x] = torch.ones(1)
        return cache


def test_all_missing_operators_are_told_at_once_at_their_lines(process: ConverterProcess) -> None:
    verification, blockers = judged(process, Lacking(), torch.randn(2, 4), HERE)
    assert verification.verdict == NOT_CONVERTED
    first = Lacking.forward.__code__.co_firstlineno
    assert [(b.kind, b.operator, b.place and b.place.span.row - first) for b in blockers] == [
        ("missing", "aten::cumprod", 1),
        ("missing", "aten::elu", 2),
        ("missing", "aten::sort", 3),
        ("missing", "aten::isnan", 3),
    ]


def test_a_refused_use_is_told_beside_a_missing_operator(process: ConverterProcess) -> None:
    _, blockers = judged(process, Refused(), torch.arange(6).reshape(2, 3), HERE)
    assert {(b.kind, b.operator) for b in blockers} == {("missing", "aten::cumprod"), ("refused", "aten::mul")}


@pytest.mark.parametrize(
    ("model", "example"),
    [
        (nn.Sequential(nn.Linear(4, 3), nn.GELU()), torch.randn(2, 4)),
        (nn.GELU(), torch.tensor([-9.0, -6.0, -4.0, 1.0])),
        (Counting(), torch.randn(3)),
        (Several(), {"x": torch.randn(2, 3), "scale": torch.tensor(2.0)}),
        (OfClass(), torch.randn(2, 3)),
        (nn.Embedding(5, 3), torch.tensor([[1, 4]])),
    ],
    ids=["layers", "tail", "state", "names", "class", "integers"],
)
def test_right_conversions_agree(process: ConverterProcess, model: nn.Module, example: object) -> None:
    verification, blockers = judged(process, model, example, HERE)
    assert (verification.verdict, blockers) == (AGREES, ())
    assert len(verification.cases) > 1


def test_outputs_come_in_the_order_of_the_model(process: ConverterProcess) -> None:
    verification, _ = judged(process, Several(), {"x": torch.randn(2, 3), "scale": torch.tensor(2.0)}, HERE)
    assert [output.shape for output in verification.outputs] == [(2, 3), (), (2, 3)]


def test_a_silent_fault_differs(process: ConverterProcess) -> None:
    verification, blockers = judged(process, Scaled(), torch.randn(2, 3), HERE)
    assert (verification.verdict, blockers) == (DIFFERS, ())


class Faulty(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x).relu()
        y = torch.add(x, x + 1, alpha=2)
        return self.last(y).sigmoid() * y


def test_the_first_operation_that_departs_is_told_at_its_line(process: ConverterProcess) -> None:
    verification, _ = judged(process, Faulty(), (torch.rand(2, 4),), HERE)
    first = verification.first_difference
    assert first is not None and first.place is not None
    assert (first.kind, first.operator, first.shape) == ("operation", "aten::add", (2, 4))
    text = Path(__file__).read_text("utf-8").splitlines()[first.place.span.row - 1]
    assert text.strip() == "y = torch.add(x, x + 1, alpha=2)"


def test_the_death_of_the_interpreter_is_told_with_the_inputs(process: ConverterProcess) -> None:
    verification, _ = judged(process, Killing(), torch.tensor([1]), HERE)
    assert verification.verdict == DIFFERS
    assert "was killed by SIG" in verification.reason
    assert verification.reason.endswith("on the example")
    first = verification.first_difference
    assert first is not None and (first.kind, first.operator) == ("run", "aten::index_put")
    assert first.place is not None
    again, _ = judged(process, nn.ReLU(), torch.randn(2), HERE)
    assert again.verdict == AGREES


@pytest.mark.parametrize("answered", [0, 1])
def test_a_program_that_gives_no_answer_in_time_is_undecided(monkeypatch: pytest.MonkeyPatch, answered: int) -> None:
    """On the example, or on the set of inputs behind it."""
    asked, count = ConverterProcess._ask, 0

    def ask(self, within, **request):
        nonlocal count
        count += request["do"] == "predict"
        if request["do"] == "predict" and count == answered + 1:
            raise Hung("hung: no answer within 120 s")
        return asked(self, within, **request)

    monkeypatch.setattr(ConverterProcess, "_ask", ask)
    found = modellint.verify(nn.Linear(4, 4).eval(), (torch.randn(2, 4),), destination="coreai")
    assert found.verdict == UNDECIDED
    assert "no answer within" in found.reason
