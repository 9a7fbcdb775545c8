"""The change to a file as a unified diff that ``patch`` applies."""

from __future__ import annotations

from modellint.report.style import paint, visible

_NO_NEWLINE = "\\ No newline at end of file\n"


def render(shown: str, old: str, new: str, color: bool = False, *, cell: int | None = None) -> str:
    """The unified diff from ``old`` to ``new``, or of one cell of a notebook; empty where they are equal.

    Lines end where ``patch`` thinks they do, at LF: a CR before it, or alone within a line, is part of the
    line. Without colour every character stands as it is; with colour, which no program reads, a CR that
    matters is shown as ``^M``.
    """
    if old == new:
        return ""
    import difflib

    name = _name(shown if cell is None else f"{shown}:cell {cell}")
    show_returns = color and _mixed(old + new)
    parts = [_header("---", name, "removed", color), _header("+++", name, "added", color)]
    for line in list(difflib.unified_diff(_lines(old), _lines(new)))[2:]:
        look = {"-": "removed", "+": "added", "@": "hunk"}.get(line[0], "")
        body = line.removesuffix("\n")
        if color:
            body = _colored(body, look, show_returns)
        parts.append(body + "\n")
        if not line.endswith("\n"):
            parts.append(_NO_NEWLINE)
    return "".join(parts)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    kept = [line + "\n" for line in lines]
    return [*kept, last] if last else kept


def _name(shown: str) -> str:
    if shown.isprintable() and '"' not in shown:
        # The tab ends the name for ``patch`` where it holds a space.
        return shown + "\t" if " " in shown else shown
    # As git and GNU patch quote a name.
    data = shown.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in data) + '"'


def _header(sign: str, name: str, look: str, color: bool) -> str:
    return f"{sign} {paint(name, look, color)}\n"


def _mixed(text: str) -> bool:
    """Whether a CR is anything but the steady half of CRLF."""
    return text.count("\r") != text.count("\r\n") or ("\r" in text and text.count("\n") != text.count("\r\n"))


def _colored(body: str, look: str, show_returns: bool) -> str:
    end = ""
    if body.endswith("\r") and not show_returns:
        body, end = body[:-1], "\r"
    pieces = ["^M" if char == "\r" else char if char == "\t" else visible(char) for char in body]
    text = body if body.isascii() and body.isprintable() else "".join(pieces)
    return (paint(text, look, True) if look else text) + end
