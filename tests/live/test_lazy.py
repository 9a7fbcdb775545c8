"""Models whose parameters have no shape before the first call."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

import modellint
from modellint.cli import cli

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.LazyConv2d(4, 3)
        self.norm = nn.LazyBatchNorm2d()
        self.head = nn.LazyLinear(5)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).flatten(1))


class Aside(Net):
    def __init__(self):
        super().__init__()
        self.aside = nn.LazyLinear(2)


class Large(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = nn.LazyLinear(2**16)
        self.table = nn.Embedding(2**20, 600)

    def forward(self, x):
        return self.wide(x)


def called():
    model = Net().eval()
    model(torch.zeros(1, 3, 8, 8))
    return model
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "modellint.toml").write_text("", "utf-8")
    (tmp_path / "net.py").write_text(NET, "utf-8")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


@pytest.mark.parametrize("name", ["Net", "Large"])
def test_without_inputs_it_is_told_what_to_do(name: str, project: Path) -> None:
    done = run("check", f"net.py:{name}", "--ignore", "ENV")
    assert done.exit_code == 1
    assert "LNT003" in done.stdout and "LNT004" not in done.stdout
    assert "without shapes, which the first call gives" in done.stdout
    assert "give its inputs, as in --input 1x3x224x224" in done.stdout


def test_inputs_give_the_shapes(project: Path) -> None:
    done = run("check", "net.py:Net", "--input", "1x3x8x8", "--ignore", "ENV")
    assert (done.exit_code, done.stdout) == (
        0,
        "All checks passed!\nCore ML: will convert · --frontend trace · not compared: modellint verify\n",
    )
    assert run("check", "net.py:called", "--ignore", "ENV").exit_code == 0
    table = run("shapes", "net.py:Net", "--input", "1x3x8x8").stdout
    assert "Linear" in table and "LazyLinear" not in table
    assert "[1,144]" in table
    assert run("shapes", "net.py:Large", "--input", "1x8").exit_code == 0
    assert run("export", "net.py:Net", "--input", "1x3x8x8", "-o", "Net.mlpackage").exit_code == 0


def test_inputs_that_do_not_fit(project: Path) -> None:
    done = run("check", "net.py:Net", "--input", "3x8")
    assert done.exit_code == 1
    assert "running forward of `net.py:Net` raised RuntimeError" in done.stdout
    assert "net.py:14:" in done.stdout


def test_what_no_call_reaches(project: Path) -> None:
    done = run("check", "net.py:Aside", "--input", "1x3x8x8")
    assert done.exit_code == 1
    assert "`aside` (LazyLinear) without shapes" in done.stdout
    assert "does not come to them" in done.stdout


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LazyBatchNorm1d()
        self.head = nn.LazyLinear(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.norm(x))
        return result


def test_from_python_the_model_stays_as_it_is() -> None:
    model, x, short = Model(), torch.randn(4, 3), torch.randn(2)
    before = torch.get_rng_state()
    report = modellint.check_model(model.eval(), (x,), ignore="ENV")
    assert (report.diagnostics, report.convertible) == ((), True)
    assert modellint.verify(model, (x,)).ok
    fixed, _ = modellint.fix_model(model, (x,))
    assert fixed(x).shape == (4, 2)
    assert "BatchNorm1d" in str(modellint.shapes(model, (x,)))
    (finding,) = modellint.check_model(model).diagnostics
    assert (finding.code, "`norm` (LazyBatchNorm1d) and 1 more" in finding.message) == ("LNT003", True)
    with pytest.raises(ValueError, match="call it once, or give example_inputs"):
        modellint.fix_model(model)
    with pytest.raises(ValueError, match="the call raised IndexError"):
        modellint.verify(model, (short,))
    assert type(model.head) is nn.LazyLinear and model.head.has_uninitialized_params()
    assert torch.equal(torch.get_rng_state(), before)
