"""A sweep on this machine: tasks served by a pool of processes, which are replaced when they are lost."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from modellint.sweep.task_execution import run

_PATIENCE = 5.0
"""Seconds that processes may take to end what they have started."""


def results(tasks: Mapping[str, str], jobs: int, attempts: int) -> Generator[tuple[str, str | None], None, None]:
    """The rows of tasks as they end, each by its key; None for a task whose processes were lost so many times.

    When the iterator is closed, what still runs is ended.
    """
    left, lost = dict(tasks), Counter[str]()
    while left:
        # A pool is lost as a whole: what ran in one is run alone, which shows whose fault it was.
        suspects = {key: text for key, text in left.items() if lost[key]}
        width = 1 if suspects else jobs
        with _pool(width) as pool:
            # No more than run at once, so that a lost process is charged to no task that had not begun.
            waiting, running = iter(list((suspects or left).items())), dict[Future[str], str]()
            try:
                while _fill(pool, running, waiting, width):
                    future = next(as_completed(running))
                    key = running[future]
                    rows = future.result()
                    del running[future], left[key]
                    yield key, rows
            except BrokenProcessPool:
                lost.update(running.values())
        for key in [key for key in left if lost[key] >= attempts]:
            del left[key]
            yield key, None


def _fill(
    pool: ProcessPoolExecutor, running: dict[Future[str], str], waiting: Iterator[tuple[str, str]], jobs: int
) -> bool:
    """Begin as many tasks as run at once; whether any runs."""
    while len(running) < jobs and (entry := next(waiting, None)) is not None:
        running[pool.submit(run, entry[1])] = entry[0]
    return bool(running)


@contextlib.contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, and with this process however it ends."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_settle, initargs=(os.getpid(),))
    is_done = False
    try:
        yield pool
        is_done = True
    finally:
        if not is_done:
            _end_children()
        pool.shutdown(wait=is_done, cancel_futures=True)


def _settle(parent: int) -> None:
    """Leave it to the parent to answer Ctrl-C, and end when it ends."""
    from modellint.session.resources.process_family import die_with_parent

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent)


def _end_children() -> None:
    """End the processes of the pool; each ends what it has started."""
    children = multiprocessing.active_children()
    for process in children:
        process.terminate()
    deadline = time.monotonic() + _PATIENCE
    for process in children:
        process.join(max(0.0, deadline - time.monotonic()))
        process.kill()
