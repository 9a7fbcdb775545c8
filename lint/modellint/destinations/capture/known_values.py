"""Known values: what nodes of an exported program compute that depend on no input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modellint.destinations.capture.in_place_writes import is_written

_FILLED = frozenset({"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like"})
"""Operators that ask a tensor for its type and shape, not for its numbers."""


class _Unknown(Exception):
    """A number that is known only when the model runs."""


class KnownValues:
    """The numbers of a program's nodes that depend on no input; buffers that nobody writes count as known."""

    def __init__(self, program: Any) -> None:
        self._known: dict[Any, Tensor] = {}
        written = {*program.graph_signature.buffers_to_mutate.values()}
        kept = {**program.state_dict, **program.constants}
        specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
        for node in program.graph.nodes:
            spec = specs.get(node.name) if node.op == "placeholder" else None
            if spec is None or spec.target in written or is_written(node):
                continue
            if isinstance(kept.get(spec.target), Tensor):
                self._known[node] = kept[spec.target].detach()

    def value(self, node: Any) -> Tensor | None:
        """What a node computes; None where it depends on inputs, on chance, or is no tensor."""
        try:
            with torch.no_grad():
                for step in self._steps(node):
                    self._known[step] = self._computed(step)
        except _Unknown:
            return None
        return self._known[node]

    def _steps(self, node: Any) -> Iterator[Any]:
        """What is to be computed for a node, operands first."""
        pending, seen = [node], set[Any]()
        while pending:
            step = pending[-1]
            if step in self._known:
                pending.pop()
            elif step in seen:
                yield pending.pop()
            else:
                if step.op != "call_function" or not _is_pure(step.target) or is_written(step):
                    raise _Unknown
                seen.add(step)
                pending += () if _name(step) in _FILLED else step.all_input_nodes

    def _computed(self, node: Any) -> Tensor:
        operand = _like if _name(node) in _FILLED else self._known.__getitem__
        args, kwargs = pytree.tree_map_only(torch.fx.Node, operand, (node.args, node.kwargs))
        result = node.target(*args, **kwargs)
        if not isinstance(result, Tensor):
            raise _Unknown
        return result


def _like(node: Any) -> Tensor:
    """A tensor of a node's type and shape."""
    shown = node.meta.get("val")
    if not isinstance(shown, Tensor) or not all(isinstance(size, int) for size in shown.shape):
        raise _Unknown
    return torch.zeros((), dtype=shown.dtype).expand(shown.shape)


def _is_pure(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _name(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.removeprefix("aten::") if schema is not None else ""
