"""Mentions: which files of a project name a thing, found in their text, and where in such a file it is named."""

from __future__ import annotations

import ast
import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

TREE = os.sep + "\0tree"
"""What stands behind a folder's path where an answer rests on all the files in it."""
_MOST_FILES = 20_000
_MOST_BYTES = 64_000_000
"""Of text that is kept between questions."""
_SUFFIXES = (".py", ".pyw", ".ipynb")


def files_below(root: str) -> list[tuple[str, int, int]] | None:
    """The files of code below a folder, each with its size and its time in nanoseconds; None where they are too many."""
    from modellint.discover import SKIPPED

    files: list[tuple[str, int, int]] = []
    pending = [root]
    folders = 0
    while pending:
        folders += 1
        try:
            entries = sorted(os.scandir(pending.pop()), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED:
                    pending.append(entry.path)
            elif entry.name.endswith(_SUFFIXES):
                try:
                    status = entry.stat()
                except OSError:
                    continue
                files.append((entry.path, status.st_size, status.st_mtime_ns))
        if len(files) > _MOST_FILES or folders > _MOST_FILES:
            return None
    return files


def digest_of_tree(root: str) -> str:
    """What changes as soon as a file of code below a folder does."""
    return _digest(files_below(root))


def _digest(files: list[tuple[str, int, int]] | None) -> str:
    return sha256(repr(sorted(files or ())).encode("utf-8", "surrogatepass")).hexdigest()


class Mentions:
    """The text of all files below a root, to be asked for names."""

    def __init__(self, root: str) -> None:
        files = files_below(root)
        self.is_whole = files is not None
        """Whether all files were looked at: a root may be a home, or a disk."""
        self.digest = _digest(files)
        self._paths = [path for path, _, _ in files or ()]
        self._texts: dict[str, bytes] = {}
        self._left = _MOST_BYTES
        self._naming: dict[str, list[str]] = {}

    def naming(self, name: str) -> list[str]:
        """The files that hold a name, in code or elsewhere."""
        if name not in self._naming:
            word = name.encode()
            pattern = re.compile(rb"(?<!\w)" + word + rb"(?!\w)")
            texts = ((path, self._text(path)) for path in self._paths)
            self._naming[name] = [path for path, text in texts if word in text and pattern.search(text)]
        return self._naming[name]

    def _text(self, path: str) -> bytes:
        text = self._texts.get(path)
        if text is None:
            try:
                with open(path, "rb") as stream:  # noqa: PTH123
                    text = stream.read()
            except OSError:
                text = b""
            if len(text) <= self._left:
                self._left -= len(text)
                self._texts[path] = text
        return text


class Mention(NamedTuple):
    """One place where a file names something: not in an import, an annotation, a test of a class, a comment or ``__all__``."""

    node: ast.AST
    statement: ast.stmt
    around: tuple[ast.stmt, ...]
    """The statements around it, outermost first."""

    @property
    def cls(self) -> ast.ClassDef | None:
        """The innermost class around it."""
        return next((part for part in reversed(self.around) if isinstance(part, ast.ClassDef)), None)

    @property
    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost function around it that stands in no other."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return next((part for part in self.around if isinstance(part, kinds)), None)


def mentions_in(file: IndexedFile, name: str) -> list[Mention]:
    """The mentions of a name in a file."""
    text = file.source.text
    starts = [match.start() for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
    if not starts:
        return []
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    found: list[Mention] = []
    for row in dict.fromkeys(bisect_right(lines, start) for start in starts):
        found += _in_row(file.tree.body, row, name)
    return found


def _in_row(body: list[ast.stmt], row: int, name: str) -> Iterator[Mention]:
    around: list[ast.stmt] = []
    pending = body
    while pending:
        statement = next((part for part in pending if _first_row(part) <= row <= (part.end_lineno or 0)), None)
        if statement is None:
            return
        pending = [
            part for block in _blocks(statement) for part in block if _first_row(part) <= row <= (part.end_lineno or 0)
        ]
        if pending:
            around.append(statement)
        else:
            for expression in _own_expressions(statement):
                for node in _naming(expression, name):
                    yield Mention(node, statement, tuple(around))


def _first_row(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(part.lineno for part in decorators)])


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        yield getattr(statement, field, [])
    for field in ("handlers", "cases"):
        for part in getattr(statement, field, ()):
            yield part.body


def _own_expressions(statement: ast.stmt) -> list[ast.expr]:
    """The expressions of a statement that stand in none of its blocks, without annotations."""
    match statement:
        case ast.ClassDef():
            return [*statement.bases, *statement.decorator_list, *(part.value for part in statement.keywords)]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = [*statement.args.defaults, *statement.args.kw_defaults]
            return [*statement.decorator_list, *(part for part in defaults if part is not None)]
        case ast.AnnAssign(value=value):
            return [value] if value is not None else []
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return []
        case ast.With() | ast.AsyncWith():
            return [item.context_expr for item in statement.items]
    return [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.expr)]


def _naming(expression: ast.expr, name: str) -> Iterator[ast.AST]:
    pending: list[ast.AST] = [expression]
    while pending:
        node = pending.pop()
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[first, *_]):
                pending.append(first)
                continue
            case ast.Name(id=other) if other == name:
                yield node
            case ast.Attribute(value=owner, attr=other) if other == name:
                if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls")):
                    yield node
            case ast.Constant(value=str() as said) if said == name:
                yield node
            case _:
                pass
        pending.extend(ast.iter_child_nodes(node))
