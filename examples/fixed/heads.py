"""One head for each task, in a plain dict: REG002."""

import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.body = nn.Linear(width, width)
        self.heads = nn.ModuleDict({"boxes": nn.Linear(width, 4), "scores": nn.Linear(width, 1)})

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = torch.relu(self.body(x))
        return {name: head(x) for name, head in self.heads.items()}
