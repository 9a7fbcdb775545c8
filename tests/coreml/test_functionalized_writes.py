"""Functionalized writes: through `expand`, which come as a difference that rounds, and to empty slices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import modellint

pytestmark = pytest.mark.filterwarnings("ignore")


class Filled(nn.Module):
    """What is written has nothing to do with the values that were there."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 1.5
        y.expand_as(y).fill_(0.7)
        return y + 0 * x.sign()


class Added(nn.Module):
    """The user's own difference, which rounds in PyTorch too."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + (y - x)


@pytest.mark.parametrize("model", [Filled(), Added()], ids=["written", "added"])
def test_old_values_leave_no_rounding(model: nn.Module) -> None:
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)) * 1e5
    inputs = (x,) if isinstance(model, Filled) else (x, torch.ones(3, 4))
    exported = modellint.export(model.eval(), inputs, precision="fp32", frontend="export")
    assert exported.verification is not None
    assert [output.max_abs_error for output in exported.verification.outputs] == [0.0]


class Cut(nn.Module):
    """Rotary positions of few frequencies: the slice of the third part is empty."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = x.cos()
        first = whole[0]
        first[..., 0:6:3] = whole[1, ..., 0:6:3]
        first[..., 2:6:3] = whole[2, ..., 2:6:3]
        return first * 2


def test_a_write_to_nothing_changes_nothing() -> None:
    x = torch.randn(3, 1, 4, 2, generator=torch.Generator().manual_seed(1))
    exported = modellint.export(Cut().eval(), (x,), precision="fp32", frontend="export")
    assert exported.verification is not None and exported.verification.verdict == "agrees"
