"""Slopes for each channel of a sequence, which a converter refuses once training has made them differ: OPS004."""

import torch
from torch import nn


class CustomPReLU(nn.PReLU):
    """`nn.PReLU` in operators that Core ML has for inputs of rank 2 to 5, whatever the slopes."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        rank = input.dim()
        # The slopes belong to dimension 1; for autocast they are of the input's type.
        slopes = self.weight.to(input.dtype).reshape([-1] + [1] * (rank - 2) if rank > 1 else [1] * rank)
        positive = input > 0
        # The inner `where` keeps inf out of the slopes' gradients: 0 * inf is NaN.
        return torch.where(positive, input, slopes * torch.where(positive, 0.0, input))


class Encoder(nn.Module):
    """Converts as long as all slopes are 0.25, as they are before training."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(channels, channels, kernel_size=3), CustomPReLU(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)
