"""Which words stand in a file, in its module classes and outside of them: what rules about code are woken by."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from modellint.source.nodes import Function, functions_in, of_kind
from modellint.source.project import ClassRef, Imported
from modellint.source.signs import SIGNS, shows

if TYPE_CHECKING:
    from modellint.source.project import IndexedFile, Project

# Twice as fast as `\w`; whatever is not ASCII may be a letter. Told by what it is not: `re` takes 7 ms to compile a range up to
# the last character there is.
_CHAIN = re.compile(r"[^\x00-\x2d/-@\[-^`{-\x7f][^\x00-\x2d/:-@\[-^`{-\x7f]*")
Needs = tuple[frozenset[str], ...]
_STEP = re.compile(r"\[[^\]]*:[^\],:]*:")
STEP = "<step>"
"""Stands where there is a slice with a step."""
_PARTIAL = re.compile(r"\[[^\[\]]*(?::[^\[\]]*,|\.\.\.)")
PARTIAL = "<partial index>"
"""Stands where a subscript may take a part of another dimension than the first."""
# It starts with a plain word, for which `re` looks fast; the first of those behind a bracket, a comma or an indentation counts.
_NONE = re.compile(r"None(?:(?<=[\[,(]None)|(?<=[\[,(]\sNone)|(?<=\s\sNone))\s*[\],)]")
NONE_INDEX = "<None index>"
"""Stands where `None` may be one of the indices of a subscript."""
# Annotations are full of unions.
_BITS = re.compile(r"\|(?!\s*(?:None|str|int|float|bool|list|tuple|dict|set|[\"'A-Z]))|\^|<<|>>|&=")
BITS = "<bits>"
"""Stands where there is an operator on bits or truth values, but for `&` between two."""
NO_FORWARD = "<no forward>"
"""Stands in a file with a module class at its top that derives from ``Module`` itself and has no ``forward``."""


class _Wanted(NamedTuple):
    """What a rule needs: words, those of them that count wherever they stand in a class, and signs."""

    words: tuple[frozenset[str], ...]
    building: tuple[frozenset[str], ...]
    signs: tuple[str, ...]


@cache
def _wanted(needs: Needs) -> _Wanted:
    words = tuple(one for one in needs if not one <= SIGNS)
    building = tuple(frozenset(filter(_matters_in_init, one)) for one in words)
    return _Wanted(words, building, tuple(sign for one in needs if one <= SIGNS for sign in one))


def _matters_in_init(word: str) -> bool:
    """Whether a word is one that matters where the object is built: a class, or what registers state."""
    name = word.lstrip(".~")
    return name[:1].isupper() or name in ("register_buffer", "register_parameter", "forward")


class _Place:
    """Classes and functions that may run each other, with the words that each of them holds."""

    __slots__ = ("nodes", "words")

    def __init__(self, nodes: list[ast.stmt], words: list[frozenset[str]]) -> None:
        self.nodes = nodes
        self.words = words

    def holds(self, wanted: frozenset[str]) -> bool:
        """Whether one of the words stands there."""
        return any(not wanted.isdisjoint(words) for words in self.words)


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
        self._of_class: dict[ast.AST, _Place] = {}
        self._run: dict[ast.AST, _Place] = {}
        self._outside: _Place | None = None
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
        return not any(one.isdisjoint(self._all) for one in _wanted(needs).words)

    def in_class(self, ref: ClassRef, needs: Needs, only_forward: bool = False) -> bool:
        """Whether a class, its bases in the file or the functions that it may call hold a word of each set.

        With ``only_forward``, what is called in lower case counts only where ``forward`` may run it.
        """
        place = self._of_class.get(ref.node)
        if place is None:
            place = self._of_class[ref.node] = self._place(self._reachable(ref))
        wanted = _wanted(needs)
        if not all(map(place.holds, wanted.words)):
            return False
        if not only_forward:
            return self._show(wanted.signs, place, place)
        run = self._run.get(ref.node)
        if run is None:
            run = self._run[ref.node] = self._place(self._run_by_forward(place.nodes))
        if not run.nodes:
            return False
        for words, building in zip(wanted.words, wanted.building, strict=True):
            if not run.holds(words) and not (building and place.holds(building)):
                return False
        return self._show(wanted.signs, place, run)

    def outside(self, needs: Needs) -> bool:
        """Whether the functions and classes that are no modules hold a word of each set."""
        place = self._outside
        if place is None:
            nodes: list[ast.stmt] = [
                node
                for node in self.file.tree.body
                if isinstance(node, ast.ClassDef) and not self.project.is_module(ClassRef(self.file, node, ()))
            ]
            place = self._outside = self._place([*nodes, *self._functions()])
        wanted = _wanted(needs)
        return all(map(place.holds, wanted.words)) and self._show(wanted.signs, place, place)

    def _show(self, signs: Iterable[str], place: _Place, run: _Place) -> bool:
        """Whether all that may run each other, of which ``forward`` runs a part, shows every sign."""
        return all(self._shows(sign, place.nodes, run.nodes) for sign in signs)

    def _shows(self, sign: str, nodes: list[ast.stmt], run: list[ast.stmt]) -> bool:
        key = (sign, nodes[0] if nodes else None)
        if key not in self._signs:
            self._signs[key] = shows(sign, self.file, nodes, run)
        return self._signs[key]

    def _place(self, nodes: list[ast.stmt]) -> _Place:
        return _Place(nodes, [self._in(node) for node in nodes])

    def _run_by_forward(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """The functions that ``forward`` may run, by the names that they hold; none without a ``forward``."""
        left = functions_in(nodes)
        found = [function for function in left if function.name == "forward"]
        left = [function for function in left if function.name != "forward"]
        kept = {name for function in left if function.name == "__init__" for name in self._kept_by(function, left)}
        if found and kept:
            # `self.pick = pick`: what building keeps, `forward` may call.
            found.extend(function for function in left if function.name in kept)
            left = [function for function in left if function.name not in kept]
        for function in found:
            words = self._in(function)
            found.extend(other for other in left if other.name in words)
            left = [other for other in left if other.name not in words]
        return [*found]

    def _kept_by(self, init: ast.stmt, functions: Sequence[Function]) -> set[str]:
        """The functions that ``__init__`` mentions without calling them."""
        names = {function.name for function in functions} & self._in(init)
        if not names:
            return names
        called = {call.func for call in of_kind(init, ast.Call)}
        mentioned = {node.id for node in of_kind(init, ast.Name) if node not in called}
        mentioned.update(node.attr for node in of_kind(init, ast.Attribute) if node not in called)
        return mentioned & names

    def _reachable(self, ref: ClassRef) -> list[ast.stmt]:
        """A class, its bases in the file, and the functions that they name, and so on."""
        found: list[ast.stmt] = [one.node for one in self.project.lineage(ref) if one.file is self.file]
        left = {node.name: node for node in self._functions()}
        for node in found:
            words = self._in(node)
            found.extend(left.pop(name) for name in [name for name in left if name in words])
        return found

    def _functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in self.file.tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]

    def _in(self, node: ast.stmt) -> frozenset[str]:
        found = self._of.get(node)
        if found is None:
            methods = functions_in([node]) if isinstance(node, ast.ClassDef) else []
            if not any(method.name == "forward" for method in methods):
                # Only of a class that runs is it asked what stands in each of its methods.
                methods = []
            own = self._words(self._text_of(node, methods))
            found = self._of[node] = own.union(self._everywhere, *map(self._in, methods))
        return found

    def _text_of(self, node: ast.stmt, without: Sequence[ast.stmt]) -> str:
        """The lines of a node but for its docstring and some of the statements in it."""
        starts = self.file.source.line_starts
        skipped = [part for part in (_docstring(node, self._text, starts),) if part is not None]
        skipped += without
        found, row = [], node.lineno
        for part in skipped:
            found.append(self._text[starts[row - 1] : starts[part.lineno - 1]])
            row = (part.end_lineno or part.lineno) + 1
        end = node.end_lineno or node.lineno
        if row <= end:
            found.append(self._text[starts[row - 1] : starts[end] if end < len(starts) else None])
        return "".join(found)

    def _words(self, text: str) -> frozenset[str]:
        found = {STEP} if _STEP.search(text) else set[str]()
        if _PARTIAL.search(text):
            found.add(PARTIAL)
        if _NONE.search(text):
            found.add(NONE_INDEX)
        if _BITS.search(text):
            found.add(BITS)
        chains = set(_CHAIN.findall(text))
        for chain in chains:
            words = self._of_chain.get(chain)
            if words is None:
                words = self._of_chain[chain] = self._split(chain)
            found.update(words)
        if self.file.stars or "import" in chains:
            for chain in chains:
                root, dot, _ = chain.partition(".")
                if not dot or root in ("self", "cls"):
                    found.add("~" + root)
        return frozenset(found)

    def _split(self, chain: str) -> tuple[str, ...]:
        root, *names = chain.split(".")
        found = [root]
        for binding in self.file.names.get(root, ()):
            if isinstance(binding, Imported) and binding.name is not None:
                found += (binding.name, "~" + binding.name)
            elif isinstance(binding, ast.Attribute):
                # `_r2c = torch.view_as_complex`
                found += (binding.attr, "." + binding.attr, "~" + binding.attr)
        for name in names:
            if name:
                found += (name, "." + name)
                if root not in ("self", "cls"):
                    found.append("~" + name)
        return tuple(found)


def _docstring(node: ast.stmt, text: str, starts: list[int]) -> ast.stmt | None:
    """The docstring of a function or class, where it has its lines to itself."""
    match getattr(node, "body", ()):
        case [ast.Expr(value=ast.Constant(value=str())) as first, *rest]:
            start = starts[first.lineno - 1]
            alone = not rest or rest[0].lineno > (first.end_lineno or first.lineno)
            return first if alone and not text[start : start + first.col_offset].strip() else None
    return None


def _any_without_forward(tree: ast.Module) -> bool:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(_last(base) == "Module" for base in node.bases):
            names = {part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
            if not names & {"forward", "__call__", "__new__"}:
                return True
    return False


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
