"""Shape operators and constructors of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modellint.destinations.coreml.private.operator_tables import Var, full, is_boolean, is_integral, is_symbolic, mb
from modellint.destinations.coreml.supplied_converters.arguments import Call, Unfit
from modellint.destinations.coreml.supplied_converters.registration import adapts, builds

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Dtype, Tensor


@builds("alias")
def alias(x: Tensor) -> Any:
    """Identity."""
    return x


def _names_sizes(size: Any) -> bool:
    """Whether a size is anything but the empty one."""
    return size.shape != (0,) if isinstance(size, Var) else bool(size)


@builds("view")
@builds("reshape")
def view_without_axes(x: Tensor, size: object) -> Any:
    """The one element of a tensor as a scalar: coremltools leaves its axes, and what is unsqueezed afterwards has one too many."""
    if _names_sizes(size) or not x.shape:
        return NotImplemented
    return mb.squeeze(x=x)


@adapts("constantchunk")
def chunk(call: Call) -> Any:
    """All of a tensor as the one chunk of it; coremltools goes through that as through several."""
    x, attributes = call.args[0], call.node.attr
    size = x.shape[attributes["dim"]]
    if not is_symbolic(size) and len(call.node.outputs) == 1:
        return mb.identity(x=x)
    return NotImplemented


@builds("resolve_conj")
def resolve_conj(x: Tensor) -> Any:
    """Identity: nothing that reaches Core ML is conjugated later. A trace has it where numbers are read out by `tolist`."""
    return x


@builds("resolve_neg")
def resolve_neg(x: Tensor) -> Any:
    """Identity: nothing that reaches Core ML is negated later."""
    return x


@builds("diff")
def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Any:
    """Differences of neighbouring elements; of truth values, whether they differ."""
    parts = [part for part in (prepend, x, append) if part is not None]
    x = mb.concat(values=parts, axis=dim) if len(parts) > 1 else x
    rank = len(x.shape)
    at = dim % rank
    size = x.shape[at]
    if not is_symbolic(size) and size <= n:
        raise Unfit("nothing is left, and Core ML has no empty tensors")
    for _ in range(n):
        begin = [0] * rank
        end = [0] * rank
        masks = [True] * rank
        one_on, one_off = list(begin), list(end)
        one_on[at], one_off[at] = 1, -1
        some = [axis != at for axis in range(rank)]
        later = mb.slice_by_index(x=x, begin=one_on, end=end, begin_mask=some, end_mask=masks)
        earlier = mb.slice_by_index(x=x, begin=begin, end=one_off, begin_mask=masks, end_mask=some)
        x = mb.logical_xor(x=later, y=earlier) if is_boolean(x) else mb.sub(x=later, y=earlier)
    return x


@builds("split_with_sizes")
def split_with_sizes(x: Tensor, sizes: object, dim: int = 0) -> Any:
    """Parts whose sizes are values of tensors, in a list: coremltools takes a list for one tensor."""
    if not isinstance(sizes, list) or all(_number(size) is not None for size in sizes):
        return NotImplemented
    here = np.array([axis == dim % len(x.shape) for axis in range(len(x.shape))])
    others, parts, start = [not each for each in here], [], 0
    for size in sizes:
        end = mb.add(x=start, y=mb.cast(x=size, dtype="int32"))
        begins, ends = (mb.mul(x=here.astype(np.int32), y=mb.reshape(x=at, shape=[1])) for at in (start, end))
        parts.append(mb.slice_by_index(x=x, begin=begins, end=ends, begin_mask=others, end_mask=others))
        start = end
    return parts


def _number(size: Any) -> Any:
    return size.val if isinstance(size, Var) else size


@builds("stack")
def stack(tensors: list[Tensor], dim: int = 0) -> Any:
    """Tensors of several types, as PyTorch promotes them; coremltools refuses them."""
    if len({each.dtype for each in tensors}) == 1:
        return NotImplemented
    wanted = "int32" if all(map(is_integral, tensors)) else "fp32"
    return mb.stack(values=[mb.cast(x=each, dtype=wanted) for each in tensors], axis=dim)


@builds("unfold")
def unfold(x: Tensor, dimension: int, size: int, step: int) -> Any:
    """Sliding windows along an axis of a known size, where another axis is not known before a run."""
    rank = len(x.shape)
    dimension %= max(rank, 1)
    if not rank or is_symbolic(x.shape[dimension]):
        raise Unfit("the axis has no size before a run")
    places = [list(range(at, at + size)) for at in range(0, x.shape[dimension] - size + 1, step)]
    numbers = mb.cast(x=x, dtype="int32") if is_boolean(x) else x
    taken = mb.gather(x=numbers, indices=np.array(places, np.int32), axis=dimension)
    taken = mb.transpose(x=taken, perm=[axis for axis in range(rank + 1) if axis != dimension + 1] + [dimension + 1])
    return mb.cast(x=taken, dtype="bool") if is_boolean(x) else taken


@builds("new_zeros")
def new_zeros(
    x: Tensor,
    size: object,
    dtype: Dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
) -> Any:
    """Zero without axes, of whose size coremltools makes a list of nothing; else what coremltools makes of it."""
    return NotImplemented if _names_sizes(size) else full(size, 0, dtype, x)


@builds("new_ones")
def new_ones(
    x: Tensor,
    size: object,
    dtype: Dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
) -> Any:
    """Tensor of ones."""
    return full(size, 1, dtype, x)
