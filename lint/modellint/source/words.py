"""Which words stand in a file, in its module classes and outside of them: what rules about code are woken by."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from modellint.source.project import ClassRef, Imported
from modellint.source.signs import BUILDS, SIGNS, functions_in, shows

if TYPE_CHECKING:
    from modellint.source.project import IndexedFile, Project

_CHAIN = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*|\.[^\W\d]\w*")
Needs = tuple[frozenset[str], ...]
_STEP = re.compile(r"\[[^\]]*:[^\],:]*:")
STEP = "<step>"
"""Stands where there is a slice with a step."""
_PARTIAL = re.compile(r"\[[^\[\]]*(?::[^\[\]]*,|\.\.\.)")
PARTIAL = "<partial index>"
"""Stands where a subscript may take a part of another dimension than the first."""
_NONE = re.compile(r"[\[,(]\s*None\s*[\],)]")
NONE_INDEX = "<None index>"
"""Stands where `None` may be one of the indices of a subscript."""
NO_FORWARD = "<no forward>"
"""Stands in a file with a module class at its top that derives from ``Module`` itself and has no ``forward``."""


class Words:
    """The words of one file, by where they stand.

    ``name``: anywhere; ``.name``: behind a dot; ``~name``: behind a dot but not as an attribute of ``self``, or imported.
    """

    def __init__(self, file: IndexedFile, project: Project) -> None:
        self.file = file
        self.project = project
        self._text = file.source.text
        self._of_chain: dict[str, tuple[str, ...]] = {}
        self._everywhere = {NO_FORWARD} if _any_without_forward(file.tree) else set()
        self._of: dict[ast.AST, frozenset[str]] = {}
        self._all = self._of_file()
        self._of_class: dict[ast.AST, list[ast.stmt]] = {}
        self._building: dict[ast.AST, frozenset[str]] = {}
        self._run: dict[ast.AST, list[ast.stmt]] = {}
        self._outside: list[ast.stmt] | None = None
        self._signs: dict[tuple[str, ast.stmt | None], bool] = {}

    def _of_file(self) -> frozenset[str]:
        found: set[str] = set()
        starts = [*self.file.source.line_starts, len(self._text)]
        rest, row = [], 0
        for node in self.file.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found |= self._in(node)
                rest.append(self._text[starts[row] : starts[node.lineno - 1]])
                row = node.end_lineno or node.lineno
        rest.append(self._text[starts[min(row, len(starts) - 1)] :])
        return self._words("".join(rest)) | found

    def anywhere(self, needs: Needs) -> bool:
        """Whether the file holds a word of each set."""
        return _holds([one for one in needs if not one <= SIGNS], [self._all])

    def in_class(self, ref: ClassRef, needs: Needs, only_forward: bool = False) -> bool:
        """Whether a class, its bases in the file or the functions that it may call hold a word of each set.

        With ``only_forward``, what is called in lower case counts only where ``forward`` may run it.
        """
        found = self._of_class.get(ref.node)
        if found is None:
            found = self._of_class[ref.node] = self._reachable(ref)
        if not only_forward:
            return self._hold(needs, found)
        if not _holds([one for one in needs if not one <= SIGNS], [self._in(node) for node in found]):
            return False
        run = self._run.get(ref.node)
        if run is None:
            run = self._run[ref.node] = self._run_by_forward(found)
        if not run:
            return False
        words = [self._in(node) for node in run]
        anywhere = [self._in_init(node) for node in found]
        if not _holds([one for one in needs if not one <= SIGNS], [*words, *anywhere]):
            return False
        return all(self._shows(sign, run if sign == BUILDS else found) for one in needs if one <= SIGNS for sign in one)

    def _in_init(self, node: ast.stmt) -> frozenset[str]:
        if node not in self._building:
            self._building[node] = frozenset(filter(_stands_in_init, self._in(node)))
        return self._building[node]

    def _run_by_forward(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """The functions that ``forward`` may run, by the names that they hold; none without a ``forward``."""
        left = functions_in(nodes)
        found = [function for function in left if function.name == "forward"]
        left = [function for function in left if function.name != "forward"]
        for function in found:
            words = self._in(function)
            found.extend(other for other in left if other.name in words)
            left = [other for other in left if other.name not in words]
        return [*found]

    def _reachable(self, ref: ClassRef) -> list[ast.stmt]:
        """A class, its bases in the file, and the functions that they name, and so on."""
        found: list[ast.stmt] = [one.node for one in self.project.lineage(ref) if one.file is self.file]
        left = {node.name: node for node in self._functions()}
        for node in found:
            words = self._in(node)
            found.extend(left.pop(name) for name in [name for name in left if name in words])
        return found

    def outside(self, needs: Needs) -> bool:
        """Whether the functions and classes that are no modules hold a word of each set."""
        if self._outside is None:
            self._outside = [
                node
                for node in self.file.tree.body
                if isinstance(node, ast.ClassDef) and not self.project.is_module(ClassRef(self.file, node, ()))
            ]
            self._outside += self._functions()
        return self._hold(needs, self._outside)

    def _hold(self, needs: Needs, nodes: list[ast.stmt]) -> bool:
        words = [self._in(node) for node in nodes]
        if not _holds([one for one in needs if not one <= SIGNS], words):
            return False
        return all(self._shows(sign, nodes) for one in needs if one <= SIGNS for sign in one)

    def _shows(self, sign: str, nodes: list[ast.stmt]) -> bool:
        key = (sign, nodes[0] if nodes else None)
        if key not in self._signs:
            self._signs[key] = shows(sign, self.file, nodes)
        return self._signs[key]

    def _functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in self.file.tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]

    def _in(self, node: ast.stmt) -> frozenset[str]:
        if node not in self._of:
            starts = self.file.source.line_starts
            end = node.end_lineno or node.lineno
            text = self._text[starts[node.lineno - 1] : starts[end] if end < len(starts) else len(self._text)]
            self._of[node] = self._words(text) | self._everywhere
        return self._of[node]

    def _words(self, text: str) -> frozenset[str]:
        found = {STEP} if _STEP.search(text) else set[str]()
        if _PARTIAL.search(text):
            found.add(PARTIAL)
        if _NONE.search(text):
            found.add(NONE_INDEX)
        chains = set(_CHAIN.findall(text))
        for chain in chains:
            words = self._of_chain.get(chain)
            if words is None:
                words = self._of_chain[chain] = self._split(chain)
            found.update(words)
        if self.file.stars or "import" in chains:
            for chain in chains:
                root, dot, _ = chain.partition(".")
                if not dot or root.strip() in ("self", "cls"):
                    found.add("~" + root.strip())
        return frozenset(found)

    def _split(self, chain: str) -> tuple[str, ...]:
        root, *names = (part.strip() for part in chain.split("."))
        found = [root]
        for binding in self.file.names.get(root, ()):
            if isinstance(binding, Imported) and binding.name is not None:
                found += (binding.name, "~" + binding.name)
            elif isinstance(binding, ast.Attribute):
                # `_r2c = torch.view_as_complex`
                found += (binding.attr, "." + binding.attr, "~" + binding.attr)
        for name in names:
            found += (name, "." + name)
            if root not in ("self", "cls"):
                found.append("~" + name)
        return tuple(found)


def _stands_in_init(word: str) -> bool:
    """Whether a word is one that matters where the object is built: a class, or what registers state."""
    name = word.lstrip(".~")
    return name[:1].isupper() or name in ("register_buffer", "register_parameter", "forward")


def _any_without_forward(tree: ast.Module) -> bool:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(_last(base) == "Module" for base in node.bases):
            names = {part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
            if not names & {"forward", "__call__", "__new__"}:
                return True
    return False


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _holds(needs: Iterable[frozenset[str]], parts: list[frozenset[str]]) -> bool:
    return all(any(not words.isdisjoint(part) for part in parts) for words in needs)
