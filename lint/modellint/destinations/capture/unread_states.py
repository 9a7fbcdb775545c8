"""States that nobody reads: buffers that `forward` writes as a whole before it reads them, as rotary frequencies chosen by length.

A run begins with none of what the run before left in them: a package needs no state for such.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten


def remove(program: Any) -> tuple[str, ...]:
    """Take writes to buffers out of which nobody reads what was there before, in the exported program itself; a note of each.

    Another function of a package may read what one writes: this is for packages of one function.
    """
    buffers = program.graph_signature.inputs_to_buffers
    found = [
        node
        for node in program.graph.find_nodes(op="call_function", target=aten.copy_.default)
        if node.args[0].name in buffers and [*node.args[0].users] == [node] and _is_alike(*node.args[:2])
    ]
    names = [buffers[node.args[0].name] for node in found]
    for node in found:
        if node.users:
            with program.graph.inserting_before(node):
                written = program.graph.call_function(aten.clone.default, (node.args[1],))
            written.meta = dict(node.meta)
            node.replace_all_uses_with(written)
        program.graph.erase_node(node)
    if found:
        program.graph_module.recompile()
    return tuple(f"{name} is written before it is read, and is no state" for name in names)


def _is_alike(buffer: Any, value: Any) -> bool:
    """Whether a value is of a buffer's type and size."""
    held, given = buffer.meta["val"], value.meta.get("val") if isinstance(value, torch.fx.Node) else None
    return isinstance(given, torch.Tensor) and (held.dtype, held.shape) == (given.dtype, given.shape)
