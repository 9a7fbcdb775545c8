"""Why a live target could not be run: LNT003, at the user's own frame."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from modellint.live.code.places import Project, is_machinery, span_of, statement_at, tree_of
from modellint.results.diagnostic import Diagnostic, Place

Frame: TypeAlias = tuple[str, int, str]
"""File, line, function."""

_HEAD, _TAIL = 3, 8
_LONGEST = 400


def user_frames(error: BaseException, project: Project) -> tuple[Frame, ...]:
    """The user's own frames of a traceback, outermost first; without any, the innermost outside of torch and modellint."""
    frames: list[Frame] = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        # Where the stack overflows at the entry of a function, it is the call that did it.
        if not (isinstance(error, RecursionError) and traceback.tb_lineno == code.co_firstlineno):
            frames.append((code.co_filename, traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        frames.append((error.filename, error.lineno, "<module>"))
    return cut(frames, project)


def cut(frames: Iterable[Frame], project: Project) -> tuple[Frame, ...]:
    """Of frames, outermost first, the user's own."""
    known = list(frames)
    own = tuple(frame for frame in known if project.owns(frame[0]))
    return own or tuple(frame for frame in known if not is_machinery(frame[0]))[-1:]


def described(error: BaseException) -> str:
    """An exception's type and message on one line; nothing that its ``__str__`` does gets out."""
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = ""
    name = type(error).__name__
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return f"{name}: {text}" if text else name


def cannot_run(
    target: str,
    stage: str,
    what: str,
    frames: Sequence[Frame] = (),
    *,
    folder: Path,
    otherwise: Place | None = None,
    advice: Iterable[str] = (),
) -> Diagnostic:
    """LNT003: ``what`` happened to a target in a stage such as ``building``.

    It stands at the innermost of the user's frames, without one at ``otherwise``. Frames are shown relative to ``folder``.
    """
    from modellint.tool_diagnostics import CannotRun

    place = statement_at(frames[-1][0], frames[-1][1]) if frames else otherwise
    lines = list(advice)
    if len(frames) > 1:
        shown = [f"  {_relative(path, folder)}:{row} in {function}" for path, row, function in frames]
        if len(shown) > _HEAD + _TAIL + 1:
            shown[_HEAD:-_TAIL] = [f"  … {len(shown) - _HEAD - _TAIL} more frames"]
        lines += ["the frames of the project, innermost last:", *shown]
    return Diagnostic(
        CannotRun.code,
        CannotRun.name,
        CannotRun.severity,
        f"{stage} `{target}` {what}",
        None if place is None else place.path,
        None if place is None else place.span,
        help="\n".join(lines) or None,
        evidence="live",
        target=target,
        noqa_row=None if place is None else place.span.end_row,
    )


def _relative(path: str, folder: Path) -> str:
    return os.path.relpath(path, folder) if Path(path).is_relative_to(folder) else path


def definition(path: str, name: str) -> Place | None:
    """The statement that defines a dotted name in a file: the place of what has no frame."""
    tree = tree_of(path)
    if tree is None:
        return None
    body, node = tree.body, None
    for part in name.split("."):
        node = next((candidate for candidate in body if part in _names(candidate)), None)
        if node is None:
            return None
        body = node.body if isinstance(node, ast.ClassDef) else []
    return None if node is None else Place(path, span_of(path, node))


def _names(node: ast.stmt) -> set[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return {node.name}
        case ast.Assign():
            return {target.id for target in node.targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


_FRAME = re.compile(r'  File "(?P<path>.*)", line (?P<row>\d+) in (?P<function>.+)')


def frames_of_dump(text: str, project: Project) -> tuple[Frame, ...]:
    """The user's frames in the last of what ``faulthandler`` wrote, outermost first."""
    threads: list[list[Frame]] = []
    for line in text.splitlines():
        if line.startswith("Current thread"):
            threads = [[]]
        elif line.startswith("Thread"):
            threads.append([])
        elif threads and (match := _FRAME.match(line)):
            threads[-1].insert(0, (_unescaped(match["path"]), int(match["row"]), match["function"]))
    stacks = (cut(frames, project) for frames in threads)
    return next(filter(None, stacks), ())


def _unescaped(text: str) -> str:
    # faulthandler writes ASCII only: `\xe9`, `\u5c64`.
    return re.sub(
        r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})",
        lambda match: chr(int(match[1] or match[2] or match[3], 16)),
        text,
    )
