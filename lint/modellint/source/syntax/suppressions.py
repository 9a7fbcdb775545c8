"""Which findings the comments of a file suppress, and which of those comments suppress nothing."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from modellint.results.diagnostic import Diagnostic, Fix, Span
from modellint.source.syntax.ast_walk import walk
from modellint.source.syntax.source_text import SourceText

if TYPE_CHECKING:
    from modellint.source.syntax.suppression_comments import Directive

Used: TypeAlias = frozenset[tuple[int, str]]
"""What suppressed something: offset of the directive, code."""

_NONE: Used = frozenset()


def last_row(span: Span) -> int:
    """The row of a span's last character: a span that takes its line end along ends in the next row."""
    return span.end_row - 1 if span.end_column == 1 and span.end_row > span.row else span.end_row


def may_hold_directives(text: str) -> bool:
    """A quick look: False only where no comment of the text can be a directive."""
    low = text.lower()
    return "noqa" in low or "modellint" in low


class Suppressions:
    """The directives of one file, by where they hold."""

    __slots__ = (
        "_around",
        "_blocks",
        "_blocks_of",
        "_by_row",
        "_directives",
        "_file",
        "_source",
        "_strings",
        "_strings_to",
    )

    def __init__(
        self,
        source: SourceText,
        directives: Sequence[Directive],
        strings: Sequence[tuple[int, int]],
        blocks: Sequence[tuple[int, int, Directive]],
    ) -> None:
        self._source = source
        self._directives = directives
        self._strings = strings
        # Blocks lie within one another or apart, so each has at most one that is next around it.
        self._blocks = sorted(blocks, key=lambda block: (block[0], -block[1]))
        self._around: list[int] = []
        self._blocks_of: dict[int, list[tuple[int, int]]] = {}
        self._strings_to: dict[int, list[int]] = {}
        for first, last in strings:
            self._strings_to.setdefault(last, []).append(first)
        at = -1
        for index, (first, last, directive) in enumerate(self._blocks):
            self._blocks_of.setdefault(directive.start, []).append((first, last))
            while at >= 0 and self._blocks[at][1] < first:
                at = self._around[at]
            self._around.append(at)
            at = index
        self._file = [one for one in directives if one.kind == "file-ignore" and not one.malformed]
        self._by_row: dict[int, list[Directive]] = {}
        for one in directives:
            if one.kind != "file-ignore" and not one.malformed:
                self._by_row.setdefault(one.row, []).append(one)

    @classmethod
    def of(cls, source: SourceText, tree: ast.Module, anyway: bool = False) -> Suppressions:
        """Read a file's directives. ``tree`` says which rows a ``class`` or ``def`` takes.

        With ``anyway`` a file without any is read too, for ``comment_row``.
        """
        if not anyway and not may_hold_directives(source.text):
            return cls(source, (), (), ())
        from modellint.source.syntax.comments import comments_and_strings
        from modellint.source.syntax.suppression_comments import directives_in

        comments, strings = comments_and_strings(source.text)
        directives = [
            directive
            for start, end in comments
            for directive in directives_in(source.text, start, end, source.place(start)[0])
        ]
        lines = [(source.place(start)[0], source.place(end)[0]) for start, end in strings]
        blocks = [one for one in directives if one.kind == "ignore" and not one.malformed]
        return cls(
            source,
            directives,
            [(first, last) for first, last in lines if first < last],
            list(_blocks(source, tree, blocks)) if blocks else (),
        )

    def apply(self, diagnostics: Sequence[Diagnostic]) -> tuple[tuple[Diagnostic, ...], Used]:
        """The findings that no comment suppresses, and what suppressed the others."""
        if not self._directives:
            return tuple(diagnostics), _NONE
        kept: list[Diagnostic] = []
        codes = {diagnostic.code for diagnostic in diagnostics} if self._file else ()
        used = {(one.start, code) for one in self._file for code in codes if one.covers(code)}
        everywhere = {code for _, code in used}
        for diagnostic in diagnostics:
            # Every comment that names a finding is of use, not only the nearest.
            hits = [one.start for one in self._reach(diagnostic) if one.covers(diagnostic.code)]
            used.update((start, diagnostic.code) for start in hits)
            if not hits and diagnostic.code not in everywhere:
                kept.append(diagnostic)
        return tuple(kept), frozenset(used)

    def unused(
        self, used: Used, ran: Collection[str], shown: str, live: Mapping[str, Collection[int]] | None = None
    ) -> Iterator[Diagnostic]:
        """LNT001 for the codes that suppressed nothing though their rule ran, and for directives nobody understands.

        ``used`` is the union of what ``apply`` gave; ``ran`` the codes of ours that were asked; ``shown`` the
        path to name; ``live`` the codes that were asked of live models, each with the rows that these ran. A finding that a
        comment suppresses is not given.
        """
        if not self._directives or "LNT001" not in ran:
            return
        found: list[Diagnostic] = []
        for directive in self._directives:
            rows = self._rows(directive) if live else ()
            lately = {code for code, there in (live or {}).items() if any(row in there for row in rows)}
            found.extend(self._unused(directive, used, {*ran, *lately}, shown))
        yield from self.apply(found)[0]

    def _rows(self, directive: Directive) -> Collection[int]:
        """The rows whose running tells that a live finding had its chance; of a file no rows do."""
        if directive.kind == "file-ignore":
            return ()
        return [
            directive.row,
            *self._strings_to.get(directive.row, ()),
            *(row for start, last in self._blocks_of.get(directive.start, ()) for row in range(start, last + 1)),
        ]

    def _unused(self, directive: Directive, used: Used, ran: Collection[str], shown: str) -> Iterator[Diagnostic]:
        from modellint.tool_diagnostics import unused_ignore

        text, span = self._source.text, self._source.span(directive.start, directive.end)
        if directive.malformed:
            written = text[directive.start : directive.end]
            yield unused_ignore(f"`{written}` suppresses nothing: {directive.malformed}", shown, span)
            return
        idle = [
            (code, start, end)
            for code, start, end in directive.codes
            if code in ran and code != "LNT001" and (directive.start, code) not in used
        ]
        if not idle:
            return
        names = ", ".join(f"`{code}`" for code in dict.fromkeys(code for code, _, _ in idle))
        message = f"unused suppression: no finding of {names} here"
        if directive.kind == "file-ignore":
            message = f"unused suppression: no finding of {names} in this file"
        yield unused_ignore(message, shown, span, self._removal(directive, idle))

    def _removal(self, directive: Directive, idle: Sequence[tuple[str, int, int]]) -> Fix:
        source = self._source
        if len(idle) == len(directive.codes):
            edit = source.replace(*_without(source.text, directive))
            return Fix("Remove the unused suppression", (edit,))
        text, content = source.text, ""
        end = directive.codes[0][1]
        for code in directive.codes:
            # A code that stays keeps what parted it from the code before.
            if code not in idle:
                content += (text[end : code[1]] if content else "") + text[code[1] : code[2]]
            end = code[2]
        edit = source.replace(directive.codes[0][1], directive.codes[-1][2], content)
        return Fix("Remove the unused codes from the suppression", (edit,))

    def _reach(self, diagnostic: Diagnostic) -> Iterator[Directive]:
        """The directives that could suppress a finding, by its place; those of the file aside."""
        span = diagnostic.span
        if span is None:
            return
        rows = {span.row, last_row(span), self.comment_row(span.row), self.comment_row(last_row(span))}
        for row in sorted(rows):
            yield from self._by_row.get(row, ())
        at = bisect_right(self._blocks, span.row, key=lambda block: block[0]) - 1
        while at >= 0:
            _, last, directive = self._blocks[at]
            if span.row <= last:
                yield directive
            at = self._around[at]

    def comments_at(self, row: int) -> Sequence[Directive]:
        """The directives for one row, or a block that begins there."""
        return self._by_row.get(row, ())

    def comment_row(self, row: int) -> int:
        """The row at whose end a comment for this row can stand: a string or a backslash goes on to the next."""
        while True:
            before = row
            at = bisect_right(self._strings, (row, 0))
            for first, last in self._strings[max(0, at - 1) : at + 2]:
                if first <= row < last:
                    row = last
            if self._source.line(row).endswith("\\") and row < len(self._source.line_starts):
                row += 1
            if row == before:
                return row


