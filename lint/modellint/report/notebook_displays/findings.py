"""Findings as a table in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.report import live_findings, summary
from modellint.report.notebook_displays.elements import element, paragraph, row, table, text
from modellint.results.diagnostic import Diagnostic

if TYPE_CHECKING:
    from modellint.results.applied_fix import Applied


def fragment(
    diagnostics: Sequence[Diagnostic],
    verdict: str = "",
    fixed: Sequence[Applied] = (),
    undone: Sequence[Applied] = (),
) -> str:
    """What was fixed and what could not be, the findings, a row each, the summary, and the verdict on the conversion."""
    groups = live_findings.by_defect(diagnostics)
    ending = summary.render([group[0] for group in groups]).splitlines()[0]
    heads = ("severity", "code", "finding", "place", "modules")
    return element(
        _fixes("fixed", fixed),
        _fixes("not fixed", undone),
        table("", heads, map(_row, groups)) if groups else "",
        paragraph(ending),
        paragraph(verdict),
    )


def _fixes(title: str, fixes: Sequence[Applied]) -> str:
    """A table of fixes; nothing where there are none."""
    if not fixes:
        return ""
    rows = [
        row((fix.code, fix.title, ", ".join(path or "the model" for path in fix.modules), fix.exactness, fix.note))
        for fix in fixes
    ]
    return table("", (title, "what", "modules", "exactness", "note"), rows)


def _row(group: Sequence[Diagnostic]) -> str:
    finding = group[0]
    label = finding.severity.label
    message = f'<span title="{text(f"{finding.code} {finding.name}")}">{text(finding.message)}</span>'
    for line in (finding.help or "").splitlines():
        message += f'<br><span class="help">{text(line)}</span>'
    modules = "<br>".join(filter(None, (_modules(each) for each in group)))
    cells = (
        f'<td><span class="badge {label}">{label}</span></td>',
        f'<td class="m nowrap">{text(finding.code)}</td>',
        f'<td class="wrap">{message}</td>',
        f'<td class="m nowrap">{text(_place(finding))}</td>',
        f'<td class="m">{modules}</td>',
    )
    return f"<tr>{''.join(cells)}</tr>"


def _place(finding: Diagnostic) -> str:
    if finding.path is None:
        return finding.target or ""
    return finding.path if finding.span is None else f"{finding.path}:{finding.place.rpartition(':')[0]}"


def _modules(finding: Diagnostic) -> str:
    shown = live_findings.modules_of(finding)
    every = ", ".join(finding.modules)
    return f'<span title="{text(every)}">{text(shown)}</span>' if shown else ""
