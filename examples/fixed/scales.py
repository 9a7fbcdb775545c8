"""Parameters in a list and in a dict: REG004 and REG005."""

import torch
from torch import nn


class Scales(nn.Module):
    def __init__(self, width: int = 8, steps: int = 2) -> None:
        super().__init__()
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(width)) for _ in range(steps)])
        self.affine = nn.ParameterDict({
            "gain": nn.Parameter(torch.ones(width)),
            "shift": nn.Parameter(torch.zeros(width)),
        })

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for scale in self.scales:
            x = x * scale
        return x * self.affine["gain"] + self.affine["shift"]
