"""Rewrites: what chooses by a mask, reduces an axis of what was chosen, or puts it back, written for axes that are padded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from modellint.destinations.capture.static_padding.padding import Padding, argument
from modellint.destinations.capture.static_padding.sizes import UnknownUse, is_prefix

aten = torch.ops.aten
_LOWEST = -3.0e38
"""What no softmax sees."""
_REDUCTIONS: dict[Any, float] = {
    **dict.fromkeys((aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim), 0.0),
    **dict.fromkeys((aten.any.default, aten.any.dim), 0.0),
    **dict.fromkeys((aten.all.default, aten.all.dim), 1.0),
    **dict.fromkeys((aten.softmax.int, aten._softmax.default), _LOWEST),
    aten.amax.default: -math.inf,
    aten.amin.default: math.inf,
}
"""Reductions, each with the element that changes nothing."""


def places(padding: Padding, mask: Any, size: Any, length: int) -> Any:
    """Where a mask holds, in order, by its flat places; zeros behind that. ``size`` is how many there are, at most ``length``."""
    mask = padding.filled(mask, range(mask.meta["val"].dim()), 0.0)
    count = mask.meta["val"].numel()
    if not count or not length:
        raise UnknownUse("a mask without elements")
    flat = padding.new(aten.reshape.default, mask, [count])
    running = _running(padding, flat)
    padding.name(size, padding.new(aten.select.int, running, 0, count - 1))
    before, scratch = padding.new(aten.sub.Tensor, running, 1), padding.number(length, torch.int64)
    slots = padding.new(aten.clamp.default, padding.new(aten.where.self, flat, before, scratch), None, length)
    none = padding.new(aten.full.default, [length + 1], 0, dtype=torch.int64)
    every = padding.new(aten.arange.default, count, dtype=torch.int64)
    return padding.new(aten.slice.Tensor, padding.new(aten.scatter.src, none, 0, slots, every), 0, 0, length)


def _running(padding: Padding, flat: Any) -> Any:
    """How many truth values hold up to each place."""
    return padding.new(aten.cumsum.default, padding.new(aten._to_copy.default, flat, dtype=torch.int64), 0)


def _chosen(padding: Padding, node: Any) -> bool:
    """A choice by a mask: rows by their places."""
    x, given = node.args[0], node.args[1]
    indices = [given] if node.target is aten.masked_select.default else [*given]
    named = [(at, index) for at, index in enumerate(indices) if index is not None]
    if not any(index.meta["val"].dtype is torch.bool for _, index in named):
        return False
    if len(named) != 1:
        raise UnknownUse("a mask beside other indices")
    (lead, mask), shape = named[0], padding.shape(x)
    if given is mask and padding.shape(mask) != shape:
        x, mask = _of_one_shape(padding, x, mask)
        shape = padding.shape(x)
    rank = mask.meta["val"].dim()
    if padding.shape(mask) != shape[lead : lead + rank]:
        raise UnknownUse("a mask of another shape")
    size = padding.was(node).shape[lead]
    at = places(padding, mask, size, padding.bound(size))
    flat = padding.new(aten.reshape.default, x, [*shape[:lead], mask.meta["val"].numel(), *shape[lead + rank :]])
    rows = padding.new(aten.index_select.default, flat, lead, at)
    if not rows.meta["val"].dtype.is_floating_point:
        # What is looked up by them has a place 0.
        padding.is_like(rows, node)
        rows = padding.filled(rows, [lead], 0.0)
    padding.replace(node, rows)
    return True


def _of_one_shape(padding: Padding, x: Any, mask: Any) -> tuple[Any, Any]:
    """A tensor and what chooses of it, broadcast against each other."""
    shapes = [padding.shape(x), padding.shape(mask)]
    if not all(isinstance(size, int) for shape in shapes for size in shape):
        raise UnknownUse("a mask of another shape")
    wanted = [*torch.broadcast_shapes(*shapes)]  # type: ignore[no-untyped-call]
    spread = [
        each if [*shape] == wanted else padding.new(aten.expand.default, each, wanted)
        for each, shape in zip((x, mask), shapes, strict=True)
    ]
    return spread[0], spread[1]


def _nonzero(padding: Padding, node: Any) -> bool:
    """The places of what is not zero, each in a row."""
    columns = _coordinates(padding, node.args[0], padding.was(node).shape[0])
    padding.replace(node, padding.new(aten.stack.default, columns, 1))
    return True


def _where(padding: Padding, node: Any) -> bool:
    """The places of what is not zero, by axes."""
    columns = _coordinates(padding, node.args[0], padding.was(node)[0].shape[0])
    for part in list(node.users):
        padding.replace(part, padding.new(aten.alias.default, columns[part.args[1]]))
    padding.graph.erase_node(node)
    return True


def _coordinates(padding: Padding, x: Any, size: Any) -> list[Any]:
    """By axis the places of what is not zero, of which there are ``size``."""
    mask, shape = x, padding.shape(x)
    if padding.axes(x) or not shape:
        raise UnknownUse("places in what a mask chose")
    if x.meta["val"].dtype is not torch.bool:
        mask = padding.new(aten.ne.Scalar, x, 0)
    left = places(padding, mask, size, padding.bound(size))
    columns = []
    for axis in range(len(shape)):
        step = math.prod(shape[axis + 1 :])
        whole = left if step == 1 else padding.new(aten.div.Tensor_mode, left, step, rounding_mode="floor")
        columns.append(whole)
        if step != 1:
            left = padding.new(aten.sub.Tensor, left, padding.new(aten.mul.Tensor, whole, step))
    return columns


def _masked_scatter(padding: Padding, node: Any) -> bool:
    """Elements in their order put where a mask holds: whole rows, where it is a mask of rows."""
    x, mask, source = node.args
    if padding.axes(x) or padding.axes(mask) or not is_prefix(padding.was(source).shape):
        raise UnknownUse("what is put is not in front")
    shape, rows = padding.shape(x), _mask_of_rows(mask)
    rank = rows.meta["val"].dim()
    if shape[:rank] != padding.shape(rows) or padding.shape(source)[1:] != shape[rank:]:
        rows = padding.new(aten.expand.default, mask, shape)
        source = padding.new(aten.reshape.default, source, [source.meta["val"].numel()])
    padding.replace(node, _put(padding, x, rows, source))
    return True


def _mask_of_rows(mask: Any) -> Any:
    """A mask without the axes at its end over which it is the same; the mask itself if there are none."""
    node = mask
    while node.target in (aten.expand.default, aten.unsqueeze.default, aten._to_copy.default, aten.clone.default):
        source = node.args[0]
        now, before = node.meta["val"], source.meta["val"]
        if before.dtype is not torch.bool:
            break
        if node.target is aten.unsqueeze.default:
            return source if node.args[1] % now.dim() == now.dim() - 1 else mask
        if now.shape[:-1] != before.shape[:-1]:
            break
        node = source
    return mask


def _put(padding: Padding, x: Any, mask: Any, rows: Any) -> Any:
    """``x`` with rows, in their order, where a mask of its first axes holds."""
    shape, rank = padding.shape(x), mask.meta["val"].dim()
    if rows.meta["val"].dtype is not x.meta["val"].dtype or not rows.meta["val"].shape[0]:
        raise UnknownUse("rows of another type, or none")
    running = _running(padding, padding.new(aten.reshape.default, mask, [mask.meta["val"].numel()]))
    before = padding.new(aten.sub.Tensor, running, 1)
    at = padding.new(aten.clamp.default, before, 0, rows.meta["val"].shape[0] - 1)
    taken = padding.new(aten.reshape.default, padding.new(aten.index_select.default, rows, 0, at), shape)
    where = padding.new(aten.reshape.default, mask, [*shape[:rank], *[1] * (len(shape) - rank)])
    return padding.new(aten.where.self, where, taken, x)


def _index_put(padding: Padding, node: Any) -> bool:
    """An assignment to what a mask chooses, or to places that it tells."""
    x, indices, values = node.args[:3]
    if padding.axes(x) or any(index is None for index in indices):
        raise UnknownUse("an assignment to some axes, or to what a mask chose")
    is_mask = len(indices) == 1 and indices[0].meta["val"].dtype is torch.bool
    if not is_mask:
        return _put_at(padding, node)
    rest = padding.shape(x)[indices[0].meta["val"].dim() :]
    if argument(node, "accumulate") or 0 not in padding.axes(values) or padding.shape(values)[1:] != rest:
        raise UnknownUse("an assignment of what is broadcast")
    padding.replace(node, _put(padding, x, indices[0], values))
    return True


def _put_at(padding: Padding, node: Any) -> bool:
    """An assignment or addition at places: those that are not there are one behind the last."""
    x, indices, values = node.args[:3]
    if any(padding.was(index).dim() != 1 or not padding.axes(index) for index in indices):
        raise UnknownUse("an assignment to more than one list of places")
    shape, count = padding.shape(x), min(index.meta["val"].shape[0] for index in indices)
    lead, rest = shape[: len(indices)], shape[len(indices) :]
    at: Any = None
    for index, extent in zip(indices, lead, strict=True):
        index = padding.cut(index, 0, count)
        is_negative, turned = padding.new(aten.lt.Scalar, index, 0), padding.new(aten.add.Tensor, index, extent)
        index = padding.new(aten.where.self, is_negative, turned, index)
        at = index if at is None else padding.new(aten.add.Tensor, padding.new(aten.mul.Tensor, at, extent), index)
    rows = math.prod(lead)
    there = padding.valid(padding.was(indices[0]).shape[0], count)
    at = padding.new(aten.where.self, there, at, padding.number(rows, torch.int64))
    flat = padding.new(aten.reshape.default, x, [rows, *rest])
    longer = padding.new(aten.cat.default, [flat, padding.new(aten.new_zeros.default, flat, [1, *rest])])
    values = padding.cut(values, 0, count) if 0 in padding.axes(values) else values
    given = padding.new(aten.clone.default, padding.new(aten.expand.default, values, [count, *rest]))
    put = padding.new(aten.index_put.default, longer, [at], given, argument(node, "accumulate"))
    padding.replace(node, padding.new(aten.reshape.default, padding.new(aten.slice.Tensor, put, 0, 0, rows), shape))
    return True


def _index_add(padding: Padding, node: Any) -> bool:
    """Rows added at places: those that are not there are zeros."""
    x, dim, index, source = node.args[:4]
    dim %= padding.was(source).dim()
    if padding.axes(x) or padding.axes(source) - {dim}:
        raise UnknownUse("an addition to what a mask chose")
    count = min(index.meta["val"].shape[0], source.meta["val"].shape[dim])
    index, source = padding.cut(index, 0, count), padding.cut(source, dim, count)
    if index.meta["val"].shape[0] != source.meta["val"].shape[dim]:
        raise UnknownUse("operands of different sizes")
    zeros = padding.filled(source, [dim], 0.0)
    padding.replace(node, padding.new(aten.index_add.default, x, dim, index, zeros, **node.kwargs))
    return True


def _reduction(padding: Padding, node: Any) -> bool:
    """A reduction: over what is there."""
    x, named = node.args[0], argument(node, "dim")
    was = padding.was(x)
    along = [named] if isinstance(named, int) else named or range(was.dim())
    along = [axis % was.dim() for axis in along]
    over = [axis for axis in along if axis in padding.axes(x)]
    if not over:
        padding.again(node)
        return True
    filled = padding.filled(x, over, _REDUCTIONS[node.target])
    if node.target not in (aten.mean.default, aten.mean.dim):
        padding.replace(node, padding.new(node.target, filled, *node.args[1:], **node.kwargs))
        return True
    if len(over) != 1:
        raise UnknownUse("a mean over two such sizes")
    dtype = padding.was(node).dtype
    total = padding.new(aten.sum.dim_IntList, filled, along, bool(argument(node, "keepdim")), dtype=dtype)
    count = padding.new(aten._to_copy.default, padding.count(was.shape[over[0]]), dtype=dtype)
    others = math.prod(x.meta["val"].shape[axis] for axis in along if axis not in over)
    count = padding.new(aten.mul.Tensor, count, others)
    padding.replace(node, padding.new(aten.div.Tensor, total, count))
    return True


def _product(padding: Padding, node: Any) -> bool:
    """A matrix product: zeros stand behind what is summed over."""
    first, second = node.args[1:3] if node.target is aten.addmm.default else node.args[:2]
    summed = padding.was(first).dim() - 1, max(padding.was(second).dim() - 2, 0)
    if first.meta["val"].shape[summed[0]] != second.meta["val"].shape[summed[1]]:
        raise UnknownUse("operands of different sizes")
    if first is second and padding.axes(first):
        raise UnknownUse("a product with itself")
    padding.filled_operand(node, first, summed[0])
    padding.filled_operand(node, second, summed[1])
    padding.again(node)
    return True


def _joint(padding: Padding, node: Any) -> bool:
    """A concatenation: along such an axis, what is there is moved to the front."""
    parts: Sequence[Any] = node.args[0]
    dim = argument(node, "dim") % padding.was(node).dim()
    of_values = [part for part in parts if dim in padding.axes(part)]
    if not of_values or of_values == [parts[-1]]:
        # Behind the last there is no other.
        padding.again(node)
        return True
    if any(padding.axes(part) - {dim} for part in parts):
        raise UnknownUse("a concatenation of two such sizes")
    lengths = [padding.shape(part)[dim] for part in parts]
    there = [
        padding.valid(padding.was(part).shape[dim], length)
        if part in of_values
        else padding.new(aten.full.default, [length], True, dtype=torch.bool)
        for part, length in zip(parts, lengths, strict=True)
    ]
    size = padding.was(node).shape[dim]
    at = places(padding, padding.new(aten.cat.default, there), size, padding.fixed(size) or sum(lengths))
    padding.replace(node, padding.new(aten.index_select.default, padding.new(aten.cat.default, [*parts], dim), dim, at))
    return True


def _split(padding: Padding, node: Any) -> bool:
    """A split: into one part, or into parts whose sizes are values, each moved to the front of its own."""
    x, lengths = node.args[:2]
    dim = argument(node, "dim") % padding.was(x).dim()
    if len(lengths) == 1:
        parts = [padding.new(aten.alias.default, x)]
    elif any(isinstance(length, torch.fx.Node) for length in lengths):
        parts = _parts(
            padding, x, dim, [padding.was(each) if isinstance(each, torch.fx.Node) else each for each in lengths]
        )
    else:
        return False
    for user in list(node.users):
        padding.replace(user, padding.new(aten.alias.default, parts[user.args[1]]))
    padding.graph.erase_node(node)
    return True


def _parts(padding: Padding, x: Any, dim: int, lengths: Sequence[Any]) -> list[Any]:
    """The rows of each part of a split. PyTorch raises where they are not as many as all rows."""
    whole = padding.shape(x)[dim]
    if dim in padding.axes(x):
        for length in lengths:
            padding.limit(length, whole)
    else:
        padding.fix(sum(lengths), whole)
    before, parts = padding.number(0, torch.int64), []
    for length in lengths:
        at = padding.new(aten.arange.default, padding.bound(length), dtype=torch.int64)
        at = padding.new(aten.clamp.default, padding.new(aten.add.Tensor, at, before), None, whole - 1)
        parts.append(padding.new(aten.index_select.default, x, dim, at))
        count = padding.number(length, torch.int64) if isinstance(length, int) else padding.count(length)
        before = padding.new(aten.add.Tensor, before, count)
    return parts


REWRITES: dict[Any, Callable[[Padding, Any], bool]] = {
    **dict.fromkeys((aten.index.Tensor, aten.masked_select.default), _chosen),
    aten.nonzero.default: _nonzero,
    **dict.fromkeys((aten.where.default, aten.nonzero_numpy.default), _where),
    aten.masked_scatter.default: _masked_scatter,
    aten.index_put.default: _index_put,
    aten.index_add.default: _index_add,
    **dict.fromkeys((aten.cat.default, aten.concat.default, aten.concatenate.default), _joint),
    aten.split_with_sizes.default: _split,
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys((aten.mm.default, aten.bmm.default, aten.matmul.default, aten.addmm.default), _product),
}
"""By operator what writes a use of it anew: whether it did. Each raises `UnknownUse`."""
