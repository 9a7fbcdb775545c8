"""Gather, scatter, sort and other operators that take or put elements by index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.private.operator_tables import (
    cast_to,
    is_boolean,
    is_integral,
    is_symbolic,
    mb,
)
from modellint.destinations.coreml.supplied_converters.arguments import Call, Unfit
from modellint.destinations.coreml.supplied_converters.registration import adapts, builds
from modellint.destinations.decompositions.table import within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Operand, Tensor

_MODES = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
_NEUTRAL = {"sum": 0.0, "prod": 1.0, "amax": -np.inf, "amin": np.inf}


def _scattered(x: Any, dim: int, index: Any, src: Any, mode: str) -> Any:
    """Scatter along an axis; of constants the result itself, which coremltools folds as the last update.

    Indices may be fewer than the data along other axes, and updates more than the indices. Raises ``Unfit`` where it depends on a
    size that is not known whether they are.
    """
    if not x.shape:
        raise Unfit("a tensor without axes")
    if is_boolean(x):
        return mb.cast(x=_scattered(cast_to(x, torch.int32), dim, index, src, mode), dtype="bool")
    dim %= len(x.shape)
    if _fewer(index, src):
        src = mb.slice_by_size(x=src, begin=[0] * len(src.shape), size=[int(size) for size in index.shape])
    if src.dtype != x.dtype:
        src = cast_to(src, operator_tables.torch_type(x))
    if all(operand.val is not None for operand in (x, index, src)):
        return mb.const(val=_folded(x.val, dim, index.val, src.val, mode))
    if any(not is_symbolic(size) and size == 0 for size in index.shape):
        return mb.identity(x=x)
    return _scattered_in_box(x, dim, index, src, mode, [axis for axis in _fewer(index, x) if axis != dim])


def _scattered_in_box(x: Any, dim: int, index: Any, src: Any, mode: str, axes: list[int]) -> Any:
    """Scatter into the first elements along ``axes``, as many as there are indices, with the others behind them."""
    if not axes:
        return mb.scatter_along_axis(data=x, indices=index, updates=src, axis=dim, mode=mode)
    axis, *rest = axes
    sizes = [int(index.shape[axis]), -1]
    begins = [[at if other == axis else 0 for other in range(len(x.shape))] for at in (0, sizes[0])]
    first, others = (
        mb.slice_by_size(x=x, begin=begin, size=[size if other == axis else -1 for other in range(len(x.shape))])
        for begin, size in zip(begins, sizes, strict=True)
    )
    return mb.concat(values=[_scattered_in_box(first, dim, index, src, mode, rest), others], axis=axis)


def _fewer(few: Any, many: Any) -> list[int]:
    """The axes along which one tensor has fewer elements than another. Raises ``Unfit`` where that is not known before a run."""
    pairs = list(zip(few.shape, many.shape, strict=True))
    if any(left != right and (is_symbolic(left) or is_symbolic(right)) for left, right in pairs):
        raise Unfit("a size is not known before a run")
    return [axis for axis, (left, right) in enumerate(pairs) if left != right]


def _folded(x: Any, dim: int, index: Any, src: Any, mode: str) -> Any:
    data, places, updates = torch.tensor(x), torch.tensor(index).long(), torch.tensor(src)
    if mode == "update":
        return data.scatter(dim, places, updates).numpy()
    (reduction,) = (name for name, one in _MODES.items() if one == mode)
    return data.scatter_reduce(dim, places, updates, reduction).numpy()


def _is_plain(x: Any, dim: int, index: Any, src: Any) -> bool:
    """Whether coremltools converts a scatter of updates: of one type with the data, with as many indices as both have elements."""
    others = [axis for axis in _fewer(index, x) if axis != dim % len(x.shape)] if x.shape else []
    return not is_boolean(x) and x.dtype == src.dtype and not others and not _fewer(index, src)


@builds("scatter", ".src", ".value")
def scatter(x: Tensor, dim: int, index: Tensor, src: Operand) -> Any:
    """Scatter of updates or of one number, in the data's type; coremltools takes neither truth values nor fewer indices than data."""
    if isinstance(src, operator_tables.Var):
        if _is_plain(x, dim, index, src):
            return NotImplemented
        return _scattered(x, dim, index, src, "update")
    return _scattered(x, dim, index, _everywhere(x, index, src), "update")


def _everywhere(x: Any, index: Any, value: float) -> Any:
    """One number, in the data's type, for each index."""
    like = cast_to(x, torch.int32) if is_boolean(x) else x
    is_flexible = any(map(is_symbolic, index.shape))
    number = bool(value) if is_boolean(x) else value
    return operator_tables.full(mb.shape(x=index) if is_flexible else np.array(index.shape), number, None, like)


@builds("scatter", ".reduce", ".value_reduce", exactness=within(4))
def scatter_with(x: Tensor, dim: int, index: Tensor, src: Operand, reduce: str) -> Any:
    """Scatter with a sum or a product of what is there and what is put."""
    mode = {"add": "add", "multiply": "mul"}.get(reduce)
    if mode is None:
        raise Unfit(f"the reduction {reduce}")
    is_tensor = isinstance(src, operator_tables.Var)
    updates = src if is_tensor else _everywhere(x, index, src)
    return _scattered(x, dim, index, updates, mode)


