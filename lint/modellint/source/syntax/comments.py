"""Where the comments and strings of a Python text are, whatever version of Python it is for.

``tokenize`` knows only the grammar of the Python that runs it. The rules used here hold for all versions,
f-strings with quotes and comments inside their braces (Python 3.12) included.
"""

from __future__ import annotations

import re
from typing import TypeAlias

_START = re.compile(r"""#[^\r\n]*|"{3}|'{3}|["']""")
# Within a string a backslash takes the next character with it, in raw strings too.
_REST = {
    '"': re.compile(r'[^"\\\r\n]*(?:\\(?:\r\n|[\s\S])[^"\\\r\n]*)*"?'),
    "'": re.compile(r"[^'\\\r\n]*(?:\\(?:\r\n|[\s\S])[^'\\\r\n]*)*'?"),
    '"""': re.compile(r'[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*(?:""")?'),
    "'''": re.compile(r"[^'\\]*(?:(?:\\[\s\S]|'(?!''))[^'\\]*)*(?:''')?"),
}
_TEMPLATE = re.compile(r"(?<!\w)(?:[ft]r?|r[ft])\Z", re.IGNORECASE)
_LOGICAL = re.compile(r"""#[^\r\n]*|"{3}|'{3}|["']|[\[({\])}]|\\(?:\r\n|[\r\n])|\r\n|\r|\n""")
_FIELD = re.compile(r"""[\[({})\]:]|#[^\r\n]*|"{3}|'{3}|["']""")

_Spans: TypeAlias = list[tuple[int, int]]


def comments_and_strings(text: str) -> tuple[_Spans, _Spans]:
    """Start and end offset of every comment and, prefix left out, every string; the text is taken to be Python."""
    comments: _Spans = []
    strings: _Spans = []
    at = 0
    while match := _START.search(text, at):
        if match.group()[0] == "#":
            comments.append(match.span())
            at = match.end()
        else:
            at = _string(text, match.start(), match.group(), comments)
            strings.append((match.start(), at))
    return comments, strings


def logical_line_end(text: str, at: int) -> int:
    """The offset behind the logical line that begins at ``at``: brackets, strings and backslashes carry it over line ends."""
    depth = 0
    while match := _LOGICAL.search(text, at):
        token = match.group()
        at = match.end()
        if token in "[({":
            depth += 1
        elif token in "])}":
            depth -= 1
        elif token in ("\n", "\r", "\r\n") and depth <= 0:
            return at
        elif token[0] in "\"'":
            at = _string(text, match.start(), token, [])
    return len(text)


def _string(text: str, start: int, quote: str, comments: _Spans) -> int:
    """The end of the string whose quote is at ``start``; comments within it, if it is an f-string, are added."""
    at = start + len(quote)
    if _TEMPLATE.search(text, max(0, start - 3), start):
        return _template(text, at, quote, comments)
    match = _REST[quote].match(text, at)
    return match.end() if match else at


def _template(text: str, at: int, quote: str, comments: _Spans) -> int:
    """The end of an f- or t-string whose content begins at ``at``."""
    while at < len(text):
        char = text[at]
        if text.startswith(quote, at):
            return at + len(quote)
        if char == "\\" and text[at + 1 : at + 2] not in ("{", "}"):
            at += 3 if text.startswith("\r\n", at + 1) else 2
        elif text.startswith("{{", at):
            at += 2
        elif char == "{":
            at = _field(text, at + 1, quote, comments)
        elif len(quote) == 1 and char in "\r\n":
            return at
        else:
            at += 1
    return at


def _field(text: str, at: int, quote: str, comments: _Spans) -> int:
    """The end of a replacement field whose expression begins at ``at``."""
    depth = 0
    while match := _FIELD.search(text, at):
        token = match.group()
        at = match.end()
        if token in "[({":
            depth += 1
        elif token in "])}":
            if depth == 0:
                return at
            depth -= 1
        elif token == ":":
            if depth == 0:
                return _format(text, at, quote, comments)
        elif token[0] == "#":
            comments.append(match.span())
        else:
            at = _string(text, match.start(), token, comments)
    return len(text)


def _format(text: str, at: int, quote: str, comments: _Spans) -> int:
    """The end of a format specification, the brace that closes its field included."""
    while at < len(text):
        if text[at] == "}":
            return at + 1
        if text[at] == "{":
            at = _field(text, at + 1, quote, comments)
        elif text.startswith(quote, at) or (len(quote) == 1 and text[at] in "\r\n"):
            return at
        else:
            at += 1
    return at
