"""Findings as plain JSON values and back: what crosses the pipe between worker and parent."""

from __future__ import annotations

from typing import Any

from modellint.results.diagnostic import Applicability, Diagnostic, Edit, Fix, Severity, Span


def to_json(finding: Diagnostic) -> dict[str, Any]:
    """A finding as JSON's own types."""
    values = finding._asdict()
    values["severity"] = int(finding.severity)
    values["span"] = None if finding.span is None else list(finding.span)
    values["modules"] = list(finding.modules)
    if finding.fix is not None:
        edits = [[list(edit.span), edit.content] for edit in finding.fix.edits]
        values["fix"] = [finding.fix.title, edits, finding.fix.applicability.value]
    return values


def from_json(values: dict[str, Any]) -> Diagnostic:
    """The finding that ``to_json`` wrote. Raises ``TypeError``, ``ValueError``, ``KeyError`` or ``AttributeError`` for else."""
    found = dict(values)
    found["severity"] = Severity(found["severity"])
    found["span"] = None if found["span"] is None else Span(*map(int, found["span"]))
    found["modules"] = tuple(map(_text, found["modules"]))
    if found["fix"] is not None:
        title, edits, applicability = found["fix"]
        parts = tuple(Edit(Span(*map(int, span)), _text(content)) for span, content in edits)
        found["fix"] = Fix(_text(title), parts, Applicability(applicability))
    for key in ("code", "name", "message", "evidence"):
        found[key] = _text(found[key])
    for key in ("path", "help", "class_name", "attribute", "target", "operator"):
        found[key] = None if found[key] is None else _text(found[key])
    return Diagnostic(**found)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
