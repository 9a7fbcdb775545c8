"""Counting: histograms, modes, medians, unique elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from modellint.destinations.coreml.private.operator_tables import mb
from modellint.destinations.coreml.supplied_converters.arguments import Call
from modellint.destinations.coreml.supplied_converters.registration import adapts, builds, decomposed
from modellint.destinations.coreml.supplied_converters.torch_function_inlining import inlined
from modellint.destinations.decompositions.table import within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


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
