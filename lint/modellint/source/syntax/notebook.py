"""A notebook as one program: its code cells in their order, with what is needed to write each back.

The program is what rules read and fixes change. Behind each cell stands a comment on a line of its own, so that cells never join,
and IPython's own lines are masked by comments that tell them apart. A fix that touches either is refused. What is written is the
notebook's file with other text in the ``source`` of the cells that have changed, and nowhere else.
"""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from modellint.source.syntax.magics import all_masked, masked
from modellint.source.syntax.parse import Unparsable, parse
from modellint.source.syntax.source_text import SourceText, Undecodable

_OLDEST = 4
"""The version of nbformat since which cells stand in one list."""
_PYTHON = frozenset({"python", "python2", "python3", "ipython", "ipython2", "ipython3"})
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_ESCAPED = re.compile(r"\\u(?!00[0-7])")
_INDENTATION = re.compile(r"[ \t]+")
_ROW_END = re.compile(r"\r\n|\r|\n")


class _Cell(NamedTuple):
    """A code cell."""

    number: int
    """Among all cells, from 1."""
    text: str
    program: str
    """Its part of the program."""
    problem: tuple[int, int, str] | None = None
    """Row and column at which it is no Python, and why. Nothing of it is in the program then, nor of a cell that is indented as a whole."""


class CellProblem(NamedTuple):
    """A cell that is no Python: where that shows in the program, and what is said of it."""

    row: int
    column: int
    message: str


