"""Bytes on disk to text and back, and the arithmetic of rows, columns and offsets.

Python's rule for line ends holds everywhere: LF, CRLF, and CR alone; form feeds and U+2028 are not.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate, count
from operator import add
from typing import TYPE_CHECKING

from modellint.results.diagnostic import Edit, Span

if TYPE_CHECKING:
    import ast

LARGEST = 16 * 1024**2
"""The most bytes of a file that are read: a syntax tree takes a hundred times as many."""
LARGEST_NOTEBOOK = 256 * 1024**2
"""The same of a notebook, most of which is what its cells have put out."""
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_BLANK = re.compile(rb"^[ \t\f]*(?:#[^\r\n]*)?$", re.ASCII)
_NEWLINE = re.compile(r"\r\n|\r|\n")
_BLOCK = 1024
"""Characters in which line ends are counted at once."""


class Undecodable(Exception):
    """The bytes are not text of the encoding that the file declares."""


class Unreadable(Exception):
    """A file's bytes cannot be had; the message says why."""


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file of source. Raises ``Unreadable``, also for what is no file, and for what is too large."""
    try:
        status = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(status.st_mode):
            # To open a pipe waits for somebody to write, and a device may never end.
            raise Unreadable("cannot be read: it is no regular file")
        if status.st_size > largest_of(path):
            raise Unreadable(too_large(status.st_size, largest_of(path)))
        with open(path, "rb", 0) as file:  # noqa: PTH123
            return file.readall()
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None


def largest_of(path: str | os.PathLike[str]) -> int:
    """The most bytes of a file that are read."""
    return LARGEST_NOTEBOOK if os.fspath(path).endswith(".ipynb") else LARGEST


def too_large(size: int, largest: int = LARGEST) -> str:
    """What is said of a text of so many bytes."""
    return f"not read: it holds {size / 1e6:.1f} MB, and more than {largest / 1e6:.1f} MB of source are too many"


class SourceText:
    """The decoded text of one file, with what is needed to write it back byte for byte."""

    __slots__ = ("__dict__", "bom", "encoding", "text")

    cells: tuple[int, ...] = ()
    """Of a notebook's program the row at which each cell begins."""
    is_history = False
    """Whether its cells have run in this order, so that what a name is bound to last is what it means."""

    def __init__(self, text: str, encoding: str = "utf-8", bom: bool = False) -> None:
        self.text = text
        self.encoding = encoding
        self.bom = bom

    @classmethod
    def decode(cls, data: bytes) -> SourceText:
        """Decode as PEP 263 says: BOM, else coding cookie in the first two lines, else UTF-8.

        Raises ``Undecodable`` for NUL bytes, an unknown encoding, or bytes that do not fit it.
        """
        bom = data.startswith(codecs.BOM_UTF8)
        if bom:
            data = data[3:]
        encoding = _declared_encoding(data) or "utf-8"
        if b"\0" in data:
            raise Undecodable("the file holds NUL bytes: it is binary, or not in UTF-8")
        try:
            name = codecs.lookup(encoding).name
            if bom and name != "utf-8":
                raise Undecodable(f"a UTF-8 byte order mark, but the coding cookie says {encoding}")
            text = data.decode(name)
            if not isinstance(text, str) or (name != "utf-8" and text.encode(name) != data):
                # A stateful codec (utf-7, iso-2022) need not give the same bytes back.
                raise Undecodable(f"text in {encoding} does not survive a round trip")
        except LookupError:
            raise Undecodable(f"unknown encoding {encoding!r} in the coding cookie") from None
        except UnicodeError as error:
            raise Undecodable(f"not valid {encoding}: {error}") from None
        return cls(text, name, bom)

    def encode(self, text: str) -> bytes:
        """``text`` as this file would hold it. Raises ``UnicodeEncodeError`` if it cannot."""
        data = text.encode(self.encoding)
        return codecs.BOM_UTF8 + data if self.bom else data

    def with_text(self, text: str) -> SourceText:
        """Another text of the same file."""
        return SourceText(text, self.encoding, self.bom)

    def why_not_writable(self, text: str) -> str | None:
        """Why the file could not hold ``text``, and give it back; None where it can."""
        try:
            data = self.encode(text)
            return None if SourceText.decode(data).text == text else "the file would declare another encoding"
        except UnicodeEncodeError as error:
            char = text[error.start]
            return f"{char!r} cannot be written in the file's encoding, {self.encoding}"
        except Undecodable as error:
            return str(error)

    def of_cell(self, row: int) -> SourceText:
        """What stands around a row: the whole, or of a notebook the cell."""
        return self

    def changed_parts(self, text: str) -> list[tuple[int | None, str, str]]:
        """What is another in ``text``, before and after: the whole, or of a notebook each cell with its number."""
        return [(None, self.text, text)] if text != self.text else []

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of the first character of every line."""
        if "\r" not in self.text:
            # Many times faster than the expression, and nearly every file is of this kind.
            lengths = accumulate(map(len, self.text.split("\n")))
            starts = [0, *map(add, lengths, count(1))]
            starts.pop()
            return starts
        return [0, *(match.end() for match in _NEWLINE.finditer(self.text))]

    @cached_property
    def _ascii(self) -> bool:
        return self.text.isascii()

    @property
    def newline(self) -> str:
        """The line end that the file uses first; LF when it has none."""
        match = _NEWLINE.search(self.text)
        return match.group() if match else "\n"

    @cached_property
    def _line_ends(self) -> list[int]:
        """How many line ends stand before each block of the text, and in all of it."""
        blocks = range(0, len(self.text), _BLOCK)
        return [0, *accumulate(self.text.count("\n", at, at + _BLOCK) for at in blocks)]

    @cached_property
    def _shown(self) -> dict[int, str]:
        return {}

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.line_starts) if "\r" in self.text else self._line_ends[-1] + 1

    def line(self, row: int) -> str:
        """The text of a row (from 1), without its line end; empty beyond the last."""
        line = self._shown.get(row)
        if line is None:
            line = self._shown[row] = self._line(row)
        return line

    def _line(self, row: int) -> str:
        if not 1 <= row <= self.rows:
            return ""
        if "\r" in self.text or "line_starts" in self.__dict__:
            starts = self.line_starts
            end = starts[row] if row < len(starts) else len(self.text)
            return self.text[starts[row - 1] : end].rstrip("\r\n")
        # Few rows of a text are shown: only the blocks that hold them are looked through.
        block = max(bisect_left(self._line_ends, row - 1) - 1, 0)
        start = block * _BLOCK
        for _ in range(row - 1 - self._line_ends[block]):
            start = self.text.find("\n", start) + 1
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else None]

    def offset(self, row: int, column: int) -> int:
        """The offset of a place, both from 1."""
        return self.line_starts[row - 1] + column - 1

    def place(self, offset: int) -> tuple[int, int]:
        """Row and column, both from 1, of an offset."""
        row = bisect_right(self.line_starts, offset)
        return row, offset - self.line_starts[row - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """The span between two offsets."""
        return Span(*self.place(start), *self.place(end))

    def byte_offset(self, row: int, column: int) -> int:
        """The character offset of what ``ast`` calls (row from 1, column in UTF-8 bytes from 0)."""
        start = self.line_starts[row - 1]
        if self._ascii:
            return start + column
        end = self.line_starts[row] if row < len(self.line_starts) else len(self.text)
        line = self.text[start:end]
        if line.isascii():
            return start + column
        return start + len(line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))

    def length(self, node: ast.stmt) -> int:
        """Characters of the lines of a statement."""
        starts = self.line_starts
        last = node.end_lineno or node.lineno
        return (starts[last] if last < len(starts) else len(self.text)) - starts[node.lineno - 1]

    def insert(self, offset: int, content: str) -> Edit:
        """An edit that puts ``content`` before ``offset``."""
        return Edit(self.span(offset, offset), content)

    def replace(self, start: int, end: int, content: str) -> Edit:
        """An edit that puts ``content`` in the place of the text between two offsets."""
        return Edit(self.span(start, end), content)


def _declared_encoding(data: bytes) -> str | None:
    lines = re.split(rb"\r\n|\r|\n", data[:4096], maxsplit=2)[:2]
    for line in lines:
        if match := _COOKIE.match(line):
            return match.group(1).decode("ascii")
        if not _BLANK.match(line):
            return None
    return None
