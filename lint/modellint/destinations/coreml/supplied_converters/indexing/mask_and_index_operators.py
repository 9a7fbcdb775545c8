"""Indexing by masks and indices in the ways that coremltools refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.private.operator_tables import is_boolean, is_integral, is_symbolic, mb
from modellint.destinations.coreml.supplied_converters.arguments import Unfit
from modellint.destinations.coreml.supplied_converters.registration import builds, expresses, within

if TYPE_CHECKING:
    from modellint.destinations.coreml.supplied_converters.arguments import Tensor


@expresses("masked_scatter")
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Any:
    """Elements of another tensor, in their order, put where a mask holds."""
    x, mask = torch.broadcast_tensors(x, mask)  # type: ignore[no-untyped-call]
    places = torch.cumsum(mask.reshape(-1).long(), 0) - 1
    taken = torch.index_select(source.reshape(-1), 0, torch.clamp(places, 0, source.numel() - 1))
    return torch.where(mask, taken.reshape(x.shape), x)


@builds("masked_scatter")
def masked_scatter_of_some(x: Tensor, mask: Tensor, source: Tensor) -> Any:
    """Elements put where a mask holds, of a tensor that has as many as another mask selects, or none."""
    if any(map(is_symbolic, (*x.shape, *mask.shape))):
        raise Unfit("a size is not known before a run")
    if is_boolean(x) or source.dtype != x.dtype or np.broadcast_shapes(tuple(x.shape), tuple(mask.shape)) != x.shape:
        raise Unfit("truth values, another type, or a mask of more elements")
    mask = mb.logical_or(x=mask, y=np.zeros([int(size) for size in x.shape], np.bool_))
    # Counted in integers, which single precision would not hold from 2**24 on.
    counts = mb.cumsum(x=mb.cast(x=mb.reshape(x=mask, shape=[-1]), dtype="int32"), axis=0)
    places = mb.maximum(x=mb.sub(x=counts, y=1), y=0)
    # With one more element there is a first one also where nothing is selected.
    one = operator_tables.full(np.array([1]), 0, None, x)
    elements = mb.concat(values=[mb.reshape(x=source, shape=[-1]), one], axis=0)
    taken = mb.reshape(x=mb.gather(x=elements, indices=places, axis=0), shape=[int(size) for size in x.shape])
    return mb.select(cond=mask, a=taken, b=x)


def _is_unmixed(arguments: dict[str, Any]) -> bool:
    """Whether the indices are not masks and places at once; ``None`` leaves an axis as it is."""
    kinds = {is_boolean(index) for index in arguments["indices"] if index is not None}
    return len(kinds) < 2 or arguments["accumulate"]


@expresses("index_put", exactness="bit-equal", unless=_is_unmixed)
def index_put(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    """Assignment of one value at masks and indices."""
    hit = torch.ones([1] * x.dim(), dtype=torch.bool)
    axis = 0
    for index in indices:
        shape = [1] * x.dim()
        if index is None:
            axis += 1
            continue
        if index.dtype == torch.bool:
            shape[axis : axis + index.dim()] = index.shape
            axis += index.dim()
        else:
            if index.numel() != 1:
                raise NotImplementedError("masks and more than one place")
            shape[axis] = x.shape[axis]
            index = torch.arange(x.shape[axis]) == torch.remainder(index.reshape(1), x.shape[axis])
            axis += 1
        hit = torch.logical_and(hit, index.reshape(shape))
    if values.numel() != 1:
        raise NotImplementedError("masks, places and more than one value")
    return torch.where(hit, values.reshape([1] * x.dim()).to(x.dtype), x)


def _is_taken(arguments: dict[str, Any]) -> bool:
    """Whether coremltools converts it: masks, or places of one shape from the first axis on, in what holds no truth values."""
    indices = arguments["indices"]
    if any(index is not None and is_boolean(index) for index in indices):
        return True
    shapes = {None if index is None else tuple(index.shape) for index in indices}
    return None not in shapes and len(shapes) == 1 and not is_boolean(arguments["x"])


@expresses("index_put", exactness=within(4), unless=_is_taken)
def put_at_places(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    """Assignment or addition at places along some axes, which are broadcast to each other."""
    if x.dtype == torch.bool:
        return put_at_places(x.int(), indices, values.int(), accumulate) != 0
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    rest = [axis for axis in range(x.dim()) if axis not in axes]
    places = torch.broadcast_tensors(*(index for index in indices if index is not None))  # type: ignore[no-untyped-call]
    order = [*axes, *rest]
    permuted = x.permute(order)
    # Where the axes are neighbours, what is put has its places where they stand, else in front.
    first = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    shape = [x.shape[axis] for axis in rest]
    values = values.expand([*shape[:first], *places[0].shape, *shape[first:]])
    count = places[0].dim()
    values = values.permute([*range(first, first + count), *range(first), *range(first + count, values.dim())])
    at = torch.zeros_like(places[0])
    for axis, index in zip(axes, places, strict=True):
        at = at * x.shape[axis] + torch.where(index < 0, index + x.shape[axis], index)
    flat = permuted.reshape([-1, *shape])
    put = flat.index_put((at.reshape(-1),), values.reshape([-1, *shape]), accumulate)
    return put.reshape(permuted.shape).permute([order.index(axis) for axis in range(x.dim())])


@builds("repeat_interleave", ".self_tensor")
def repeat_interleave(x: Tensor, repeats: Tensor, dim: int | None = None, output_size: int | None = None) -> Any:
    """Each element along an axis repeated, by one count for all or for each."""
    is_one = not repeats.shape or list(repeats.shape) == [1]
    if is_one and (is_integral(repeats) or repeats.val is None):
        return NotImplemented
    if dim is None:
        x, dim = mb.reshape(x=x, shape=[-1]), 0
    if is_one:
        # A trace makes floats of quotients of sizes, which coremltools does not take for a count.
        if is_symbolic(x.shape[dim]):
            return NotImplemented
        places = np.repeat(np.arange(x.shape[dim], dtype=np.int32), int(np.ravel(repeats.val)[0]))
        return mb.gather(x=x, indices=places, axis=dim)
    return mb.gather(x=x, indices=_repeated(repeats), axis=dim)


@builds("repeat_interleave", ".tensor")
def repeat_interleave_places(repeats: Tensor, output_size: int | None = None) -> Any:
    """Each index repeated by its count."""
    return _repeated(repeats)


def _repeated(repeats: Any) -> Any:
    """Indices repeated by their counts: for each position of the result, the number of repetitions that end before it."""
    ends = mb.cumsum(x=mb.cast(x=repeats, dtype="fp32"), axis=0)
    total = mb.reduce_sum(x=mb.cast(x=repeats, dtype="fp32"), axes=[0], keep_dims=False)
    at = mb.expand_dims(x=mb.range_1d(start=0.0, end=total, step=1.0), axes=[1])
    passed = mb.cast(x=mb.less_equal(x=mb.expand_dims(x=ends, axes=[0]), y=at), dtype="fp32")
    return mb.cast(x=mb.reduce_sum(x=passed, axes=[1], keep_dims=False), dtype="int32")


@expresses("index_reduce", exactness=within(8))
def index_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool = True) -> Any:
    """Reduction into an axis at indices: product, mean, maximum or minimum."""
    shape = [1] * x.dim()
    shape[dim] = -1
    places = index.reshape(shape).expand(source.shape) + 0
    if reduce != "mean":
        return torch.scatter_reduce(x, dim, places, source, reduce, include_self=include_self)
    count = torch.zeros_like(x).scatter_add(dim, places, torch.ones_like(source))
    total = torch.zeros_like(x).scatter_add(dim, places, source)
    if include_self:
        return (total + x) / (count + 1)
    return torch.where(count == 0, x, total / torch.clamp(count, min=1))


def _is_additive(arguments: dict[str, Any]) -> bool:
    """Whether the mask is added to the scores: no mask of truth values takes part."""
    return not arguments["is_causal"] and (arguments["attn_mask"] is None or not is_boolean(arguments["attn_mask"]))


@expresses("scaled_dot_product_attention", exactness=within(16), unless=_is_additive)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention that a mask keeps from keys, however large their scores; a query without any gives zeros.

    coremltools adds -30000 to the scores of other keys, so that larger ones outweigh it, and gives such a query the mean.
    """
    if is_causal:
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    else:
        assert attn_mask is not None
        mask = attn_mask
    # Tensors both, as a choice between two numbers has no size of its own where sizes are flexible.
    kept = mask.float() * 0.0
    attention = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, torch.where(mask, kept, kept - 3e38), dropout_p, False, scale=scale, enable_gqa=enable_gqa
    )
    return attention if is_causal else torch.where(torch.amax(mask.float(), -1, keepdim=True) > 0, attention, 0.0)


