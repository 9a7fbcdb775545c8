"""Which words stand in a file, in its module classes and outside of them: what rules about code are woken by."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from modellint.source.project import ClassRef, Imported
from modellint.source.torch_names import STATELESS

if TYPE_CHECKING:
    from modellint.source.project import IndexedFile, Project

_CHAIN = re.compile(r"(?<![\w.])[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*|\.\s*[^\W\d]\w*")
Needs = tuple[frozenset[str], ...]
_STEP = re.compile(r"\[[^\]]*:[^\],:]*:")
STEP = "<step>"
"""Stands where there is a slice with a step."""
_NONE = re.compile(r"[\[,(]\s*None\s*[\],)]")
NONE_INDEX = "<None index>"
"""Stands where `None` may be one of the indices of a subscript."""
NO_FORWARD = "<no forward>"
"""Stands in a file with a module class at its top that derives from ``Module`` itself and has no ``forward``."""

BUILDS = "<builds>"
"""Stands where a function other than ``__init__`` calls something that may be a module class."""
_FUNCTION = re.compile(r"\bdef\s+(\w+)")
_BUILDING = re.compile(r"(?<![\w.])(?:\w+\s*\.\s*)*([A-Z]\w*)\s*\(")
_OTHERS = ("Error", "Exception", "Warning", "Output", "OutputWithPast", "Config", "Tensor", "Generator", "Cache", "Parameter")


class Words:
    """The words of one file, by where they stand.

    ``name``: anywhere; ``.name``: behind a dot; ``~name``: behind a dot but not as an attribute of ``self``, or imported.
    """

    def __init__(self, file: IndexedFile, project: Project) -> None:
        self.file = file
        self.project = project
        self._text = file.source.text
        self._all = self._words(self._text) | ({NO_FORWARD} if _any_without_forward(file.tree) else set())
        self._of: dict[ast.AST, frozenset[str]] = {}

    def anywhere(self, needs: Needs) -> bool:
        """Whether the file holds a word of each set."""
        return _holds(needs, [self._all])

    def in_class(self, ref: ClassRef, needs: Needs) -> bool:
        """Whether a class, its bases in the file or the functions that it may call hold a word of each set."""
        own = [self._in(one.node) for one in self.project.lineage(ref) if one.file is self.file]
        return _holds(needs, own) or _holds(needs, [*own, *map(self._in, self._functions())])

    def outside(self, needs: Needs) -> bool:
        """Whether the functions and classes that are no modules hold a word of each set."""
        others = [
            node
            for node in self.file.tree.body
            if isinstance(node, ast.ClassDef) and not self.project.is_module(ClassRef(self.file, node, ()))
        ]
        return _holds(needs, [*map(self._in, self._functions()), *map(self._in, others)])

    def _functions(self) -> list[ast.stmt]:
        return [node for node in self.file.tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]

    def _in(self, node: ast.stmt) -> frozenset[str]:
        if node not in self._of:
            starts = self.file.source.line_starts
            end = node.end_lineno or node.lineno
            text = self._text[starts[node.lineno - 1] : starts[end] if end < len(starts) else len(self._text)]
            self._of[node] = self._words(text) | (self._all & {NO_FORWARD})
        return self._of[node]

    def _words(self, text: str) -> frozenset[str]:
        found = {STEP} if _STEP.search(text) else set[str]()
        if _NONE.search(text):
            found.add(NONE_INDEX)
        if _builds(text):
            found.add(BUILDS)
        chains = set(_CHAIN.findall(text))
        anything_is_imported = bool(self.file.stars) or (text is not self._text and "import" in chains)
        for chain in chains:
            root, *names = (part.strip() for part in chain.split("."))
            found.add(root)
            imported = [binding.name for binding in self.file.names.get(root, ()) if isinstance(binding, Imported)]
            for name in imported:
                if name is not None:
                    found.update((name, "~" + name))
            for name in names:
                found.update((name, "." + name))
            if names and root not in ("self", "cls"):
                found.add("~" + names[-1])
                found.update("~" + name for name in names)
            elif anything_is_imported:
                found.add("~" + root)
        return frozenset(found)


def _any_without_forward(tree: ast.Module) -> bool:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(_last(base) == "Module" for base in node.bases):
            names = {part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
            if not names & {"forward", "__call__", "__new__"}:
                return True
    return False


def may_build(name: str) -> bool:
    """Whether a name may be that of a module class with state."""
    return name[:1].isupper() and name not in STATELESS and not name.endswith(_OTHERS)


def _builds(text: str) -> bool:
    _, *parts = _FUNCTION.split(text)
    bodies = [body for name, body in zip(parts[::2], parts[1::2], strict=True) if name != "__init__"]
    return any(may_build(name) for body in bodies for name in _BUILDING.findall(body))


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _holds(needs: Needs, parts: list[frozenset[str]]) -> bool:
    return all(any(not words.isdisjoint(part) for part in parts) for words in needs)
