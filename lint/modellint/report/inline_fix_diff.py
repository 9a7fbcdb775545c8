"""Diff of a fix, line by line, as it is shown below a finding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from modellint.report.frame import WIDEST, Frame, window
from modellint.report.style import columns, paint
from modellint.results.diagnostic import Diagnostic, Edit, Fix, Span
from modellint.source.syntax.edits import Change, EditError, apply, changes_of
from modellint.source.syntax.source_text import SourceText

_LONG = 4
"""So many lines that come together are shown once in a report."""
_NEWLINE = re.compile(r"\r\n|\r|\n")


class _Row(NamedTuple):
    sign: str
    number: int
    """The row in the new text; for a line that goes, the row at which it would be."""
    text: str


class _Hunk(NamedTuple):
    first: int
    last: int
    """The first and the last row of the old text that it touches."""
    rows: list[_Row]


class Diffs:
    """The fixes of one report: what was shown of one is not shown again."""

    def __init__(self) -> None:
        self._bodies: set[str] = set()
        self._places: dict[tuple[str, Fix], Span] = {}

    def shown_at(self, path: str, fix: Fix, span: Span) -> Span | None:
        """The finding of the same file below which the same fix was shown; None the first time."""
        place = self._places.setdefault((path, fix._replace(title="")), span)
        return None if place == span else place

    def draw_for(self, source: SourceText, finding: Diagnostic, color: bool, frame: Frame | None = None) -> list[str]:
        """The lines that the fix of a finding takes and brings; in a notebook cell by cell, each named that is not the finding's."""
        if finding.fix is None or not finding.cells:
            return [] if finding.fix is None else self.draw(source, finding.fix, color, frame)
        by_cell: dict[int | None, list[Edit]] = {}
        for edit in finding.fix.edits:
            by_cell.setdefault(finding._replace(span=edit.span).cell, []).append(edit)
        lines: list[str] = []
        for cell, edits in by_cell.items():
            part = finding.fix._replace(edits=tuple(edit._replace(span=finding.in_cell(edit.span)) for edit in edits))
            is_here = cell == finding.cell
            lines += [] if is_here else [f"  {paint(':::', 'gutter', color)} cell {cell}"]
            lines += self.draw(source.of_cell(edits[0].span.row), part, color, frame if is_here else None)
        return lines

    def draw(self, source: SourceText, fix: Fix, color: bool, frame: Frame | None = None) -> list[str]:
        """The lines that go and come, where ``frame`` does not show it with one line around them.

        Empty where the fix does not fit the text.
        """
        try:
            changes = changes_of(fix, source)
        except EditError:
            return []
        hunks = []
        for hunk in _hunks(source, changes):
            is_framed = frame is not None and frame.shows(hunk.first, hunk.last)
            rows = [row for row in hunk.rows if row.sign != "|" or not is_framed]
            if any(row.sign != "|" for row in rows):
                hunks.append((list(self._folded(rows)), _scroll(rows), is_framed))
        width = max((len(str(row.number)) for rows, _, _ in hunks for row in rows if row.sign != "-"), default=1)
        width = max(width, 0 if frame is None else frame.width)
        lines: list[str] = []
        for index, (rows, left, is_framed) in enumerate(hunks):
            if index and not (is_framed and hunks[index - 1][2]):
                lines.append(paint(f"{'':>{width}} ...", "gutter", color))
            lines.extend(_line(row, width, left, color) for row in rows)
        return lines

    def _folded(self, rows: Sequence[_Row]) -> Iterator[_Row]:
        """The rows, without those of a body that stood in a hunk before."""
        for is_new, group in groupby(rows, lambda row: row.sign == "+"):
            body = list(group)
            written = [row for row in body if row.text.strip()]
            if not is_new or len(written) < _LONG:
                yield from body
                continue
            text = "\n".join(row.text for row in written)
            if text in self._bodies:
                yield written[0]
                indent = " " * (len(written[1].text) - len(written[1].text.lstrip()))
                yield written[1]._replace(text=f"{indent}… {len(written) - 1} more lines, as above")
            else:
                self._bodies.add(text)
                yield from body


