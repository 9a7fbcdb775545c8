"""Places that tensors without axes name (`x[y.argmax()]`): an export holds them as numbers of a run, which are in no package.

Each is selected by its tensor, as one element along its axis.
"""

from __future__ import annotations

from typing import Any

import torch

from modellint.destinations.capture.in_place_writes import is_written

aten = torch.ops.aten


def by_tensors(program: Any) -> None:
    """Select by the tensors instead of their numbers. This is done in the exported program itself."""
    found = [
        (node, node.args[2].args[0])
        for node in program.graph.find_nodes(op="call_function", target=aten.select.int)
        if _is_number(node.args[2])
        and isinstance(node.args[0].meta["val"].shape[node.args[1]], int)
        and not is_written(node.args[0])
    ]
    for node, place in found:
        x, axis, number = node.args
        with program.graph.inserting_before(node):

            def call(operator: Any, *operands: Any, origin: Any = node) -> Any:
                made = origin.graph.call_function(operator, operands)
                values = [each.meta["val"] if isinstance(each, torch.fx.Node) else each for each in operands]
                made.meta = {**origin.meta, "val": operator(*values)}
                return made

            # `select` counts from the end, too.
            is_negative = call(aten.lt.Scalar, place, 0)
            counted = call(aten.add.Tensor, place, x.meta["val"].shape[axis])
            places = call(aten.view.default, call(aten.where.self, is_negative, counted, place), [1])
            selected = call(aten.squeeze.dim, call(aten.index_select.default, x, axis, places), axis)
        node.replace_all_uses_with(selected)
        program.graph.erase_node(node)
        # The program knows its outputs by name.
        program.graph_signature.replace_all_uses(node.name, selected.name)
        if not number.users:
            program.graph.erase_node(number)
    if found:
        program.graph_module.recompile()


def _is_number(operand: Any) -> bool:
    is_node = isinstance(operand, torch.fx.Node) and operand.target is aten.item.default
    return is_node and not operand.args[0].meta["val"].is_floating_point()
