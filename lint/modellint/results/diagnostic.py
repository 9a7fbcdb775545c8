"""Diagnostics, and what they are made of: severities, places, spans, edits, fixes.

Named tuples, as a dataclass takes ten times as long to define; no I/O, and no import of anything else in this package.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum, IntEnum
from typing import NamedTuple


class Severity(IntEnum):
    """How bad a finding is; ordered, so that levels compare."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        """The word that users type and read: ``info``, ``warning`` or ``error``."""
        return self.name.lower()


class Applicability(Enum):
    """Whether a fix may be applied: always, on request, or never by us (``display``)."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


class Span(NamedTuple):
    """A stretch of text. Rows and columns count from 1, columns count characters; the end is exclusive."""

    row: int
    column: int
    end_row: int
    end_column: int


class Place(NamedTuple):
    """A statement: the absolute path of its file, and where it stands there.

    Two are equal that are of the same statement, whatever it was that it ran.
    """

    path: str
    span: Span
    library: str = ""
    """What it ran: file and row of the innermost code that is a library's, neither PyTorch's nor a converter's."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and self[:2] == other[:2]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:2])


class Edit(NamedTuple):
    """Replace what ``span`` covers by ``content``; an empty span inserts."""

    span: Span
    content: str


class Fix(NamedTuple):
    """Edits that belong together: all are applied, or none.

    Identical edits of several fixes (an import that each of them needs) are applied once.
    """

    title: str
    edits: tuple[Edit, ...]
    applicability: Applicability = Applicability.SAFE


class Diagnostic(NamedTuple):
    """One finding.

    ``path`` is the file as it was named or found (``None`` for a live finding without source), ``span``
    the statement that creates the defect. ``class_name`` and ``attribute`` say what a finding about
    an attribute is about: two findings that agree in code, class and attribute are the same one.
    """

    code: str
    name: str
    severity: Severity
    message: str
    path: str | None
    span: Span | None
    fix: Fix | None = None
    help: str | None = None
    class_name: str | None = None
    attribute: str | None = None
    evidence: str = "source"
    target: str | None = None
    modules: tuple[str, ...] = ()
    operator: str | None = None
    noqa_row: int | None = None
    cells: tuple[int, ...] = ()
    """Of a finding in a notebook the rows at which its cells begin in the program that they make up; ``span`` counts in that."""
    library: tuple[str, ...] = ()
    """Of a live finding, where in a library's code the statement shows it: files, as they are imported, and rows."""

    @property
    def cell(self) -> int | None:
        """The number of the cell among all of a notebook's, from 1; None in a file of source."""
        return bisect_right(self.cells, self.span.row) if self.cells and self.span is not None else None

    def in_cell(self, span: Span) -> Span:
        """A span of the same file, its rows counted in the cell that it begins in."""
        if not self.cells:
            return span
        above = self.cells[max(bisect_right(self.cells, span.row), 1) - 1] - 1
        return span._replace(row=span.row - above, end_row=span.end_row - above)

    @property
    def place(self) -> str:
        """Where it stands in its file, for people: ``4:9``, or ``cell 3:4:9``; empty where that is not known."""
        if self.span is None:
            return ""
        span = self.in_cell(self.span)
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{cell}{span.row}:{span.column}"

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        """Findings are shown by file, then place, then code."""
        span = self.span
        return (
            self.path or "",
            span.row if span else 0,
            span.column if span else 0,
            self.code,
            self.message,
        )

    def with_fix(self, fix: Fix | None) -> Diagnostic:
        """The same finding with another fix, or with none."""
        return self._replace(fix=fix)
