"""The lines that pylint prints, for programs that read these: ``path:line:column: code: message (name)``, columns from 0."""

from __future__ import annotations

from modellint.report.formats import CheckResults
from modellint.report.formats.locations import file_of
from modellint.report.live_findings import by_defect
from modellint.report.style import visible


def render(results: CheckResults) -> str:
    """A line for each finding, and nothing else."""
    lines = []
    for finding, *_ in by_defect(results.diagnostics):
        path = file_of(results, finding) or finding.target or "-"
        span = finding.span if finding.path is not None else None
        row, column = (1, 0) if span is None else (span.row, span.column - 1)
        lines.append(f"{visible(path)}:{row}:{column}: {finding.code}: {visible(finding.message)} ({finding.name})\n")
    return "".join(lines)