class NotebookText(SourceText):
    """The program of a notebook. ``cells`` are the rows at which all cells begin; those without code begin where the next does."""

    __slots__ = ()

    _code: Sequence[_Cell]
    _total: int
    _mark: str
    _raw: str

    @classmethod
    def decode(cls, data: bytes) -> NotebookText:
        """Read a notebook. Raises ``Undecodable`` for what is none, or one of an older format or another language."""
        has_bom = data.startswith(codecs.BOM_UTF8)
        try:
            raw = (data[len(codecs.BOM_UTF8) :] if has_bom else data).decode("utf-8")
        except UnicodeError as error:
            raise Undecodable(f"not valid utf-8: {error}") from None
        try:
            document = json.loads(raw)
        except ValueError as error:
            raise Undecodable(f"not a notebook: {error}") from None
        except RecursionError:
            raise Undecodable("not a notebook: its JSON is nested too deeply") from None
        sources = _sources(document)
        program = cls.of_cells([source for _, source in sources])
        program._code = [cell._replace(number=number) for cell, (number, _) in zip(program._code, sources, strict=True)]
        program._total = len(document["cells"])
        program._raw, program.bom = raw, has_bom
        program._place_cells()
        return program

    @classmethod
    def of_cells(cls, sources: Sequence[str]) -> NotebookText:
        """The program of code cells that stand in no file."""
        mark = "#:~"
        while any(mark in source for source in sources):
            mark += "~"
        code = list(_masked_cells(sources, mark))
        program = cls("".join(f"{cell.program}\n{mark}\n" for cell in code))
        program._code, program._total, program._mark, program._raw = code, len(code), mark, ""
        program._place_cells()
        return program

    def _place_cells(self) -> None:
        ends = [row for row in range(1, len(self.line_starts)) if self.line(row) == self._mark]
        starts = dict(zip((cell.number for cell in self._code), (1, *(row + 1 for row in ends)), strict=False))
        after = ends[-1] + 1 if ends else 1
        placed: list[int] = []
        for number in range(self._total, 0, -1):
            after = starts.get(number, after)
            placed.append(after)
        self.cells = tuple(reversed(placed))

    def with_text(self, text: str) -> NotebookText:
        """Another program of the same notebook."""
        program = NotebookText(text, self.encoding, self.bom)
        program._code, program._total, program._mark, program._raw = self._code, self._total, self._mark, self._raw
        program._place_cells()
        return program

    @property
    def problems(self) -> list[CellProblem]:
        """The cells that are no Python."""
        return [
            CellProblem(self.cells[cell.number - 1] + row - 1, column, message)
            for cell in self._code
            if cell.problem is not None
            for row, column, message in [cell.problem]
        ]

    def why_not_writable(self, text: str) -> str | None:
        """Why the notebook could not hold another program: it is no longer cell by cell what it was, or a cell alone is no Python."""
        texts = self._restored(text)
        if texts is None:
            return "it would reach beyond its cell, or into a line that is no Python"
        remade = NotebookText.of_cells(texts)
        if remade._mark != self._mark or remade.text != text:
            return "a cell would no longer be read as it is"
        return None

    def changed_parts(self, text: str) -> list[tuple[int | None, str, str]]:
        """The cells that are others in ``text``, as they stand in the notebook."""
        return [
            (cell.number, f"{cell.text}\n", f"{new}\n")
            for cell, new in zip(self._code, self._restored(text) or (), strict=False)
            if new != cell.text
        ]

    def _restored(self, text: str) -> list[str] | None:
        """What cells hold when the program is ``text``; None where it cannot be told."""
        *parts, rest = re.split(rf"^{self._mark}\n", text, flags=re.MULTILINE)
        if rest or len(parts) != len(self._code):
            return None
        texts: list[str] = []
        for cell, part in zip(self._code, parts, strict=True):
            part = part.removesuffix("\n")
            lines = dict(zip(_lines(cell.program), _lines(cell.text), strict=True))
            hidden = [line for line in _lines(cell.program) if self._mark in line]
            if [line for line in _lines(part) if self._mark in line] != hidden:
                return None
            for line in hidden:
                # Each is there once, as it has a number.
                part = part.replace(line, lines[line])
            texts.append(part)
        return texts

    def encode(self, text: str) -> bytes:
        """The notebook with the cells of another program; only the ``source`` of cells that have changed is written anew."""
        new = {number: after.removesuffix("\n") for number, _, after in self.changed_parts(text)}
        parts: list[str] = []
        at = 0
        for number, (start, end) in enumerate(self._places, 1):
            if number in new:
                parts += (self._raw[at:start], self._spelled(self._raw[start:end], new[number]))
                at = end
        raw = "".join([*parts, self._raw[at:]])
        return super().encode(raw)

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """Where in the file the source of each cell stands."""
        members = {key: start for key, start, _ in _members(self._raw, _SPACE.match(self._raw).end())}  # type: ignore[union-attr]
        places = []
        for _, start, _ in _members(self._raw, members["cells"]):
            fields = {key: (first, last) for key, first, last in _members(self._raw, start)}
            places.append(fields["source"])
        return places

    def _spelled(self, old: str, text: str) -> str:
        """A source in JSON, in the way in which the one before was: a string, or a list of lines with the same white space."""
        is_ascii = self._raw.isascii() and _ESCAPED.search(self._raw) is not None
        if not old.startswith("["):
            return json.dumps(text, ensure_ascii=is_ascii)
        items = [(start, end) for _, start, end in _members(old, 0)]
        if not items:
            return json.dumps(text.splitlines(keepends=True), ensure_ascii=is_ascii)
        known = {json.loads(old[start:end]): old[start:end] for start, end in items}
        before = [json.loads(old[start:end]) for start, end in items]
        joined = "".join(before)
        # nbformat divides at every line end that Python's strings know, some editors at LF alone.
        is_nbformat = before == joined.splitlines(keepends=True)
        lines = text.splitlines(keepends=True) if is_nbformat else re.findall(r"[^\n]*\n|[^\n]+", text)
        opening = old[: items[0][0]]
        between = old[items[0][1] : items[1][0]] if len(items) > 1 else "," + (opening[1:] or " ")
        spelled = [known.get(line) or json.dumps(line, ensure_ascii=is_ascii) for line in lines]
        return opening + between.join(spelled) + old[items[-1][1] :]

    def of_cell(self, row: int) -> SourceText:
        """The cell that a row stands in, alone and as the notebook shows it."""
        return SourceText(self._current.get(bisect_right(self.cells, row), "") + "\n")

    @cached_property
    def _current(self) -> dict[int, str]:
        """The cells of this program, by their numbers."""
        return dict(zip((cell.number for cell in self._code), self._restored(self.text) or (), strict=False))

    @property
    def file(self) -> SourceText:
        """The notebook's JSON."""
        return SourceText(self._raw)

    def row_in_file(self, row: int) -> int:
        """The row of the JSON in which a row of the program begins; the cell's where lines do not stand apart there."""
        number = bisect_right(self.cells, row)
        start, _ = self._places[number - 1]
        items = list(_members(self._raw, start)) if self._raw[start] == "[" else []
        index = row - self.cells[number - 1]
        rows = sum(len(_lines(json.loads(self._raw[first:last]))) - 1 for _, first, last in items)
        if index < len(items) and rows <= len(items):
            start = items[index][1]
        return self._raw.count("\n", 0, start) + 1


