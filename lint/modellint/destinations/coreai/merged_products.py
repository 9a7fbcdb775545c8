"""Products of what a view has merged to two dimensions, written as the optimizer of coreai-torch 0.4.3 does not turn them round.

It puts views behind products. Where a view merged the rows, an operation with another operand reads the result, and the converter's
process ends: `x.reshape(-1, 4)` into two linear layers whose results are multiplied. Where a view merged the columns of the second
operand, and a dimension of one stood at its end before, the result is another: `w @ x.mean(-1).reshape(4, 24)`.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten
_VIEWS = frozenset({aten.view.default, aten.reshape.default, aten._unsafe_view.default})
_COPIES = frozenset({aten.clone.default, aten.alias.default})
_KEEPING = frozenset({aten.permute.default, aten.expand.default, *_VIEWS, *_COPIES})
"""What hands the elements of a view on."""
_PRODUCTS = frozenset({aten.mm.default, aten.bmm.default, aten.addmm.default})


def are_in(exported: Any) -> bool:
    """Whether a decomposed program has such products."""
    return any(
        _merges_columns(node) or _merges_rows(node)
        for node in exported.graph_module.graph.nodes
        if node.target in _PRODUCTS
    )


def part(exported: Any) -> frozenset[str]:
    """Write such products of a decomposed program otherwise; the operators that were."""
    graph = exported.graph_module.graph
    rewritten = set()
    for node in [node for node in graph.nodes if node.target in _PRODUCTS]:
        are_columns = _merges_columns(node)
        if not (are_columns or _merges_rows(node)):
            continue
        with graph.inserting_before(node):
            if _is_of_one_term(node):
                result = _made(graph, aten.mul.Tensor, node.args, node)
            else:
                result = _columns_apart(graph, node) if are_columns else _rows_apart(graph, node)
        rewritten.add(f"aten::{node.target.overloadpacket.__name__}")
        node.replace_all_uses_with(result)
        graph.erase_node(node)
        # Outputs are known by their names.
        result.name = node.name
    if rewritten:
        exported.graph_module.recompile()
    return frozenset(rewritten)


def _is_of_one_term(product: Any) -> bool:
    """Whether each element of a product is one product of numbers, for which the operands may be multiplied as they broadcast.

    Turned round, the second operand would be the one whose rows are merged, as those of the first are at times.
    """
    return product.target is not aten.addmm.default and product.args[0].meta["val"].shape[-1] == 1


def _merges_rows(product: Any) -> bool:
    """Whether a product is one of merged rows, and is read by anything but views."""
    if product.target is not aten.mm.default:
        return False
    rows = product.args[0]
    while rows.target in _COPIES:
        rows = rows.args[0]
    if rows.target not in _VIEWS or rows.args[0].meta["val"].dim() <= rows.meta["val"].dim():
        return False
    return not all(user.target in _VIEWS for user in product.users)


def _rows_apart(graph: Any, product: Any) -> Any:
    """A product of merged rows as `bmm` of one matrix each."""
    matrices = [_made(graph, aten.unsqueeze.default, (operand, 0), product) for operand in product.args]
    return _made(graph, aten.squeeze.dims, (_made(graph, aten.bmm.default, tuple(matrices), product), [0]), product)


def _merges_columns(product: Any) -> bool:
    """Whether a view, among those that the second operand comes by, merged axes into its last one."""
    if product.kwargs:
        # `alpha` and `beta`.
        return False
    node: Any = product.args[-1]
    while getattr(node, "target", None) in _KEEPING:
        source = node.args[0]
        if node.target in _VIEWS and _last(source) != _last(node) and source.meta["val"].dim() > 2:
            return True
        if node.target is aten.permute.default and node.args[1][-1] % len(node.args[1]) != len(node.args[1]) - 1:
            return False
        node = source
    return False


def _last(node: Any) -> Any:
    shape = node.meta["val"].shape
    return shape[-1] if len(shape) else 1


def _columns_apart(graph: Any, product: Any) -> Any:
    """A product as that of its transposed operands in the other order, transposed."""
    first, second = product.args[-2:]
    order = [0, 2, 1] if product.target is aten.bmm.default else [1, 0]
    turned = [_made(graph, aten.permute.default, (operand, order), product) for operand in (second, first)]
    target = aten.bmm.default if product.target is aten.bmm.default else aten.mm.default
    result = _made(graph, aten.permute.default, (_made(graph, target, tuple(turned), product), order), product)
    if product.target is aten.addmm.default:
        result = _made(graph, aten.add.Tensor, (result, product.args[0]), product)
    return result


def _made(graph: Any, operator: Any, args: tuple[Any, ...], like: Any) -> Any:
    node = graph.call_function(operator, args)
    node.meta = {key: value for key, value in like.meta.items() if key in ("stack_trace", "nn_module_stack")}
    values = [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in args]
    node.meta["val"] = operator(*values)
    return node
