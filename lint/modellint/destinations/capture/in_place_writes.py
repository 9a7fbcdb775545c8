"""In-place writes of an exported program that is not functional yet, and those to views, which may be new values instead."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.export.graph_signature import TensorArgument

aten = torch.ops.aten
_PARTING = {
    *(aten.chunk.default, aten.split.Tensor, aten.split.sizes, aten.split_with_sizes.default, aten.unbind.int),
    aten.tensor_split.sections,
}
"""Operators whose results are parts that have no element in common."""


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
    value = node.args[0].meta.get("val")
    return isinstance(value, torch.Tensor) and not value.is_contiguous() and node.args[0].op == "call_function"


def to_new_values(program: Any) -> None:
    """Let what is written in place to such a view be a new value, where that memory is read by nothing else afterwards."""
    graph = program.graph
    order = {node: at for at, node in enumerate(graph.nodes)}
    changed = False
    for node in list(graph.nodes):
        if writes_a_turned_view(node) and _is_last_reader(node, order):
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
    """Whether what a node gives may be memory of its first operand."""
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    schema = getattr(node.target, "_schema", None)
    return bool(schema and schema.arguments and schema.arguments[0].alias_info is not None)


def _views_of(base: Any, path: list[Any]) -> Iterator[Any]:
    """A node, and all that may be views of the memory of the last of a path of views: not what another part of a split is."""
    left = [base]
    while left:
        node = left.pop()
        yield node
        for user in node.users:
            if user.op != "call_function" or not _is_view(user) or user.all_input_nodes[0] is not node:
                continue
            is_other_part = user.target is operator.getitem and node.target in _PARTING
            if not (is_other_part and node in path and user not in path):
                left.append(user)


def _is_last_reader(node: Any, order: dict[Any, int]) -> bool:
    """Whether what a node writes to is read afterwards as that tensor, or through views that are made of it then, alone."""
    base = node.args[0]
    path = [base]
    while base.op == "call_function" and _is_view(base):
        base = base.all_input_nodes[0]
        path.append(base)
    if base.op != "call_function":
        # It is an input, or held by the model.
        return False
    now = order[node]
    views = list(_views_of(base, path))
    for view in views:
        if view is node.args[0] or order[view] >= now:
            continue
        if any(order[user] > now for user in view.users):
            return False
    return not any(isinstance(user.target, HigherOrderOperator) for view in views for user in view.users)


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
