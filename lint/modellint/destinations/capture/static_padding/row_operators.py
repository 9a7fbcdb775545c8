"""Operators that give the same in front, whatever stands behind: they are left as they are."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import torch

from modellint.destinations.capture.static_padding.padding import Padding, argument
from modellint.destinations.capture.static_padding.sizes import SYMBOLS, UnknownUse, equal, is_prefix

aten = torch.ops.aten

_SIZES = {
    *(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.expand.default),
    *(aten.full.default, aten.zeros.default, aten.ones.default, aten.empty.memory_format, aten.arange.default),
    *(aten.new_zeros.default, aten.new_ones.default, aten.new_full.default, aten.new_empty.default),
    *(aten.arange.start, aten.arange.start_step, aten.slice.Tensor, aten.split_with_sizes.default),
}
"""Operators that take sizes; an operand of another operator is a number, which no bound stands for."""
_NUMBERS = ("fill_value", "start", "step")
"""Operands of these that are numbers all the same."""
_ALIKE = {
    *(aten.clone.default, aten.contiguous.default, aten.alias.default, aten.detach.default),
    *(aten._to_copy.default, aten.to.dtype, aten.to.dtype_layout, aten.to.device, aten.type_as.default),
    *(aten.permute.default, aten.transpose.int, aten.t.default, aten.unsqueeze.default, aten.expand.default),
    *(aten.zeros_like.default, aten.ones_like.default, aten.full_like.default, aten.empty_like.default),
    *(aten.new_zeros.default, aten.new_ones.default, aten.new_full.default, aten.new_empty.default),
    *(aten.cumsum.default, aten.cumprod.default, aten.stack.default, operator.getitem),
}
"""Operators that give each element by its own place, or by what stands before it."""
_IN_PLACE = {
    *(aten.unsqueeze.default, aten._to_copy.default, aten.to.dtype, aten.to.dtype_layout, aten.to.device),
    *(aten.clone.default, aten.alias.default, aten.detach.default),
}
"""Operators of which each element is an element of the operand, in its place along its axis."""
_ALONG_AXES = {
    *(aten.squeeze.dim, aten.squeeze.dims, aten.unbind.int, aten.flip.default, aten.roll.default, aten.unfold.default),
    *(aten.split.Tensor, aten.chunk.default, aten.split_with_sizes.default, aten.sort.default, aten.topk.default),
    *(aten.log_softmax.int, aten._log_softmax.default, aten.glu.default, aten.linalg_vector_norm.default),
    *(aten.var.dim, aten.var.correction, aten.std.correction, aten.argmax.default, aten.argmin.default),
    *(aten.max.dim, aten.min.dim, aten.prod.dim_int),
}
"""Operators that work along the axes which they name."""


def check(padding: Padding, node: Any) -> None:
    """Raise `UnknownUse` if an operator may give something else in front by what stands behind."""
    target = node.target
    if any(isinstance(padding.was(each), SYMBOLS) for each in node.all_input_nodes):
        if target not in _SIZES:
            raise UnknownUse("a size is an operand")
        if any(isinstance(argument(node, name), torch.fx.Node) for name in _NUMBERS):
            raise UnknownUse("a size is a number")
    if target in _SIZES and not any(map(padding.axes, node.all_input_nodes)):
        return
    if target in _ALIKE or _is_elementwise(target):
        padding.align(node)
        return
    if target in _ALONG_AXES and _names_others(padding, node):
        return
    if target not in _BY_OPERANDS or not _BY_OPERANDS[target](padding, node):
        raise UnknownUse(f"{target} of rows that a mask chooses")


_UNTAGGED = {
    *(aten.__and__.Tensor, aten.__and__.Scalar, aten.__or__.Tensor, aten.__or__.Scalar),
    *(aten.__xor__.Tensor, aten.__xor__.Scalar),
    *(aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar),
}
"""Element by element as well, and without PyTorch's tag of that."""


def _is_elementwise(target: Any) -> bool:
    """Whether an operator is element by element, and not at random."""
    tags = getattr(target, "tags", ())
    if target in _UNTAGGED:
        return True
    return torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags


def _names_others(padding: Padding, node: Any) -> bool:
    """Whether the axes that are named have no such size."""
    named = argument(node, "dim" if argument(node, "dims") is None else "dims")
    named = argument(node, "dimension") if named is None else named
    rank = padding.was(node.args[0]).dim()
    along = named if isinstance(named, (list, tuple)) else [named]
    return bool(along) and all(
        isinstance(axis, int) and axis % rank not in padding.axes(node.args[0]) for axis in along
    )


def _others_are_static(padding: Padding, node: Any) -> bool:
    return not any(padding.axes(each) for each in node.all_input_nodes if each is not node.args[0])


