"""The cases of `docs/silent-cases.md`: each converts without a word, and its program, executed, departs from PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from known_faults import shows
from torch import Tensor, nn
from torch.nn import functional

import modellint
from modellint.live.check import check_subject
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.rule_index import load_rules
from modellint.settings import Destination

pytestmark = pytest.mark.filterwarnings("ignore")

HERE = Path(__file__).resolve()
RULES = load_rules()
X = torch.tensor([[0.5, -1.5, 2.0, 0.3], [-0.2, 1.0, 0.0, 3.0], [1.2, -0.7, 0.9, -2.0]])
INTS = torch.tensor([[-7, 3, 0], [5, -2, 9]])
SCORES = torch.tensor([[0.0, 200.0, -200.0]])


class Computed(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


class Case(NamedTuple):
    """A program, and the rule that finds it in a live check; without one it is the execution that does."""

    function: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    rule: str = ""
    route: str = "trace"
    fault: str = ""
    """That of ``coreml_faults.json``, where some version has mended it."""


def part_read_again(x: Tensor) -> Tensor:
    y = x * 1
    row = y[0]
    row.fill_(5.0)
    return x + row


def two_parts_of_a_part(x: Tensor) -> Tensor:
    y = x * 1
    row = y[0]
    one, other = row[1:2], row[2:3]
    one.fill_(1.0)
    other.fill_(2.0)
    return y * 2


def behind_an_ellipsis(x: Tensor) -> Tensor:
    y = x * 1
    y[..., 1] = 5.0
    return y * 2


def written_through(view: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        y = x * 1
        view(y).add_(1)
        return y * 2

    return forward


def older_view(x: Tensor) -> Tensor:
    y = x * 1
    flat = y.view(-1)
    y.add_(1)
    return flat * 2


def chunk_written(x: Tensor) -> Tensor:
    y = x * 1
    y.chunk(2, 1)[0].add_(1)
    return y * 2


def activation_in_place(x: Tensor) -> Tensor:
    y = x * 1
    functional.relu(y[0], inplace=True)
    return y * 2


def scatter_to_a_part(x: Tensor) -> Tensor:
    y = x * 1
    y[:2].scatter_(1, torch.tensor([[0, 2], [1, 3]]), 2.0)
    return y * 2


def masked_part(x: Tensor) -> Tensor:
    y = x * 1
    y[x[:, 0] > 0, 1:] = 0.0
    return y * 2


def indexed_part(x: Tensor, i: Tensor) -> Tensor:
    y = x * 1
    y[i, 0] = 0.0
    return y * 2


def filled(x: Tensor) -> Tensor:
    y = x * 1.5
    y[:, 1:] = x.sum()
    return y


def attended(x: Tensor) -> Tensor:
    x = x[None, None]
    return functional.scaled_dot_product_attention(x, x, x, is_causal=True)


SMALL = torch.tensor([0.01, 0.5])
CASES: dict[str, Case] = {
    # Writes that a trace loses.
    "a part that is read again": Case(part_read_again, (X,), "MUT001"),
    "two parts of a part": Case(two_parts_of_a_part, (X,), "MUT001"),
    "an assignment behind an ellipsis": Case(behind_an_ellipsis, (X,), "MUT001"),
    "a write through .data": Case(written_through(lambda y: y.data), (X,), "MUT001"),
    "a write through detach": Case(written_through(lambda y: y.detach()), (X,), "MUT001"),
    "a write through reshape": Case(written_through(lambda y: y.reshape(-1)), (X,), "MUT001"),
    "a write through flatten": Case(written_through(lambda y: y.flatten()), (X,), "MUT001"),
    "a write through t": Case(written_through(lambda y: y.t()), (X,), "MUT001"),
    "a write through a slice": Case(written_through(lambda y: y[:, 1:]), (X,), "MUT001"),
    "a write behind a view": Case(older_view, (X,), "MUT001"),
    "a write to a chunk": Case(chunk_written, (X,), "MUT001"),
    "an activation in place": Case(activation_in_place, (X,), "MUT001"),
    "scatter_ to a part": Case(scatter_to_a_part, (X,), "MUT001"),
    "a mask and a slice": Case(masked_part, (X,), "MUT003"),
    "indices and a number": Case(indexed_part, (X, torch.tensor([0, 2])), "MUT002"),
    # Operators that become others.
    "to uint8": Case(lambda x: x.to(torch.uint8), (X * 100 + 250,)),
    "to int8": Case(lambda x: x.to(torch.int8).float(), (INTS * 50,)),
    "to int16": Case(lambda x: x.to(torch.int16).float(), (INTS * 20000,)),
    "variance with correction 2": Case(lambda x: x.var(1, correction=2), (X,), "OPS012"),
    "deviation with correction 2": Case(lambda x: x.std(1, correction=2), (X,), "OPS012"),
    "log_softmax of distant scores": Case(lambda x: functional.log_softmax(x, 1), (SCORES,)),
    "logcumsumexp of large numbers": Case(lambda x: x.logcumsumexp(1), (SCORES,), "OPS012"),
    "atan2 on an axis": Case(torch.atan2, (torch.tensor([0.0, 1.0]), torch.tensor([-1.0, 0.0])), "OPS012"),
    "log1p of small numbers": Case(torch.log1p, (X.abs() * 1e-6,)),
    "expm1 of small numbers": Case(torch.expm1, (X * 1e-6,)),
    "one over a small number": Case(lambda x: 1 / x, (SMALL,), "OPS012", fault="reciprocal"),
    "one over a small number by torch.export": Case(lambda x: 1 / x, (SMALL,), "OPS012", "export", "reciprocal"),
    "a number over a small number": Case(lambda x: 0.3 / x, (SMALL,), "OPS012", fault="reciprocal"),
    "one over a constant": Case(lambda x: x * (1 / SMALL), (torch.ones(2),), "OPS012", fault="reciprocal"),
    "frequencies": Case(lambda x: x * (1.0 / 100 ** torch.arange(2.0)), (torch.ones(2),), "OPS012", fault="reciprocal"),
    "a reciprocal": Case(torch.reciprocal, (SMALL,), "OPS012", fault="reciprocal"),
    "any of floats": Case(lambda x: x.any(1), (torch.tensor([[0.3, 0.0], [0.0, 0.0]]),), "OPS012"),
    "all of integers": Case(lambda x: x.all(1), (INTS,)),
    "clamp with crossed bounds": Case(lambda x, y: torch.clamp(x, y + 1, y), (X, X.flip(0))),
    "cross of columns": Case(lambda x, y: torch.cross(x, y), (torch.randn(5, 3), torch.randn(5, 3)), "OPS012"),
    "antialiased resampling": Case(
        lambda x: functional.interpolate(x, size=(3, 3), mode="bilinear", antialias=True),
        (X[None, None].repeat(1, 1, 2, 2),),
    ),
    "nearest resampling by 1.7": Case(
        lambda x: functional.interpolate(x, scale_factor=1.7), (torch.randn(1, 3, 7),), "OPS012"
    ),
    "full_like of integers": Case(lambda x: torch.full_like(x, 2.7), (INTS,), "OPS012"),
    "fill with a tensor": Case(filled, (X,), route="export"),
    "new_full of integers": Case(lambda x: x.new_full((2,), 2.7), (INTS,), "OPS012"),
    "sum as integers": Case(lambda x: x.sum(1, dtype=torch.int32), (X,), "OPS012"),
    "mean of integers": Case(lambda x: x.mean(1, dtype=torch.float32), (INTS,), "OPS012"),
    "products beyond int32": Case(lambda x: x.long() * 1000000000, (INTS,)),
    "causal attention of large scores": Case(attended, (X * 200,)),
    "unique of a matrix": Case(lambda x: torch.unique(x), (INTS,)),
    "a vector times matrices": Case(torch.matmul, (X[0], torch.randn(2, 4, 3)), fault="vector-times-matrices"),
    "softplus with beta": Case(lambda x: functional.softplus(x, 2, 5), (X * 2,), "OPS012"),
}


def as_cases(names: list[str]) -> list[object]:
    return [pytest.param(CASES[name], id=name) for name in names]


@pytest.mark.parametrize("case", as_cases(list(CASES)))
def test_the_program_departs(case: Case) -> None:
    shown = modellint.verify(
        Computed(case.function).eval(), case.inputs, root=HERE.parent, frontend=case.route, precision="fp32"
    )
    is_wrong = not case.fault or shows(case.fault)
    assert shown.verdict == ("differs" if is_wrong else "agrees"), (shown.verdict, shown.reason)


@pytest.mark.parametrize("case", as_cases([name for name, case in CASES.items() if case.rule]))
def test_a_live_check_finds_it(case: Case) -> None:
    subject = Subject(
        Computed(case.function).eval(), Inputs(case.inputs), HERE.parent, Destination(frontend=case.route)
    )
    assert [one.code for one in check_subject(subject, {case.rule: RULES[case.rule]})] == [case.rule]
