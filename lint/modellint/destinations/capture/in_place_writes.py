"""In-place writes of an exported program that is not functional yet, and those to views, which may be new values instead."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.export.graph_signature import TensorArgument

from modellint.destinations.capture.static_padding.sizes import is_of_values

aten = torch.ops.aten
_PARTING = {
    *(aten.chunk.default, aten.split.Tensor, aten.split.sizes, aten.split_with_sizes.default, aten.unbind.int),
    operator.getitem,
}
"""Operators whose results are parts that have no element in common, if those of the operand have not."""
_VIEWS = _PARTING | {
    *(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.flatten.using_ints),
    *(aten.unflatten.int, aten.permute.default, aten.transpose.int, aten.t.default, aten.unsqueeze.default),
    *(aten.squeeze.dim, aten.squeeze.dims, aten.alias.default, aten.detach.default, aten.slice.Tensor, aten.select.int),
    *(aten.movedim.int, aten.movedim.intlist, aten.swapaxes.default, aten.mT.default, aten.numpy_T.default),
}
"""Operators that give a view, or a copy, in which each element is there once."""
_FRESH = {
    *(aten.linear.default, aten.matmul.default, aten.mm.default, aten.bmm.default, aten.addmm.default),
    *(aten.baddbmm.default, aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.conv1d.padding),
    *(aten.conv2d.padding, aten.conv3d.padding, aten.layer_norm.default, aten.rms_norm.default),
    *(aten.group_norm.default, aten.batch_norm.default, aten.embedding.default, aten.softmax.int),
    *(aten.scaled_dot_product_attention.default, aten.cat.default, aten.stack.default, aten.clone.default),
    *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.relu.default, aten.gelu.default),
    *(aten.silu.default, aten.tanh.default, aten.sigmoid.default, aten.bitwise_not.default, aten.gt.Scalar),
    *(aten.lt.Scalar, aten.ge.Scalar, aten.le.Scalar, aten.eq.Scalar, aten.ne.Scalar, aten.where.self),
    *(aten.masked_fill.Scalar, aten.masked_fill.Tensor),
    *(aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.amax.default, aten.amin.default),
}
"""Operators that give new memory, in which each element is there once: some give their operand without their schema saying so."""
_MOST = 200
"""So many writes are looked at; in a loop over elements each is looked for among all."""


def is_written(node: Any) -> bool:
    """Whether a tensor, or a view of it, is written in place, or may be by a program within the program."""
    for user in node.users:
        if isinstance(user.target, HigherOrderOperator):
            return True
        schema = getattr(user.target, "_schema", None)
        if schema is None or all(argument.alias_info is None for argument in schema.arguments):
            continue
        if schema.is_mutable or is_written(user):
            return True
    return False


def writes_a_turned_view(node: Any) -> bool:
    """Whether an operator writes in place to a tensor whose elements lie in memory in another order than its own.

    PyTorch makes a program functional by computing what such a view is of anew, with `view`, and may raise: "Cannot view a tensor
    with shape …" (torch 2.13, 2.14; `rearrange(v, "b n (h d) -> b h n d").masked_fill_(mask, 0.)`).
    """
    if _out_of_place(node) is None:
        return False
    written = node.args[0]
    value = written.meta.get("val") if isinstance(written, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or written.op != "call_function" or is_of_values(value):
        # How elements lie in memory that has so many rows as values say cannot be asked.
        return False
    return not value.is_contiguous()


def to_new_values(program: Any) -> None:
    """Let what is written in place to such a view be a new value, where that memory is read by nothing else afterwards."""
    graph = program.graph
    writes = list(filter(writes_a_turned_view, graph.nodes))
    if not 0 < len(writes) <= _MOST:
        return
    order = {node: at for at, node in enumerate(graph.nodes)}
    changed = False
    for node in writes:
        if _is_last_reader(node, order):
            changed |= _written_anew(program, node, order)
    if changed:
        program.graph_module.recompile()


def _out_of_place(node: Any) -> Any:
    """The operator that gives what one writes in place to its first operand alone; None where there is none."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable or not schema.name.endswith("_"):
        return None
    written = [argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write]
    if written != [schema.arguments[0].name] or not node.args:
        return None
    namespace, _, name = schema.name.removesuffix("_").partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return getattr(packet, schema.overload_name or "default", None)


def _is_view(node: Any) -> bool:
    """Whether what a node gives is known to be a view of its first operand, or that operand, written to."""
    return node.target in _VIEWS or _out_of_place(node) is not None


def _views_of(base: Any, path: list[Any]) -> Iterator[Any]:
    """A node, and all that may be views of the memory of the last of a path of views: not what another part of a split is."""
    left = [base]
    while left:
        node = left.pop()
        yield node
        for user in node.users:
            if not _is_view(user) or user.all_input_nodes[0] is not node:
                continue
            is_other_part = user.target is operator.getitem and node in path and user not in path
            if not is_other_part:
                left.append(user)


def _is_last_reader(node: Any, order: dict[Any, int]) -> bool:
    """Whether what a node writes to is read afterwards as that tensor, or through views that are made of it then, alone.

    All that is known of: where something else is made of that memory before, or it is not known to be new, the write stays.
    """
    base = node.args[0]
    path = [base]
    while _is_view(base):
        base = base.all_input_nodes[0]
        path.append(base)
    if base.target not in _FRESH:
        # An input, what the model holds, and what may share its memory.
        return False
    now = order[node]
    for view in _views_of(base, path):
        if view is node.args[0] or order[view] >= now:
            readers = [user for user in view.users if order[user] < now]
        else:
            readers = list(view.users)
            if any(order[user] > now for user in readers):
                return False
        if not all(_is_view(user) or user.target in _FRESH for user in readers if user is not node):
            return False
    return True


def _written_anew(program: Any, node: Any, order: dict[Any, int]) -> bool:
    """Put the value in the place of the write; whether it has the same type and shape."""
    target, written = _out_of_place(node), node.args[0]
    was = written.meta["val"]
    try:
        operands = torch.fx.node.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
        with was.fake_mode:
            value = target(*operands[0], **operands[1])
    except Exception:
        return False
    if value.dtype is not was.dtype or value.shape != was.shape:
        return False
    with program.graph.inserting_before(node):
        new = program.graph.call_function(target, node.args, node.kwargs)
    new.meta = {**node.meta, "val": value}
    order[new] = now = order[node]
    for user in [user for user in written.users if order[user] > now]:
        user.replace_input_with(written, new)
    node.replace_all_uses_with(new)
    program.graph.erase_node(node)
    for spec in program.graph_signature.output_specs:
        if getattr(spec.arg, "name", None) in (node.name, written.name) and spec.arg.name not in _given_out(program):
            spec.arg = TensorArgument(new.name)
    return True


def _given_out(program: Any) -> set[str]:
    return {node.name for node in program.graph.output_node().all_input_nodes}
