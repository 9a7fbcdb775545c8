"""Serving of a task: in whatever process, from text to text, with the target in a process of its own."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from pathlib import Path

from modellint.results.sweep_row import SweepRow
from modellint.run import UsageError
from modellint.session.messages import Answer, Export, Request
from modellint.session.target import TargetError, locate
from modellint.sweep.rows_from_answer import row_without_answer, rows_of, tells_of_check
from modellint.sweep.task import ROWS, TASK, Task

_ONE = threading.Lock()
"""The processes that a target starts are told from others by their parent, so that one process serves one task at a time."""


def run(text: str) -> str:
    """Serve a task, written by its codec, and give back its rows, written by theirs. Models and pickles do not travel."""
    task = TASK.from_json(json.loads(text))
    with _ONE:
        return json.dumps(ROWS.to_json(_rows(task)))


def _rows(task: Task) -> tuple[SweepRow, ...]:
    answer, seconds = _answer(task)
    rows = _told(task, answer, seconds)
    if not task.with_check:
        return rows
    if isinstance(answer, str) or not tells_of_check(answer):
        # The export did not come to its end: a check may.
        answer, seconds = _answer(task.check)
    return *_told(task.check, answer, seconds), *rows


def _told(task: Task, answer: Answer | str, seconds: float) -> tuple[SweepRow, ...]:
    if isinstance(answer, str):
        return (row_without_answer(task, answer, seconds),)
    return rows_of(task, answer, seconds)


def _answer(task: Task) -> tuple[Answer | str, float]:
    """What a worker says, or why none can serve the task, and the seconds that it took."""
    # It is psutil's, which the base installation lacks.
    from modellint.session.parent import check_target

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="modellint-sweep-") as folder:
        try:
            answer: Answer | str = check_target(_here(task, Path(folder)), task.limits)
        except UsageError as error:
            answer = str(error)
    return answer, time.monotonic() - began


def _here(task: Task, folder: Path) -> Request:
    """The request as this machine can serve it: the target looked up here, and a package made in a folder of its own."""
    request = task.request
    if isinstance(request.action, Export):
        name = request.action.package.name
        request = request._replace(action=request.action._replace(package=folder / name))
    file = request.location.file
    if file is not None and file.is_file():
        return request
    try:
        return request._replace(location=locate(request.target, request.root, request.folder))
    except TargetError as error:
        raise UsageError(str(error)) from None
