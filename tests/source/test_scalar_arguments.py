"""Arguments that are said to be tensors, and for which all calls in the project give numbers."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

HEAD = "import torch\nfrom torch import nn\n\n\n"
STEPPER = """
from torch import Tensor


class Stepper(nn.Module):
    def forward(self, x: Tensor, at: Tensor):
        if {test}:
            return x * 2
        return x - 1
"""
HOLDER = """
from stepper import Stepper


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stepper = Stepper()
        self.at = 0

    def forward(self, x):
        return self.stepper(x, {given})
"""
DRIVER = """
class Driver:
    def __init__(self, model):
        self.model = model

    def step(self, x):
        width = x.shape[1]
        y = self.model.stepper(x, self.model.at)
        self.model.at += {counted}
        return y
"""
EXPORT = """
from holder import Model

model = Model()
stepper = model.stepper
traced = {traced}
"""


def found(folder: Path, test: str, **files: str) -> list[str]:
    (folder / ".git").mkdir()
    for name, text in {"stepper": STEPPER.format(test=test), **files}.items():
        place = folder / (name if "." in name else f"{name}.py")
        place.write_text(text if "." in name else HEAD + textwrap.dedent(text), "utf-8")
    arguments = ["check", "--output-format", "json", "--select", "FLW001", str(folder / "stepper.py")]
    return [finding["code"] for finding in json.loads(CliRunner().invoke(cli, arguments).stdout)]


@pytest.mark.parametrize(
    ("given", "counted", "test", "is_found"),
    [
        ("self.at", "width", "at == 0", False),
        ("3", "width", "at > 2 and not at == 5", False),
        ("at=x.size(0) + 1", "width", "at == 0", False),
        ("self.at", "x.sum()", "at == 0", True),
        ("x[0]", "width", "at == 0", True),
        ("torch.tensor(3)", "width", "at == 0", True),
        ("*x", "width", "at == 0", True),
        ("self.at", "width", "at == 0 and x.sum() > 0", True),
        ("self.at", "width", "x.sum() > 0", True),
    ],
)
def test_numbers_that_all_calls_give(tmp_path: Path, given: str, counted: str, test: str, is_found: bool) -> None:
    files = {"holder": HOLDER.format(given=given), "driver": DRIVER.format(counted=counted)}
    assert found(tmp_path, test, **files) == ["FLW001"] * is_found


@pytest.mark.parametrize(
    ("traced", "is_found"),
    [
        ('torch.jit.trace_module(stepper, {"encode": torch.ones(1)})', False),
        ('torch.jit.trace_module(stepper, {"forward": (torch.ones(1), torch.ones(1))})', True),
        ("torch.jit.trace(stepper, (torch.ones(1), torch.ones(1)))", True),
        ("torch.jit.trace(model.stepper, (torch.ones(1), torch.ones(1)))", True),
        ('getattr(model, "stepper")(torch.ones(1), torch.ones(1))', True),
        ("[stepper]", True),
        ("stepper.forward(torch.ones(1), 1)", False),
        ("stepper.forward(torch.ones(1), torch.ones(1))", True),
        ("stepper.state_dict()", False),
    ],
)
def test_an_object_that_goes_elsewhere(tmp_path: Path, traced: str, is_found: bool) -> None:
    files = {"holder": HOLDER.format(given="self.at"), "export": EXPORT.format(traced=traced)}
    assert found(tmp_path, "at == 0", **files) == ["FLW001"] * is_found


def test_a_class_that_nobody_calls_is_given_what_it_says(tmp_path: Path) -> None:
    assert found(tmp_path, "at == 0") == ["FLW001"]


@pytest.mark.parametrize(
    ("name", "is_found"), [("README.md", True), ("CHANGELOG.md", False), ("History.rst", False), ("changes.yaml", True)]
)
def test_a_changelog_shows_nobody_how_a_class_is_used(tmp_path: Path, name: str, is_found: bool) -> None:
    files = {"holder": HOLDER.format(given="self.at"), name: "A number for `Stepper`"}
    assert found(tmp_path, "at == 0", **files) == ["FLW001"] * is_found
