"""Places in the user's source: the statement that a frame runs, and the files that belong to the project."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import sysconfig
import tokenize
from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

from modellint.results.diagnostic import Place, Span


class Project:
    """What belongs to the user: the files below a root, libraries installed there excepted."""

    __slots__ = ("_known", "root")

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, bool] = {}

    def owns(self, path: str) -> bool:
        """Whether a file is the user's own."""
        owned = self._known.get(path)
        if owned is None:
            inside = Path(path).is_absolute() and Path(path).is_relative_to(self.root)
            parts = Path(path).relative_to(self.root).parts if inside else ()
            installed = "site-packages" in parts or "dist-packages" in parts or path.startswith(_OURS)
            owned = inside and not installed and Path(path).is_file()
            self._known[path] = owned
        return owned

    def place_of(self, frame: FrameType | None, until: FrameType | None = None) -> Place | None:
        """The statement at which a stack of frames stands for the user.

        That is the innermost frame inside the project, or else the innermost outside of torch, coremltools and modellint.
        Frames from ``until`` outwards do not count.
        """
        outside: tuple[str, int] | None = None
        while frame is not None and frame is not until:
            path = frame.f_code.co_filename
            if self.owns(path):
                return _running(statement_at(path, frame.f_lineno), outside)
            if outside is None and not is_machinery(path):
                outside = path, frame.f_lineno
            frame = frame.f_back
        return None if outside is None else statement_at(*outside)

    def place_of_rows(self, rows: Iterable[tuple[str, int]]) -> Place | None:
        """The same for files and rows, innermost first."""
        outside: tuple[str, int] | None = None
        for path, row in rows:
            if self.owns(path):
                return _running(statement_at(path, row), outside)
            if outside is None and not is_machinery(path):
                outside = path, row
        return None if outside is None else statement_at(*outside)


def _running(place: Place | None, outside: tuple[str, int] | None) -> Place | None:
    """A statement with the code of a library that it ran, whose file is named as it is imported: `timm/layers/mlp.py:42`."""
    if place is None or outside is None:
        return place
    path = outside[0].replace(os.sep, "/")
    for folder in ("/site-packages/", "/dist-packages/"):
        path = path.rpartition(folder)[2]
    return place._replace(library=f"{path}:{outside[1]}")


_LIBRARY = sysconfig.get_paths()["stdlib"]
_OURS = str(Path(__file__).parents[2])


def is_torch(path: str) -> bool:
    """Whether a file belongs to torch."""
    return "torch" in Path(path).parts


@lru_cache(maxsize=4096)
def is_machinery(path: str) -> bool:
    """Whether a file belongs to torch, a converter, modellint or Python itself."""
    parts = Path(path).parts
    if path.startswith(("<", _OURS)) or "torch" in parts or "coremltools" in parts or "coreai_torch" in parts:
        return True
    return path.startswith(_LIBRARY) and "site-packages" not in parts


class File:
    """One file's text and syntax, looked up by row and by class."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.content = _TEXTS[path] if path in _TEXTS else Path(path).read_bytes()
            self.tree: ast.Module | None = ast.parse(self.content)
        except (OSError, SyntaxError, ValueError, RecursionError):
            self.tree = None
        self.places: dict[int, Place] = {}
        self.bindings: dict[ast.ClassDef, Any] = {}
        """What `class_source.py` has read of a class."""

    @cached_property
    def lines(self) -> list[bytes]:
        """The lines as `ast` counts their columns: in bytes of UTF-8, whatever the file's encoding is."""
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(self.content).readline)
            text = self.content.decode(encoding, "replace")
        except (AttributeError, SyntaxError, LookupError):
            return []
        return [line.encode("utf-8") for line in io.StringIO(text, newline=None).read().split("\n")]

    @cached_property
    def statements(self) -> dict[int, ast.stmt]:
        """The innermost statement of each row."""
        statements = [node for node in ast.walk(self.tree or ast.Pass()) if isinstance(node, ast.stmt)]
        rows: dict[int, ast.stmt] = {}
        for node in sorted(statements, key=lambda node: (node.lineno, node.col_offset)):
            rows.update(dict.fromkeys(range(node.lineno, _last_row(node) + 1), node))
        return rows

    @cached_property
    def classes(self) -> dict[str, list[ast.ClassDef]]:
        """The classes by their `__qualname__`; of several with one name all."""
        classes: dict[str, list[ast.ClassDef]] = {}
        pending: list[tuple[ast.AST, str]] = [(self.tree, "")] if self.tree is not None else []
        while pending:
            node, prefix = pending.pop()
            for child in ast.iter_child_nodes(node):
                match child:
                    case ast.ClassDef():
                        classes.setdefault(prefix + child.name, []).append(child)
                        pending.append((child, f"{prefix}{child.name}."))
                    case ast.FunctionDef() | ast.AsyncFunctionDef():
                        pending.append((child, f"{prefix}{child.name}.<locals>."))
                    case ast.expr():
                        pass
                    case _:
                        pending.append((child, prefix))
        return classes


_FILES: dict[str, tuple[tuple[int, int], File]] = {}
_KEPT = 256
_TEXTS: dict[str, bytes] = {}


def remember(path: str) -> None:
    """Keep the text of a file that is about to run: the code may change or delete its own source."""
    if path not in _TEXTS:
        with contextlib.suppress(OSError):
            _TEXTS[path] = Path(path).read_bytes()


def file_at(path: str) -> File | None:
    """A file, read again only when it has changed; None where there is none, as for a notebook's cells."""
    if path in _TEXTS:
        stamp = 0, len(_TEXTS[path])
    else:
        try:
            status = Path(path).stat()
        except (OSError, ValueError):
            return None
        stamp = status.st_mtime_ns, status.st_size
    known = _FILES.get(path)
    if known is not None and known[0] == stamp:
        return known[1]
    if len(_FILES) >= _KEPT:
        _FILES.pop(next(iter(_FILES)))
    _FILES[path] = stamp, File(path)
    return _FILES[path][1]


def tree_of(path: str) -> ast.Module | None:
    """The syntax tree of a file; None where there is none that can be read."""
    file = file_at(path)
    return None if file is None else file.tree


def statement_at(path: str, row: int) -> Place | None:
    """The innermost statement that covers a row; of one with a block only its first lines count. None where there is no file."""
    file = file_at(path)
    if file is None:
        return None
    if row not in file.places:
        node = file.statements.get(row)
        file.places[row] = Place(path, Span(row, 1, row, 1) if node is None else _span(file, node))
    return file.places[row]


def _last_row(node: ast.stmt) -> int:
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        first: int = body[0].lineno
        return max(node.lineno, first - 1)
    return node.end_lineno or node.lineno


def span_of(path: str, node: ast.stmt) -> Span:
    """The span of a statement, in characters; of one with a block, its first row."""
    file = file_at(path)
    return Span(node.lineno, 1, node.lineno, 1) if file is None else _span(file, node)


def _span(file: File, node: ast.stmt) -> Span:
    lines = file.lines

    def column(row: int, offset: int) -> int:
        line = lines[row - 1] if row <= len(lines) else b""
        return len(line[:offset].decode("utf-8", "replace")) + 1

    end_row = _last_row(node)
    if end_row == node.end_lineno and node.end_col_offset is not None:
        end = column(end_row, node.end_col_offset)
    else:
        end = len(lines[end_row - 1].decode("utf-8", "replace").rstrip()) + 1 if end_row <= len(lines) else 1
    return Span(node.lineno, column(node.lineno, node.col_offset), end_row, end)
