"""GitLab's Code Quality report: a JSON list that merge requests show."""

from __future__ import annotations

from typing import Any

from modellint.report import as_json
from modellint.report.formats import CheckResults
from modellint.report.formats.locations import defects, described, file_of, last_place, relative, repository
from modellint.results.diagnostic import Severity

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}


def render(results: CheckResults) -> str:
    """An object for each finding; files are relative to the repository."""
    base = repository(results)
    entries: list[dict[str, Any]] = []
    for group, fingerprint in defects(results):
        finding = group[0]
        shown = file_of(results, finding)
        lines = {"begin": 1}
        if finding.path is not None and finding.span is not None:
            lines = {
                "begin": finding.span.row,
                "end": last_place(finding.span, results.text_of(finding.path))[0],
            }
        entries.append(
            {
                "type": "issue",
                "check_name": finding.code,
                "description": f"{finding.code} {finding.message}",
                "content": {"body": described(finding)},
                "categories": ["Bug Risk"],
                "severity": _SEVERITIES[finding.severity],
                "fingerprint": fingerprint,
                "location": {
                    "path": (finding.target or "the model") if shown is None else relative(results, shown, base),
                    "lines": lines,
                },
            }
        )
    return as_json.dump(entries)
