"""The lines of source around a finding, with carets under it."""

from __future__ import annotations

from modellint.report.style import columns, paint
from modellint.results.diagnostic import Diagnostic, Span
from modellint.source.syntax.source_text import SourceText
from modellint.source.syntax.suppressions import last_row

WIDEST = 140
"""How many columns of a line are shown."""

_CONTEXT = 1
_FOLD_ABOVE, _FOLD_HEAD, _FOLD_TAIL = 12, 5, 3


def gutter(number: str, width: int, color: bool, sign: str = "|") -> str:
    """What stands left of a line: its number, right-aligned, and a bar."""
    return paint(f"{number:>{width}} {sign}", "gutter", color)


def window(line: str, left: int) -> str:
    """The part of a line that is shown when ``left`` columns are scrolled out of view."""
    # Few characters take no column; what lies far to the right need not be measured.
    cells, _ = columns(line[: left + 2 * WIDEST])
    if left <= 0 and len(cells) <= WIDEST:
        return (cells if isinstance(cells, str) else "".join(cells)).rstrip()
    shown = [*cells[left : left + WIDEST]]
    if not shown:
        return "…" if line.strip() else ""
    if left > 0:
        shown[0] = "…"
        if len(shown) > 1 and shown[1] == "":
            shown[1] = " "
    if len(cells) > left + WIDEST:
        shown[-1] = "…"
        if len(shown) > 1 and cells[left + WIDEST - 1] == "":
            shown[-2] = " "
    return "".join(shown).rstrip()


def framed(source: SourceText | None, finding: Diagnostic) -> Frame | None:
    """The frame of a finding, of a notebook's in the lines of its cell; None where its text is not known."""
    if source is None or finding.span is None:
        return None
    return Frame(source.of_cell(finding.span.row) if finding.cells else source, finding.in_cell(finding.span))


class Frame:
    """A finding's frame, measured first (its arrow needs the width of the gutter), then drawn."""

    __slots__ = ("_end", "_first", "_last", "_left", "_source", "_start", "width")

    def __init__(self, source: SourceText, span: Span) -> None:
        rows = source.rows
        # The text may have changed since the finding was made: a place beyond its end is moved to the end.
        row = min(max(span.row, 1), rows)
        end_row = min(max(last_row(span), row), rows)
        begin = min(max(span.column, 1) - 1, len(source.line(row)))
        end = span.end_column - 1 if last_row(span) == span.end_row else len(source.line(end_row))
        end = min(max(end, 0), len(source.line(end_row)))
        self._source = source
        self._start = (row, begin)
        self._end = (end_row, end)
        self._first, self._last = self._context(row, end_row, rows)
        self._left = self._scroll()
        self.width = len(str(self._last))

    def shows(self, first: int, last: int) -> bool:
        """Whether these rows are in the frame."""
        return self._first <= first and last <= self._last and self._end[0] - self._start[0] < _FOLD_ABOVE

    def _context(self, row: int, end_row: int, rows: int) -> tuple[int, int]:
        first, last = max(1, row - _CONTEXT), min(rows, end_row + _CONTEXT)
        while first < row and not self._source.line(first).strip():
            first += 1
        while last > end_row and not self._source.line(last).strip():
            last -= 1
        return first, last

    def _scroll(self) -> int:
        """How many columns to leave out at the left, so that the start of the finding is in view."""
        row, begin = self._start
        end_row, end = self._end
        line = self._source.line(row)
        if row != end_row and not line[:begin].strip():
            return 0
        _, begins = columns(line[: max(begin, end if row == end_row else 0)])
        stop = begins[end] if row == end_row and end > begin else begins[begin] + 1
        return 0 if stop <= WIDEST - 1 else max(0, begins[begin] - WIDEST // 3)

    def draw(self, look: str, color: bool) -> list[str]:
        """The lines of the frame, carets in ``look``."""
        bar = gutter("", self.width, color)
        lines = []
        multiple = self._start[0] != self._end[0]
        for row in self._rows():
            if row is None:
                lines.append(f"{bar} {paint('|', look, color)} ...")
            elif multiple:
                lines.extend(self._row_of_many(row, look, color))
            else:
                lines.extend(self._row_of_one(row, look, color))
        return lines

    def _rows(self) -> list[int | None]:
        """The rows to show; None where the middle of a long finding is left out."""
        row, end_row = self._start[0], self._end[0]
        everything: list[int | None] = list(range(self._first, self._last + 1))
        if end_row - row + 1 <= _FOLD_ABOVE:
            return everything
        head = row - self._first + _FOLD_HEAD
        tail = self._last - end_row + _FOLD_TAIL
        return [*everything[:head], None, *everything[-tail:]]

    def _row_of_one(self, row: int, look: str, color: bool) -> list[str]:
        line = self._line(row, "", color)
        if row != self._start[0]:
            return [line]
        begin, end = self._start[1], self._end[1]
        at = min(self._column(row, begin), WIDEST - 1)
        until = self._column(row, end) if end > begin else at + 1
        until = min(max(until, at + 1), WIDEST)
        carets = paint("^" * max(1, until - at), look, color)
        return [line, f"{gutter('', self.width, color)} {' ' * at}{carets}"]

    def _row_of_many(self, row: int, look: str, color: bool) -> list[str]:
        (start_row, begin), (end_row, end) = self._start, self._end
        whole = not self._source.line(start_row)[:begin].strip()
        bar = gutter("", self.width, color)
        if not start_row <= row <= end_row:
            return [self._line(row, "  ", color)]
        if row == start_row and whole:
            return [self._line(row, paint("/", look, color) + " ", color)]
        if row == start_row:
            run = "_" * (self._column(row, begin) + 1) + "^"
            return [self._line(row, "  ", color), f"{bar}  {paint(run, look, color)}"]
        line = self._line(row, paint("|", look, color) + " ", color)
        if row < end_row:
            return [line]
        # The caret stands under the last character, in its first column.
        at = min(self._column(row, max(end - 1, 0)), WIDEST - 1)
        return [line, f"{bar} {paint('|' + '_' * (at + 1) + '^', look, color)}"]

    def _line(self, row: int, margin: str, color: bool) -> str:
        number = gutter(str(row), self.width, color)
        return f"{number} {margin}{window(self._source.line(row), self._left)}".rstrip()

    def _column(self, row: int, index: int) -> int:
        """The shown column of a character, from 0."""
        _, begins = columns(self._source.line(row)[: index + 1])
        return max(0, begins[min(index, len(begins) - 1)] - self._left)
