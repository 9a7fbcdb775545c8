"""Findings as diagnostics of the Language Server Protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lsprotocol import types

from modellint.report.as_json import url_of
from modellint.report.live_findings import by_defect, notes
from modellint.results.diagnostic import Diagnostic, Severity
from modellint.server.documents import Document
from modellint.tool_diagnostics import UnusedIgnore

SOURCE = "modellint"
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFO: types.DiagnosticSeverity.Information,
}


def diagnostics_of(document: Document, findings: Sequence[Diagnostic], docs_url: str | None) -> list[types.Diagnostic]:
    """The findings of a document, each defect once."""
    return [_diagnostic(document, group, docs_url) for group in by_defect(findings)]


def diagnostic_of(document: Document, finding: Diagnostic, docs_url: str | None) -> types.Diagnostic:
    """One finding."""
    return _diagnostic(document, (finding,), docs_url)


def _diagnostic(document: Document, group: Sequence[Diagnostic], docs_url: str | None) -> types.Diagnostic:
    finding = group[0]
    # Settings are a repository's: an editor may run what other schemes name.
    is_page = docs_url is not None and docs_url.lower().startswith(("https://", "http://"))
    url = url_of(finding, docs_url) if is_page else None
    return types.Diagnostic(
        range=document.range_of(finding.span),
        message="\n".join(filter(None, (finding.message, finding.help, *notes(group)))),
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        code_description=None if url is None else types.CodeDescription(href=url),
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary] if finding.code == UnusedIgnore.code else None,
        related_information=list(_related(document, finding)) or None,
    )


def _related(document: Document, finding: Diagnostic) -> Iterator[types.DiagnosticRelatedInformation]:
    """Where the fix changes other lines than those of the finding."""
    span = finding.span
    for edit in finding.fix.edits if finding.fix is not None else ():
        if span is None or not span.row <= edit.span.row <= edit.span.end_row <= span.end_row:
            location = types.Location(document.uri, document.range_of(edit.span))
            yield types.DiagnosticRelatedInformation(location, "The fix changes this, too.")


def of_settings(row: int, message: str) -> types.Diagnostic:
    """A mistake in a settings file."""
    line = types.Range(types.Position(row - 1, 0), types.Position(row, 0))
    return types.Diagnostic(line, message, types.DiagnosticSeverity.Error, source=SOURCE)
