"""Twelve blocks, each with layers in a dataclass, where neither PyTorch nor a reader of the source finds them."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Branches:
    gate: nn.Linear
    value: nn.Linear


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.branches = Branches(nn.Linear(width, width), nn.Linear(width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return x + torch.sigmoid(self.branches.gate(y)) * self.branches.value(y)


class Decoder(nn.Module):
    def __init__(self, width: int = 64, depth: int = 12) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def small() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A model and what to call it with."""
    return Decoder(depth=3).eval(), (torch.randn(1, 8, 64),)
