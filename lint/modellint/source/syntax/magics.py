"""IPython's syntax in a cell: lines that are no Python are masked, so that every row and column of the others stays.

Masked are line magics (``%``), commands of the shell (``!``), help (``?``) and automatic calls (``/ , ;``), where a logical line
begins with them or a name is bound to what they give. A cell magic decides what its cell is: Python, or something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from modellint.source.syntax.comments import logical_line_end
from modellint.source.syntax.parse import Unparsable, parse

_PYTHON_MAGICS = frozenset(
    {"capture", "debug", "heat", "lprun", "memit", "modellint", "mprun", "prun", "scalene", "time", "timeit", "wandb"}
)
"""Cell magics whose cell runs as Python, with the names of the other cells."""
_CELL_MAGIC = re.compile(r"%%(\w*)")
_ESCAPE = re.compile(r"([ \t\f]*)[%!?/,;]")
_ASSIGNMENT = re.compile(r"""([ \t\f]*[^\W\d][^=#"'!<>%?]*=[ \t]*)[%!](?!=)""")
_HELP = re.compile(r"""([ \t\f]*)[^\s#"'=][^#"'=]*\?[ \t]*\Z""")
_AUTOMATIC = re.compile(
    r"(?:autoreload|cat|cd|conda|cp|env|less|ll|load_ext|ls|mamba|man|matplotlib|micromamba|mkdir|more|mv|pip|reload_ext|rm|rmdir|run|uv)"
    r"[ \t]+[\w./~'\"-]"
)
"""How a line magic begins that stands without its sign, as IPython takes it where the line is no Python."""
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_UNKNOWN = "_()"
"""The value of what a magic gives: a call of a name that nothing is known of."""


class _Escaped(NamedTuple):
    """A physical line of the cell that is no Python."""

    start: int
    end: int
    """Where the line end begins."""
    kept: str
    """What the line begins with once it is masked."""


def masked(text: str, mask: Callable[[str, str], str]) -> str:
    """The cell as Python: ``mask`` gives, of a line and what is to stay of it, the line that takes its place."""
    lines = _escaped_lines(text) if _is_python(text) else _all_lines(text)
    return _replaced(text, lines, mask)


def all_masked(text: str, mask: Callable[[str, str], str]) -> str:
    """A cell of which nothing is read."""
    return _replaced(text, _all_lines(text), mask)


def _replaced(text: str, lines: Iterator[_Escaped], mask: Callable[[str, str], str]) -> str:
    parts: list[str] = []
    at = 0
    for line in lines:
        parts += (text[at : line.start], mask(text[line.start : line.end], line.kept))
        at = line.end
    return "".join([*parts, text[at:]])


def _is_python(text: str) -> bool:
    """Whether the first line that is not empty, and no comment, leaves the cell to Python."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            magic = _CELL_MAGIC.match(line)
            return magic is None or magic.group(1) in _PYTHON_MAGICS
    return True


def _all_lines(text: str) -> Iterator[_Escaped]:
    for match in _LINE.finditer(text):
        if match.group(1):
            yield _Escaped(match.start(), match.end(1), "")


def _escaped_lines(text: str) -> Iterator[_Escaped]:
    at = 0
    while at < len(text):
        match = _LINE.match(text, at)
        assert match is not None
        line = match.group(1)
        kept = _kept(line)
        if kept is None:
            at = logical_line_end(text, at)
            continue
        yield _Escaped(at, match.end(1), kept)
        at = match.end()
        while line.endswith("\\") and at < len(text):
            match = _LINE.match(text, at)
            assert match is not None
            line = match.group(1)
            yield _Escaped(at, match.end(1), "")
            at = match.end()


def _kept(line: str) -> str | None:
    """What stays of a line that begins a logical one and is no Python, with what makes it a statement; None of Python."""
    if match := _ESCAPE.match(line) or _HELP.match(line):
        # A comment would leave an indented block empty.
        return match.group(1) and match.group(1) + _UNKNOWN
    if match := _ASSIGNMENT.match(line):
        return match.group(1) + _UNKNOWN
    return "" if _AUTOMATIC.match(line) and not _is_statement(line) else None


def _is_statement(line: str) -> bool:
    try:
        parse(line)
    except (Unparsable, RecursionError):
        return False
    return True
