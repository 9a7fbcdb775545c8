"""A network with a gate whose in-place write a trace loses; `modellint export` takes the route that keeps it."""

import torch
from torch import nn


class Gate(nn.Module):
    """Opens half of the channels by a half."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.mix = nn.Conv2d(channels, channels, kernel_size=3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(self.mix(x))
        gate[:, ::2].mul_(0.5)
        return x * gate


def make() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The network and an input."""
    torch.manual_seed(0)
    return Gate().eval(), (torch.randn(1, 8, 16, 16),)
