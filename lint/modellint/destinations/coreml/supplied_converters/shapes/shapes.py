"""Shape operators and constructors of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.coreml.private.operator_tables import Var, full, is_boolean, is_symbolic, mb, torch_type
from modellint.destinations.coreml.supplied_converters.arguments import Call, Unfit
from modellint.destinations.coreml.supplied_converters.registration import adapts, builds, expresses

if TYPE_CHECKING:
    from modellint.destinations.coreml.supplied_converters.arguments import Dtype, Operand, Tensor


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


@expresses("unfold")
def unfold(x: Tensor, dimension: int, size: int, step: int) -> Any:
    """Sliding windows along an axis, with their elements along a new last one."""
    if x.dim() == 0:
        return x.reshape(1)
    dimension %= x.dim()
    count = (x.shape[dimension] - size) // step + 1
    places = torch.tensor([[window * step + at for at in range(size)] for window in range(count)])
    taken = torch.index_select(x, dimension, places.reshape(-1))
    taken = taken.reshape(*x.shape[:dimension], count, size, *x.shape[dimension + 1 :])
    return taken.movedim(dimension + 1, -1)


def _are_alike(arguments: dict[str, Any]) -> bool:
    x, other = arguments["x"], arguments["other"]
    return isinstance(x, Var) and isinstance(other, Var) and torch_type(x) == torch_type(other)


@expresses("where", ".scalarother", ".scalarself", ".scalar", ".self", unless=_are_alike)
def where(condition: Tensor, x: Operand, other: Operand) -> Any:
    """Selection by a condition; either side may be a number."""
    if isinstance(x, torch.Tensor) and isinstance(other, torch.Tensor):
        wanted = torch.result_type(x, other)
        return torch.where(condition, x.to(wanted), other.to(wanted))
    wanted = torch.result_type(*(side if isinstance(side, torch.Tensor) else torch.tensor(side) for side in (x, other)))
    if isinstance(x, torch.Tensor) or isinstance(other, torch.Tensor):
        wanted = torch.result_type(x, other)
    # A tensor without axes would be taken for a number again.
    ones = [1] * max(1, condition.dim())
    x = x.to(wanted) if isinstance(x, torch.Tensor) else torch.full(ones, x, dtype=wanted)
    other = other.to(wanted) if isinstance(other, torch.Tensor) else torch.full(ones, other, dtype=wanted)
    if list(x.shape) == list(other.shape) == ones != list(condition.shape) and wanted != torch.bool:
        # A choice between two numbers has no size of its own to coremltools where that of the condition is flexible.
        x = x - condition.to(wanted) * 0
    chosen = torch.where(condition, x, other)
    shapes = [side.shape for side in (x, other) if list(side.shape) != ones]
    shape = torch.broadcast_shapes(condition.shape, *shapes)  # type: ignore[no-untyped-call]
    return chosen if chosen.shape == shape else chosen.reshape(shape)


@expresses("native_channel_shuffle")
def native_channel_shuffle(x: Tensor, groups: int) -> Any:
    """Channel shuffle."""
    parts = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    return parts.transpose(1, 2).reshape(x.shape)


@expresses("mt")
def matrix_transposed(x: Tensor) -> Any:
    """Transposition of the last two axes."""
    return x.transpose(-2, -1)
