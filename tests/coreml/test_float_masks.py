"""Masks of floats: inputs whose example holds 0 and 1 alone are compared on such."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import modellint
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.inputs.variants import variants

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


class Branching(nn.Module):
    """Goes another way where a mask leaves nothing."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if mask.sum() == 0:
            return x * 2
        return x * mask


def test_they_are_all_0_and_all_1_too() -> None:
    mask = torch.ones(2, 8)
    mask[1, 5:] = 0
    with pytest.raises(modellint.ExportError):
        modellint.export(Branching().eval(), (torch.randn(2, 8), mask), precision="fp32")


def test_they_are_masks_at_other_sizes() -> None:
    mask = torch.ones(4, 8)
    mask[1, 5:] = 0
    lengths = {0: {1: (4, 16)}, 1: {1: (4, 16)}}
    seen = [case.inputs.args[1] for case in variants(Inputs((torch.randn(4, 8), mask), {}, lengths)) if case.resized]
    assert len(seen) > 1
    assert all(bool(((each == 0) | (each == 1)).all()) and bool(each.any()) for each in seen)
