"""Signs of calls that may run what the project itself defines."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.source.project.symbols import Imported
from modellint.source.syntax.ast_walk import of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

_FOREIGN = frozenset(
    {"torch", "torchvision", "numpy", "math", "typing", "functools", "collections", "einops", "__future__"}
)
"""Packages that no project of models is."""


def calls_project(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether a call may run what the class, its file or the project defines, or the file takes a name from what may be the project's."""
    if file.stars:
        return True
    if once(file.tree, "_imports_a_project", lambda _: _imports_a_project(file)):
        return True
    asked = [
        *(call.func for node in nodes for call in of_kind(node, ast.Call)),
        *(base for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases),
    ]
    return any(_may_be_the_projects(file, part) for part in asked)


def _imports_a_project(file: IndexedFile) -> bool:
    """Whether a file takes a name from what may be the project's."""
    return any(
        isinstance(part, Imported) and (part.level or part.module.partition(".")[0] not in _FOREIGN)
        for bindings in file.names.values()
        for part in bindings
    )


def _may_be_the_projects(file: IndexedFile, named: ast.expr) -> bool:
    root = named
    while isinstance(root, ast.Attribute):
        root = root.value
    match root:
        case ast.Name(id=name):
            # What is imported was asked before.
            return name == "self" or any(not isinstance(part, Imported) for part in file.names.get(name, ()))
        case ast.Call(func=ast.Name(id="super")):
            # The base was asked for itself.
            return False
    return True
