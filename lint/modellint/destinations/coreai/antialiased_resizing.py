"""Antialiased interpolation, for which coreai-torch has no converter: a matrix for each axis, made by operators.

The weights are those of `aten/src/ATen/native/UpSample.h` in PyTorch: a filter as wide as the pixels that one of the result stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_A = -0.5
"""The free number of the cubic filter, as Pillow and PyTorch have it where they antialias."""


def _linear(x: Tensor) -> Tensor:
    return torch.clamp(1 - x, min=0)


def _cubic(x: Tensor) -> Tensor:
    near = ((_A + 2) * x - (_A + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * _A
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


FILTERS: dict[str, Callable[[Tensor], Tensor]] = {"_upsample_bilinear2d_aa": _linear, "_upsample_bicubic2d_aa": _cubic}
"""By operator the weights at distances from the centre, in pixels of the coarser image."""


def resized(name: str, x: Tensor, output_size: Sequence[int] | None, align_corners: bool, *scales: Any) -> Any:
    """An image resized, of shape ``(N, C, H, W)``: a product with a matrix along each of the last two axes."""
    given = scales[0] if scales and isinstance(scales[0], (list, tuple)) else scales
    factors: list[float | None] = [*given, None, None][:2]
    lengths = x.shape[2:]
    if not all(isinstance(size, int) for size in (*lengths, *(output_size or ()))) or not x.dtype.is_floating_point:
        return NotImplemented
    sizes = output_size or [math.floor(size * (factor or 1)) for size, factor in zip(lengths, factors, strict=True)]
    rows, columns = (
        _matrix(FILTERS[name], length, int(size), factor, align_corners).to(x.dtype)
        for length, size, factor in zip(lengths, sizes, factors, strict=True)
    )
    return torch.matmul(rows, torch.matmul(x, columns.transpose(0, 1)))


def _matrix(
    weigh: Callable[[Tensor], Tensor], length: int, size: int, factor: float | None, align_corners: bool
) -> Tensor:
    """The weights of ``length`` elements for each of ``size``."""
    between = (length - 1) / (size - 1) if size > 1 else 0.0
    scale = between if align_corners else 1 / factor if factor else length / size
    centres = (torch.arange(size, dtype=torch.float32) + 0.5) * scale
    distances = torch.arange(length, dtype=torch.float32) + 0.5 - centres.unsqueeze(1)
    weights = weigh(distances.abs() / max(scale, 1.0))
    return weights / weights.sum(1, keepdim=True)
