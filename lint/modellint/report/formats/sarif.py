"""SARIF 2.1.0, the Static Analysis Results Interchange Format, as code hosts and editors read it.

Columns are in UTF-16 code units, which is what readers take them for that do not look at ``columnKind``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from modellint.report import as_json, live_findings
from modellint.report.formats import CheckResults
from modellint.report.formats.locations import defects, described, file_of, relative, repository, uri_path, utf16_column
from modellint.results.diagnostic import Applicability, Diagnostic, Fix, Severity, Span
from modellint.rule import FAMILIES, Page, RuleError
from modellint.settings import ALWAYS

if TYPE_CHECKING:
    from pathlib import Path

    from modellint.rule import Rule
    from modellint.source.syntax.source_text import SourceText

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_BASE = "SRCROOT"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_KINDS = {
    Applicability.SAFE: "safe fix",
    Applicability.UNSAFE: "unsafe fix, which may change what the model computes",
}


def render(results: CheckResults) -> str:
    """A log with one run."""
    return as_json.dump({"$schema": _SCHEMA, "version": "2.1.0", "runs": [_Run(results).object()]})


class _Run:
    """One run: what its parts refer to by number, artifacts and rules, is collected while they are made."""

    def __init__(self, results: CheckResults) -> None:
        self._results = results
        self._base: Path = repository(results)
        self._artifacts: dict[str, int] = {}
        """The URI of each file, and its number."""
        self._rules: dict[str, int] = {}
        """The code of each rule, and its number."""

    def object(self) -> dict[str, Any]:
        """The run as JSON's own types."""
        for shown in self._results.files:
            self._artifact(shown)
        entries = [self._result(group, fingerprint) for group, fingerprint in defects(self._results)]
        invocation = self._invocation()
        names = {finding.code: finding.name for finding in self._results.diagnostics}
        described_rules = [
            _rule(self._results.rules.get(code), code, names[code], self._results) for code in self._rules
        ]
        return {
            "tool": {
                "driver": {
                    "name": "modellint",
                    "version": self._results.version,
                    "rules": described_rules,
                }
            },
            "invocations": [invocation],
            "originalUriBaseIds": {_BASE: {"uri": f"file://{uri_path(self._base.as_posix().rstrip('/'))}/"}},
            "columnKind": "utf16CodeUnits",
            "artifacts": [{"location": _location_of(uri), "sourceLanguage": "python"} for uri in self._artifacts],
            "results": entries,
        }

    def _artifact(self, shown: str) -> dict[str, Any]:
        uri = _uri(relative(self._results, shown, self._base))
        index = self._artifacts.setdefault(uri, len(self._artifacts))
        return {**_location_of(uri), "index": index}

    def _rule_index(self, code: str) -> int:
        return self._rules.setdefault(code, len(self._rules))

    def _result(self, group: Sequence[Diagnostic], fingerprint: str) -> dict[str, Any]:
        finding = group[0]
        modules = [path for each in group for path in each.modules]
        result = {
            "ruleId": finding.code,
            "ruleIndex": self._rule_index(finding.code),
            "level": _LEVELS[finding.severity],
            "message": {"text": described(finding)},
            "locations": [self._location(finding, dict.fromkeys(filter(None, modules)))],
            "partialFingerprints": {"modellint/v1": fingerprint},
            "properties": {
                "evidence": finding.evidence,
                "targets": [each.target for each in group if each.target is not None],
                "modules": list(dict.fromkeys(modules)),
                "operator": finding.operator,
            },
        }
        if finding.path is not None and finding.fix is not None:
            if related := list(self._related(finding, finding.path, finding.fix)):
                result["relatedLocations"] = related
            if finding.fix.edits and finding.fix.applicability in _KINDS:
                result["fixes"] = [self._fix(finding.path, finding.fix)]
        return result

    def _location(self, finding: Diagnostic, modules: Iterable[str]) -> dict[str, Any]:
        location: dict[str, Any] = {}
        shown = file_of(self._results, finding)
        if shown is not None:
            location["physicalLocation"] = self._physical(shown, finding.span if finding.path is not None else None)
        logical = [{"fullyQualifiedName": path, "kind": "module"} for path in modules]
        if finding.class_name is not None:
            # The names of classes are their file's own matter: only the last part is sure.
            logical.append({"name": finding.class_name, "kind": "type"})
        if shown is None:
            logical.append({"name": finding.target or "the model", "kind": "object"})
        if logical:
            location["logicalLocations"] = logical
        return location

    def _physical(self, shown: str, span: Span | None) -> dict[str, Any]:
        physical: dict[str, Any] = {"artifactLocation": self._artifact(shown)}
        if span is not None:
            physical["region"] = _region(self._results.text_of(shown), span)
        return physical

    def _related(self, finding: Diagnostic, shown: str, fix: Fix) -> Iterator[dict[str, Any]]:
        """Where the fix changes other lines than those of the finding."""
        span = finding.span
        number = 0
        for edit in fix.edits:
            if span is None or not span.row <= edit.span.row <= edit.span.end_row <= span.end_row:
                number += 1
                yield {
                    "id": number,
                    "physicalLocation": self._physical(shown, edit.span),
                    "message": {"text": "The fix changes this, too."},
                }

    def _fix(self, shown: str, fix: Fix) -> dict[str, Any]:
        text = self._results.text_of(shown)
        return {
            "description": {"text": f"{fix.title} ({_KINDS[fix.applicability]})"},
            "artifactChanges": [
                {
                    "artifactLocation": self._artifact(shown),
                    "replacements": [
                        {"deletedRegion": _region(text, edit.span), "insertedContent": {"text": edit.content}}
                        for edit in fix.edits
                    ],
                }
            ],
        }

    def _invocation(self) -> dict[str, Any]:
        results = self._results
        notes: list[dict[str, Any]] = [
            {"level": level, "message": {"text": text}}
            for level, texts in (
                ("error", (*results.unchecked, *results.unread)),
                ("warning", results.warnings),
            )
            for text in texts
        ]
        notes += [
            {
                "level": _LEVELS[finding.severity],
                "message": {"text": finding.message},
                "locations": [self._location(finding, ())],
                "associatedRule": {"id": finding.code, "index": self._rule_index(finding.code)},
            }
            for finding in results.diagnostics
            if finding.code in ALWAYS
        ]
        for target, conversion in results.targets:
            here = [finding for finding in results.diagnostics if finding.target == target]
            if line := live_findings.line_of(conversion, here, target):
                notes.append({"level": "note", "message": {"text": line}})
        return {
            "executionSuccessful": results.status in (0, 1),
            "exitCode": results.status,
            "toolExecutionNotifications": notes,
        }


