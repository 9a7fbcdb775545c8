"""Small models on which a dry run is held against `ct.convert`, where nobody has measured the installed coremltools."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Layers(nn.Module):
    """Layers, a buffer, sizes that are taken of a tensor, and two outputs."""

    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("steps", torch.arange(4.0).reshape(1, 4, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Give a tensor, and its largest elements."""
        y = functional.relu(self.norm(self.conv(x))) + self.steps
        y = y.reshape(y.shape[0], -1).softmax(-1)
        return y, y.topk(2).values


class WithoutConverters(nn.Module):
    """Two operators that no version had converters for when this was written, with a size that depends on one."""

    def forward(self, x: Tensor) -> Tensor:
        """Give what is not converted."""
        y = torch.fmod(x, 0.5)
        return torch.i0(y).reshape(y.shape[0], -1) * 2


class Writes(nn.Module):
    """Writes in place: by a slice, and through a view."""

    def forward(self, x: Tensor) -> Tensor:
        """Give what was written to."""
        y = x.clone()
        y[:, 0] = 1.0
        return y.mul_(2)


class Slopes(nn.Module):
    """A `PReLU` whose slopes differ, at rank 3, which coremltools up to 9.0 refuses by a trace."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.PReLU(3)
        self.layer.weight.data.copy_(torch.tensor([0.1, 0.2, 0.3]))

    def forward(self, x: Tensor) -> Tensor:
        """Give the layer's result."""
        result: Tensor = self.layer(x)
        return result


class NewerTarget(nn.Module):
    """An operator that needs a newer deployment target than the oldest."""

    def forward(self, x: Tensor) -> Tensor:
        """Give pixels moved to the channels."""
        result: Tensor = functional.pixel_unshuffle(x.unsqueeze(0), 1)
        return result


MODELS: tuple[type[nn.Module], ...] = (Layers, WithoutConverters, Writes, Slopes, NewerTarget)


def sample() -> Tensor:
    """An input for each of them."""
    return torch.linspace(-1, 1, 24).reshape(2, 3, 4)
