"""Worker processes: files that are checked by several at once, which are gone when the run is."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from modellint.results.diagnostic import Diagnostic
from modellint.run.checker import Checker, unreadable
from modellint.run.job import Job
from modellint.run.outcome import Outcome

_MOST = 61
"""Processes at once; Windows waits for no more."""
_PATIENCE = 2.0
"""Seconds that a process may take to leave nothing behind when it is told to end."""
_worker: list[Checker] = []


def _start_worker(job: Job) -> None:
    gc.disable()
    _worker[:] = [Checker(job)]
    _end_with_parent()


def _end_with_parent() -> None:
    """Let this process end when the one that started it does, whatever ends that one, and leave nothing half written."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave(number: int, _: object) -> None:
        # A second one would interrupt what clears up after the first.
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_PATIENCE)
        os._exit(1)

    # What the user types at a terminal goes to all processes; the first one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, leave)
    threading.Thread(target=watch, daemon=True).start()


def _work(paths: list[Path]) -> tuple[list[Diagnostic], list[str]]:
    checker = _worker[0]
    checker.unread.clear()
    try:
        return [finding for path in paths for finding in checker.check_any(path)], list(checker.unread)
    except SystemExit as ended:
        # The pool would take it for a result, and go on.
        os._exit(ended.code if isinstance(ended.code, int) else 1)


def check_in_processes(
    job: Job, files: Sequence[Path], jobs: int, outcome: Outcome, progress: Callable[[int], None]
) -> None:
    """Put the findings of files into ``outcome``, in any order; ``progress`` is told how many files are done.

    A file whose process is killed has a finding that says so.
    """
    context = multiprocessing.get_context("fork" if sys.platform.startswith("linux") else "spawn")
    jobs = min(jobs, _MOST)
    size = max(1, min(32, len(files) // (jobs * 4)))
    chunks = [list(files[at : at + size]) for at in range(0, len(files), size)]
    done = 0
    lost: list[list[Path]] = []
    with _pool(job, min(jobs, len(chunks)), context) as pool:
        pending = {pool.submit(_work, chunk): chunk for chunk in chunks}
        for future in as_completed(pending):
            try:
                _take(outcome, future.result())
            except BrokenProcessPool:
                lost.append(pending[future])
            done += len(pending[future])
            progress(done)
    for path in (path for chunk in lost for path in chunk):
        # A worker died: each of its files gets a process of its own, and the one that kills it is named.
        with _pool(job, 1, context) as pool:
            try:
                _take(outcome, pool.submit(_work, [path]).result())
            except BrokenProcessPool:
                outcome.diagnostics.append(unreadable(job.shown(path), "the process that checked it was killed"))


def _take(outcome: Outcome, result: tuple[list[Diagnostic], list[str]]) -> None:
    outcome.diagnostics.extend(result[0])
    outcome.unread.extend(result[1])


@contextlib.contextmanager
def _pool(job: Job, size: int, context: Any) -> Iterator[ProcessPoolExecutor]:
    """Worker processes, which are gone when the block is left, at once if an exception ends it."""
    others = multiprocessing.active_children()
    safe_path = os.environ.get("PYTHONSAFEPATH")
    # A process that is no copy of this one would look for modules in the current folder before it does what it is told.
    os.environ["PYTHONSAFEPATH"] = "1"
    pool = ProcessPoolExecutor(size, context, _start_worker, (job,))
    try:
        yield pool
    except BaseException:
        workers = [child for child in multiprocessing.active_children() if child not in others]
        for worker in workers:
            worker.terminate()
        deadline = time.monotonic() + _PATIENCE
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        if safe_path is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = safe_path
