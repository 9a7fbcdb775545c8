"""Class decorators: whether one may keep a class where it is looked up by a name, as a registry does."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.symbols import ClassRef, FunctionRef, IndexedFile, dotted_name
from modellint.source.syntax.ast_walk import given_to, of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 2
"""How many functions hand a class on to each other."""
_ASK = frozenset({"isinstance", "issubclass", "type", "super", "hasattr", "getattr", "callable"})
"""Builtins that keep nothing of what they are given."""


def may_be_looked_up(project: Project, ref: ClassRef) -> bool:
    """Whether a decorator of a class may keep it under a name; one that only wraps it, or puts it in a set, does not."""
    for decorator in ref.node.decorator_list:
        dotted = dotted_name(decorator)
        symbol = project.resolve(ref.file, dotted) if dotted is not None else None
        if not isinstance(symbol, FunctionRef) or _keeps_first(project, symbol, 0):
            return True
    return False


def _keeps_first(project: Project, function: FunctionRef, depth: int) -> bool:
    """Whether a function may keep its first argument, or a class that it derives from that."""
    return once(function.node, "_keeps_first", lambda node: _looks_keeping(project, function.file, node, depth))


def _looks_keeping(project: Project, file: IndexedFile, function: _Function, depth: int) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args]
    if len(arguments) != 1 or depth > _DEEPEST or function.decorator_list:
        return True
    names = {arguments[0].arg, *(part.name for part in of_kind(function, ast.ClassDef))}
    for part in of_kind(function, ast.Assign):
        if isinstance(part.value, ast.Name) and part.value.id in names:
            return True
    for call in of_kind(function, ast.Call):
        if not any(isinstance(part, ast.Name) and part.id in names for part in given_to(call)):
            continue
        match call.func:
            case ast.Name(id=name) if name in _ASK and name not in file.names:
                continue
            case ast.Attribute(attr="add"):
                continue
        dotted = dotted_name(call.func)
        symbol = project.resolve(file, dotted) if dotted is not None else None
        if not isinstance(symbol, FunctionRef) or _keeps_first(project, symbol, depth + 1):
            return True
    return False
