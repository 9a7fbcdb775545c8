"""Findings with their source: the message, the lines with carets under the defect, help, and the fix's diff."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from modellint.report import live_findings, summary
from modellint.report.style import paint, visible
from modellint.results.diagnostic import Applicability, Diagnostic
from modellint.source.syntax.text import SourceText

_NOTES = {
    Applicability.SAFE: "",
    Applicability.UNSAFE: "This is an unsafe fix and may change runtime behavior",
    Applicability.DISPLAY: "This fix is only shown; it is never applied",
}


def render(
    diagnostics: Sequence[Diagnostic],
    text_of: Callable[[str], SourceText | None],
    color: bool = False,
    *,
    unsafe: bool = False,
    fixed: int = 0,
) -> str:
    """The findings, a block each, and the summary.

    ``text_of`` gives the text of a file by the path that findings name, or None: then there is no frame.
    ``unsafe`` says that unsafe fixes were asked for; ``fixed`` how many findings this run fixed.
    """
    groups = live_findings.by_defect(diagnostics)
    blocks = ["\n".join(_block(group, text_of, color, unsafe)) + "\n" for group in groups]
    return "\n".join([*blocks, summary.render([group[0] for group in groups], color, unsafe, fixed)])


def _block(
    group: Sequence[Diagnostic], text_of: Callable[[str], SourceText | None], color: bool, unsafe: bool
) -> list[str]:
    diagnostic = group[0]
    look = diagnostic.severity.label
    code = paint(diagnostic.code, look, color)
    fixable = summary.mark(diagnostic, unsafe, color)
    lines = [f"{code} {fixable}{paint(visible(diagnostic.message), 'bold', color)}"]
    source = None if diagnostic.path is None else text_of(diagnostic.path)
    frame: list[str] = []
    width = 1
    if source is not None and diagnostic.span is not None:
        from modellint.report.frame import Frame

        measured = Frame(source, diagnostic.span)
        width = measured.width
        frame = measured.draw(look, color)
    lines.append(f"{' ' * width}{paint('-->', 'gutter', color)} {_place(diagnostic)} ({paint(look, look, color)})")
    lines += frame
    lines += [f"{' ' * width} {paint('=', 'gutter', color)} {note}" for note in live_findings.notes(group)]
    return lines + _help(diagnostic, source, color)


def _place(diagnostic: Diagnostic) -> str:
    if diagnostic.path is None:
        return visible(diagnostic.target or ("the model" if diagnostic.evidence == "live" else "no source"))
    span = diagnostic.span
    return visible(diagnostic.path) + (f":{span.row}:{span.column}" if span else "")


def _help(diagnostic: Diagnostic, source: SourceText | None, color: bool) -> list[str]:
    fix = diagnostic.fix
    texts = [diagnostic.help] if diagnostic.help else []
    if fix is not None and fix.title != diagnostic.help:
        texts.append(fix.title)
    lines = []
    for text in texts:
        first, *more = text.split("\n")
        lines.append(paint("help", "help", color) + paint(": ", "bold", color) + visible(first))
        lines += [" " * 6 + visible(line) for line in more]
    if fix is None:
        return lines
    if source is not None:
        from modellint.report import fix_diff

        lines += fix_diff.draw(source, fix, color)
    if note := _NOTES[fix.applicability]:
        lines.append(paint("note", "note", color) + paint(": ", "bold", color) + note)
    return lines
