"""Elements repeated by a count that a trace makes of sizes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import modellint


class Repeated(nn.Module):
    """As groups of heads are repeated."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        heads = y.shape[1]
        return x.repeat_interleave(heads // x.shape[2], dim=2, output_size=heads) * 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("route", ["trace", "export"])
def test_a_count_may_be_a_quotient_of_sizes(route: str) -> None:
    inputs = (torch.randn(2, 3, 2, 4), torch.randn(1, 6))
    exported = modellint.export(Repeated().eval(), inputs, precision="fp32", frontend=route)
    assert exported.verification.verdict == "agrees"
