"""Signs of calls that may run what the project itself defines."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.source.project.symbols import Imported
from modellint.source.syntax.ast_walk import functions_in, of_kind, once
from modellint.source.triggers.patterns.attribute_bindings import is_foreign, stored_values

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

_FOREIGN = frozenset(
    {"torch", "torchvision", "numpy", "math", "typing", "functools", "collections", "einops", "__future__"}
)
"""Packages that no project of models is."""


def calls_project(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether a call may run what the class, its file or the project defines, or the file takes a name from what may be the project's."""
    if file.stars or imports_a_project(file):
        return True
    asked = [
        *(call.func for node in nodes for call in of_kind(node, ast.Call)),
        *(base for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases),
    ]
    return any(_may_be_the_projects(file, part, nodes) for part in asked)


def imports_a_project(file: IndexedFile) -> bool:
    """Whether a file takes a name from what may be the project's."""
    return once(file.tree, "_imports_a_project", lambda _: _imports_a_project(file))


def _imports_a_project(file: IndexedFile) -> bool:
    return any(
        isinstance(part, Imported) and (part.level or part.module.partition(".")[0] not in _FOREIGN)
        for bindings in file.names.values()
        for part in bindings
    )


def _may_be_the_projects(file: IndexedFile, named: ast.expr, nodes: Sequence[ast.stmt]) -> bool:
    root, first = named, ""
    while isinstance(root, ast.Attribute):
        first, root = root.attr, root.value
    match root:
        case ast.Name(id="self"):
            return _is_the_projects_attribute(file, first, nodes)
        case ast.Name(id=name):
            # What is imported was asked before.
            return any(not isinstance(part, Imported) for part in file.names.get(name, ()))
        case ast.Call(func=ast.Name(id="super")):
            # The base was asked for itself.
            return False
    return True


def _is_the_projects_attribute(file: IndexedFile, name: str, nodes: Sequence[ast.stmt]) -> bool:
    """Whether an attribute of the object may be a method, or may be bound to anything but what a call of another package gives."""
    if not name or any(function.name == name for function in functions_in(nodes)):
        return True
    values = [value for node in nodes for value in once(node, "_stored_values", stored_values).get(name, ())]
    return not all(isinstance(value, ast.Call) and is_foreign(file, value.func) for value in values)
