"""Statistics: how often each rule fired."""

from __future__ import annotations

from collections.abc import Sequence

from modellint.report.live_findings import by_defect
from modellint.report.style import paint
from modellint.report.summary import applicable
from modellint.report.summary import render as render_summary
from modellint.results.diagnostic import Diagnostic


def render(
    diagnostics: Sequence[Diagnostic], color: bool = False, as_json: bool = False, *, unsafe: bool = False
) -> str:
    """A line for each code, the most frequent first, and the summary; or the same as a JSON list."""
    groups: dict[tuple[str, str], list[Diagnostic]] = {}
    diagnostics = [group[0] for group in by_defect(diagnostics)]
    for diagnostic in diagnostics:
        groups.setdefault((diagnostic.code, diagnostic.name), []).append(diagnostic)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    if as_json:
        return _json(ordered, unsafe)
    fixable = any(applicable(diagnostic, unsafe) for diagnostic in diagnostics)
    wide = max((len(str(len(group))) for group in groups.values()), default=0)
    lines = []
    for (code, name), group in ordered:
        count = paint(f"{len(group):>{wide}}", "bold", color)
        box = f"[{_box(group, unsafe, color)}] " if fixable else ""
        lines.append(f"{count}\t{paint(code, max(d.severity for d in group).label, color)}\t{box}{name}\n")
    return "".join(lines) + render_summary(diagnostics, color, unsafe)


def _box(group: list[Diagnostic], unsafe: bool, color: bool) -> str:
    now = sum(applicable(diagnostic, unsafe) for diagnostic in group)
    return " " if not now else paint("*" if now == len(group) else "-", "mark", color)


def _json(ordered: list[tuple[tuple[str, str], list[Diagnostic]]], unsafe: bool) -> str:
    import json

    rows = []
    for (code, name), group in ordered:
        now = sum(applicable(diagnostic, unsafe) for diagnostic in group)
        rows.append(
            {"code": code, "name": name, "count": len(group), "fixable": now == len(group), "fixable_count": now}
        )
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
