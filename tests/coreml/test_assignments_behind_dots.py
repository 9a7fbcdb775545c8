"""Assignments behind an ellipsis, which coremltools carries out elsewhere from a trace: an export spells the dimensions out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import modellint


class Wrap(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, kinds: Tensor, x: Tensor) -> Tensor:
        return self.function(kinds, x)


def of_truth_values(kinds: Tensor, x: Tensor) -> Tensor:
    before = torch.roll(kinds == 1, shifts=1, dims=-1)
    before[..., 0] = False
    return torch.where((kinds > 0) & ~before, 1.0, 2.0) + x


def of_numbers(kinds: Tensor, x: Tensor) -> Tensor:
    y = (x * 2).reshape(1, 2, 2, 2)
    y[..., 0] += 1
    y[:, 1, ...] = 3.0
    y[..., 1:, 1] = kinds[:, 2:4, None]
    return y + 1


def of_everything(kinds: Tensor, x: Tensor) -> Tensor:
    y = x * 2
    y[...] = 0
    return y + x


KINDS = torch.tensor([[0, 1, 1, 0, 2, 2, 0, 1]])


@pytest.mark.parametrize("frontend", ["trace", "export"])
@pytest.mark.parametrize("function", [of_truth_values, of_numbers, of_everything])
def test_an_export_agrees_by_both_routes(function: Callable[[Tensor, Tensor], Tensor], frontend: str) -> None:
    x = torch.randn(1, 8, generator=torch.Generator().manual_seed(0))
    exported = modellint.export(Wrap(function).eval(), (KINDS, x), frontend=frontend)
    assert exported.verification.verdict == "agrees"


def test_what_is_lost_besides_leaves_a_trace_undecided() -> None:
    def lost(kinds: Tensor, x: Tensor) -> Tensor:
        y = x * 2
        part = y.reshape(2, 4)
        y[..., 0] = 5.0
        return part + 1

    x = torch.randn(1, 8, generator=torch.Generator().manual_seed(0))
    with pytest.raises(modellint.ExportError):
        modellint.export(Wrap(lost).eval(), (KINDS, x), frontend="trace")
