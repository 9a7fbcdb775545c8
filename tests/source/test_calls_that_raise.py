"""FLW008: calls and imports that raise whatever a model is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

_LAYERS = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, *, scale=1.0, bias=True):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x, mask=None):
        return self.linear(x)


class Open(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()


class Wide(Block):
    pass


@torch.jit.script
def scripted(x):
    return x


def double(x, times):
    return x * times
"""
_NET = """
from torch import nn
from layers import Block, Open, Wide, double, scripted


class Net(nn.Module):
    def __init__(self, width=8, flag=False):
        super().__init__()
        self.block = Block(width)
        {init}

    def forward(self, x):
        {forward}
        return x

    def pair(self, x):
        return x, x

    def either(self, x):
        if x is None:
            return x
        return x, x

    def step(self, x):
        return x

    @staticmethod
    def plain(x):
        return x
"""


def _said(folder: Path, init: str = "pass", forward: str = "pass", layers: str = _LAYERS) -> list[str]:
    (folder / "layers.py").write_text(layers, "utf-8")
    net = folder / "net.py"
    net.write_text(_NET.format(init=init, forward=forward), "utf-8")
    (folder / ".git").mkdir(exist_ok=True)
    result = CliRunner().invoke(cli, ["check", "--isolated", "--no-cache", "--output-format", "json", str(folder)])
    found = [each for each in json.loads(result.stdout) if each["code"] == "FLW008"]
    return [f"{each['severity'][0].upper()} {each['message'].partition(':')[0]}" for each in found]


@pytest.mark.parametrize(
    ("init", "said"),
    [
        ("self.a = Block(8, dropout=0.1)", "E `Block` takes no `dropout`"),
        ("self.a = Wide()", "E `Wide` is not given `width`, which it needs"),
        ("self.a = Block(8, 1.0)", "E `Block` takes 1 argument by position, and is given 2"),
        ("self.a = Block(8, width=8)", "E `Block` is given `width` twice"),
        ("self.a = Block(**{'width': 8}, depth=2)", "E `Block` takes no `depth`"),
        ("if flag:\n            self.a = Block()", "W `Block` is not given `width`, which it needs"),
    ],
)
def test_constructor(tmp_path: Path, init: str, said: str) -> None:
    assert _said(tmp_path, init) == [said]


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        ("x = self.block(x, None, None)", "E `Block.forward` takes 2 arguments by position, and is given 3"),
        ("x = self.block.forward(x, masks=None)", "E `Block.forward` takes no `masks`"),
        ("x = double(x)", "E `double` is not given `times`, which it needs"),
        ("x = self.step(x, x)", "E `Net.step` takes 1 argument by position, and is given 2"),
        ("y = self.pair(x)\n        y = y / y.norm()", "E `Net.pair` gives a tuple, which has no `norm`"),
        ("x = self.pair(x).mean()", "E `Net.pair` gives a tuple, which has no `mean`"),
    ],
)
def test_what_forward_runs(tmp_path: Path, forward: str, said: str) -> None:
    assert _said(tmp_path, forward=forward) == [said]


@pytest.mark.parametrize(
    ("init", "forward"),
    [
        ("self.a = Block(8, scale=2.0, bias=False)", "x = self.block(x, mask=None)"),
        ("self.a = Open(1, 2, three=3)", "x = double(*x)"),
        ("try:\n            self.a = Block()\n        except TypeError:\n            self.a = None", "pass"),
        ("Block = Open\n        self.a = Block(1, 2)", "x = scripted(x, x)"),
        ("self.block = Open()", "x = self.block(x, 1, 2, 3)"),
        ("pass", "x = self.plain(x)"),
        ("pass", "y = self.pair(x)\n        y = y[0]\n        x = y.mean()"),
        ("pass", "x = self.either(x).mean()"),
        ("pass", "run = lambda block: block()\n        x = double(**x)"),
    ],
)
def test_calls_that_may_be_right(tmp_path: Path, init: str, forward: str) -> None:
    assert _said(tmp_path, init, forward) == []


def test_method_of_the_base(tmp_path: Path) -> None:
    text = (
        "from net import Net\n\n\nclass Sub(Net):\n    def forward(self, x, y):\n        return super().forward(x, y)\n"
    )
    (tmp_path / "sub.py").write_text(text, "utf-8")
    assert _said(tmp_path) == ["E `Net.forward` takes 1 argument by position, and is given 2"]
    (tmp_path / "sub.py").write_text(text.replace("super()", "super(Net, self)"), "utf-8")
    assert _said(tmp_path) == []


def test_method_that_another_class_overrides(tmp_path: Path) -> None:
    text = "from net import Net\n\n\nclass Sub(Net):\n    def step(self, x, y):\n        return x + y\n"
    (tmp_path / "sub.py").write_text(text, "utf-8")
    assert _said(tmp_path, forward="x = self.step(x, x)") == []


def test_import_of_what_is_not_there(tmp_path: Path) -> None:
    assert _said(tmp_path, layers=_LAYERS.replace("double", "twice")) == ["E `double` is not in layers.py"]
    for dynamic in (
        "for name in NAMES:\n    globals()[name] = 1\n",
        "from elsewhere import *\n",
        "double_ = 1; double\n",
    ):
        assert _said(tmp_path, layers=_LAYERS.replace("double", "twice") + dynamic) == []


def test_file_that_is_there_for_a_generator(tmp_path: Path) -> None:
    (tmp_path / "net_made.py").write_text("# This file was generated from src/net.py.\n", "utf-8")
    assert _said(tmp_path, "self.a = Block()") == []


def test_module_of_which_there_are_two(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "layers.py").write_text("", "utf-8")
    assert _said(tmp_path, "self.a = Block()") == []


_SCALE = """
import torch
from torch import nn
from torchvision.models.vgg import VGG


class Scale(nn.Module):
    def __init__(self, start=1.0, name=""):
        super().__init__()
        self.factor = {made}

    def forward(self, x):
        return x * self.factor


class Net(VGG):
    def __init__(self, features):
        super().__init__(features)
        self.scale = Scale({given})

    def forward(self, x):
        return self.scale(self.features(x))
"""
_WANTS = "torch.tensor(start, requires_grad=True).float()"


@pytest.mark.parametrize(
    ("made", "given", "is_found"),
    [
        (_WANTS, "10", True),
        (_WANTS, "start=10", True),
        (_WANTS, "10.0", False),
        (_WANTS, "", False),
        (_WANTS, "width", False),
        (_WANTS, "*start, 10", False),
        ("torch.tensor(start).float()", "10", False),
        ("torch.tensor(start, requires_grad=True, dtype=torch.float32)", "10", False),
        ("torch.tensor(start, requires_grad=False)", "10", False),
        ("torch.tensor(start, requires_grad=True) if name else 1.0", "10", False),
    ],
)
def test_whole_numbers_have_no_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str, given: str, is_found: bool
) -> None:
    (tmp_path / "net.py").write_text(_SCALE.format(made=made, given=given), "utf-8")
    monkeypatch.chdir(tmp_path)
    told = json.loads(CliRunner().invoke(cli, ["check", "--output-format", "json", "--select", "FLW008", "."]).stdout)
    assert [finding["location"]["row"] for finding in told] == [19] * is_found
    assert all("`torch.tensor(10, requires_grad=True)`" in finding["message"] for finding in told)
