"""Findings with their source: the message, the lines with carets under the defect, help, and the fix's diff."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from modellint.report import live_findings, summary
from modellint.report.style import paint, visible
from modellint.results.diagnostic import Applicability, Diagnostic
from modellint.source.syntax.source_text import SourceText

if TYPE_CHECKING:
    from modellint.report.frame import Frame
    from modellint.report.inline_fix_diff import Diffs

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
    if not groups:
        return summary.render([], color, unsafe, fixed)
    from modellint.report.inline_fix_diff import Diffs

    diffs = Diffs()
    blocks = ["\n".join(_block(group, text_of, color, unsafe, diffs)) + "\n" for group in groups]
    return "\n".join([*blocks, summary.render([group[0] for group in groups], color, unsafe, fixed)])


def _block(
    group: Sequence[Diagnostic],
    text_of: Callable[[str], SourceText | None],
    color: bool,
    unsafe: bool,
    diffs: Diffs,
) -> list[str]:
    diagnostic = group[0]
    look = diagnostic.severity.label
    code = paint(diagnostic.code, look, color)
    fixable = summary.mark(diagnostic, unsafe, color)
    lines = [f"{code} {fixable}{paint(visible(diagnostic.message), 'bold', color)}"]
    source = None if diagnostic.path is None else text_of(diagnostic.path)
    from modellint.report.frame import framed

    frame = framed(source, diagnostic)
    width = 1 if frame is None else frame.width
    lines.append(f"{' ' * width}{paint('-->', 'gutter', color)} {_place(diagnostic)} ({paint(look, look, color)})")
    lines += [] if frame is None else frame.draw(look, color)
    lines += [f"{' ' * width} {paint('=', 'gutter', color)} {note}" for note in live_findings.notes(group)]
    return lines + _help(diagnostic, source, color, diffs, frame)


def _place(diagnostic: Diagnostic) -> str:
    if diagnostic.path is None:
        return visible(diagnostic.target or ("the model" if diagnostic.evidence == "live" else "no source"))
    return visible(diagnostic.path) + (f":{diagnostic.place}" if diagnostic.place else "")


def _help(
    diagnostic: Diagnostic, source: SourceText | None, color: bool, diffs: Diffs, frame: Frame | None
) -> list[str]:
    fix, path, span = diagnostic.fix, diagnostic.path, diagnostic.span
    texts = [diagnostic.help] if diagnostic.help else []
    if fix is not None and fix.title != diagnostic.help:
        texts.append(fix.title)
    same = diffs.shown_at(path, fix, span) if fix is not None and fix.edits and path and span else None
    if same is not None:
        texts[-1] += f" (the fix that is shown at {diagnostic._replace(span=same).place})"
    lines = []
    for text in texts:
        first, *more = text.split("\n")
        lines.append(paint("help", "help", color) + paint(": ", "bold", color) + visible(first))
        lines += [" " * 6 + visible(line) for line in more]
    if fix is None:
        return lines
    if source is not None and same is None:
        lines += diffs.draw_for(source, diagnostic, color, frame)
    if note := _NOTES[fix.applicability]:
        lines.append(paint("note", "note", color) + paint(": ", "bold", color) + note)
    return lines
