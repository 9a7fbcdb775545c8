"""Edits as offsets into the text: checked against it, ordered, applied."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from modellint.results.diagnostic import Edit, Fix
from modellint.source.syntax.source_text import SourceText

_BARE_LF = re.compile(r"(?<!\r)\n")


class EditError(Exception):
    """An edit that does not fit the text, or two of one fix that cover the same text."""


class Change(NamedTuple):
    """Replace the text from ``start`` to ``end`` (offsets) by ``content``, whose line ends are the file's."""

    start: int
    end: int
    content: str


def changes_of(fix: Fix, source: SourceText) -> tuple[Change, ...]:
    """A fix's edits in the order of the text, equal ones once. Raises ``EditError``."""
    newline = source.newline
    changes = sorted(
        _once(_change(edit, source, newline) for edit in fix.edits),
        # Only by place: insertions at one place stay in the order in which the fix gives them.
        key=lambda change: (change.start, change.end),
    )
    for before, after in pairwise(changes):
        if after.start < before.end:
            raise EditError("two of its edits overlap")
    return tuple(changes)


def apply(text: str, changes: Iterable[Change]) -> str:
    """The text after changes that are in order and do not overlap; all else stays as it is."""
    parts: list[str] = []
    at = 0
    for change in changes:
        parts.append(text[at : change.start])
        parts.append(change.content)
        at = change.end
    parts.append(text[at:])
    return "".join(parts)


def shareable(change: Change) -> bool:
    """Whether equal changes are one change asked for twice, as an import is; two closing brackets are two."""
    return change.start < change.end or any(char.isalnum() for char in change.content)


def _once(changes: Iterable[Change]) -> list[Change]:
    kept: list[Change] = []
    for change in changes:
        if change not in kept or not shareable(change):
            kept.append(change)
    return kept


def _change(edit: Edit, source: SourceText, newline: str) -> Change:
    span = edit.span
    start = _offset(source, span.row, span.column)
    end = _offset(source, span.end_row, span.end_column)
    if end < start:
        raise EditError("an edit ends before it starts")
    content = edit.content if newline == "\n" else _BARE_LF.sub(newline, edit.content)
    return Change(start, end, content)


def _offset(source: SourceText, row: int, column: int) -> int:
    starts = source.line_starts
    if not 1 <= row <= len(starts) or column < 1:
        raise EditError("an edit lies outside the text")
    offset = starts[row - 1] + column - 1
    end = starts[row] if row < len(starts) else len(source.text)
    if offset > end:
        raise EditError("an edit lies outside its line")
    return offset
