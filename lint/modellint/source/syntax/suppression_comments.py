"""Comments that suppress findings, read: which kind, which codes, where each part stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NOQA = re.compile(
    # Codes may be joined, or parted by commas and spaces; what follows them is a reason.
    r"#\s*noqa(?!\w)(?P<colon>\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[\s,]*[A-Z]+[0-9]+)*(?!\w))?)?",
    re.IGNORECASE,
)
_OURS = re.compile(
    r"#\s*modellint\s*:\s*(?P<verb>[\w-]+)(?P<list>\s*\[(?P<codes>[^\]#]*)(?P<close>\])?)?", re.IGNORECASE
)
_CODE = re.compile(r"[A-Z]+[0-9]+", re.IGNORECASE)
_LIST = re.compile(r"\s*(?:[A-Z]+[0-9]+(?:\s*,\s*|\s+|\Z))+\Z", re.IGNORECASE)
_VERBS = ("ignore", "file-ignore")
_LIKE_A_LIST = re.compile(r"\s*(?:[\[(=:]|[A-Z]{3}[0-9]{3}(?!\w))")


@dataclass(frozen=True, slots=True)
class Directive:
    """One directive. Offsets are into the whole text; a comment may hold several.

    ``codes`` are (code, start, end), and empty where all codes are meant. ``malformed`` says what is wrong
    with a directive that suppresses nothing.
    """

    kind: str
    row: int
    start: int
    end: int
    comment_start: int
    """The ``#`` that begins the comment, which may come before the directive's own."""
    comment_end: int
    codes: tuple[tuple[str, int, int], ...] = ()
    malformed: str | None = None

    def covers(self, code: str) -> bool:
        """Whether a finding of this code is meant."""
        return not self.codes or any(own == code for own, _, _ in self.codes)


def directives_in(text: str, start: int, end: int, row: int) -> Iterator[Directive]:
    """The directives of the comment between two offsets."""
    for match in _NOQA.finditer(text, start, end):
        if match["colon"] and not match["codes"]:
            # A colon announces codes. Without any it is not the bare form: ruff holds it for invalid too.
            continue
        codes = _codes(match, text)
        stop = match.end("codes") if codes else match.start() + len(match.group().rstrip())
        yield Directive("noqa", row, match.start(), stop, start, end, codes)
    for match in _OURS.finditer(text, start, end):
        kind = match["verb"].lower()
        wrong = _malformed(kind, match, text[match.end() : end])
        if kind in _VERBS or wrong:
            codes = _codes(match, text) if not wrong else ()
            yield Directive(kind, row, match.start(), match.end(), start, end, codes, wrong)


def _codes(match: re.Match[str], text: str) -> tuple[tuple[str, int, int], ...]:
    if match["codes"] is None:
        return ()
    found = _CODE.finditer(text, *match.span("codes"))
    return tuple((code.group().upper(), *code.span()) for code in found)


def _malformed(kind: str, match: re.Match[str], rest: str) -> str | None:
    """What is wrong with a directive of ours; None where nothing is, or where it is prose that only looks like one."""
    if kind not in _VERBS:
        import difflib

        near = ["file-ignore"] if "file" in kind else difflib.get_close_matches(kind, _VERBS, 1, 0.7)
        if near:
            return f"`{kind}` is not known; did you mean `{near[0]}`?"
        if match["list"] or not rest.strip() or _LIKE_A_LIST.match(rest):
            return f"`{kind}` is not known; use `ignore[CODE]` or `file-ignore[CODE]`"
        return None
    if match["list"] is None:
        return f"write `{kind}[CODE]`" if _LIKE_A_LIST.match(rest) else None
    if match["close"] is None:
        return "the closing bracket is missing"
    if not match["codes"].strip():
        return f"there is no code between the brackets; write `{kind}` to mean all"
    if not _LIST.match(match["codes"]):
        return f"`{match['codes'].strip()}` is not a list of codes"
    return None
