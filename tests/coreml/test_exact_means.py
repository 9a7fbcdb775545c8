"""A sum times a constant: a mean where the constant is one over the count, and else what it says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import modellint


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x.sum(-1) * self.factor


class Deviation(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / (1e-5 + x.std(dim=-1, keepdim=True))


@pytest.mark.parametrize(
    ("model", "count"),
    [(Scaled(1 / 12000), 12000), (Scaled(1 / 11900), 12000), (Scaled(1e-9), 1_100_000), (Deviation(), 12000)],
)
def test_a_sum_times_nearly_one_over_the_count(model: nn.Module, count: int) -> None:
    x = torch.rand(1, count) + 1
    exported = modellint.export(model.eval(), (x,), frontend="trace", precision="fp32")
    assert exported.verification.ok


def test_what_coremltools_makes_of_it_is_told() -> None:
    model, x = Scaled(1 / 11900).eval(), torch.rand(1, 12000) + 1
    found = modellint.verify(model, (x,), frontend="trace", precision="fp32")
    assert not found.ok
    assert found.first_difference is not None
