"""Grid sampling in the ways that Core ML has no operation for: bicubic, and of volumes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor

_BILINEAR, _NEAREST, CUBIC = range(3)
"""Modes of interpolation, as PyTorch counts them."""
_ZEROS, _BORDER, _REFLECTION = range(3)


def _folded(at: Any, low: float, high: float) -> Any:
    """Coordinate reflected at two ends until it lies between them."""
    if low == high:
        return torch.zeros_like(at)
    off, span = (at - low).abs(), high - low
    turns = torch.floor(off / span)
    rest = off - turns * span
    return torch.where(torch.remainder(turns, 2.0) == 0, rest + low, high - rest)


def _kept(at: Any, size: int, padding: int, align: bool) -> Any:
    """Coordinate by padding mode: reflected, clamped to the border, or as it is."""
    if padding == _REFLECTION:
        at = _folded(at, 0.0, size - 1.0) if align else _folded(at, -0.5, size - 0.5)
    return at if padding == _ZEROS else torch.clamp(at, 0.0, size - 1.0)


def _cubic(rest: Any) -> list[Any]:
    """Weights of the four neighbours in cubic convolution."""

    def near(x: Any) -> Any:
        return (1.25 * x - 2.25) * x * x + 1

    def far(x: Any) -> Any:
        return ((-0.75 * x + 3.75) * x - 6) * x + 3

    return [far(rest + 1), near(rest), near(1 - rest), far(2 - rest)]


@decomposes("grid_sampler", "grid_sampler_2d", "grid_sampler_3d", exactness=within(64))
def grid_sampler(x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """Grid sampling: bicubic, and of volumes."""
    sizes = [int(size) for size in x.shape[2:]]
    batch, channels, out = int(x.shape[0]), int(x.shape[1]), [int(size) for size in grid.shape[1:-1]]
    # What lies beyond an image is then an element like any other.
    edge = 1 if padding_mode == _ZEROS else 0
    x = torch.nn.functional.pad(x, [edge] * (2 * len(sizes))) if edge else x
    places: Any = None
    shares: Any = None
    for axis, size in enumerate(sizes):
        # The grid names the last axis first.
        at = grid.select(-1, len(sizes) - 1 - axis).reshape(batch, 1, -1)
        at = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
        whole, share = _near(at, interpolation_mode, size, padding_mode, align_corners)
        whole = torch.clamp(whole, -edge, size - 1.0 + edge) + edge
        places = whole if places is None else _each(places * (size + 2 * edge), whole, torch.add)
        shares = share if shares is None else _each(shares, share, torch.mul)
    count = int(places.shape[1])
    index = places.long().reshape(batch, 1, -1).expand(batch, channels, count * math.prod(out)) + 0
    taken = torch.gather(x.reshape(batch, channels, -1), 2, index).reshape(batch, channels, count, -1)
    return (taken * shares.unsqueeze(1)).sum(2).reshape(batch, channels, *out)


def _near(at: Any, mode: int, size: int, padding: int, align: bool) -> tuple[Any, Any]:
    """Neighbouring pixels along one axis, and their weights."""
    if mode != CUBIC:
        at = _kept(at, size, padding, align)
    if mode == _NEAREST:
        return torch.round(at), torch.ones_like(at)
    whole = torch.floor(at)
    rest = at - whole
    if mode == _BILINEAR:
        return torch.cat([whole, whole + 1], 1), torch.cat([1 - rest, rest], 1)
    whole = whole + torch.arange(-1.0, 3.0).reshape(1, -1, 1)
    return _kept(whole, size, padding, align), torch.cat(_cubic(rest), 1)


def _each(first: Any, second: Any, join: Callable[[Any, Any], Any]) -> Any:
    """Outer combination of two sets of rows."""
    return join(first.unsqueeze(2), second.unsqueeze(1)).reshape(first.shape[0], -1, first.shape[2])
