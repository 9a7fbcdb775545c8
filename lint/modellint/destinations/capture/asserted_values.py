"""Assertions in an exported program: what they ask of values of a run, no destination converts, and a package does not ask."""

from __future__ import annotations

from typing import Any

import torch

ASSERTIONS = frozenset(
    getattr(getattr(torch.ops.aten, name), overload)
    for name in ("_assert_scalar", "_assert_async", "sym_constrain_range", "sym_constrain_range_for_size")
    if hasattr(torch.ops.aten, name)
    for overload in getattr(torch.ops.aten, name).overloads()
)


def remove(program: Any) -> None:
    """Take assertions out, and what only they read. This is done in the exported program itself."""
    found = [node for node in program.graph.nodes if node.target in ASSERTIONS and not node.users]
    if not found:
        return
    for node in found:
        read = [*node.all_input_nodes]
        program.graph.erase_node(node)
        _forget(program.graph, read)
    program.graph_module.recompile()


def _forget(graph: Any, nodes: list[Any]) -> None:
    """Erase nodes that nothing reads any longer, and what only they read; inputs stay."""
    for node in nodes:
        if node.op == "call_function" and not node.users and not node._erased:
            read = [*node.all_input_nodes]
            graph.erase_node(node)
            _forget(graph, read)
