"""Counting: histograms, modes, and medians without NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


def _limits(x: Any, about: float) -> tuple[Any, Any]:
    """Minimum and maximum, widened by ``about`` where they are equal."""
    low, high = x.amin(), x.amax()
    alone = (low == high).to(x.dtype) * about
    return low - alone, high + alone


@decomposes("histc")
def histc_of_all(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:  # noqa: A002
    """Histogram counts, in equal bins from the minimum to the maximum."""
    if min != max:
        raise NotImplementedError("limits of its own")
    flat = x.reshape(-1)
    low, high = _limits(flat, 1.0)
    which = torch.floor((flat - low) * bins / (high - low)).clamp(max=bins - 1)
    return (which.unsqueeze(-1) == torch.arange(float(bins))).to(x.dtype).sum(0)


@decomposes("histogram", ".bin_ct", exactness=within(4))
def histogram(
    x: Tensor,
    bins: int = 100,
    range: list[float] | None = None,  # noqa: A002
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Histogram: counts, and edges of the bins."""
    flat = x.reshape(-1)
    if range is not None and range[0] == range[1]:
        range = [range[0] - 0.5, range[1] + 0.5]  # noqa: A001
    low, high = _limits(flat, 0.5) if range is None else (torch.full([1], limit) for limit in range)
    step = (high - low) / bins
    at = torch.arange(float(bins + 1))
    edges = torch.where(at < (bins + 1) // 2, low + at * step, high - (bins - at) * step)
    inside = torch.logical_and(flat.unsqueeze(-1) >= edges[:-1], flat.unsqueeze(-1) < edges[1:])
    last = torch.logical_and(flat.unsqueeze(-1) == edges[-1:], at[:-1] == bins - 1)
    hits = torch.logical_or(inside, last).to(x.dtype)
    counts = (hits if weight is None else hits * weight.reshape(-1, 1)).sum(0)
    return counts / counts.sum() / (edges[1:] - edges[:-1]) if density else counts, edges


@decomposes("mode")
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """Mode along an axis, the smallest of several, and its last index."""
    x = x.movedim(dim, -1)
    size = int(x.shape[-1])
    counts = (x.unsqueeze(-1) == x.unsqueeze(-2)).long().sum(-1)
    most = counts == counts.amax(-1, keepdim=True)
    value = torch.where(most, x, torch.finfo(torch.float32).max if x.is_floating_point() else 2**31 - 1)
    value = value.amin(-1, keepdim=True)
    place = torch.where(x == value, torch.arange(size), -1).amax(-1, keepdim=True)
    both = value.movedim(-1, dim), place.movedim(-1, dim)
    return both if keepdim else tuple(part.squeeze(dim) for part in both)


def _median(x: Any) -> tuple[Any, Any]:
    """Median without NaN along the last axis, and its index."""
    missing = torch.isnan(x)
    size = int(x.shape[-1])
    values, places = torch.sort(torch.where(missing, torch.inf, x), -1)
    count = torch.logical_not(missing).long().sum(-1, keepdim=True)
    mine = torch.arange(size) == torch.clamp(torch.div(count - 1, 2, rounding_mode="floor"), min=0)
    median = torch.where(mine, values, 0.0).sum(-1)
    place = torch.where(mine, places, 0).sum(-1)
    return torch.where(count.squeeze(-1) == 0, torch.nan, median), place


@decomposes("nanmedian", ".dim")
def nanmedian(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """Median without NaN along an axis, the lower of two, and its index."""
    median = _median(x.movedim(dim, -1))
    return tuple(part.unsqueeze(dim) for part in median) if keepdim else median


@decomposes("nanmedian")
def nanmedian_of_all(x: Tensor) -> Any:
    """Median without NaN of all elements, the lower of two."""
    return _median(x.reshape(-1))[0]
