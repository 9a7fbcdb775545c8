"""Inputs of a comparison: what bounds, comparisons and choices do is seen on each of their sides."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        {body}
"""
SHARE = "y = x / (x.sum() ** 2 + 1.5)"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        # Only inputs whose sum is small come below such a bound.
        (f"{SHARE}; return y.clamp(-0.5, 1.0) + x", f"{SHARE}; return y.clamp(-0.51, 1.0) + x"),
        ("return x.clamp(max=20.0) * 2", "return x.clamp(max=20.5) * 2"),
        # Two zeros are equal, and other products of numbers hardly ever.
        ("return torch.where(x @ x.T > 0, 1.0, 0.5) + x.sum()", "return torch.where(x @ x.T >= 0, 1.0, 0.5) + x.sum()"),
        # The larger of many is hardly ever between two bounds that are close.
        ("return torch.where(x.amax() > 3.0, x, x.mean())", "return torch.where(x.amax() > 3.1, x, x.mean())"),
        ("return torch.maximum(x, x.abs().mean() * 0 - 30)", "return torch.maximum(x, x.abs().mean() * 0 - 31)"),
    ],
)
def test_a_side_that_few_inputs_reach_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, body in (("right", right), ("wrong", wrong)):
        Path(f"{name}.py").write_text(MODEL.format(body=body.replace("; ", "\n        ")), "utf-8")
    words = ["--input", "8x8", "--precision", "fp32"]
    done = CliRunner().invoke(cli, ["export", "right.py:Net", *words, "-o", "Net.mlpackage"])
    assert done.exit_code == 0, done.output
    words = words[:2]
    for name, status in (("right", 0), ("wrong", 1)):
        done = CliRunner().invoke(cli, ["verify", "Net.mlpackage", "--reference", f"{name}.py:Net", *words])
        assert done.exit_code == status, done.output
    assert "differs from PyTorch" in done.output


def test_integers_of_which_whole_rows_are_zero_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row_is_zero = "gone = (x[:, :, 0] == 0).all(-1)[:, :, None, None]"
    bodies = {"right": f"{row_is_zero}; return x * (~gone).int()", "wrong": f"{row_is_zero}; return x * 1"}
    for name, body in bodies.items():
        Path(f"{name}.py").write_text(MODEL.format(body=body.replace("; ", "\n        ")), "utf-8")
    words = ["--input", "2x3x4x3:int32[-20,20)"]
    done = CliRunner().invoke(cli, ["export", "wrong.py:Net", *words, "--precision", "fp32", "-o", "Net.mlpackage"])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(cli, ["verify", "Net.mlpackage", "--reference", "right.py:Net", *words])
    assert done.exit_code == 1, done.output


KEEPING = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("most", torch.zeros(3))
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x)
        self.most.copy_(torch.maximum(self.most, self.total))
        return torch.where({condition}, self.most, -self.most) + self.total
"""


def test_what_a_state_does_to_a_later_prediction_is_tried_on_several_sequences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # The wrong one departs where a total has been above 1.2, and then fell below -0.3.
    never = "(self.total > -0.3) | (self.most < 1.2)"
    for name, condition in (("right", never), ("wrong", "self.most >= 0")):
        Path(f"{name}.py").write_text(KEEPING.format(condition=condition), "utf-8")
    words = ["--input", "3"]
    target = ["--state", "--deployment-target", "iOS18", "--precision", "fp32"]
    done = CliRunner().invoke(cli, ["export", "wrong.py:Net", *words, *target, "-o", "Net.mlpackage"])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(cli, ["verify", "Net.mlpackage", "--reference", "right.py:Net", *words])
    assert done.exit_code == 1, done.output
    assert "prediction" in done.output
