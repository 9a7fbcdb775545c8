"""Colours, and text made safe and measurable for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

_ANSI = {
    "error": "1;91",
    "warning": "1;93",
    "info": "1;96",
    "help": "1;96",
    "note": "1;93",
    "gutter": "1;94",
    "bold": "1",
    "mark": "36",
    "added": "32",
    "removed": "31",
    "hunk": "36",
    "good": "1;92",
}

TAB = 4
"""How many columns a tab takes, wherever it stands: what ruff does."""


def paint(text: str, look: str, color: bool) -> str:
    """``text`` in one of the looks above, or as it is."""
    return f"\x1b[{_ANSI[look]}m{text}\x1b[0m" if color and text else text


def visible(text: str) -> str:
    """Text on one line that cannot move the cursor, colour the terminal, reverse its order or fail to encode."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_stand_in(char) or char for char in text)


def columns(line: str) -> tuple[Sequence[str], Sequence[int]]:
    """A line as terminal columns, and the column at which each of its characters begins.

    A wide character fills its first column and leaves the second empty; one without width joins the
    column before it. The list of beginnings has one entry more than the line has characters.
    """
    if line.isascii() and line.isprintable():
        return line, range(len(line) + 1)
    cells: list[str] = []
    begins: list[int] = []
    for char in line:
        if char == "\t":
            begins.append(len(cells))
            cells.extend(" " * TAB)
            continue
        if stand_in := _stand_in(char):
            begins.append(len(cells))
            cells.extend(stand_in)
            continue
        width = _width(char)
        if width == 0 and cells:
            begins.append(len(cells) - 1)
            cells[-1] += char
            continue
        begins.append(len(cells))
        cells.append(char)
        if width == 2:
            cells.append("")
    begins.append(len(cells))
    return cells, begins


def _stand_in(char: str) -> str:
    """What to show for a character that a terminal would obey; empty where it may pass."""
    if " " <= char <= "~":
        return ""
    if char < " ":
        return chr(0x2400 + ord(char))
    if char == "\x7f":
        return "␡"
    import unicodedata

    category = unicodedata.category(char)
    if category == "Cs":
        return f"\\u{ord(char):04x}"
    if category in ("Cc", "Zl", "Zp"):
        return "�"
    # Marks that reorder the text around them can make code read as what it is not.
    if category == "Cf" and unicodedata.bidirectional(char) not in ("BN", "AN", "ON"):
        return "�"
    return ""


def _width(char: str) -> int:
    if " " <= char <= "~":
        return 1
    import unicodedata

    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
