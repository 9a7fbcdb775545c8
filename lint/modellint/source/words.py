"""Which words stand in a file, in its module classes and outside of them: what rules about code are woken by."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modellint.source.project import ClassRef, IndexedFile, Project

_WORD = re.compile(r"[^\W\d]\w*")


class Words:
    """The words of one file."""

    def __init__(self, file: IndexedFile) -> None:
        self.file = file
        self._text = file.source.text
        self._all = frozenset(_WORD.findall(self._text))
        self._of: dict[ast.AST, frozenset[str]] = {}
        self._outside: frozenset[str] | None = None

    def anywhere(self, needs: tuple[frozenset[str], ...]) -> bool:
        """Whether the file holds a word of each set."""
        return all(not words.isdisjoint(self._all) for words in needs)

    def in_class(self, ref: ClassRef, project: Project, needs: tuple[frozenset[str], ...]) -> bool:
        """Whether a class, its bases in the file or the functions that it may call hold a word of each set."""
        own = [self._of_class(one.node) for one in project.lineage(ref) if one.file is self.file]
        return all(any(not words.isdisjoint(part) for part in (*own, self._outside_words())) for words in needs)

    def outside(self, needs: tuple[frozenset[str], ...]) -> bool:
        """Whether the functions outside of classes hold a word of each set."""
        words_outside = self._outside_words()
        return all(not words.isdisjoint(words_outside) for words in needs)

    def _of_class(self, node: ast.ClassDef) -> frozenset[str]:
        if node not in self._of:
            starts = self.file.source.line_starts
            end = node.end_lineno or node.lineno
            text = self._text[starts[node.lineno - 1] : starts[end] if end < len(starts) else len(self._text)]
            self._of[node] = frozenset(_WORD.findall(text))
        return self._of[node]

    def _outside_words(self) -> frozenset[str]:
        if self._outside is None:
            starts = self.file.source.line_starts
            found: set[str] = set()
            for node in self.file.tree.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    end = node.end_lineno or node.lineno
                    text = self._text[starts[node.lineno - 1] : starts[end] if end < len(starts) else len(self._text)]
                    found.update(_WORD.findall(text))
            self._outside = frozenset(found)
        return self._outside
