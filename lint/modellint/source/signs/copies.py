"""A sign of writes that may miss: into what an operator gave that may be a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.source.nodes import Function, called_name, functions_in, given_to, of_kind, parameters_of, walk

if TYPE_CHECKING:
    pass

EITHER = frozenset({"reshape", "reshape_as", "flatten", "ravel", "contiguous"})
"""Operators that give a view where they can, and a copy where they cannot."""


def writes_through(nodes: Sequence[ast.stmt]) -> bool:
    """Whether a function may write to what may be a copy, itself or by another that it calls."""
    functions = functions_in(nodes)
    copying = [function for function in functions if any(map(_copies, of_kind(function, ast.Call)))]
    if not copying:
        return False
    changing = {one.name for one in functions if _written(one) & parameters_of(one)}
    for function in copying:
        written = _written(function)
        calls = [call for call in of_kind(function, ast.Call) if called_name(call) in changing]
        if not written and not calls:
            continue
        derived = _derived(function)
        if derived & written:
            return True
        if any(_may_copy(given, derived) for call in calls for given in given_to(call)):
            return True
        if any(_may_copy(target, derived) for target in _changed(function)):
            return True
    return False


def _copies(call: ast.Call) -> bool:
    return called_name(call) in EITHER


def _derived(function: Function) -> set[str]:
    """Names of a function that may hold what an operator gave that copies or does not."""
    bound: list[tuple[ast.expr, ast.expr]] = []
    for assignment in of_kind(function, ast.Assign):
        bound += ((target, assignment.value) for target in assignment.targets)
    bound += ((node.target, node.value) for node in of_kind(function, ast.NamedExpr))
    bound += ((node.target, node.value) for node in of_kind(function, ast.AnnAssign) if node.value is not None)
    bound += ((node.target, node.iter) for node in of_kind(function, ast.For))
    bound += ((node.target, node.iter) for node in of_kind(function, ast.comprehension))
    derived: set[str] = set()
    left = [(_names(target), value) for target, value in bound]
    size = len(left) + 1
    while len(left) < size:
        size = len(left)
        rest: list[tuple[set[str], ast.expr]] = []
        for names, value in left:
            if _may_copy(value, derived):
                derived |= names
            else:
                rest.append((names, value))
        left = rest
    return derived


def _changed(function: Function) -> Iterator[ast.expr]:
    """What a function writes to by a method of its own or by an index."""
    for call in of_kind(function, ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr[-1:] == "_":
            yield call.func.value
    for node in of_kind(function, ast.Subscript):
        if not isinstance(node.ctx, ast.Load):
            yield node.value


def _may_copy(value: ast.expr, derived: set[str]) -> bool:
    if isinstance(value, ast.Name):
        return value.id in derived
    for node in walk(value):
        if isinstance(node, ast.Call):
            if _copies(node):
                return True
        elif isinstance(node, ast.Name) and node.id in derived:
            return True
    return False


def _names(target: ast.expr) -> set[str]:
    if isinstance(target, ast.Name):
        return {target.id}
    parts = walk(target)
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return names | {part.attr for part in parts if isinstance(part, ast.Attribute)}


def _written(function: Function) -> set[str]:
    """Names at the root of what a function changes in place, or may change so."""
    if any(word.arg in ("out", "inplace") for word in of_kind(function, ast.keyword)):
        return {part.id for part in of_kind(function, ast.Name)}
    found: set[str] = set()
    for target in (*(node.target for node in of_kind(function, ast.AugAssign)), *_changed(function)):
        found |= _names(target)
    return found
