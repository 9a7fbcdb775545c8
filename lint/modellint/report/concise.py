"""One line for each finding: ``path:row:column: CODE [*] message``."""

from __future__ import annotations

from collections.abc import Sequence

from modellint.report import live_findings, summary
from modellint.report.style import paint, visible
from modellint.results.diagnostic import Diagnostic


def render(diagnostics: Sequence[Diagnostic], color: bool = False, *, unsafe: bool = False, fixed: int = 0) -> str:
    """The findings, a line each, and the summary.

    ``unsafe`` says that unsafe fixes were asked for; ``fixed`` how many findings this run fixed.
    """
    ordered = [group[0] for group in live_findings.by_defect(diagnostics)]
    lines = [_line(diagnostic, color, unsafe) + "\n" for diagnostic in ordered]
    return "".join(lines) + summary.render(ordered, color, unsafe, fixed)


def _line(diagnostic: Diagnostic, color: bool, unsafe: bool) -> str:
    colon = paint(":", "mark", color)
    place = ""
    if diagnostic.path is not None:
        place = paint(visible(diagnostic.path), "bold", color) + colon
        if diagnostic.span is not None:
            place += diagnostic.place.replace(":", colon) + colon
    elif diagnostic.target is not None:
        place = paint(visible(diagnostic.target), "bold", color) + colon
    code = paint(diagnostic.code, diagnostic.severity.label, color)
    space = " " if place else ""
    line = f"{place}{space}{code} {summary.mark(diagnostic, unsafe, color)}{visible(diagnostic.message)}"
    modules = live_findings.modules_of(diagnostic) if diagnostic.path is None else ""
    return f"{line} ({modules})" if modules else line
