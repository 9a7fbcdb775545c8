"""Call graph of one class, or of the functions of a file: where it is entered, what ``forward`` reaches, and what stands aside."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from modellint.source.engine.abstract_values import Function
from modellint.source.project.container_attribute_uses import class_functions
from modellint.source.project.symbols import ClassRef
from modellint.source.syntax.ast_walk import of_kind, walk

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

_ASIDE = re.compile(
    r"__(?!call__)|_?(?:re)?set_|_?(?:re)?init|reset|_?build|_?make|extra_repr|_apply$|(?:to|cuda|cpu|train|eval)$"
    r"|_?(?:save|load|dump|export|restore|plot|draw|show|log|print|debug|visuali[sz]e|collate|from_pretrained)(?:_|$)"
    r"|_?(?:get_)?debug|state_dict|_(?:save_to|load_from)_|configure|.*_(?:dataloader|hook)$"
)
"""Names of methods that build, move, save or show a module."""
_UNBOUND = ("staticmethod", "classmethod")


class CallGraph:
    """Which of its functions the methods of a class run, or those of a file that belong to none.

    Args:
        file: The file that they stand in.
        lineage: The class and its bases in the project; empty without a class.
        methods: The functions.
        entries: Those that modules of other files or classes are seen to run, where these are what is asked about.
    """

    def __init__(
        self,
        file: IndexedFile,
        lineage: Sequence[ClassRef],
        methods: Sequence[Function],
        entries: Sequence[ast.FunctionDef | ast.AsyncFunctionDef],
    ) -> None:
        self._file = file
        self._lineage = lineage
        self._methods = methods
        self._entries = entries

    @cached_property
    def in_forward(self) -> frozenset[ast.AST]:
        """The functions that ``forward`` runs, itself included; or those that modules of other files or classes are seen to run."""
        functions = {name_of(f): f.node for f in self._methods}
        outside = self._file.functions
        found: set[ast.AST] = set()
        pending: list[ast.AST] = [functions["forward"]] if "forward" in functions else []
        if self._entries:
            pending = [*self._entries]
        if not self._lineage and not self._entries:
            return frozenset()
        while pending:
            function = pending.pop()
            if function in found:
                continue
            found.add(function)
            for call in of_kind(function, ast.Call):
                match call.func:
                    case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if name in functions:
                        pending.append(functions[name])
                    case ast.Name(id=name) if name in outside:
                        pending.append(outside[name])
                    case _:
                        pass
            for kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda):
                found.update(of_kind(function, kind))
        return frozenset(found)

    @cached_property
    def mentioned(self) -> set[ast.AST]:
        """What `forward` runs, and the methods that it mentions without calling them: a table of them may be all that does."""
        functions = {name_of(f): f.node for f in self._methods}
        found = set(self.in_forward)
        pending = list(found)
        while pending:
            for node in walk(pending.pop()):
                match node:
                    case ast.Attribute(value=ast.Name(id="self"), attr=name) if functions.get(name, node) not in found:
                        if name in functions:
                            found.add(functions[name])
                            pending.append(functions[name])
                    case _:
                        pass
        return found

    def is_aside(self, function: ast.AST | None) -> bool:
        """Whether a method only builds, saves, moves or shows the object; by its name, or as nothing else calls it."""
        name = getattr(function, "name", "")
        return function not in self.in_forward and (name in self._aside or _ASIDE.match(name) is not None)

    @cached_property
    def _aside(self) -> set[str]:
        callers: dict[str, set[str]] = {}
        for ref in self._lineage:
            for function in class_functions(ref.node) if ref.file is self._file else ():
                for name in called_on_self([Function(function, self._file)]):
                    callers.setdefault(name, set()).add(function.name)
        found = {"__init__", *(name for method in self._methods if _ASIDE.match(name := name_of(method)))}
        while more := {name for name, by in callers.items() if by <= found} - found:
            found |= more
        return found


def functions_of(
    project: Project,
    file: IndexedFile,
    lineage: Sequence[ClassRef],
    entries: Iterable[ast.FunctionDef | ast.AsyncFunctionDef],
) -> list[Function]:
    """The methods of a class in a file; without one what modules of other files run, or else all functions that no module has."""
    if lineage:
        return list(_own_methods(file, lineage))
    return [Function(node, file) for node in dict.fromkeys(entries)] or list(_functions_outside(file, project))


def _own_methods(file: IndexedFile, lineage: Iterable[ClassRef]) -> Iterator[Function]:
    """The methods that objects of a class have from it and from its bases in a file, but for ``__init__``."""
    seen = {"__init__"}
    for owner in lineage:
        if owner.file is not file:
            continue
        # Of several functions of a name, such as overloads, the last stays.
        for name, node in {node.name: node for node in class_functions(owner.node)}.items():
            if name not in seen:
                seen.add(name)
                yield Function(node, file, None, owner)


def _functions_outside(file: IndexedFile, project: Project) -> Iterator[Function]:
    """Functions of a file and methods of its classes that are no modules, but for functions that the file itself calls."""
    called: set[str] = set()
    if any(_may_be_called(name, file.source.text) for name in file.functions):
        calls = (call for statement in file.tree.body for call in of_kind(statement, ast.Call))
        called = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    for node in file.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name not in called:
            yield Function(node, file)
        elif isinstance(node, ast.ClassDef):
            ref = ClassRef(file, node, ())
            if not (node.bases and project.is_module(ref)):
                for method in class_functions(node):
                    yield Function(method, file)


def called_on_self(methods: Iterable[Function]) -> set[str]:
    """Names of the methods that other methods of the class call."""
    found: set[str] = set()
    for function in methods:
        for call in of_kind(function.node, ast.Call):
            match call.func:
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if name != name_of(function):
                    found.add(name)
                case _:
                    pass
    return found


def self_names(methods: Iterable[Function]) -> dict[ast.AST, str | None]:
    """How methods, and the functions in them, name the object that they belong to; None for those that do not know it."""
    found: dict[ast.AST, str | None] = {}
    for method in methods:
        arguments = method.node.args
        names = [*arguments.posonlyargs, *arguments.args]
        static = any(getattr(d, "id", "") in _UNBOUND for d in getattr(method.node, "decorator_list", ()))
        for kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda):
            for function in (method.node, *of_kind(method.node, kind)):
                found.setdefault(function, names[0].arg if names and not static else None)
    return found


def name_of(function: Function) -> str:
    """The name of a function; empty for a `lambda`."""
    return getattr(function.node, "name", "")


def _may_be_called(name: str, text: str) -> bool:
    """Whether a text, or a docstring in it, may call a function of that name."""
    at = text.find(name)
    while at != -1:
        before, end = text[max(0, at - 4) : at], at + len(name)
        whole = not (before[-1:].isalnum() or before.endswith(("_", "."))) and before != "def "
        after = text[end : end + 1]
        if whole and (after in ("(", "\\") or after.isspace()):
            return True
        at = text.find(name, end)
    return False
