"""What live rules say of PReLU, flattened argmax, alpha, masks with indices and random numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.nn import functional

from modellint.cli import cli
from modellint.destinations.coreml import installed_versions as installed
from modellint.live.check import check_subject, live_rules
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.subject import Subject
from modellint.nn import CustomPReLU
from modellint.results.diagnostic import Diagnostic, Severity
from modellint.rule_index import load_rules
from modellint.settings import Destination

RULES = {rule.code: rule for rule in live_rules(load_rules())}
HERE = Path(__file__).resolve()
LINES = HERE.read_text("utf-8").splitlines()


def found(code: str, model: nn.Module, *inputs: torch.Tensor, has_values: bool = True) -> list[Diagnostic]:
    subject = Subject(model.eval(), Inputs(inputs), HERE.parent, Destination(), has_values=has_values)
    return check_subject(subject, {code: RULES[code]})


def line(finding: Diagnostic) -> str:
    assert finding.path == str(HERE)
    assert finding.span is not None
    return LINES[finding.span.row - 1].strip()


class Computed(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


X = torch.randn(2, 4)
X3 = torch.randn(2, 3, 4)
INDICES = torch.tensor([0, 2])


# OPS004: PReLU.


class Layers(nn.Module):
    def __init__(self, count: int = 3, layer: type[nn.PReLU] = nn.PReLU) -> None:
        super().__init__()
        self.act = layer(count)

    def forward(self, x: torch.Tensor) -> Any:
        return self.act(x)


def trained(model: nn.Module) -> nn.Module:
    for parameter in model.parameters():
        nn.init.uniform_(parameter, 0.1, 0.9)
    return model


@pytest.mark.parametrize(("rank", "refused"), [(2, True), (3, True), (4, False), (5, True)])
def test_slopes_that_differ(rank: int, refused: bool) -> None:
    findings = found("OPS004", trained(Layers()), torch.randn(2, 3, *[4] * (rank - 2)))
    assert len(findings) == refused
    for finding in findings:
        assert finding.severity is Severity.ERROR
        assert f"rank {rank}" in finding.message
        assert finding.modules == ("act",)
        assert line(finding) == "self.act = layer(count)"


def test_slopes_that_are_the_same() -> None:
    assert not found("OPS004", Layers(), X3)
    assert not found("OPS004", trained(Layers(1)), X3)


def test_the_rewritten_layer() -> None:
    assert not found("OPS004", trained(Layers(layer=CustomPReLU)), X3)


def test_functional_prelu() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slopes = nn.Parameter(torch.tensor([0.1, 0.2, 0.3]))

        def forward(self, x: torch.Tensor) -> Any:
            return functional.prelu(x, self.slopes)

    (finding,) = found("OPS004", Net(), X3)
    assert line(finding) == "return functional.prelu(x, self.slopes)"


def test_slopes_without_values() -> None:
    assert not found("OPS004", trained(Layers()), X3, has_values=False)


@pytest.mark.parametrize(
    ("version", "refused"), [("9.0", {2, 3, 5}), ("9.1.dev1", {2, 3, 5}), ("99.0", {2, 3, 5}), (None, {2, 3, 5})]
)
def test_installed_version(version: str | None, refused: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", lambda name: version)
    model = trained(Layers())
    shapes = {rank: torch.randn(2, 3, *[4] * (rank - 2)) for rank in (2, 3, 4, 5)}
    assert {rank for rank, x in shapes.items() if found("OPS004", model, x)} == refused


MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, slopes):
        super().__init__()
        self.front = nn.Conv1d(3, 3, 1)
        self.act = nn.PReLU(3)
        if slopes:
            nn.init.uniform_(self.act.weight)

    def forward(self, x):
        return self.act(self.front(x))


def trained():
    return Net(True), (torch.randn(2, 3, 4),)


def untrained():
    return Net(False), (torch.randn(2, 3, 4),)
"""


@pytest.mark.parametrize(
    ("name", "expected"), [("trained", [("error", "both")]), ("untrained", [])], ids=["confirmed", "withdrawn"]
)
def test_hint_of_source(name: str, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "model.py").write_text(MODEL)
    arguments = ["check", f"{tmp_path / 'model.py'}:{name}", "--select", "OPS004", "--output-format", "json", "-n"]
    result = CliRunner().invoke(cli, [*arguments, "--frontend", "trace"])
    assert [(one["severity"], one["evidence"]) for one in json.loads(result.stdout)] == expected
    source = CliRunner().invoke(cli, ["check", str(tmp_path / "model.py"), *arguments[2:]])
    assert [one["severity"] for one in json.loads(source.stdout)] == ["error"] or expected == []


