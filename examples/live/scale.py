import torch
from torch import nn


class Scale(nn.Module):
    """Doubles the first channel in place, through a view."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.mix(x)
        y[:, 0].mul_(2)
        return torch.tanh(y)
