"""What an export does about programs that coremltools refuses on account of no operator: assertions, and a pass that falls over them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import modellint

pytestmark = pytest.mark.filterwarnings("ignore")


class HalfUsed(nn.Module):
    """One part of a split of what was stacked is not used: `fuse_stack_split` looks for what reads it."""

    def forward(self, x, y):
        first, _ = torch.split(torch.stack([x, y], 1), 1, 1)
        return first.squeeze(1) * 2


class Asserting(nn.Module):
    """An assertion about values, which `torch.export` keeps."""

    def forward(self, x, mask):
        torch._check(torch.ops.aten._is_all_true(mask >= 0).item())
        return x * 2 + mask.sum()


@pytest.mark.parametrize(
    ("model", "inputs", "frontend"),
    [
        (HalfUsed(), (torch.randn(2, 3), torch.randn(2, 3)), "trace"),
        (HalfUsed(), (torch.randn(2, 3), torch.randn(2, 3)), "export"),
        (Asserting(), (torch.randn(2, 3), torch.ones(2, 3)), "export"),
    ],
    ids=["pass-trace", "pass-export", "assertion"],
)
def test_it_is_exported_and_agrees(model: nn.Module, inputs: tuple[torch.Tensor, ...], frontend: str) -> None:
    exported = modellint.export(model.eval(), inputs, frontend=frontend)
    assert exported.verification.verdict == "agrees"
