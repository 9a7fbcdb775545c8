"""Uninterpreted class: the methods of a class and of its bases as they are written, without abstract interpretation."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.syntax.ast_walk import functions_in, parents_in

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class UnreadClass:
    """A class as its role is told: a `Code` that is not read."""

    def __init__(self, project: Project, ref: ClassRef) -> None:
        self.project = project
        self.file = ref.file
        self.ref = ref

    @property
    def methods(self) -> list[UnreadMethod]:
        """Its own methods, and those of its bases."""
        return [UnreadMethod(node) for ref in self.lineage for node in functions_in([ref.node])]

    @cached_property
    def lineage(self) -> list[ClassRef]:
        """The class and its bases in the project."""
        return self.project.lineage(self.ref)

    def conditions(self, node: ast.AST, function: ast.AST | None) -> Iterator[ast.expr]:
        """The conditions around a node."""
        parents = parents_in(function) if function is not None else {}
        child = node
        while (parent := parents.get(child)) is not None:
            if isinstance(parent, ast.If) and child is not parent.test:
                yield parent.test
            child = parent

    def method(self, name: str) -> _Function | None:
        """The first method of a name, in the order in which Python asks."""
        return next((method.node for method in self.methods if method.node.name == name), None)


class UnreadMethod:
    """A method of such a class."""

    def __init__(self, node: _Function) -> None:
        self.node = node
