"""Counting: histograms, modes, medians, unique elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from modellint.destinations.coreml.private.operator_tables import mb
from modellint.destinations.coreml.supplied_converters.arguments import Call
from modellint.destinations.coreml.supplied_converters.registration import adapts, builds, decomposed, expresses, within
from modellint.destinations.coreml.supplied_converters.torch_function_inlining import inlined

if TYPE_CHECKING:
    from modellint.destinations.coreml.supplied_converters.arguments import Tensor


def _limits(x: Any, about: float) -> tuple[Any, Any]:
    """Minimum and maximum, widened by ``about`` where they are equal."""
    low, high = x.amin(), x.amax()
    alone = (low == high).to(x.dtype) * about
    return low - alone, high + alone


@expresses("histc")
def histc_of_all(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:  # noqa: A002
    """Histogram counts, in equal bins from the minimum to the maximum."""
    if min != max:
        raise NotImplementedError("limits of its own")
    flat = x.reshape(-1)
    low, high = _limits(flat, 1.0)
    which = torch.floor((flat - low) * bins / (high - low)).clamp(max=bins - 1)
    return (which.unsqueeze(-1) == torch.arange(float(bins))).to(x.dtype).sum(0)


@expresses("histogram", ".bin_ct", exactness=within(4))
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


@expresses("mode")
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


@expresses("nanmedian", ".dim")
def nanmedian(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """Median without NaN along an axis, the lower of two, and its index."""
    median = _median(x.movedim(dim, -1))
    return tuple(part.unsqueeze(dim) for part in median) if keepdim else median


@expresses("nanmedian")
def nanmedian_of_all(x: Tensor) -> Any:
    """Median without NaN of all elements, the lower of two."""
    return _median(x.reshape(-1))[0]


def _places(hits: Any) -> Any:
    """Indices at which truth values hold."""
    return mb.squeeze(x=mb.non_zero(x=mb.cast(x=hits, dtype="fp32")), axes=[1])


@builds("unique_consecutive")
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Unique consecutive elements, the inverse indices, and the counts."""
    if dim is not None and (dim or len(x.shape) > 1):
        raise NotImplementedError("along an axis")
    shape = list(x.shape)
    if shape == [1]:
        return x, mb.const(val=np.zeros(1, np.int32)), mb.const(val=np.ones(1, np.int32))
    flat = mb.reshape(x=x, shape=[-1])
    later = mb.slice_by_index(x=flat, begin=[1], end=[0], end_mask=[True])
    earlier = mb.slice_by_index(x=flat, begin=[0], end=[-1])
    new = mb.concat(values=[[1.0], mb.cast(x=mb.not_equal(x=later, y=earlier), dtype="fp32")], axis=0)
    places = _places(new)
    inverse = mb.cast(x=mb.sub(x=mb.cumsum(x=new, axis=0), y=1.0), dtype="int32")
    ends = mb.slice_by_index(x=places, begin=[1], end=[0], end_mask=[True])
    ends = mb.concat(values=[ends, [int(flat.shape[0])]], axis=0)
    return mb.gather(x=flat, indices=places, axis=0), mb.reshape(x=inverse, shape=shape), mb.sub(x=ends, y=places)


@builds("_unique2")
def unique(x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:  # noqa: A002
    """Unique elements in ascending order, the inverse indices, and the counts.

    coremltools makes a scalar of a single one, casts floats to integers before it counts, and wants all arguments.
    """
    sizes = [size if isinstance(size, int) else 0 for size in x.shape]
    if not math.prod(sizes):
        return NotImplemented
    flat = mb.reshape(x=x, shape=[-1])
    order = mb.argsort(x=flat, axis=0, ascending=True)
    unique, inverse, counts = unique_consecutive(mb.gather_along_axis(x=flat, indices=order, axis=0))
    nowhere = np.zeros(math.prod(sizes), np.int32)
    inverse = mb.scatter(data=nowhere, indices=order, updates=inverse, axis=0, mode="update")
    return unique, mb.reshape(x=inverse, shape=sizes), counts


def _in_order(x: Any) -> tuple[Any, ...]:
    """Unique rows sorted to the front, whether each row is one of them, the inverse indices, and the counts."""
    rows = x.reshape(x.shape[0], -1)
    count = int(rows.shape[0])
    at = torch.arange(count)
    signs = torch.sign(rows.unsqueeze(1) - rows.unsqueeze(0))
    first = torch.logical_and(signs.abs().cumsum(-1) == 1, signs != 0)
    order = torch.where(first, signs, 0).sum(-1)
    same = signs.abs().sum(-1) == 0
    new = torch.logical_and(same, at.unsqueeze(-1) > at).long().sum(-1) == 0
    rank = torch.logical_and(order > 0, new).long().sum(-1)
    mine = torch.logical_and(rank == at.unsqueeze(-1), new)
    places = (mine.long() * at).sum(-1)
    return torch.index_select(x, 0, places), mine.long().sum(-1) > 0, rank, (rank == at.unsqueeze(-1)).long().sum(-1)


@adapts("unique_dim")
def unique_dim(call: Call) -> Any:
    """Unique slices along an axis, sorted; the inverse indices, and the counts."""
    x, dim = call.args[:2]
    dim = int(getattr(dim, "val", dim)) % len(x.shape)
    axes = [dim, *(axis for axis in range(len(x.shape)) if axis != dim)]
    ordered, new, rank, counts = inlined(lambda x: _in_order(x.permute(axes)), {"x": x}, call, decomposed())
    places = _places(new)
    back = [axes.index(axis) for axis in range(len(axes))]
    unique = mb.transpose(x=mb.gather(x=ordered, indices=places, axis=0), perm=back)
    return unique, rank, mb.gather(x=counts, indices=places, axis=0)


def _against_all(x: Any, least: int = 0) -> Any:
    """One-hot encoding along a new last axis, with as many classes as there are up to the largest."""
    x = mb.cast(x=x, dtype="fp32")
    axes = list(range(len(x.shape)))
    end = mb.add(x=mb.reduce_max(x=x, axes=axes, keep_dims=False), y=1.0)
    if least:
        end = mb.maximum(x=end, y=float(least))
    return mb.equal(x=mb.expand_dims(x=x, axes=[len(axes)]), y=mb.range_1d(start=0.0, end=end, step=1.0))


@builds("bincount", exactness=within(4))
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Any:
    """Frequency of each integer up to the largest."""
    hits = mb.cast(x=_against_all(x, minlength), dtype="fp32")
    if weights is not None:
        return mb.reduce_sum(x=mb.mul(x=hits, y=mb.expand_dims(x=weights, axes=[1])), axes=[0], keep_dims=False)
    return mb.cast(x=mb.reduce_sum(x=hits, axes=[0], keep_dims=False), dtype="int32")


@builds("one_hot")
def one_hot(x: Tensor, num_classes: int = -1) -> Any:
    """One-hot encoding with as many classes as there are up to the largest."""
    return NotImplemented if num_classes >= 0 else mb.cast(x=_against_all(x), dtype="int32")
