"""Hover: the page of the rule of what is below the pointer, a finding or a code in a comment that suppresses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lsprotocol import types

from modellint.report import rule_list
from modellint.results.diagnostic import Diagnostic
from modellint.rule import Rule
from modellint.server.documents import Document
from modellint.source.syntax.comments import comments_and_strings
from modellint.source.syntax.suppression_comments import directives_in
from modellint.source.syntax.suppressions import may_hold_directives


def hover(
    document: Document,
    findings: Sequence[Diagnostic],
    rules: Mapping[str, Rule],
    position: types.Position,
    markup: types.MarkupKind,
) -> types.Hover | None:
    """The pages of the rules at a position; None where there is none."""
    offset = document.source_offset(position)
    places = [(code, place) for code, place in _codes(document) if place[0] <= offset <= place[1]]
    if not places:
        places = [
            (finding.code, place)
            for finding in findings
            if (place := _place(document, finding))[0] <= offset <= place[1]
        ]
    pages = {code: rule_list.page(rules[code]) for code, _ in places if code in rules}
    if not pages:
        return None
    start, end = max(place[0] for _, place in places), min(place[1] for _, place in places)
    content = types.MarkupContent(markup, "\n---\n\n".join(pages.values()))
    return types.Hover(content, document.range(start, end))


def _codes(document: Document) -> Iterator[tuple[str, tuple[int, int]]]:
    """The codes in comments that suppress findings, and where they stand."""
    text = document.source.text
    if not may_hold_directives(text):
        return
    for start, end in comments_and_strings(text)[0]:
        for directive in directives_in(text, start, end, document.source.place(start)[0]):
            for code, first, last in directive.codes:
                yield code, (first, last)


def _place(document: Document, finding: Diagnostic) -> tuple[int, int]:
    shown = document.range_of(finding.span)
    return document.source_offset(shown.start), document.source_offset(shown.end)
