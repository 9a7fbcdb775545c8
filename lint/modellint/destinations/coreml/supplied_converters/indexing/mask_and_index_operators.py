"""Indexing by masks and indices in the ways that coremltools refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.private.operator_tables import is_boolean, is_integral, is_symbolic, mb
from modellint.destinations.coreml.supplied_converters.arguments import Unfit
from modellint.destinations.coreml.supplied_converters.registration import builds
from modellint.destinations.decompositions.table import within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


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
