"""Code actions: the fixes of findings, all safe fixes at once, and comments that suppress findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from lsprotocol import types

from modellint.results.diagnostic import Applicability, Diagnostic, Span
from modellint.server.diagnostics import diagnostic_of
from modellint.server.document_checks import Place, ProjectChecks, offers
from modellint.server.documents import Document
from modellint.source.syntax.edits import EditError, apply, changes_of
from modellint.source.syntax.parse import Unparsable
from modellint.source.syntax.source_text import SourceText
from modellint.source.syntax.suppressions import last_row

FIX_ALL = "source.fixAll.modellint"
KINDS = (types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll, FIX_ALL)


def is_wanted(kind: str, only: Sequence[str] | None) -> bool:
    """Whether a client asks for actions of a kind: it names kinds, or what is above them, or nothing at all."""
    return only is None or any(kind == each or kind.startswith(f"{each}.") for each in only)


def on_selection(document: Document, findings: Sequence[Diagnostic], selection: types.Range) -> list[Diagnostic]:
    """The findings whose lines a selection touches."""
    first, last = selection.start.line + 1, selection.end.line + 1
    return [
        finding
        for finding in findings
        if (span := finding.span or Span(1, 1, 1, 1)) and span.row <= last and first <= max(span.row, last_row(span))
    ]


def quick_fixes(
    checks: ProjectChecks,
    place: Place,
    document: Document,
    findings: Sequence[Diagnostic],
    docs_url: str | None,
    versioned: bool,
) -> Iterator[types.CodeAction]:
    """For each finding its fix, where one can be applied, and the comment that suppresses it."""
    for finding in findings:
        about = [diagnostic_of(document, finding, docs_url)]
        fix = finding.fix
        if fix is not None and offers(finding) and (edits := _edits_of_fix(checks, document, finding)):
            is_safe = fix.applicability is Applicability.SAFE
            yield types.CodeAction(
                f"{finding.code}: {fix.title}" if is_safe else f"{finding.code}: {fix.title} (unsafe)",
                kind=types.CodeActionKind.QuickFix,
                diagnostics=about,
                is_preferred=is_safe or None,
                edit=_workspace_edit(document, edits, versioned),
            )
    for finding in findings:
        text = _ignored(checks, place, document.source, finding)
        if text is not None:
            yield types.CodeAction(
                f"Ignore {finding.code} on this line",
                kind=types.CodeActionKind.QuickFix,
                diagnostics=[diagnostic_of(document, finding, docs_url)],
                edit=_workspace_edit(document, _edits_between(document, text), versioned),
            )


def fix_all(checks: ProjectChecks, place: Place, document: Document, versioned: bool) -> types.WorkspaceEdit | None:
    """The edits of all safe fixes; None where they change nothing."""
    if not checks.may_change(place.path):
        return None
    fixed = checks.fixed(place.path, document.source)
    if fixed.text == document.source.text:
        return None
    return _workspace_edit(document, _edits_between(document, fixed.text), versioned)


def _edits_of_fix(checks: ProjectChecks, document: Document, finding: Diagnostic) -> list[types.TextEdit]:
    text = checks.fixed_once(document.source, finding)
    if text is None or finding.fix is None:
        return []
    try:
        changes = changes_of(finding.fix, document.source)
    except EditError:
        return []
    if apply(document.source.text, changes) != text:
        return _edits_between(document, text)
    return [types.TextEdit(document.range(change.start, change.end), change.content) for change in changes]


def _ignored(checks: ProjectChecks, place: Place, source: SourceText, finding: Diagnostic) -> str | None:
    try:
        commented = checks.ignored(place.path, source, finding)
    except (Unparsable, RecursionError):
        return None
    return commented.text if commented is not None and commented.text != source.text else None


def _workspace_edit(document: Document, edits: list[types.TextEdit], versioned: bool) -> types.WorkspaceEdit:
    """Edits of a document as the client has it; it refuses them for another version where it knows such edits."""
    if not versioned:
        return types.WorkspaceEdit(changes={document.uri: edits})
    identifier = types.OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=document.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, list(edits))])


def _edits_between(document: Document, text: str) -> list[types.TextEdit]:
    """Edits that turn a document into a text: only the lines that differ, and in them what does."""
    old, new = document.source, SourceText(text)
    before, after = _lines(old), _lines(new)
    edits = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            start = old.line_starts[i1] if i1 < len(before) else len(old.text)
            gone, come = "".join(before[i1:i2]), "".join(after[j1:j2])
            same = _shared(gone, come)
            tail = _shared(gone[same:][::-1], come[same:][::-1])
            content = come[same : len(come) - tail]
            if _splits_line_end(gone, same, tail) or _splits_line_end(come, same, tail):
                same, tail, content = 0, 0, come
            edits.append(types.TextEdit(document.range(start + same, start + len(gone) - tail), content))
    return edits


def _shared(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _splits_line_end(text: str, same: int, tail: int) -> bool:
    """Whether half of a CRLF is among what stays, which is no place for a client."""
    return any(text[max(0, at - 1) : at + 1] == "\r\n" for at in (same, len(text) - tail))


def _lines(source: SourceText) -> list[str]:
    starts = [*source.line_starts, len(source.text)]
    return [source.text[start:end] for start, end in pairwise(starts)]