def _blocks(
    source: SourceText, tree: ast.Module, directives: Sequence[Directive]
) -> Iterator[tuple[int, int, Directive]]:
    """First and last row of every ``class`` or ``def`` with a directive at the end of a line of its header."""
    trailing: dict[int, list[Directive]] = {}
    for directive in directives:
        start = source.line_starts[directive.row - 1]
        if source.text[start : directive.comment_start].strip():
            trailing.setdefault(directive.row, []).append(directive)
    if not trailing:
        return
    for node in walk(tree):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = _first_row(node)
        for row in range(node.lineno, _header_end(source, node) + 1):
            for directive in trailing.get(row, ()):
                yield first, node.end_lineno or node.lineno, directive


def header_rows(source: SourceText, tree: ast.Module) -> set[int]:
    """The rows where a directive would hold for the whole block of a ``class`` or ``def``."""
    return {
        row
        for node in walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for row in range(node.lineno, _header_end(source, node) + 1)
    }


def _header_end(source: SourceText, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The last row of a header; that of a body on the same line counts."""
    body = node.body[0]
    row = _first_row(body)
    before = source.text[source.line_starts[row - 1] : source.byte_offset(body.lineno, body.col_offset)]
    same_line = row == body.lineno and before.strip()
    return row if same_line else max(node.lineno, row - 1)


def _first_row(node: ast.stmt) -> int:
    """The row of a statement's first decorator, if it has any, else its own."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.decorator_list:
        return min(node.lineno, node.decorator_list[0].lineno)
    return node.lineno


def _without(text: str, directive: Directive) -> tuple[int, int, str]:
    """What to replace, and by what, when a directive goes: with it goes as much as is left without a meaning."""
    stop = _after(text, directive)
    if stop < directive.comment_end:
        # A comment that follows stays as it is, a reason as a comment of its own.
        return directive.start, stop, "" if text[stop] == "#" else "# "
    line = max(text.rfind("\n", 0, directive.start), text.rfind("\r", 0, directive.start)) + 1
    before = text[line : directive.start].rstrip()
    if before:
        return line + len(before), stop, ""
    if text.startswith("\r\n", stop):
        return line, stop + 2, ""
    return line, min(stop + 1, len(text)), ""


def _after(text: str, directive: Directive) -> int:
    """Where the comment goes on after a directive and what parts a reason from it."""
    at = directive.end
    while at < directive.comment_end and (text[at].isspace() or text[at] in "-–—:;,."):
        at += 1
    return at
