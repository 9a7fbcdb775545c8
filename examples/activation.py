"""Slopes for each channel of a sequence, which a converter refuses once training has made them differ: OPS004."""

import torch
from torch import nn


class Encoder(nn.Module):
    """Converts as long as all slopes are 0.25, as they are before training."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(channels, channels, kernel_size=3), nn.PReLU(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)