def _views(padding: Padding, node: Any) -> bool:
    """Whether what is there keeps its order: before and after, nothing longer stands before such a size among the axes that change."""
    before, after = list(padding.was(node.args[0]).shape), list(padding.was(node).shape)
    while before and after and equal(before[0], after[0]):
        before, after = before[1:], after[1:]
    return is_prefix(before) and is_prefix(after)


def _slices(padding: Padding, node: Any) -> bool:
    """A slice up to the end, or up to any size, of such an axis; any slice of another."""
    x, end = node.args[0], argument(node, "end")
    start = argument(node, "start") or 0
    if argument(node, "dim") % padding.was(x).dim() not in padding.axes(x) and isinstance(start, int):
        return True
    reaches_end = end is None or isinstance(end, torch.fx.Node) or end == sys.maxsize
    return isinstance(start, int) and start >= 0 and argument(node, "step") == 1 and reaches_end


def _selects(padding: Padding, node: Any) -> bool:
    """One place of another axis, or counted from the front."""
    x, index = node.args[0], node.args[2]
    return isinstance(index, int) and (index >= 0 or node.args[1] % padding.was(x).dim() not in padding.axes(x))


def _in_batch(padding: Padding, node: Any) -> bool:
    """Whether only the first axis is of such a size, and its rows do not know of each other."""
    if node.target is aten.batch_norm.default and argument(node, "training"):
        return False
    return padding.axes(node.args[0]) <= {0} and _others_are_static(padding, node)


def _not_last(padding: Padding, node: Any) -> bool:
    """Whether the axes at the end, over which is normalised or multiplied, have no such size."""
    x, shape = node.args[0], argument(node, "normalized_shape")
    end = padding.was(x).dim() - (1 if shape is None else len(shape))
    return _others_are_static(padding, node) and all(axis < end for axis in padding.axes(x))


def _attends(padding: Padding, node: Any) -> bool:
    """Whether keys and what is in a head have no such size; queries, heads and batches may."""
    if argument(node, "dropout_p") or argument(node, "is_causal"):
        return False
    q, k, v = node.args[:3]
    ends = {q: 1, k: 2, v: 2}
    return all(max(padding.axes(each), default=-1) < padding.was(each).dim() - end for each, end in ends.items())


def _looks_up(padding: Padding, node: Any) -> bool:
    """Whether what is looked up in has no such size along axes that are indexed."""
    x = node.args[0]
    if node.target is aten.index.Tensor:
        indices = [index for index in node.args[1] if index is not None]
        padding.align(node, indices)
        indexed = {at: index for at, index in enumerate(node.args[1]) if index is not None}
        sizes = padding.was(x).shape
        return all(_counts(padding, indexed[at], sizes[at]) for at in indexed.keys() & padding.axes(x))
    if node.target is aten.index_select.default:
        return node.args[1] % padding.was(x).dim() not in padding.axes(x)
    return not padding.axes(x)


def _counts(padding: Padding, index: Any, size: Any) -> bool:
    """Whether an index counts the rows of such an axis, each in its place: what stands in front reads what stands in front."""
    while index.target in _IN_PLACE:
        index = index.args[0]
    return index.target is aten.arange.default and equal(padding.was(index).shape[0], size)


def _pads(padding: Padding, node: Any) -> bool:
    """Whether no such axis is padded."""
    x = node.args[0]
    first = padding.was(x).dim() - len(node.args[1]) // 2
    return all(axis < first for axis in padding.axes(x))


def _between_static_ends(padding: Padding, node: Any) -> bool:
    """Whether the boundaries are as many as are known: rows behind the last would not be in order."""
    return not padding.axes(node.args[1])


def _without_chance(padding: Padding, node: Any) -> bool:
    return not argument(node, "train")


_BY_OPERANDS: dict[Any, Callable[[Padding, Any], bool]] = {
    **dict.fromkeys((aten.view.default, aten.reshape.default, aten._unsafe_view.default), _views),
    aten.slice.Tensor: _slices,
    aten.select.int: _selects,
    **dict.fromkeys((aten.linear.default, aten.layer_norm.default, aten.rms_norm.default), _not_last),
    **dict.fromkeys(
        (
            *(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.convolution.default),
            *(aten.conv1d.padding, aten.conv2d.padding, aten.conv3d.padding, aten.pixel_shuffle.default),
            *(aten.group_norm.default, aten.batch_norm.default, aten.max_pool2d.default, aten.avg_pool2d.default),
            *(aten.adaptive_avg_pool2d.default, aten.upsample_bilinear2d.vec, aten.upsample_nearest2d.vec),
        ),
        _in_batch,
    ),
    aten.scaled_dot_product_attention.default: _attends,
    **dict.fromkeys(
        (aten.embedding.default, aten.index.Tensor, aten.index_select.default, aten.gather.default), _looks_up
    ),
    **dict.fromkeys((aten.constant_pad_nd.default, aten.pad.default), _pads),
    aten.dropout.default: _without_chance,
    aten.bucketize.Tensor: _between_static_ends,
}
