"""Comments that suppress the findings of a file, written into its text; nothing else of it changes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from modellint.results.diagnostic import Diagnostic
from modellint.settings import ALWAYS
from modellint.source.syntax.parse import parse
from modellint.source.syntax.source_text import SourceText
from modellint.source.syntax.suppressions import Suppressions, header_rows, last_row

if TYPE_CHECKING:
    from modellint.source.syntax.suppression_comments import Directive

UNUSED = "LNT001"


class Commented(NamedTuple):
    """A text with comments more."""

    text: str
    suppressed: tuple[Diagnostic, ...]
    left: tuple[Diagnostic, ...]
    """The findings that no comment suppresses: that a file was not read, or that a comment is unused."""


def with_comments(
    source: SourceText, findings: Sequence[Diagnostic], also: Mapping[int, str] | None = None
) -> Commented:
    """The text with a comment for each finding, where it can stand. Raises ``Unparsable``.

    A comment is ``# modellint: ignore[CODE]``; on the line of a ``class`` or ``def``, where that would hold for the whole block,
    ``# noqa: CODE``. Codes that a comment of the same kind lacks are added to it. ``also`` are codes for rows besides.
    """
    tree = parse(source.text)
    wanted = [finding for finding in findings if finding.span is not None and finding.code not in (*ALWAYS, UNUSED)]
    left = [finding for finding in findings if finding not in wanted]
    while wanted:
        text = _written(source, tree, wanted, also or {})
        if text is None:
            break
        new = source.with_text(text)
        remaining = Suppressions.of(new, parse(text)).apply(wanted)[0]
        if not remaining:
            return Commented(text, tuple(wanted), tuple(left))
        wanted = [finding for finding in wanted if finding not in remaining]
        left.extend(remaining)
    return Commented(source.text, (), (*left, *wanted))


def with_needed_comments(
    source: SourceText, findings: Sequence[Diagnostic], look: Callable[[SourceText], Sequence[Diagnostic]]
) -> Commented | None:
    """What ``with_comments`` makes, where a check of it, ``look``, finds nothing new; else None. Raises ``Unparsable``.

    A finding of a live target alone leaves its comment unused in the eyes of source: then that is suppressed, too.
    """

    def after(commented: Commented) -> Sequence[Diagnostic]:
        return look(source.with_text(commented.text))

    commented = with_comments(source, findings)
    before = look(source)
    now = after(commented)
    idle = [finding for finding in now if finding.code == UNUSED and finding not in before]
    if idle:
        suppressions = Suppressions.of(source, parse(source.text), anyway=True)
        commented = with_comments(source, findings, {_row(suppressions, finding): UNUSED for finding in idle})
        now = after(commented)
    return None if _kinds(now) - _kinds(before) else commented


def _kinds(findings: Sequence[Diagnostic]) -> set[tuple[object, ...]]:
    return {(finding.code, finding.message, finding.span) for finding in findings}


def _row(suppressions: Suppressions, finding: Diagnostic) -> int:
    assert finding.span is not None
    return suppressions.comment_row(last_row(finding.span))


def _written(
    source: SourceText, tree: ast.Module, findings: Sequence[Diagnostic], also: Mapping[int, str]
) -> str | None:
    """The text with the comments, from the last to the first; None where it would be another program."""
    suppressions = Suppressions.of(source, tree, anyway=True)
    headers = header_rows(source, tree)
    codes: dict[int, dict[str, None]] = {}
    for finding in sorted(findings, key=lambda finding: finding.code):
        codes.setdefault(_row(suppressions, finding), {})[finding.code] = None
    for row, code in also.items():
        codes.setdefault(row, {})[code] = None
    text = source.text
    for row in sorted(codes, reverse=True):
        at, comment = _comment(source, row, list(codes[row]), row in headers, suppressions.comments_at(row))
        text = text[:at] + comment + text[at:]
    same = ast.dump(parse(text)) == ast.dump(tree)
    return text if same and source.why_not_writable(text) is None else None


def _comment(
    source: SourceText, row: int, codes: Sequence[str], is_header: bool, directives: Sequence[Directive]
) -> tuple[int, str]:
    """Where to write what, so that a row has these codes."""
    kind = "noqa" if is_header else "ignore"
    for directive in directives:
        if directive.kind == kind and directive.codes:
            have = {code for code, _, _ in directive.codes}
            return directive.codes[-1][2], "".join(f", {code}" for code in codes if code not in have)
    listed = ", ".join(codes)
    at = source.line_starts[row - 1] + len(source.line(row).rstrip())
    return at, f"  # noqa: {listed}" if is_header else f"  # modellint: ignore[{listed}]"
