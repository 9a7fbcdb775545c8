"""Patterns of writes that others may see: in place, to items, to attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from modellint.source.syntax.ast_walk import Function, called_name, functions_in, of_kind

_QUIET = frozenset({"requires_grad_", "share_memory_", "retain_grad_", "detach_", "_"})
_GENERIC = frozenset({"tuple", "dict", "list", "Tuple", "Dict", "List", "Callable", "Union", "Literal"})
"""Names behind which brackets hold types."""


def writes(run: Sequence[ast.stmt]) -> bool:
    """Whether something is changed in place."""
    return any(map(_writes, functions_in(run)))


def _writes(function: Function) -> bool:
    if of_kind(function, ast.AugAssign) or any(True for _ in _items(function)):
        return True
    names = {called_name(call) for call in of_kind(function, ast.Call)} - _QUIET
    return any(name.endswith("_") and not name.endswith("__") for name in names)


def indexes(run: Sequence[ast.stmt]) -> bool:
    """Whether an item is assigned to, by more than constants and slices."""
    for function in functions_in(run):
        counted = {name for loop in of_kind(function, ast.For) if _is_range(loop.iter) for name in _names(loop.target)}
        for target in _items(function):
            for index in _indices(target):
                if isinstance(index, (ast.Slice, ast.Constant, ast.UnaryOp)) and not _is_inverted(index):
                    continue
                if not (isinstance(index, ast.Name) and index.id in counted):
                    return True
    return False


def mixes(run: Sequence[ast.stmt]) -> bool:
    """Whether something is indexed by two values at once that are neither constants nor slices."""
    for function in functions_in(run):
        for node in of_kind(function, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) and isinstance(node.ctx, ast.Load) else []
            if getattr(node.value, "id", "") in _GENERIC:
                continue
            if sum(not isinstance(part, (ast.Slice, ast.Constant)) for part in parts) > 1:
                return True
    return False


def assigns_items(run: Sequence[ast.stmt]) -> bool:
    """Whether an item is assigned to."""
    return any(True for function in functions_in(run) for _ in _items(function))


def assigns_attributes(run: Sequence[ast.stmt]) -> bool:
    """Whether an attribute of the object is set."""
    for function in functions_in(run):
        for node in of_kind(function, ast.Attribute):
            if not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name) and node.value.id == "self":
                return True
        if any(called_name(call) in ("setattr", "__setattr__") for call in of_kind(function, ast.Call)):
            return True
    return False


def changes_state(run: Sequence[ast.stmt]) -> bool:
    """Whether something is changed in place, or an attribute bound."""
    for function in functions_in(run):
        if _writes(function) or any(not isinstance(node.ctx, ast.Load) for node in of_kind(function, ast.Attribute)):
            return True
        if any(called_name(call) in ("setattr", "__setattr__") for call in of_kind(function, ast.Call)):
            return True
    return False


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and called_name(node) == "range"


def _is_inverted(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant)


def _items(function: Function) -> Iterator[ast.Subscript]:
    for node in of_kind(function, ast.Subscript):
        if isinstance(node.ctx, ast.Store):
            yield node


def _indices(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _names(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                yield from _names(element)
        case _:
            pass
