"""Documents that a client has open: their text, its edits, and positions in the encoding that was agreed on.

pygls keeps documents too, but ends lines where Python's ``splitlines`` does, at form feeds and U+2028 among others, where no
client does.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from lsprotocol import types
from pygls.uris import to_fs_path

from modellint.results.diagnostic import Span
from modellint.source.syntax.source_text import SourceText

SETTINGS_FILES = ("modellint.toml", "pyproject.toml")
"""Names of files that settings stand in."""
_BOM = "\ufeff"
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_PYTHON = (".py", ".pyi", ".pyw")


def path_of(uri: str) -> Path | None:
    """The file of a URI; None for a document that is none, such as ``untitled:Untitled-1``."""
    if not uri.lower().startswith("file:"):
        return None
    name = to_fs_path(uri)
    return None if not name else Path(os.path.normpath(name))


class Document:
    """One open document. Rows and columns of ``source`` count from 1, in characters; those of the client as it counts."""

    def __init__(self, item: types.TextDocumentItem, encoding: str) -> None:
        self.uri = item.uri
        self.path = path_of(item.uri)
        self.language = (item.language_id or "").lower()
        self.version = item.version
        self.revision = 0
        """Grows with every change, whatever versions the client gives."""
        self.text = item.text
        self._encoding = encoding

    @property
    def is_python(self) -> bool:
        """Whether it is to be checked: a Python file, or a Python text that is not saved yet."""
        if self.path is None and not self.uri.lower().startswith("untitled:"):
            return False
        return self.language == "python" or (self.path is not None and self.path.suffix in _PYTHON)

    def change(self, version: int, changes: Sequence[types.TextDocumentContentChangeEvent]) -> None:
        """Apply edits, one after another."""
        for change in changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                start, end = self.offset(change.range.start), self.offset(change.range.end)
                self._set(self.text[:start] + change.text + self.text[max(start, end) :])
            else:
                self._set(change.text)
        self.version = version
        self.revision += 1

    def _set(self, text: str) -> None:
        self.text = text
        for name in ("_lines", "source"):
            self.__dict__.pop(name, None)

    @cached_property
    def _lines(self) -> SourceText:
        return SourceText(self.text)

    @cached_property
    def source(self) -> SourceText:
        """The text as a file would hold it: a byte order mark is no part of it."""
        text = self.text.removeprefix(_BOM)
        return SourceText(text, _encoding_of(text), self.text.startswith(_BOM))

    def offset(self, position: types.Position) -> int:
        """Where a position is in ``text``; beyond the end of a line its end, beyond the last line the end of all."""
        if position.line >= len(self._lines.line_starts):
            return len(self.text)
        line = self._lines.line(position.line + 1)
        return self._lines.line_starts[position.line] + _characters(line, position.character, self._encoding)

    def position(self, offset: int) -> types.Position:
        """The position of an offset in ``text``."""
        row, column = self._lines.place(offset)
        start = self._lines.line_starts[row - 1]
        return types.Position(row - 1, _units(self.text[start : start + column - 1], self._encoding))

    def range(self, start: int, end: int) -> types.Range:
        """The range between two offsets in ``source``."""
        mark = len(self.text) - len(self.source.text)
        return types.Range(self.position(start + mark), self.position(end + mark))

    def range_of(self, span: Span | None) -> types.Range:
        """The range of a span in ``source``, as far as there is such text; the start of the document without one."""
        if span is None:
            return types.Range(types.Position(0, 0), types.Position(0, 0))
        return self.range(self._inside(span.row, span.column), self._inside(span.end_row, span.end_column))

    def source_offset(self, position: types.Position) -> int:
        """Where a position is in ``source``."""
        return max(0, self.offset(position) - (len(self.text) - len(self.source.text)))

    def _inside(self, row: int, column: int) -> int:
        starts = self.source.line_starts
        if row > len(starts):
            return len(self.source.text)
        return starts[row - 1] + min(column - 1, len(self.source.line(row)))


def _encoding_of(text: str) -> str:
    """The encoding that the first two lines declare, in which the client writes the file."""
    for line in re.split(r"\r\n|\r|\n", text[:4096], maxsplit=2)[:2]:
        if match := _COOKIE.match(line):
            try:
                return codecs.lookup(match[1]).name
            except LookupError:
                return "utf-8"
    return "utf-8"


def _characters(line: str, units: int, encoding: str) -> int:
    """How many characters of a line take so many units."""
    if encoding == types.PositionEncodingKind.Utf32 or line.isascii():
        return min(max(units, 0), len(line))
    taken = 0
    for index, width in enumerate(_widths(line, encoding)):
        if taken >= units:
            return index
        taken += width
    return len(line)


def _units(text: str, encoding: str) -> int:
    """How many units a text takes."""
    if encoding == types.PositionEncodingKind.Utf32 or text.isascii():
        return len(text)
    return sum(_widths(text, encoding))


def _widths(text: str, encoding: str) -> Iterator[int]:
    is_utf8 = encoding == types.PositionEncodingKind.Utf8
    for char in text:
        code = ord(char)
        if is_utf8:
            yield 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
        else:
            yield 2 if code > 0xFFFF else 1
