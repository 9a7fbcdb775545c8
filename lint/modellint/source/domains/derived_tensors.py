"""The tensors that operators make: computed from others, or views of them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from modellint.source.domains.memory_layout import Layout
from modellint.source.domains.operator_sets import WITHOUT_GRAPH
from modellint.source.domains.tensors import CUT, TO_INTEGERS, Tensor
from modellint.source.engine.abstract_values import Container, Value, alternatives


def tensors_in(values: Sequence[Value], opened: set[int] | None = None) -> list[Tensor]:
    """The tensors among values, those in containers too; each container is opened once."""
    found: list[Tensor] = []
    for value in values:
        for part in alternatives(value):
            if isinstance(part, Tensor):
                found.append(part)
            elif isinstance(part, Container) and part.kind != "dict":
                opened = set() if opened is None else opened
                if id(part) not in opened:
                    opened.add(id(part))
                    found.extend(tensors_in(part.items, opened))
    return found


def carries_graph(name: str, parts: Sequence[bool | None]) -> bool | None:
    """Whether a graph hangs on the result of an operator, from what hangs on its tensors."""
    if name in WITHOUT_GRAPH:
        return False
    if True in parts:
        return True
    return None if None in parts else False


def batch_of(parts: Sequence[Tensor]) -> bool | None:
    """Whether the batch may still be in what is computed of tensors."""
    known = [part.batch for part in parts if part.batch is not None]
    return any(known) if known else None


_PERMUTING = frozenset(
    {"einsum", "rearrange", "meshgrid", "broadcast_tensors", "fold", "topk", "sort", "argsort", "stft", "istft"}
)
"""Operators whose results may be strided whatever they are given."""


def derived(node: ast.AST | None, layout: Layout | None, name: str, parts: Sequence[Tensor], quiet: bool) -> Tensor:
    """A new tensor that an operator computes from others; ``quiet`` under `no_grad`."""
    grad = False if quiet else carries_graph(name, [part.grad for part in parts])
    assumed = any(part.assumed for part in parts)
    if (
        layout is None
        and name not in _PERMUTING
        and all(p.layout is not None and p.layout.is_contiguous for p in parts)
    ):
        layout, assumed = Layout.unranked(), True
    made = Tensor(
        node,
        layout,
        certain=any(part.certain for part in parts),
        assumed=assumed,
        grad=grad,
        made_by=name,
        batch=batch_of(parts),
        shown=any(part.shown for part in parts),
    )
    if name in TO_INTEGERS and parts and all(part.is_fractional for part in parts):
        made.told = {CUT: True}
    return made


def view_of(node: ast.AST | None, layout: Layout | None, name: str, tensor: Tensor) -> Tensor:
    """A tensor that shares another's memory."""
    return Tensor(
        node,
        layout,
        certain=tensor.certain,
        assumed=tensor.assumed,
        grad=tensor.grad,
        base=tensor,
        made_by=name,
        batch=tensor.batch,
        shown=tensor.shown,
    )