def _line(row: _Row, width: int, left: int, color: bool) -> str:
    text = window(row.text, left)
    if row.sign == "|":
        return f"{paint(f'{row.number:>{width}} |', 'gutter', color)} {text}".rstrip()
    look = "removed" if row.sign == "-" else "added"
    number = "" if row.sign == "-" else str(row.number)
    return f"{paint(f'{number:>{width}}', 'gutter', color)} {paint(f'{row.sign} {text}'.rstrip(), look, color)}"


def _scroll(hunk: Sequence[_Row]) -> int:
    """How far to scroll a hunk of long lines, so that the first difference is in view."""
    old = next((row.text for row in hunk if row.sign == "-"), "")
    new = next((row.text for row in hunk if row.sign == "+"), "")
    same = 0
    for before, after in zip(old, new, strict=False):
        if before != after:
            break
        same += 1
    at = len(columns(old[:same])[0])
    return 0 if at <= WIDEST * 2 // 3 else at - WIDEST // 3


def _hunks(source: SourceText, changes: Sequence[Change]) -> Iterator[_Hunk]:
    hunk: list[_Row] = []
    begins = ends = 1
    shown = 0  # the last row of the old text that has been shown
    shift = 0  # how many rows the changes so far have added
    rows = len(source.line_starts)
    for first, last, group in _touched(source, changes):
        old, new = _before_and_after(source, first, last, group)
        body = list(_compare(old, new, first, shift))
        while body and body[0].sign == "|":
            first, body = first + 1, body[1:]
        while body and body[-1].sign == "|":
            last, body = last - 1, body[:-1]
        grown = len(new) - len(old)
        if body:
            if hunk and first - 1 > shown + 1:
                yield _Hunk(begins, ends, hunk)
                hunk = []
            if not hunk:
                begins = first
            if first - 1 > shown:
                hunk.append(_Row("|", first - 1 + shift, source.line(first - 1)))
            hunk.extend(body)
            shown = ends = last
            if last + 1 <= rows and not (last + 1 == rows and not source.line(rows)):
                hunk.append(_Row("|", last + 1 + shift + grown, source.line(last + 1)))
                shown = last + 1
        shift += grown
    if hunk:
        yield _Hunk(begins, ends, hunk)


def _touched(source: SourceText, changes: Sequence[Change]) -> Iterator[tuple[int, int, list[Change]]]:
    """The rows that changes touch, first and last, with the changes; those that would share context as one."""
    group: list[Change] = []
    first = last = 0
    for change in changes:
        row, end_row = source.place(change.start)[0], source.place(change.end)[0]
        if group and row > last + 2:
            yield first, last, group
            group = []
        if not group:
            first = row
        group.append(change)
        last = max(end_row, last if len(group) > 1 else 0)
    if group:
        yield first, last, group


def _before_and_after(
    source: SourceText, first: int, last: int, changes: Sequence[Change]
) -> tuple[list[str], list[str]]:
    starts = source.line_starts
    start = starts[first - 1]
    end = starts[last] if last < len(starts) else len(source.text)
    moved = [Change(change.start - start, change.end - start, change.content) for change in changes]
    segment = source.text[start:end]
    old, new = _NEWLINE.split(segment), _NEWLINE.split(apply(segment, moved))
    if old[-1] == new[-1] == "":
        return old[:-1], new[:-1]
    if last == len(starts) and new[-1] == "":
        # The fix ends the last line with a line end: no line comes or goes.
        new.pop()
    return old, new


def _compare(old: list[str], new: list[str], first: int, shift: int) -> Iterator[_Row]:
    import difflib

    number = first + shift
    for tag, i, j, k, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (_Row("|", number + k + index, old[i + index]) for index in range(j - i))
            continue
        yield from (_Row("-", number + k, line) for line in old[i:j])
        yield from (_Row("+", number + k + index, line) for index, line in enumerate(new[k:end]))
