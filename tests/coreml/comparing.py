"""Verifications of models that stand in test files, whose lines end in comments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

import modellint
from modellint.results.verification import Verification

HERE = Path(__file__).parent


def verified(model: nn.Module, *inputs: torch.Tensor, **options: Any) -> Verification:
    """By trace and in float32, if not asked for otherwise."""
    options = {"precision": "fp32", "frontend": "trace", "root": HERE, **options}
    return modellint.verify(model, inputs, **options)


def marked(found: Verification) -> str | None:
    """The comment of the line that a first difference, or the first write that was lost, stands at."""
    first = found.first_difference
    assert first is not None
    place = first.lost[0].place if first.lost else first.place
    assert place is not None
    path = Path(place.path)
    assert path.parent == HERE
    return path.read_text("utf-8").splitlines()[place.span.row - 1].partition("# ")[2]


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)  # Counting
        return x + self.count


class Averaging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average = 0.9 * self.average + x.mean(0)  # Averaging
        return x + self.average
