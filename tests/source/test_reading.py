"""Reading a class: the methods that others call while it is built, and what is left in memory behind it."""

from __future__ import annotations

import ast
import gc
import textwrap
from pathlib import Path

import nets
import pytest

import modellint

BASE = """
from torch import nn


class Base(nn.Module):
    def __init__(self, *arguments):
        super().__init__()
        {init}

    def setup(self, kind):
        self.layers = self.make(kind)

    def kept(self):
        return self.make(nn.Linear)
"""
NET = """
import torch
from torch import nn
from base import Base


{above}
class Net(Base):
{body}

    def make(self, kind=nn.Linear):
        layers = []
        layers.append(kind(2, 2))
        return layers

    def forward(self, x):
        states = [x]
        states.append(x)
        return states
"""
CALLED = {
    "by a base": ("self.layers = self.make()", "pass", ""),
    "by a base, by its name": ('self.layers = getattr(self, "make")()', "pass", ""),
    "by what a base is asked for": ("pass", "super().__init__()\nself.setup(nn.Linear)", ""),
    "by itself": ("pass", "super().__init__()\nself.layers = self.make()", ""),
    "by what a base gives": ("pass", "super().__init__()\nself.layers = self.kept()", ""),
    "by a function": (
        "pass",
        "super().__init__()\nbuild(self)",
        "def build(net):\n    net.layers = net.make()\n\n\n",
    ),
}


def codes(folder: Path, init: str, own: str, above: str) -> list[str]:
    """The findings of a class whose base stands in another file."""
    (folder / "base.py").write_text(BASE.format(init=init), "utf-8")
    init = "" if own == "pass" else "    def __init__(self):\n" + textwrap.indent(own, " " * 8)
    text = NET.format(above=above, body=init)
    (folder / "net.py").write_text(text, "utf-8")
    return nets.codes(text, "REG001", filename=str(folder / "net.py"))


@pytest.mark.parametrize("name", CALLED)
def test_method_that_is_called(name: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    assert codes(tmp_path, *CALLED[name]) == ["REG001"]


def test_method_that_nobody_calls(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    assert codes(tmp_path, "pass", "pass", "") == []


CYCLES = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = []
        self.steps.append(lambda x: self.steps)

    def forward(self, x):
        def again(y):
            return again(y) if y.sum() > 0 else y

        for row in x:
            if row.sum() > 0:
                x = x.view(2, 2, 2, 2, 2, 2)
        return again(x)
"""


def test_trees_are_not_kept() -> None:
    """Nothing collects cycles in a run: what is read has to be free of them in the end."""

    def trees() -> int:
        return sum(type(one) is ast.Module for one in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = trees()
        assert {one.code for one in modellint.check_source(CYCLES).diagnostics} >= {"FLW001", "SHP001"}
        assert trees() == before
    finally:
        gc.enable()
