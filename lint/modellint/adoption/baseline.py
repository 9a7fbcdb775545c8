"""A baseline: the findings that were there when modellint came, kept in a file, and not reported.

A finding is known again by its file, code, message and statement, and not by its line, so that code may move and its neighbours
may change. Of equal findings as many are known as the file counts.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from modellint.discover import with_slashes
from modellint.results.diagnostic import Diagnostic, Span
from modellint.settings import ALWAYS, SettingsError
from modellint.source.syntax.source_text import SourceText

Texts = Callable[[str], SourceText | None]
"""The text of a file by the path that findings name."""

_FORMAT = 1
_SPACE = re.compile(r"\s+|\\\r?\n")
_AROUND_SIGNS = re.compile(r" ?([^\w\s]) ?")
_LAST_COMMA = re.compile(r",(?=[)\]}])")
_CODE = re.compile(r"`[^`]+`")
_HELD = "\U00010000"
"""A letter that no program has: what stands between two of them is the number of a string."""
_HELD_STRING = re.compile(f"{_HELD}([0-9]+){_HELD}")


class Identity(NamedTuple):
    """What a finding is known by."""

    path: str | None
    """Relative to the folder of the baseline, with slashes; None for a finding of a live target without a place in source."""
    code: str
    message: str
    statement: str
    """Its text without comments and without spaces that mean nothing."""
    target: str | None
    """Of a finding without a place."""


class Known(NamedTuple):
    """How often a finding is known, and the live target that alone shows it."""

    times: int
    target: str | None = None


class Baseline:
    """The known findings of a file. ``folder`` is what the paths of findings are relative to."""

    def __init__(self, file: Path, folder: Path, known: Mapping[Identity, Known] | None = None) -> None:
        self.file = file
        self.known = dict(known or {})
        self._folder = folder
        self._statements = _Statements()
        self._coarse = {identity[:3] for identity in self.known}

    @classmethod
    def read(cls, file: Path, folder: Path) -> Baseline:
        """Read a baseline. Raises ``SettingsError``."""
        if file.exists() and not file.is_file():
            # A device may never end.
            raise SettingsError(f"{file}: the baseline cannot be read: it is no regular file")
        try:
            told = json.loads(file.read_bytes())
        except OSError as error:
            raise SettingsError(
                f"{file}: the baseline cannot be read: {error.strerror}; --write-baseline makes one"
            ) from None
        except ValueError as error:
            raise SettingsError(f"{file}: not a baseline: {error}") from None
        known: dict[Identity, Known] = {}
        try:
            if told["version"] != _FORMAT:
                raise SettingsError(f"{file}: a baseline of another modellint, in form {told['version']!r}")
            for number, entry in enumerate(told["findings"], 1):
                identity, more = _entry(entry, f"{file}: finding {number}")
                so_far = known.get(identity, Known(0)).times
                # Where two branches were merged the same finding may stand twice.
                known[identity] = more._replace(times=max(more.times, so_far))
        except (KeyError, TypeError):
            raise SettingsError(f"{file}: not a baseline: --write-baseline writes one") from None
        return cls(file, folder, known)

    def is_known(self, findings: Sequence[Diagnostic], texts: Texts) -> list[bool]:
        """Whether each finding is known; of equal ones the first as many as are known."""
        places: dict[Identity, dict[Span | None, None]] = {}
        identities = [self._if_likely(finding, texts) for finding in findings]
        for finding, identity in sorted(zip(findings, identities, strict=True), key=lambda pair: pair[0].sort_key):
            if identity is not None and identity in self.known:
                places.setdefault(identity, {})[finding.span] = None
        allowed = {identity: set(list(spans)[: self.known[identity].times]) for identity, spans in places.items()}
        return [
            identity is not None and finding.span in allowed.get(identity, ())
            for finding, identity in zip(findings, identities, strict=True)
        ]

    def without_fixes(self, findings: Sequence[Diagnostic], texts: Texts) -> list[Diagnostic]:
        """The findings, and no fix for those that are known: what is not reported is not changed either."""
        known = self.is_known(findings, texts)
        return [finding.with_fix(None) if old else finding for finding, old in zip(findings, known, strict=True)]

    def stale(
        self, findings: Sequence[Diagnostic], texts: Texts, is_asked: Callable[[Identity, Known], bool]
    ) -> list[tuple[Identity, int]]:
        """What is known and no longer there, and how often: of what ``is_asked`` says that this run would have found."""
        there = self._counted(findings, texts)
        gone = []
        for identity, known in self.known.items():
            missing = known.times - (there[identity].times if identity in there else 0)
            if missing > 0 and is_asked(identity, known):
                gone.append((identity, missing))
        return gone

    def updated(
        self, findings: Sequence[Diagnostic], texts: Texts, is_asked: Callable[[Identity, Known], bool]
    ) -> Baseline:
        """What is there now, and what is known of what this run did not look at."""
        known = self._counted(findings, texts)
        for identity, old in self.known.items():
            if identity not in known and not is_asked(identity, old):
                known[identity] = old
        return Baseline(self.file, self._folder, known)

    def text(self) -> str:
        """The baseline as it is written: a finding a line, so that versions are compared and merged line by line."""
        lines = []
        for identity, known in sorted(self.known.items(), key=lambda item: tuple(part or "" for part in item[0])):
            target = identity.target or known.target
            entry: dict[str, Any] = {"path": identity.path, "code": identity.code, "message": identity.message}
            entry |= {"statement": identity.statement, "count": known.times, **({"target": target} if target else {})}
            lines.append("    " + json.dumps(entry, ensure_ascii=False))
        findings = "[\n" + ",\n".join(lines) + "\n  ]" if lines else "[]"
        return f'{{\n  "version": {_FORMAT},\n  "tool": "modellint",\n  "findings": {findings}\n}}\n'

    def path_of(self, identity: Identity) -> Path | None:
        """The file that a known finding is in."""
        return None if identity.path is None else self.file.parent / identity.path

    def _counted(self, findings: Iterable[Diagnostic], texts: Texts) -> dict[Identity, Known]:
        places: dict[Identity, dict[Span | None, Diagnostic]] = {}
        for finding in sorted(findings, key=lambda finding: finding.sort_key):
            if finding.code not in ALWAYS:
                places.setdefault(self._identity(finding, texts), {}).setdefault(finding.span, finding)
        return {identity: Known(len(spans), _only_live(spans.values())) for identity, spans in places.items()}

    def _if_likely(self, finding: Diagnostic, texts: Texts) -> Identity | None:
        """What a finding is known by; None, without a look at its text, for one that is not known by anything else."""
        if finding.code in ALWAYS or (self._path(finding), finding.code, _message(finding)) not in self._coarse:
            return None
        return self._identity(finding, texts)

    def _identity(self, finding: Diagnostic, texts: Texts) -> Identity:
        path = self._path(finding)
        statement = ""
        if finding.path is not None and finding.span is not None:
            source = texts(finding.path)
            statement = "" if source is None else self._statements.at(source, finding.span)
        return Identity(path, finding.code, _message(finding), statement, finding.target if path is None else None)

    def _path(self, finding: Diagnostic) -> str | None:
        if finding.path is None:
            return None
        return with_slashes(self._folder / finding.path, self.file.parent)


def _only_live(findings: Iterable[Diagnostic]) -> str | None:
    return next((finding.target for finding in findings if finding.evidence == "live"), None)


def _entry(entry: Any, where: str) -> tuple[Identity, Known]:
    """An entry of the file. Raises ``SettingsError``."""
    path, target, count = entry["path"], entry.get("target"), entry["count"]
    words = (entry["code"], entry["message"], entry["statement"])
    if not isinstance(count, int) or not all(isinstance(word, str) for word in (*words, path or "", target or "")):
        raise SettingsError(f"{where} is not understood: --write-baseline writes a new one")
    return Identity(path, *words, target if path is None else None), Known(count, target)


class _Statements:
    """The normalised text of statements, of one file after another."""

    def __init__(self) -> None:
        self._source: SourceText | None = None
        self._statements: list[tuple[int, int, ast.stmt]] = []
        self._strings: list[tuple[int, int]] = []
        self._comments: list[tuple[int, int]] = []

    def at(self, source: SourceText, span: Span) -> str:
        """The innermost statement that a finding begins in; of one with a body what stands before that."""
        self._read(source)
        around = [item for item in self._statements if item[0] <= span.row <= item[1]]
        if not around:
            return _plain(source.line(span.row))
        # Several may stand on one row.
        at = source.offset(span.row, min(span.column, len(source.line(span.row)) + 1))
        inner = [item for item in around if self._bounds(source, item[2])[0] <= at] or around
        statement = max(inner, key=lambda item: (self._bounds(source, item[2])[0], -item[1]))[2]
        return self._normalised(source, *self._bounds(source, statement))

    def _read(self, source: SourceText) -> None:
        if self._source is source:
            return
        from modellint.source.syntax.comments import comments_and_strings
        from modellint.source.syntax.parse import Unparsable, parse

        self._source = source
        self._comments, self._strings = comments_and_strings(source.text)
        try:
            tree = parse(source.text)
        except (Unparsable, RecursionError):
            self._statements = []
            return
        self._statements = [
            (node.lineno, node.end_lineno or node.lineno, node) for node in ast.walk(tree) if isinstance(node, ast.stmt)
        ]

    def _bounds(self, source: SourceText, statement: ast.stmt) -> tuple[int, int]:
        start = source.byte_offset(statement.lineno, statement.col_offset)
        body = getattr(statement, "body", None) or getattr(statement, "cases", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            return start, source.byte_offset(body[0].lineno, body[0].col_offset)
        if body:
            # Of `match` its first line tells enough.
            return start, source.line_starts[statement.lineno - 1] + len(source.line(statement.lineno))
        return start, source.byte_offset(statement.end_lineno or statement.lineno, statement.end_col_offset or 0)

    def _normalised(self, source: SourceText, start: int, end: int) -> str:
        strings = [(*place, True) for place in self._strings]
        text = ""
        kept: list[str] = []
        at = start
        for first, last, is_string in sorted([*strings, *((*place, False) for place in self._comments)]):
            # What lies within an f-string is a part of it.
            if at <= first and last <= end:
                text += source.text[at:first]
                if is_string:
                    text += f"{_HELD}{len(kept)}{_HELD}"
                    kept.append(source.text[first:last])
                at = last
        plain = _plain(text + source.text[at:end])
        return _HELD_STRING.sub(lambda match: kept[int(match[1])], plain)


def _message(finding: Diagnostic) -> str:
    """The message; code in it may be spaced in another way."""
    return _CODE.sub(lambda match: _plain(match[0]), finding.message)


def _plain(text: str) -> str:
    """Code without spaces, and commas, that mean nothing."""
    return _LAST_COMMA.sub("", _AROUND_SIGNS.sub(r"\1", _SPACE.sub(" ", text)).strip())


def listed(entries: Iterable[tuple[Identity, int]], most: int) -> Iterator[str]:
    """Known findings in a line each."""
    for number, (identity, count) in enumerate(entries):
        if number == most:
            yield "…"
            return
        times = f" ({count} times)" if count > 1 else ""
        yield f"{identity.path or identity.target}: {identity.code} {identity.message}{times}"
