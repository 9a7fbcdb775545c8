"""Workflow commands of GitHub's runner, which shows them as annotations at the lines of a change."""

from __future__ import annotations

from modellint.report.formats import CheckResults
from modellint.report.formats.locations import described, file_of, last_place, relative, repository
from modellint.report.live_findings import by_defect, environment_once, modules_of
from modellint.report.style import visible
from modellint.results.diagnostic import Diagnostic, Severity

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(results: CheckResults) -> str:
    """A command for each finding, and for each thing that was not checked."""
    base = repository(results)
    lines = []
    for group in by_defect(environment_once(results.diagnostics, results.rules)):
        finding = group[0]
        properties = {"title": f"modellint {finding.code} ({finding.name})"}
        shown = file_of(results, finding)
        if shown is not None:
            properties["file"] = relative(results, shown, base)
        text = described(finding)
        if finding.path is None or shown is None:
            where = ", ".join(filter(None, (finding.target, modules_of(finding))))
            text += f"\n({where})" if where else ""
        lines.append(_command(_COMMANDS[finding.severity], properties | _place(results, finding), text))
    problems = (*results.unchecked, *results.unread)
    lines += [_command("error", {"title": "modellint: not checked"}, problem) for problem in problems]
    return "".join(lines)


def _place(results: CheckResults, finding: Diagnostic) -> dict[str, str]:
    span = finding.span
    if span is None or finding.path is None:
        return {}
    end_row, end_column = last_place(span, results.text_of(finding.path))
    rows = {"line": str(span.row), "endLine": str(end_row)}
    # GitHub takes columns within one line only.
    return rows | ({"col": str(span.column), "endColumn": str(end_column)} if span.row == end_row else {})


def _command(name: str, properties: dict[str, str], message: str) -> str:
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {listed}::{_data(chr(10).join(map(visible, message.splitlines())))}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
