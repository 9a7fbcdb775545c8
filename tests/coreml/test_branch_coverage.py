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