# OPS006: argmax and argmin without a dimension.


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.argmax(x),
        lambda x: x.argmax(),
        lambda x: torch.argmin(x),
        lambda x: x.argmin(keepdim=True),
        lambda x: torch.argmax(x, dim=None),
    ],
)
def test_argmax_over_all(function: Callable[..., Any]) -> None:
    (finding,) = found("OPS006", Computed(function), X)
    assert finding.severity is Severity.ERROR
    assert "lambda x" in line(finding)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.argmax(x, dim=1),
        lambda x: x.argmax(-1),
        lambda x: x.flatten().argmax(),
        lambda x: x[0].argmin(),
        lambda x: torch.max(x),
        lambda x: torch.max(x, 1)[1],
    ],
)
def test_argmax_over_one(function: Callable[..., Any]) -> None:
    assert not found("OPS006", Computed(function), X)


# OPS007: alpha.


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.add(x, y, alpha=3.0),
        lambda x, y: torch.sub(x, y, alpha=-1),
        lambda x, y: x.add(y, alpha=0.5),
        lambda x, y: x.clone().add_(y, alpha=2),
        lambda x, y: torch.rsub(x, y, alpha=2.0),
        lambda x, y: torch.subtract(x, y, alpha=2.0),
        lambda x, y: torch.add(x, 1.0, alpha=2.0) + y,
    ],
)
def test_alpha(function: Callable[..., Any]) -> None:
    (finding,) = found("OPS007", Computed(function), X, X)
    assert finding.severity is Severity.ERROR
    assert finding.help


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.add(x, y),
        lambda x, y: torch.add(x, y, alpha=1),
        lambda x, y: x - 2 * y,
        lambda x, y: torch.addmm(x, x @ y.T, y, beta=0.5, alpha=2.0),
    ],
)
def test_no_alpha(function: Callable[..., Any]) -> None:
    assert not found("OPS007", Computed(function), X, X)


# OPS008: a mask and indices.


@pytest.mark.parametrize(
    "function",
    [
        lambda x, j: x[x[:, 0, 0] > -9, j],
        lambda x, j: x[x[:, 0, 0] > -9, :, j],
        lambda x, j: x[x[:, 0, 0] > -9, [0, 2]] + j.sum(),
        lambda x, j: x[j[:, None] > 9, j] if j.dim() > 9 else x[torch.tensor([True, True]), j],
        lambda x, j: x[j, x[0, :2].sum(1) < 99] if x.dim() > 9 else x[:, torch.tensor([True, False, True]), j],
    ],
)
def test_mask_and_indices(function: Callable[..., Any]) -> None:
    (finding,) = found("OPS008", Computed(function), X3, INDICES)
    assert finding.severity is Severity.ERROR
    assert finding.operator == "aten::index"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, j: x[x[:, 0, 0] > -9, 1],
        lambda x, j: x[x[:, 0, 0] > -9, 1:],
        lambda x, j: x[x > 0],
        lambda x, j: x[j.clamp(max=1), j],
        lambda x, j: x[x[:, 0, 0] > -9][:, j],
        lambda x, j: x[(x[:, 0, 0] > -9).nonzero()[:, 0], j],
        lambda x, j: x[x[:, 0, 0] > -9, j[0]],
    ],
)
def test_mask_alone(function: Callable[..., Any]) -> None:
    assert not found("OPS008", Computed(function), X3, INDICES)


# OPS010: random numbers.


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.randn_like(x),
        lambda x: x * torch.rand(2, 4),
        lambda x: torch.bernoulli(x.sigmoid()),
        lambda x: x.clone().normal_(),
        lambda x: {"noise": [torch.randn(2, 4).relu() + x]},
    ],
)
def test_random(function: Callable[..., Any]) -> None:
    (finding,) = found("OPS010", Computed(function), X)
    assert finding.severity is Severity.WARNING


def unused(x: torch.Tensor) -> torch.Tensor:
    torch.rand(2, 4)
    return x * 2


@pytest.mark.parametrize(
    "function",
    [
        unused,
        lambda x: functional.dropout(x, 0.5),
        lambda x: functional.dropout2d(x[None], 0.5),
        lambda x: torch.zeros_like(x) + x,
        lambda x: functional.scaled_dot_product_attention(x, x, x),
    ],
)
def test_not_random(function: Callable[..., Any]) -> None:
    assert not found("OPS010", Computed(function), X)


def test_dropout_in_evaluation() -> None:
    assert not found("OPS010", nn.Sequential(nn.Dropout(), nn.RReLU()), X)
