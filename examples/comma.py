"""A stray trailing comma makes a tuple of one layer: REG003."""

import torch
from torch import nn


class Downsample(nn.Module):
    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.pool = nn.Conv2d(channels, channels, kernel_size=2, stride=2),
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.pool(x))