def other_language(data: bytes) -> str | None:
    """The language of a notebook of which nothing is read, as it is not Python; None of others, and of what is no notebook."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return None if _is_python(document) else _language_of(document)


def _is_python(document: Any) -> bool:
    return _language_of(document).lower() in _PYTHON


def _language_of(document: Any) -> str:
    """The language of a notebook's kernel; ``python`` where it does not say."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        told = metadata.get(key) if isinstance(metadata, dict) else None
        language = told.get(name) if isinstance(told, dict) else None
        if isinstance(language, str) and language:
            return language
    return "python"


def _sources(document: Any) -> list[tuple[int, str]]:
    """The number and text of each cell of Python. Raises ``Undecodable`` for what is no notebook."""
    if not isinstance(document, dict) or type(document.get("nbformat")) is not int:
        raise Undecodable("not a notebook: it has no `nbformat`")
    if document["nbformat"] < _OLDEST:
        raise Undecodable(
            f"a notebook of format {document['nbformat']}, which is not read: jupyter nbconvert --to notebook --inplace "
            "makes it one of format 4"
        )
    cells = document.get("cells")
    if not isinstance(cells, list):
        raise Undecodable("not a notebook: it has no list of `cells`")
    is_python = _is_python(document)
    sources: list[tuple[int, str]] = []
    for number, cell in enumerate(cells, 1):
        source = cell.get("source") if isinstance(cell, dict) else None
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise Undecodable(f"not a notebook: cell {number} has no `source`")
        if is_python and cell.get("cell_type") == "code" and _language_of_cell(cell).lower() in _PYTHON:
            sources.append((number, source))
    return sources


def _language_of_cell(cell: dict[str, Any]) -> str:
    """What VS Code notes of a cell of another language than the kernel's."""
    metadata = cell.get("metadata")
    vscode = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = vscode.get("languageId") if isinstance(vscode, dict) else None
    return language if isinstance(language, str) else "python"


def _masked_cells(sources: Sequence[str], mark: str) -> Iterator[_Cell]:
    count = 0

    def mask(line: str, kept: str) -> str:
        nonlocal count
        count += 1
        return f"{kept}{mark}{count}."

    for number, source in enumerate(sources, 1):
        before = count
        program = masked(source, mask)
        try:
            parse(program)
        except Unparsable as error:
            count = before
            rows = len(_lines(source))
            row = min(max(error.row or 1, 1), rows)
            column = min(max(error.column or 1, 1), len(_lines(source)[row - 1]) + 1)
            problem = None if _runs_without_indentation(program) else (row, column, error.message)
            yield _Cell(number, source, all_masked(source, mask), problem)
        except RecursionError:
            # The whole program is read on a larger stack.
            yield _Cell(number, source, program)
        else:
            yield _Cell(number, source, program)


def _runs_without_indentation(program: str) -> bool:
    """Whether a cell is Python once the white space that its first line begins with is taken off all lines, as IPython does."""
    indentation = _INDENTATION.match(program)
    if indentation is None:
        return False
    lines = program.splitlines(keepends=True)
    try:
        parse("".join(line.removeprefix(indentation[0]) for line in lines))
    except (Unparsable, RecursionError):
        return False
    return True


def _lines(text: str) -> list[str]:
    return _ROW_END.split(text)


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """The members of the object, or the items of the list, that begins at an offset: key, first offset, offset behind it."""

    def space(at: int) -> int:
        match = _SPACE.match(text, at)
        assert match is not None
        return match.end()

    keyed = text[at] == "{"
    at = space(at + 1)
    while text[at] not in "]}":
        key = ""
        if keyed:
            key, at = _DECODER.raw_decode(text, at)
            at = space(space(at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        yield key, at, end
        at = space(end)
        at = space(at + 1) if text[at] == "," else at
