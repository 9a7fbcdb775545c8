"""The outcome of a run: what was found and done, and why a run cannot be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from modellint.results.diagnostic import Diagnostic
from modellint.source.syntax.source_text import SourceText

if TYPE_CHECKING:
    from modellint.cache.bundle import KeptReport
    from modellint.results.conversion_verdict import Conversion


class UsageError(Exception):
    """What the user asked for cannot be done; the message says why."""


class Change(NamedTuple):
    """A file as it is, and as its fixes would leave it."""

    shown: str
    """How findings name the file."""
    before: str
    after: str
    cell: int | None = None
    """Of a notebook, of which each cell is shown for itself."""


def changes_to(shown: str, source: SourceText, text: str) -> list[Change]:
    """What is another in ``text`` than in ``source``."""
    return [Change(shown, before, after, cell) for cell, before, after in source.changed_parts(text)]


class Outcome:
    """What a run found and did."""

    __slots__ = (
        "changes",
        "diagnostics",
        "files",
        "fixed",
        "keep_report",
        "problems",
        "report",
        "targets",
        "unchecked",
        "unread",
    )

    def __init__(self, files: int = 0) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.files = files
        self.fixed: Counter[str] = Counter()
        self.changes: list[Change] = []
        """What fixes would change, where nothing is to be written."""
        self.targets: list[tuple[str, Conversion | None]] = []
        self.problems: list[str] = []
        self.unread: list[str] = []
        """Files that cannot be read, where no finding may say so."""
        self.unchecked: list[str] = []
        """What was asked for and is not checked."""
        self.report: KeptReport | None = None
        """What an earlier run printed, if all is as it was then; there are no findings then."""
        self.keep_report: Callable[[KeptReport], None] | None = None
        """Keeps what is printed of this run, where a later one may ask for it."""
