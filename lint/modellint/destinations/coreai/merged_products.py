"""Products of merged rows: a matrix product of what a view has merged to two dimensions, written as one of a batch.

coreai-torch 0.4.3 puts the view behind the product, and forgets it where an operation with another operand reads the result: the
converter's process ends (`x.reshape(-1, 4)` into two linear layers whose results are multiplied).
"""

from __future__ import annotations

from typing import Any

import torch

_VIEWS = frozenset({torch.ops.aten.view.default, torch.ops.aten.reshape.default, torch.ops.aten._unsafe_view.default})
_COPIES = frozenset({torch.ops.aten.clone.default, torch.ops.aten.alias.default})


def part(exported: Any) -> bool:
    """Write such products of a decomposed program as `bmm` of one matrix each; whether there are any."""
    graph = exported.graph_module.graph
    found = [node for node in graph.nodes if node.target is torch.ops.aten.mm.default and _is_lost(node)]
    for node in found:
        with graph.inserting_before(node):
            matrices = [_made(graph, torch.ops.aten.unsqueeze.default, (operand, 0), node) for operand in node.args]
            product = _made(graph, torch.ops.aten.bmm.default, tuple(matrices), node)
            result = _made(graph, torch.ops.aten.squeeze.dims, (product, [0]), node)
        node.replace_all_uses_with(result)
        graph.erase_node(node)
        # Outputs are known by their names.
        result.name = node.name
    if found:
        exported.graph_module.recompile()
    return bool(found)


def _is_lost(product: Any) -> bool:
    """Whether rows of it were merged, and something else than a view reads it."""
    rows = product.args[0]
    while rows.target in _COPIES:
        rows = rows.args[0]
    if rows.target not in _VIEWS or rows.args[0].meta["val"].dim() <= rows.meta["val"].dim():
        return False
    return any(user.target not in _VIEWS for user in product.users)


def _made(graph: Any, operator: Any, args: tuple[Any, ...], like: Any) -> Any:
    node = graph.call_function(operator, args)
    node.meta = {key: value for key, value in like.meta.items() if key in ("stack_trace", "nn_module_stack")}
    values = [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in args]
    node.meta["val"] = operator(*values)
    return node