def _uri(path: str) -> str:
    """A relative path as a relative URI, an absolute one as a URI with a scheme."""
    if path.startswith("/"):
        return f"file://{uri_path(path)}"
    # A drive, as Windows names files that are elsewhere.
    return f"file:///{path[:2]}{uri_path(path[2:])}" if path[1:3] == ":/" else uri_path(path)


def _location_of(uri: str) -> dict[str, Any]:
    return {"uri": uri} if uri.startswith("file:") else {"uri": uri, "uriBaseId": _BASE}


def _region(text: SourceText | None, span: Span) -> dict[str, int]:
    if text is None:
        # Nobody can say what UTF-16 makes of the columns.
        return {"startLine": span.row, "endLine": span.end_row}
    return {
        "startLine": span.row,
        "startColumn": utf16_column(text, span.row, span.column),
        "endLine": span.end_row,
        "endColumn": utf16_column(text, span.end_row, span.end_column),
    }


def _rule(rule: Rule | None, code: str, name: str, results: CheckResults) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": code, "name": "".join(word.capitalize() for word in name.split("-"))}
    if results.docs_url is not None:
        entry["helpUri"] = f"{results.docs_url.rstrip('/')}/{name}"
    if rule is None:
        return entry
    entry["defaultConfiguration"] = {"level": _LEVELS[rule.severity]}
    entry["properties"] = {"tags": [FAMILIES.get(code[:3], "modellint")]}
    try:
        page = Page.of(rule.__class__)
    except RuleError:
        # A rule by somebody else need not have a page.
        return entry
    sections = [f"## {title}\n\n{body}" for title, body in page.sections.items()]
    text = "\n\n".join([page.summary, *sections])
    return entry | {
        "shortDescription": {"text": " ".join(page.summary.split())},
        "fullDescription": {"text": " ".join(page.sections["What it does"].split())},
        "help": {"text": text, "markdown": f"# {name} ({code})\n\n{text}"},
    }
