"""A sign of writes that may miss: into what an operator gave that may be a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.source.domains.operator_sets import EITHER
from modellint.source.syntax.ast_walk import Function, called_name, functions_in, given_to, of_kind, parameters_of, walk

if TYPE_CHECKING:
    pass

_ABOUT = frozenset({"shape", "dtype", "device", "ndim", "size", "dim", "numel", "item", "tolist", "len", "isinstance"})
"""Attributes and functions that give no tensor."""
_HOLDS = "*"
"""Stands before the name of what such a result is put into: a write to a part of that matters, but not putting it there."""


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
        if any(_may_copy(target, derived) for target in _changed(function) if not isinstance(target, ast.Name)):
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
    left = [(_bound_names(target), value) for target, value in bound]
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
    """Whether an expression may give what shares memory with the result of such an operator; arithmetic gives new memory."""
    pending: list[ast.AST] = [value]
    while pending:
        match pending.pop():
            case ast.Name(id=name):
                if name in derived or _HOLDS + name in derived:
                    return True
            case ast.Attribute(attr=name) if name in _ABOUT:
                pass
            case ast.Call() as call:
                if _copies(call):
                    return True
                if called_name(call) not in _ABOUT:
                    pending += (call.func, *given_to(call))
            case ast.BinOp(left=left, right=right):
                # Lists are joined.
                pending += (part for part in (left, right) if isinstance(part, (ast.List, ast.Tuple, ast.ListComp)))
            case ast.Compare() | ast.Constant() | ast.UnaryOp() | ast.JoinedStr():
                pass
            case other:
                pending += ast.iter_child_nodes(other)
    return False


def _bound_names(target: ast.expr) -> set[str]:
    names = _names(target)
    return {_HOLDS + name for name in names} if isinstance(target, ast.Subscript) else names


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
        names = _names(target)
        found |= names
        if not isinstance(target, ast.Name):
            found.update(_HOLDS + name for name in names)
    return found
