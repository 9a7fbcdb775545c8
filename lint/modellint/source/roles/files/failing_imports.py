"""Failing imports: files that import from the project's own packages what these certainly do not define, so that nothing of them runs."""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING

from modellint.source.project.symbols import Imported, IndexedFile
from modellint.source.syntax.ast_walk import of_kind, once, parents_in

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_DYNAMIC = re.compile(
    r"__getattr__|\b(?:globals|locals|vars|exec|setattr)\(|sys\.modules|__dict__|__path__|extend_path"
    r"|(?<!getLogger\()(?<!get_logger\()\b__name__(?!\s*[=!]=)"
)
"""What a file binds names with that it does not hold, itself or by code that it tells its name."""


def cannot_be_imported(project: Project, file: IndexedFile) -> bool:
    """Whether a file always imports, at its top, a name that another file, certainly the one that is meant, does not hold."""
    if not any(isinstance(statement, ast.ImportFrom) for statement in file.tree.body):
        return False
    key = "cannot be imported", file.path
    return project.remembered(key, lambda: any(_misses(project, file, part) for part in _names_in(file)))


def _names_in(file: IndexedFile) -> list[tuple[ast.ImportFrom, ast.alias]]:
    """The names that the statements of a file import which always run."""
    statements = (statement for statement in file.tree.body if isinstance(statement, ast.ImportFrom))
    return [(statement, alias) for statement in statements for alias in statement.names if alias.name != "*"]


def _misses(project: Project, file: IndexedFile, part: tuple[ast.ImportFrom, ast.alias]) -> bool:
    statement, alias = part
    bound = alias.asname or alias.name
    bindings = file.names.get(bound, ())
    if len(bindings) != 1 or not isinstance(bindings[0], Imported) or not alias.name.isascii():
        return False
    module = statement.module or ""
    path = project.find(module, statement.level, file.path)
    if path is None or path == file.path:
        return False
    words = project.remembered(("words", path), lambda: frozenset(re.findall(rb"\w+", project.data(path) or b"")))
    if alias.name.encode() in words:
        return False
    other = project.file(path)
    if other is None or other.stars or _DYNAMIC.search(other.source.text) is not None:
        return False
    if os.path.basename(path) == "__init__.py":  # noqa: PTH119
        # A part of a package may be compiled, or be written by a build: a module is asked for what it holds.
        if project.find(f"{module}.{alias.name}".lstrip("."), statement.level, file.path) is not None:
            return False
        if not once(file.tree, f"_is_a_value_{bound}", lambda tree: _is_a_value(tree, bound)):
            return False
    project.touch_tree()
    return statement.level > 0 or project.mentions.has_one_module(module)


def _is_a_value(tree: ast.Module, name: str) -> bool:
    """Whether a file uses what a name stands for, and nowhere asks it for an attribute, as it would a module."""
    parents = parents_in(tree)
    reads = [node for node in of_kind(tree, ast.Name) if node.id == name and isinstance(node.ctx, ast.Load)]
    return bool(reads) and not any(isinstance(parents.get(node), ast.Attribute) for node in reads)
