"""Patterns of what the attributes of an object are bound to."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.source.project.symbols import Imported
from modellint.source.syntax.ast_walk import Function, called_name, functions_in, of_kind, once, walk

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

_STORING = frozenset({"setattr", "__setattr__", "update"})
_NUMBERS = frozenset({"int", "float", "bool", "len", "isinstance", "min", "max", "round", "abs", "str"})
"""Functions of Python that give no container."""


def stored_values(node: ast.stmt) -> dict[str, list[ast.expr | None]]:
    """What a class or function binds each attribute of anything to; None where it does not stand beside the name."""
    found: dict[str, list[ast.expr | None]] = {}
    plain: set[ast.expr] = set()
    for target, value in _plain_stores(node):
        plain.add(target)
        found.setdefault(target.attr, []).append(value)
    for part in of_kind(node, ast.Attribute):
        if not isinstance(part.ctx, ast.Load) and part not in plain:
            found.setdefault(part.attr, []).append(None)
    return found


def _plain_stores(node: ast.stmt) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    for assigned in of_kind(node, ast.Assign):
        for target in assigned.targets:
            if isinstance(target, ast.Attribute):
                yield target, assigned.value
    for annotated in of_kind(node, ast.AnnAssign):
        if isinstance(annotated.target, ast.Attribute) and annotated.value is not None:
            yield annotated.target, annotated.value


def keeps_containers(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether an attribute may hold a list, a tuple or a dict that the class makes."""
    functions = functions_in(nodes)
    if any(called_name(call) in _STORING for function in functions for call in of_kind(function, ast.Call)):
        return True
    given = {name for function in functions if function.name == "__init__" for name in _plain_arguments(function)}
    bound = {
        name.id for function in functions for name in of_kind(function, ast.Name) if not isinstance(name.ctx, ast.Load)
    }
    known = (given - bound) | _NUMBERS
    return any(
        value is None or not (_builds_foreign(file, value) or _computes_of(known, value))
        for node in nodes
        for values in once(node, "_stored_values", stored_values).values()
        for value in values
    )


def _builds_foreign(file: IndexedFile, value: ast.expr) -> bool:
    """Whether an expression builds an object of a class of another package."""
    return isinstance(value, ast.Call) and called_name(value)[:1].isupper() and is_foreign(file, value.func)


def is_foreign(file: IndexedFile, named: ast.expr) -> bool:
    """Whether a dotted name is an imported one, as far as its file knows."""
    while isinstance(named, ast.Attribute):
        named = named.value
    bindings = file.names.get(named.id, ()) if isinstance(named, ast.Name) else ()
    return bool(bindings) and all(isinstance(part, Imported) for part in bindings)


def _computes_of(known: Collection[str], value: ast.expr) -> bool:
    """Whether an expression is made of constants and some names alone."""
    for part in walk(value):
        match part:
            case ast.Name(id=name):
                if name not in known:
                    return False
            case ast.Call(func=called):
                if not isinstance(called, ast.Name) or called.id not in _NUMBERS:
                    return False
            case ast.List() | ast.Tuple() | ast.Dict() | ast.ListComp() | ast.DictComp() | ast.GeneratorExp():
                return False
            case _:
                pass
    return True


def _plain_arguments(function: Function) -> list[str]:
    arguments = function.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if one.arg != "self"]
