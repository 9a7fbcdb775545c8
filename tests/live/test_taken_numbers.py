"""Numbers that Python takes out of tensors in a run: those of inputs are told, those of buffers are not, whatever source guesses."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

MODULE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("grid", torch.tensor([[2, 3]]))

    def forward(self, x, sizes):
        {body}
        return self.layer(x) * n


def make():
    return Net().eval(), (torch.randn(6, 4), torch.tensor([[2, 3]]))
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("n = sizes.tolist()[0][0]", True),
        ("(n, _), *_ = (sizes * 2).tolist()", True),
        ("n = len(sizes.nonzero())", True),
        ("n = len(x[x[:, 0] > 0])", True),
        ("n = self.grid.tolist()[0][0]", False),
        ("n = int(self.grid.max())", False),
        ("n = len(sizes[[0]]) * sizes.sum()", False),
        ("n = len(self.grid[self.grid > 2])", False),
    ],
)
def test_numbers_of_inputs_are_told(body: str, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text(MODULE.format(body=body), encoding="utf-8")
    (tmp_path / "modellint.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["check", "net.py:make", "--output-format", "concise"])
    assert result.exit_code == found, result.output
    assert ("net.py:13:" in result.output and "FLW002" in result.output) == found, result.output