@builds("scaled_dot_product_attention", exactness=within(16))
def flexible_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention with a mask whose sizes are not known before a run: each may be 1, or that of the scores."""
    if attn_mask is None or not is_boolean(attn_mask) or is_causal:
        return NotImplemented
    if dropout_p or enable_gqa or is_symbolic(query.shape[-1]):
        raise NotImplementedError("attention with dropout, groups of heads, or a size of heads that is not known")
    has_keys = mb.reduce_max(x=mb.cast(x=attn_mask, dtype="fp32"), axes=[-1], keep_dims=True)
    # A query without any key weighs all of them, so that nothing is infinite, and its result is zero afterwards.
    mask = mb.logical_or(x=attn_mask, y=mb.equal(x=has_keys, y=0.0))
    kept = mb.mul(x=mb.cast(x=mask, dtype="fp32"), y=0.0)
    factor = float(query.shape[-1]) ** -0.5 if scale is None else float(scale)
    scores = mb.matmul(x=mb.mul(x=query, y=factor), y=key, transpose_y=True)
    weights = mb.softmax(x=mb.add(x=scores, y=mb.select(cond=mask, a=kept, b=mb.sub(x=kept, y=3e38))), axis=-1)
    return mb.mul(x=mb.matmul(x=weights, y=value), y=has_keys)
