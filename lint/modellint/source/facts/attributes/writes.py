"""Definitions of attributes: the statements that bind an attribute of ``self``, or change what it holds in place."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modellint.source.engine.class_state import Binding
    from modellint.source.facts.recorded_operations import Write


class AttributeWrites:
    """What a reading has met of bindings and of writes so far, by the attribute; what it has met since is looked at when asked."""

    def __init__(self) -> None:
        self._bindings: dict[str, list[Binding]] = {}
        self._sorted = 0
        self._writes: dict[tuple[bool, str], list[Write]] = {}
        self._writes_sorted = 0

    def bindings_of(self, attribute: str, every: Sequence[Binding]) -> list[Binding]:
        """The bindings of an attribute among all."""
        for binding in every[self._sorted :]:
            self._bindings.setdefault(binding.attribute, []).append(binding)
        self._sorted = len(every)
        return self._bindings.get(attribute, [])

    def rebinding(self, attribute: str, writes: Mapping[ast.AST, Sequence[Write]]) -> list[Write]:
        """The first readings of the statements that bind an attribute outside ``__init__``."""
        self._sort(writes)
        return self._writes.get((True, attribute), [])

    def in_place(self, attribute: str, writes: Mapping[ast.AST, Sequence[Write]]) -> list[Write]:
        """The first readings of the statements that change what an attribute holds in place, or a part of that."""
        self._sort(writes)
        return self._writes.get((False, attribute), [])

    def _sort(self, writes: Mapping[ast.AST, Sequence[Write]]) -> None:
        if len(writes) != self._writes_sorted:
            self._writes_sorted = len(writes)
            self._writes = {}
            for write, *_ in writes.values():
                name = write.attribute if write.how == "attribute" else _written_attribute(write.node)
                if name is not None:
                    self._writes.setdefault((write.how == "attribute", name), []).append(write)


def by_attribute(bindings: Iterable[Binding]) -> dict[str, list[Binding]]:
    """Bindings, by the attribute that they bind."""
    found: dict[str, list[Binding]] = {}
    for binding in bindings:
        found.setdefault(binding.attribute, []).append(binding)
    return found


def _written_attribute(node: ast.AST) -> str | None:
    """The attribute of an object with a name that a write in place is to, or to a part of."""
    target: ast.AST = node
    if isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Call):
        target = node.func
    while isinstance(target, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            return target.attr
        target = target.func if isinstance(target, ast.Call) else target.value
    return None
