"""Findings as a table for a notebook: one HTML element that needs nothing else, on a light page and on a dark one."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from modellint.report import live_findings, summary
from modellint.report.style import visible
from modellint.results.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from modellint.results.applied_fix import Applied

# White on these is legible on any page, and the text around takes the page's own colour.
_BADGES = {Severity.ERROR: "#b42318", Severity.WARNING: "#8a5a00", Severity.INFO: "#0b5cad"}
_CELL = "text-align:left;vertical-align:top;padding:4px 10px;border-bottom:1px solid rgba(128,128,128,.35)"
_MONO = "font-family:monospace;white-space:nowrap"


def render(
    diagnostics: Sequence[Diagnostic],
    verdict: str = "",
    fixed: Sequence[Applied] = (),
    undone: Sequence[Applied] = (),
) -> str:
    """What was fixed and what could not be, the findings, a row each, the summary, and the verdict on the conversion."""
    fixes = _fixes("fixed", fixed) + _fixes("not fixed", undone)
    groups = live_findings.by_defect(diagnostics)
    ending = summary.render([group[0] for group in groups]).splitlines()[0]
    last = "".join(f'<p style="margin:4px 0">{escape(line)}</p>' for line in (ending, verdict) if line)
    if not groups:
        return f"<div>{fixes}{last}</div>"
    head = "".join(f'<th style="{_CELL}">{title}</th>' for title in ("severity", "code", "finding", "place", "modules"))
    rows = "".join(_row(group) for group in groups)
    table = (
        '<table style="border-collapse:collapse;background:transparent;color:inherit">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )
    return f"<div>{fixes}{table}{last}</div>"


def _fixes(title: str, fixes: Sequence[Applied]) -> str:
    """A table of fixes; nothing where there are none."""
    if not fixes:
        return ""
    head = "".join(f'<th style="{_CELL}">{word}</th>' for word in (title, "what", "modules", "exactness", "note"))
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_CELL}">{_escaped(text)}</td>'
            for text in (
                fix.code,
                fix.title,
                ", ".join(path or "the model" for path in fix.modules),
                fix.exactness,
                fix.note,
            )
        )
        + "</tr>"
        for fix in fixes
    )
    return (
        '<table style="border-collapse:collapse;background:transparent;color:inherit">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _row(group: Sequence[Diagnostic]) -> str:
    finding = group[0]
    badge = (
        f'<span style="background:{_BADGES[finding.severity]};color:#fff;border-radius:3px;padding:1px 6px">'
        f"{finding.severity.label}</span>"
    )
    name = _escaped(f"{finding.code} {finding.name}")
    message = f'<span title="{name}">{_escaped(finding.message)}</span>'
    for line in (finding.help or "").splitlines():
        message += f'<br><span style="opacity:.75">{_escaped(line)}</span>'
    cells = (
        (badge, ""),
        (_escaped(finding.code), _MONO),
        (message, "white-space:normal"),
        (_escaped(_place(finding)), _MONO),
        ("<br>".join(filter(None, (_modules(each) for each in group))), "font-family:monospace"),
    )
    return (
        "<tr>"
        + "".join(f'<td style="{_CELL};{look}">{cell}</td>' if look else f'<td style="{_CELL}">{cell}</td>' for cell, look in cells)
        + "</tr>"
    )  # fmt: skip


def _place(finding: Diagnostic) -> str:
    if finding.path is None:
        return finding.target or ""
    return finding.path if finding.span is None else f"{finding.path}:{finding.place.rpartition(':')[0]}"


def _modules(finding: Diagnostic) -> str:
    shown = live_findings.modules_of(finding)
    every = ", ".join(finding.modules)
    return f'<span title="{_escaped(every)}">{_escaped(shown)}</span>' if shown else ""


def _escaped(text: str) -> str:
    return escape(visible(text))
