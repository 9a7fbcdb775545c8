"""What the commands and functions show of Core AI."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import modellint
from modellint.cli import cli

pytest.importorskip("coreai_torch", reason="coreai-torch is not installed: pip install '.[coreai]'")

MODEL = """\
import torch
from torch import nn


class Fine(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(x).relu()


class Lacking(nn.Module):
    def forward(self, x):
        return torch.cumprod(x, 1), torch.isnan(x)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(MODEL, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [*words])
    return done.exit_code, done.stdout


def test_check_tells_both_verdicts(folder: Path) -> None:
    status, text = run("check", "model.py:Lacking", "--input", "2x3", "--destination", "all", "--no-cache")
    assert status == 1
    assert text.count("OPS001") == 2
    assert "--> model.py:16:16" in text
    first, second = text.splitlines()[-2:]
    assert first.startswith("Core ML: ")
    assert second.startswith("Core AI: 2 operators missing · converts with modellint export (supplies ")


def test_missing_operators_are_told_at_their_line(folder: Path) -> None:
    words = ("check", "model.py:Lacking", "--input", "2x3", "--destination", "coreai", "--output-format", "concise")
    status, text = run(*words, "--no-cache")
    assert status == 1
    assert text.count("model.py:16:16: OPS001") == text.count("model.py:16:37: OPS001") == 1


def test_export_writes_both_packages(folder: Path) -> None:
    (folder / "out").mkdir()
    words = ("export", "model.py:Fine", "--input", "1x3", "--destination", "all", "-o", "out")
    status, text = run(*words)
    assert (status, text.count("exported, and agrees with PyTorch")) == (0, 2)
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["Fine.aimodel", "Fine.mlpackage"]
    package = folder / "out" / "Fine.aimodel"
    assert str(folder).encode() not in (package / "main.mlirb").read_bytes()


def test_functions_take_the_destination(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(3, 2), nn.ReLU()), torch.randn(1, 3)
    line = "Core AI: will convert · near PyTorch on the example alone: modellint verify"
    assert modellint.check_model(model, x, destination="coreai").verdict == line
    assert modellint.verify(model, x, destination="coreai").ok
    result = modellint.export(
        model, x, destination="coreai", output=tmp_path / "net.aimodel", output_names=["y"], author="a"
    )
    assert (tmp_path / "net.aimodel" / "main.mlirb").is_file()
    assert [feature.name for feature in result.summary.outputs] == ["y"]
    with pytest.raises(ValueError, match=r"must end in \.aimodel"):
        modellint.export(model, x, destination="coreai", output=tmp_path / "net.mlpackage")


def test_outputs_have_the_names_that_the_model_gives_them(tmp_path: Path) -> None:
    class Denoising(nn.Module):
        def forward(self, sample):
            return {"sample": sample * 2, "steps": 3, "mean": sample.mean()}

    path = tmp_path / "net.aimodel"
    result = modellint.export(Denoising(), torch.randn(2, 3), destination="coreai", output=path)
    assert [feature.name for feature in result.summary.outputs] == ["sample_output", "mean"]
    assert "the output steps is no tensor, and is left out" in result.summary.notes


def test_verdict_says_what_an_export_supplies_and_mends(folder: Path) -> None:
    text = (
        MODEL
        + "\n\nclass Factor(nn.Module):\n    def forward(self, x):\n        return torch.add(x, x.abs(), alpha=3)\n"
    )
    (folder / "model.py").write_text(text, "utf-8")
    words = ("--input", "2x3", "--destination", "coreai", "--no-cache")
    supplied = run("check", "model.py:Lacking", *words)[1].splitlines()[-1]
    assert supplied.startswith("Core AI: 2 operators missing · converts with modellint export (supplies aten::")
    assert "aten::isnan, bit-equal" in supplied
    assert "aten::cumprod, rounds otherwise" in supplied
    mended = run("check", "model.py:Factor", *words)[1].splitlines()[-1]
    assert mended.endswith(" · modellint export mends aten::add, rounds otherwise")


def test_check_tells_what_converts_and_cannot_be_run(folder: Path) -> None:
    text = (
        MODEL
        + "\n\nclass Both(Fine):\n    def forward(self, x):\n        a, b = x > 0, self.linear(x) > 0\n        y = x * 2\n"
        + "        z = torch.where(a[:, :2] * b, y[:, :2], 0)\n        return z, torch.isfinite(y)\n"
    )
    (folder / "model.py").write_text(text, "utf-8")
    words = ("--input", "2x3", "--destination", "coreai", "--no-cache", "--output-format", "concise")
    found = run("check", "model.py:Both", *words)[1].splitlines()
    said = "what coreai-torch makes of `aten::mul` cannot be run by Apple's interpreter"
    assert [line.split(" ")[0] for line in found if said in line] == ["model.py:23:9:", "model.py:24:9:"]
    assert found[-1] == "Core AI: converts, and cannot be run, 2 problems · converts with modellint export"


def test_refusal_of_a_program_is_told_at_its_line(folder: Path) -> None:
    text = MODEL + "\n\nclass Larger(Fine):\n    def forward(self, x):\n        a, b = x > 0, x < 1\n"
    (folder / "model.py").write_text(text + "        return torch.maximum(a, b), self.linear(x)\n", "utf-8")
    words = ("--input", "2x3", "--destination", "coreai", "--no-cache", "--output-format", "concise")
    found = run("check", "model.py:Larger", *words)[1].splitlines()
    assert [
        line.split(" ")[0] for line in found if "OPS002 coreai-torch refuses this use of `aten::maximum`" in line
    ] == ["model.py:22:9:"]


def test_export_supplies(folder: Path) -> None:
    status, text = run(
        "export", "model.py:Lacking", "--input", "2x3", "--destination", "coreai", "-o", "Lacking.aimodel"
    )
    assert status == 0, text
    assert "agrees with PyTorch" in text
    assert "supplied  aten::cumprod (rounds otherwise)" in text
