"""Distinct names of an exported program's nodes and words: coremltools takes a word that is a node's name for that node.

`torch.div(x.floor(), y, rounding_mode="floor")` is refused for it, and `gelu(x, approximate="tanh")` behind a `tanh` is computed exactly.
"""

from __future__ import annotations

from typing import Any

from torch.utils import _pytree as pytree


def part(program: Any) -> None:
    """Rename the nodes of an exported program that are called as a word among its arguments, in place."""
    graph = program.graph
    words = {
        leaf for node in graph.nodes for leaf in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(leaf, str)
    }
    renamed: dict[str, str] = {}
    for node in graph.nodes:
        if node.op == "call_function" and node.name in words:
            name = node.name
            node._rename(f"{name}_values")
            renamed[name] = node.name
    if not renamed:
        return
    for spec in program.graph_signature.output_specs:
        if (name := getattr(spec.arg, "name", None)) in renamed:
            spec.arg.name = renamed[name]
    program.graph_module.recompile()
