"""Uses of attributes: which methods of a class read an attribute of ``self``, and whether ``forward`` runs them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from modellint.source.facts.call_graph import name_of
from modellint.source.facts.execution_order import is_read_first, setting_flags
from modellint.source.syntax.ast_walk import walk
from modellint.source.syntax.computed_names import HOLE, is_numbered, name_pattern

if TYPE_CHECKING:
    from modellint.source.engine.abstract_values import Function
    from modellint.source.facts.call_graph import CallGraph
    from modellint.source.project.symbols import ClassRef

_ABOUT = frozenset({"shape", "size", "ndim", "dim", "numel", "dtype"})


class AttributeReads:
    """Who reads the attributes of ``self``, by their names.

    Args:
        lineage: The class and its bases in the project.
        methods: Its functions.
        call_graph: What they run.
    """

    def __init__(self, lineage: Sequence[ClassRef], methods: Sequence[Function], call_graph: CallGraph) -> None:
        self._lineage = lineage
        self._methods = methods
        self._call_graph = call_graph

    def is_read_in_forward(self, attribute: str) -> bool:
        """Whether ``forward``, or what it runs, reads an attribute; any method may be what a ``forward`` of another file runs."""
        readers = self._readers_of(attribute)
        if self._call_graph.in_forward:
            return any(node in self._call_graph.mentioned for node in readers)
        return self._has_forward and (bool(readers) or self._inherited_forward_reads(attribute))

    @property
    def _has_forward(self) -> bool:
        return any("forward" in ref.file.members(ref.node) for ref in self._lineage)

    def _readers_of(self, attribute: str) -> list[ast.AST]:
        """The functions that read an attribute, by its name or by one that numbers are put into."""
        readers = [*self._reads.get(attribute, ())]
        for name in self._reads if HOLE in attribute else self._reads_with_holes:
            if (HOLE in name and is_numbered(attribute, name)) or (HOLE in attribute and is_numbered(name, attribute)):
                readers += self._reads[name]
        return readers

    @cached_property
    def _reads_with_holes(self) -> list[str]:
        return [name for name in self._reads if HOLE in name]

    def _inherited_forward_reads(self, attribute: str) -> bool:
        """Whether the `forward` of a base class in another file, or a method that it runs, reads an attribute."""
        pending, seen = ["forward"], set()
        while pending:
            name = pending.pop()
            method = next((m for ref in self._lineage if (m := ref.file.members(ref.node).get(name)) is not None), None)
            if name in seen or not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            seen.add(name)
            for node in walk(method):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                    if node.attr == attribute and not isinstance(node.ctx, ast.Store):
                        return True
                    pending.append(node.attr)
        return False

    def readers(self, attribute: str) -> list[ast.AST]:
        """The methods that read an attribute of ``self``, but for ``__init__`` and those that only build or show the object."""
        return [node for node in dict.fromkeys(self._reads.get(attribute, ())) if not self._call_graph.is_aside(node)]

    def is_read_first(self, attribute: str) -> bool:
        """Whether `forward` reads what an attribute of ``self`` was at the end of the last call."""
        functions = self._functions
        forward = functions.get("forward")
        return forward is not None and is_read_first(attribute, forward, functions)

    def setting_flags(self, attribute: str) -> Iterator[tuple[str, bool]]:
        """The parameters of `forward` that alone decide that it sets an attribute first, each with the truth value that does."""
        functions = self._functions
        forward = functions.get("forward")
        return setting_flags(attribute, forward, functions) if forward is not None else iter(())

    @cached_property
    def _functions(self) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
        return {name_of(f): f.node for f in self._methods if not isinstance(f.node, ast.Lambda)}

    @cached_property
    def _reads(self) -> dict[str, list[ast.AST]]:
        """Attributes of ``self`` that are read, each with the functions that read it."""
        found: dict[str, list[ast.AST]] = {}
        for function in self._methods:
            names = [*function.node.args.posonlyargs, *function.node.args.args]
            if not names:
                continue
            # Filled in, or asked for its shape: no look at what it holds.
            unread = {
                id(node.value)
                for node in walk(function.node)
                if (isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load))
                or (isinstance(node, ast.Attribute) and node.attr in _ABOUT)
            }
            for node in walk(function.node):
                match node:
                    case ast.Attribute(value=ast.Name(id=owner), attr=attribute, ctx=ast.Load()) if (
                        owner == names[0].arg
                    ):
                        if id(node) not in unread:
                            found.setdefault(attribute, []).append(function.node)
                    case ast.Call(
                        func=ast.Name(id="getattr"),
                        args=[ast.Name(id=owner), ast.Constant(value=str() as attribute), *_],
                    ):
                        if owner == names[0].arg:
                            found.setdefault(attribute, []).append(function.node)
                    case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=owner), name, *_]):
                        pattern = name_pattern(name) if owner == names[0].arg else None
                        if pattern is not None:
                            found.setdefault(pattern, []).append(function.node)
                    case ast.AugAssign(target=ast.Attribute(value=ast.Name(id=owner), attr=attribute)) if (
                        owner == names[0].arg
                    ):
                        found.setdefault(attribute, []).append(function.node)
                    case _:
                        pass
        return found
