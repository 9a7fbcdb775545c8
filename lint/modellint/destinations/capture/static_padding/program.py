"""A program whose sizes are all static: those that are values, as of the rows that a mask chooses, are their bounds.

XLA's dynamic padder does the same. What is chosen stands in front, in its order, and what stands behind it is never read: rows are
computed for all, what reduces an axis leaves the others out, and what is put back takes as many as there are. A program in which such
a size does more than that stays as it is.
"""

from __future__ import annotations

from typing import Any

import torch

from modellint.destinations.capture import asserted_values
from modellint.destinations.capture.decomposition_overhead import decomposed
from modellint.destinations.capture.static_padding.padding import Padding
from modellint.destinations.capture.static_padding.rewrites import REWRITES
from modellint.destinations.capture.static_padding.row_operators import check
from modellint.destinations.capture.static_padding.sizes import SYMBOLS, UnknownUse, is_of_values

aten = torch.ops.aten
NOTE = "what a mask chooses is computed with as many rows as it can have"


def padded(program: Any) -> tuple[Any, tuple[str, ...]]:
    """A program whose sizes are static, and a note of that, where some are values and it is known how; else the program itself."""
    if not any(is_of_values(node.meta.get("val")) or _is_selection(node) for node in program.graph.nodes):
        return program, ()
    try:
        return _padded(program), (NOTE,)
    except Exception:
        # Of a copy, which is thrown away.
        return program, ()


def _is_selection(node: Any) -> bool:
    """Whether it is `masked_select`, which coreai-torch lacks also where a constant mask chooses as many as are known."""
    return bool(node.target is aten.masked_select.default)


def _padded(program: Any) -> Any:
    # Without decompositions: what is written in place is not, any more.
    functional = decomposed(program, {})
    asserted_values.remove(functional)
    padding = Padding(functional)
    for node in list(functional.graph.nodes):
        given = [padding.was(each) for each in node.all_input_nodes]
        if node.op == "output" and is_of_values(given):
            raise UnknownUse("an output has such a size")
        concerned = is_of_values([padding.was(node), *given]) or _is_selection(node)
        if node.op == "call_function" and not node._erased and concerned:
            with padding.at(node):
                _pad(padding, node)
    functional.graph.eliminate_dead_code()
    functional.graph_module.recompile()
    return functional


def _pad(padding: Padding, node: Any) -> None:
    was, target = padding.was(node), node.target
    if target is aten._assert_tensor_metadata.default:
        padding.graph.erase_node(node)
    elif target is aten.item.default:
        padding.name(was, node.args[0])
    elif isinstance(was, SYMBOLS):
        # What reads it is given a number.
        return
    elif target not in REWRITES or not REWRITES[target](padding, node):
        check(padding, node)
        padding.again(node)
