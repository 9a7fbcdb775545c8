"""States that nobody reads: buffers that `forward` writes as a whole before it reads them, as rotary frequencies chosen by length,
or writes and does not read at all, as a table of such that is kept for the next run.

A run begins with none of what the run before left in them: a package needs no state for such.
"""

from __future__ import annotations

from typing import Any

import torch

from modellint.destinations.capture.in_place_writes import is_written

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
    kept = [node for node in program.graph.find_nodes(op="placeholder") if node.name in buffers]
    for buffer in kept:
        if any(node.args[0] is buffer for node in found):
            continue
        written = _only_written(buffer) or _written_first(buffer)
        if written:
            names.append(buffers[buffer.name])
            for node in written:
                program.graph.erase_node(node)
    for node in found:
        if node.users:
            with program.graph.inserting_before(node):
                written = program.graph.call_function(aten.clone.default, (node.args[1],))
            written.meta = dict(node.meta)
            node.replace_all_uses_with(written)
        program.graph.erase_node(node)
    if names:
        program.graph_module.recompile()
    return tuple(f"{name} is written before it is read, and is no state" for name in names)


_PARTS = {aten.slice.Tensor, aten.select.int, aten.narrow.default, aten.view.default, aten.unsqueeze.default}
"""What gives a part of a buffer, in its memory."""


def _only_written(buffer: Any) -> list[Any]:
    """Of a buffer of which a run only writes parts, the writes and the parts, readers first; empty where anything is read."""
    pending, order = [buffer], []
    for part in pending:
        for user in part.users:
            is_write = user.target is aten.copy_.default and user.args[0] is part and user.args[1] is not part
            if is_write and not user.users:
                order.append(user)
            elif user.target in _PARTS:
                order.append(user)
                pending.append(user)
            else:
                return []
    writes = any(node.target is aten.copy_.default for node in order)
    return order[::-1] if writes else []


def _written_first(buffer: Any) -> list[Any]:
    """Of a buffer of which one part alone is used, and is written once before it is read, the write and the parts.

    Who reads it is given what was written.
    """
    parts = [*buffer.users]
    if not parts or any(part.target not in _PARTS or part.target is not parts[0].target for part in parts):
        return []
    first, *others = parts
    write = next(iter(first.users), None)
    if write is None or write.target is not aten.copy_.default or write.args[0] is not first:
        return []
    if len(first.users) > 1 or not _is_alike(first, write.args[1]):
        return []
    order = {node: at for at, node in enumerate(buffer.graph.nodes)}
    for part in others:
        if part.args[1:] != first.args[1:] or part.kwargs != first.kwargs or order[part] < order[write]:
            return []
        if is_written(part):
            return []
    # What was written may be written to afterwards.
    with buffer.graph.inserting_before(write):
        value = buffer.graph.call_function(aten.clone.default, (write.args[1],))
    value.meta = dict(write.meta)
    for node in (*others, write):
        node.replace_all_uses_with(value)
    return [*others, write, first]


def _is_alike(buffer: Any, value: Any) -> bool:
    """Whether a value is of a buffer's type and size."""
    held, given = buffer.meta["val"], value.meta.get("val") if isinstance(value, torch.fx.Node) else None
    return isinstance(given, torch.Tensor) and (held.dtype, held.shape) == (given.dtype, given.shape)