@builds("scatter_add", exactness=within(4))
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    """Scatter with addition; coremltools loses updates where everything is constant."""
    if any(operand.val is None for operand in (x, index, src)) and _is_plain(x, dim, index, src):
        return NotImplemented
    return _scattered(x, dim, index, src, "add")


@builds("scatter_reduce", ".two", exactness=within(4))
def scatter_reduce(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool = True) -> Any:
    """Scatter with a reduction: sum, product, maximum, minimum, or of floats their mean."""
    if reduce == "mean" and not is_integral(x) and not is_boolean(x):
        return _averaged(x, dim, index, src, include_self)
    if reduce not in _MODES:
        raise Unfit(f"the reduction {reduce}")
    if not include_self:
        if is_integral(x) and not np.isfinite(_NEUTRAL[reduce]):
            raise Unfit(f"the reduction {reduce} of integers without those that are there")
        x = _scattered(x, dim, index, _everywhere(x, index, _NEUTRAL[reduce]), "update")
    return _scattered(x, dim, index, src, _MODES[reduce])


def _averaged(x: Any, dim: int, index: Any, src: Any, include_self: bool) -> Any:
    """The sum of what is put over how many there are."""
    one, start = _everywhere(x, index, 1.0), 1.0 if include_self else 0.0
    count = _scattered(_everywhere(x, x, start), dim, index, one, "add")
    total = _scattered(x if include_self else _everywhere(x, x, 0.0), dim, index, src, "add")
    if include_self:
        return mb.real_div(x=total, y=count)
    mean = mb.real_div(x=total, y=mb.maximum(x=count, y=np.float32(1.0)))
    return mb.select(cond=mb.equal(x=count, y=np.float32(0.0)), a=x, b=mean)


@builds("masked_select")
def masked_select(x: Tensor, mask: Tensor) -> Any:
    """Elements at which a mask holds."""
    truths = is_boolean(x)
    x = mb.cast(x=x, dtype="int32") if truths else x
    numbers = mb.cast(x=mask, dtype="fp32")
    if tuple(x.shape) != tuple(mask.shape):
        if any(is_symbolic(size) for size in (*x.shape, *mask.shape)):
            raise Unfit("a mask of another shape")
        shape = [int(size) for size in np.broadcast_shapes(tuple(x.shape), tuple(mask.shape))]
        x, numbers = _spread(x, shape), _spread(numbers, shape)
    places = mb.squeeze(x=mb.non_zero(x=mb.reshape(x=numbers, shape=[-1])), axes=[1])
    chosen = mb.gather(x=mb.reshape(x=x, shape=[-1]), indices=places, axis=0)
    return mb.cast(x=chosen, dtype="bool") if truths else chosen


def _spread(x: Any, shape: list[int]) -> Any:
    """A tensor repeated to a shape that it can be broadcast to."""
    own = [1] * (len(shape) - len(x.shape)) + [int(size) for size in x.shape]
    times = [wanted if size == 1 else 1 for size, wanted in zip(own, shape, strict=True)]
    return mb.tile(x=mb.reshape(x=x, shape=own), reps=times)


@adapts("sort", ".stable")
def sort(call: Call) -> Any:
    """Sorted elements and their indices; Core ML's order is stable."""
    return _in_order(call, "sort", 2)


@adapts("argsort", ".stable")
def argsort(call: Call) -> Any:
    """Indices in sorted order; Core ML's order is stable."""
    return _in_order(call, "argsort", 1)


def _in_order(call: Call, name: str, outputs: int) -> Any:
    """coremltools' own conversion, without the argument ``stable``, which it does not read."""
    args, kwargs = call.args, call.kwargs
    if operator_tables.is_export(call.context):
        if "stable" not in kwargs:
            return NotImplemented
        dim, descending = kwargs.get("dim", -1), kwargs.get("descending", False)
    elif len(args) == 4:
        dim, descending = args[2:]
    else:
        return NotImplemented
    results = operator_tables.converted_as(call.context, call.node, name, [args[0], dim, descending], outputs)
    return results[0] if outputs == 1 else tuple(results)


@builds("flip")
def flip(x: Tensor, dims: list[int]) -> Any:
    """Constant flipped along axes, contiguous in memory; PyTorch does not read coremltools' own. A scalar stays as it is."""
    if not x.shape:
        return mb.identity(x=x)
    if x.val is None:
        return NotImplemented
    return mb.const(val=np.ascontiguousarray(np.flip(x.val, dims)))


@adapts("topk")
def topk(call: Call) -> Any:
    """The k largest elements, sorted where no order is asked for."""
    arguments = dict(zip(("k", "dim", "largest", "sorted"), call.args[1:], strict=False)) | call.kwargs
    ordered = arguments.get("sorted", True)
    if bool(ordered.val if isinstance(ordered, operator_tables.Var) else ordered):
        return NotImplemented
    inputs = [call.args[0], arguments["k"], arguments.get("dim", -1), arguments.get("largest", True), True]
    return tuple(operator_tables.converted_as(call.context, call.node, "topk", inputs, 2))
