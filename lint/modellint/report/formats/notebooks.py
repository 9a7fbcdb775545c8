"""Findings in notebooks for formats that know no cells: by the line of the file, with the place in the cell in the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modellint.results.diagnostic import Diagnostic, Span
from modellint.source.syntax.notebook import NotebookText

if TYPE_CHECKING:
    from modellint.report.formats import CheckResults
    from modellint.source.syntax.source_text import SourceText


def in_files(results: CheckResults) -> CheckResults:
    """The results with findings in notebooks at the lines of their JSON. Their fixes are left out, as they are of the cells' text."""

    def text_of(shown: str) -> SourceText | None:
        text = results.text_of(shown)
        return text.file if isinstance(text, NotebookText) else text

    diagnostics = [_in_file(finding, results) for finding in results.diagnostics]
    return results._replace(diagnostics=diagnostics, text_of=text_of)


def _in_file(finding: Diagnostic, results: CheckResults) -> Diagnostic:
    if not finding.cells or finding.span is None or finding.path is None:
        return finding
    text = results.text_of(finding.path)
    span = Span(1, 1, 1, 1)
    if isinstance(text, NotebookText):
        first, last = text.row_in_file(finding.span.row), text.row_in_file(finding.span.end_row)
        span = Span(first, 1, last, len(text.file.line(last)) + 1)
    return finding._replace(message=f"{finding.place}: {finding.message}", span=span, fix=None, cells=())
