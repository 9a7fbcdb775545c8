"""Findings by file: its name, below it a line for each finding."""

from __future__ import annotations

from collections.abc import Sequence

from modellint.report import live_findings, summary
from modellint.report.style import paint, visible
from modellint.results.diagnostic import Diagnostic


def render(diagnostics: Sequence[Diagnostic], color: bool = False, *, unsafe: bool = False, fixed: int = 0) -> str:
    """The findings of each file, or live target where they have none, and the summary.

    ``unsafe`` says that unsafe fixes were asked for; ``fixed`` how many findings this run fixed.
    """
    ordered = [group[0] for group in live_findings.by_defect(diagnostics)]
    by_heading: dict[str, list[Diagnostic]] = {}
    for finding in ordered:
        by_heading.setdefault(_heading(finding), []).append(finding)
    blocks = []
    for name, rows in by_heading.items():
        places = [_place(finding) for finding in rows]
        wide = max(map(len, places))
        lines = [paint(visible(name), "bold", color) + ":"]
        for finding, place in zip(rows, places, strict=True):
            code = paint(finding.code, finding.severity.label, color)
            lines.append(
                f"  {place:>{wide}}  {code} {summary.mark(finding, unsafe, color)}{visible(finding.message)}".rstrip()
            )
        blocks.append("\n".join(lines) + "\n")
    return "\n".join([*blocks, summary.render(ordered, color, unsafe, fixed)])


def _heading(finding: Diagnostic) -> str:
    return finding.path or finding.target or "the model"


def _place(finding: Diagnostic) -> str:
    return "" if finding.path is None else finding.place
