"""The formats that hold findings as the JSON objects that ``modellint.report.as_json`` makes of them."""

from __future__ import annotations

from modellint.report import as_json, live_findings
from modellint.report.formats import CheckResults
from modellint.report.formats.locations import absolute


def findings(results: CheckResults) -> str:
    """The list of findings."""
    return as_json.render(results.diagnostics, results.docs_url, lambda shown: absolute(results, shown))


def lines(results: CheckResults) -> str:
    """An object on each line."""
    objects = as_json.objects(results.diagnostics, results.docs_url, lambda shown: absolute(results, shown))
    return "".join(as_json.dump(entry, indent=None) for entry in objects)


def report(results: CheckResults) -> str:
    """An object with the findings, the version, and the verdict on every live target."""

    def name(shown: str) -> str:
        return absolute(results, shown)

    verdicts = [
        live_findings.verdict_of(target, verdict, results.diagnostics, name) for target, verdict in results.targets
    ]
    return as_json.render_report(results.diagnostics, results.docs_url, name, results.version, verdicts)
