"""States that nobody reads: buffers that `forward` writes as a whole before it reads them, as rotary frequencies chosen by length.

A run begins with none of what the run before left in them: a package needs no state for such.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten


def remove(program: Any) -> None:
    """Take writes to buffers out of which nobody reads what was there before. This is done in the exported program itself."""
    buffers = program.graph_signature.inputs_to_buffers
    found = [
        node
        for node in program.graph.find_nodes(op="call_function", target=aten.copy_.default)
        if node.args[0].name in buffers and [*node.args[0].users] == [node] and _is_alike(*node.args[:2])
    ]
    for node in found:
        if node.users:
            with program.graph.inserting_before(node):
                written = program.graph.call_function(aten.clone.default, (node.args[1],))
            written.meta = dict(node.meta)
            node.replace_all_uses_with(written)
        program.graph.erase_node(node)
    if found:
        program.graph_module.recompile()


def _is_alike(buffer: Any, value: Any) -> bool:
    """Whether a value is of a buffer's type and size."""
    held, given = buffer.meta["val"], value.meta.get("val") if isinstance(value, torch.fx.Node) else None
    return isinstance(given, torch.Tensor) and (held.dtype, held.shape) == (given.dtype, given.shape)
