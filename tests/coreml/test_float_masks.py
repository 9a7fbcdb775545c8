"""Masks of floats: inputs whose example holds 0 and 1 alone are compared on such."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import modellint

MASK = torch.tensor([[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]])


class Masked(nn.Module):
    """Attention with what a mask of 0 and 1 leaves; of other numbers it makes infinities."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        bias = (1 - mask[:, None]) * torch.finfo(torch.float32).min
        return nn.functional.scaled_dot_product_attention(x, x, x, bias)


def test_they_are_0_and_1_in_a_comparison() -> None:
    result = modellint.export(Masked().eval(), (torch.randn(2, 4, 8), MASK), precision="fp32")
    assert result.verification.ok
    assert any("mask is taken for a mask" in note for note in result.verification.notes)


class Rounding(nn.Module):
    """What is the same on 0 and 1 only: a difference that a comparison has to find on other floats."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y.trunc()


def test_other_floats_are_drawn_as_before() -> None:
    y = torch.linspace(0, 1, 8).reshape(2, 4)
    result = modellint.export(Rounding().eval(), (torch.randn(2, 4), y), precision="fp32")
    assert not any("taken for a mask" in note for note in result.verification.notes)
    ones = modellint.export(Rounding().eval(), (torch.randn(2, 4), torch.ones(2, 4)), precision="fp32")
    assert not any("taken for a mask" in note for note in ones.verification.notes)
