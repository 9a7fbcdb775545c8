"""Functionalized writes in an exported program: those through `expand`, and to empty slices, in a form that converts exactly.

PyTorch's functionalization gives what is written through `expand` as ``base + (view - base)``, which rounds where the old values are
large, and is no number where they are infinite. Where the view has the base's shape, it is what the base holds after the write. A
write to a slice without elements leaves the base as it is; coremltools counts one element there, and refuses it.
"""

from __future__ import annotations

from typing import Any

import torch

_ADD = torch.ops.aten.add.Tensor
_SUB = torch.ops.aten.sub.Tensor
_SLICE_SCATTER = torch.ops.aten.slice_scatter.default


def restore(program: Any) -> None:
    """Put the view that was written to in the place of ``base + (view - base)``, and a base in that of writes of nothing to it.

    This is done in the exported program itself.
    """
    renamed: dict[str, str] = {}
    for node in [*program.graph.nodes]:
        view = _written_view(node) or _unchanged(node)
        if view is not None:
            node.replace_all_uses_with(view)
            renamed[node.name] = view.name
    if not renamed:
        return
    for spec in program.graph_signature.output_specs:
        if (name := getattr(spec.arg, "name", None)) in renamed:
            spec.arg.name = renamed[name]
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _written_view(node: Any) -> Any:
    """The view whose write a node carries over to its base; None for what the user added."""
    if node.target is not _ADD or len(node.args) != 2 or node.kwargs:
        return None
    base, change = node.args
    if (
        getattr(change, "target", None) is not _SUB
        or change.kwargs
        or len(change.args) != 2
        or change.args[1] is not base
    ):
        return None
    view = change.args[0]
    write = _source(node)
    if write is None or _source(change) != write or _source(view) != write:
        return None
    old, new = base.meta.get("val"), view.meta.get("val")
    return view if old is not None and new is not None and (old.shape, old.dtype) == (new.shape, new.dtype) else None


def _unchanged(node: Any) -> Any:
    """The base of a write to a slice without elements; None for other nodes."""
    if node.target is not _SLICE_SCATTER:
        return None
    base, part = node.args[:2]
    old, new, values = (argument.meta.get("val") for argument in (base, node, part))
    if old is None or new is None or values is None or (old.shape, old.dtype) != (new.shape, new.dtype):
        return None
    # A size that varies is no whole number here.
    return base if any(isinstance(size, int) and size == 0 for size in values.shape) else None


def _source(node: Any) -> tuple[str, str] | None:
    """The write in place, before functionalization, that a node comes from: its name and its operator."""
    sources = getattr(node, "meta", {}).get("from_node") or ()
    if not sources:
        return None
    name, operator = str(sources[-1].name), str(sources[-1].target)
    return (name, operator) if operator.rpartition(".")[0].endswith("_") else None
