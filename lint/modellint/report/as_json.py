"""Findings as JSON: the keys that ruff prints, and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from modellint.results.diagnostic import Diagnostic, Edit, Fix, Span
from modellint.source.syntax.suppressions import last_row


def render(diagnostics: Iterable[Diagnostic], docs_url: str | None, absolute: Callable[[str], str]) -> str:
    """The list of findings. ``absolute`` turns a path as it was named into the one to print."""
    return dump(objects(diagnostics, docs_url, absolute))


def render_report(
    diagnostics: Iterable[Diagnostic],
    docs_url: str | None,
    absolute: Callable[[str], str],
    version: str,
    targets: Sequence[dict[str, Any]] = (),
) -> str:
    """The findings with modellint's version and the verdict on every live target."""
    entries = objects(diagnostics, docs_url, absolute)
    return dump({"version": version, "diagnostics": entries, "targets": list(targets)})


def objects(
    diagnostics: Iterable[Diagnostic], docs_url: str | None, absolute: Callable[[str], str]
) -> list[dict[str, Any]]:
    """The findings in order, each as a plain dictionary."""
    ordered = sorted(diagnostics, key=lambda diagnostic: diagnostic.sort_key)
    return [_object(diagnostic, docs_url, absolute) for diagnostic in ordered]


def url_of(diagnostic: Diagnostic, docs_url: str | None) -> str | None:
    """Where the page of a finding's rule is, by the setting ``docs-url``."""
    return None if docs_url is None else f"{docs_url.rstrip('/')}/{diagnostic.name}"


def _object(diagnostic: Diagnostic, docs_url: str | None, absolute: Callable[[str], str]) -> dict[str, Any]:
    # Without a file a place says nothing, and the other way round.
    span = None if diagnostic.path is None or diagnostic.span is None else diagnostic.in_cell(diagnostic.span)
    return {
        "cell": diagnostic.cell,
        "code": diagnostic.code,
        "end_location": None if span is None else _place(span.end_row, span.end_column),
        "evidence": diagnostic.evidence,
        "filename": None if diagnostic.path is None else absolute(diagnostic.path),
        "fix": None if diagnostic.fix is None else _fix(diagnostic, diagnostic.fix),
        "location": None if span is None else _place(span.row, span.column),
        "message": diagnostic.message,
        "modules": list(diagnostic.modules),
        "name": diagnostic.name,
        "noqa_row": _noqa_row(diagnostic, span),
        "operator": diagnostic.operator,
        "severity": diagnostic.severity.label,
        "target": diagnostic.target,
        "url": url_of(diagnostic, docs_url),
    }


def _fix(diagnostic: Diagnostic, fix: Fix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "edits": [_edit(diagnostic, edit) for edit in fix.edits],
        "message": fix.title,
    }


def _edit(diagnostic: Diagnostic, edit: Edit) -> dict[str, Any]:
    span = diagnostic.in_cell(edit.span)
    entry: dict[str, Any] = {
        "content": edit.content,
        "end_location": _place(span.end_row, span.end_column),
        "location": _place(span.row, span.column),
    }
    # A fix may bring an import into another cell than the finding's.
    return entry | {"cell": diagnostic._replace(span=edit.span).cell} if diagnostic.cells else entry


def _noqa_row(diagnostic: Diagnostic, span: Span | None) -> int | None:
    if span is None or diagnostic.code == "LNT002":
        # No comment helps in a file that cannot be parsed.
        return None
    row = diagnostic.noqa_row
    return last_row(span) if row is None else diagnostic.in_cell(Span(row, 1, row, 1)).row


def _place(row: int, column: int) -> dict[str, int]:
    return {"column": column, "row": row}


def dump(value: Any, indent: int | None = 2) -> str:
    """A value as JSON with a line end; without ``indent`` on one line."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=True)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # A file name need not be text: a lone surrogate is written as JSON's own escape, which reads back as itself.
        text = "".join(f"\\u{ord(char):04x}" if "\ud800" <= char <= "\udfff" else char for char in text)
    return text + "\n"
