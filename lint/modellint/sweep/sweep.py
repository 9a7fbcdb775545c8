"""A sweep from its plan to its file: the tasks whose rows are missing are served here or on a cluster, and written down one by one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from modellint.results.sweep_row import SweepRow
from modellint.sweep import ledger, plan
from modellint.sweep.rows_from_answer import row_of_lost
from modellint.sweep.task import ROWS, TASK, Task


class Where(NamedTuple):
    """On what a sweep runs: ``jobs`` processes of this machine, unless there are dask workers."""

    jobs: int = 1
    workers: int | None = None
    """Worker processes of a dask cluster on the loopback."""
    scheduler: str | None = None
    """The address of a dask scheduler."""


class Progress(NamedTuple):
    """How far a sweep is."""

    done: int
    total: int
    """Tasks that are to be served now."""
    kept: int
    """Tasks whose rows of an earlier run hold."""
    rows: tuple[SweepRow, ...] = ()
    """What the last task came to."""


def swept(
    path: Path,
    tasks: Sequence[Task],
    where: Where,
    *,
    resume: bool = False,
    progress: Callable[[Progress], None] = lambda progress: None,
    told: Callable[[str], None] = lambda text: None,
) -> tuple[SweepRow, ...]:
    """Serve tasks and keep their rows in a file; with ``resume`` only those that it does not hold yet. The rows of these tasks.

    Raises ``UsageError``.
    """
    with ledger.opened(path, resume) as book:
        left = {str(number): task for number, task in enumerate(plan.remaining(tasks, book.rows()))}
        kept = len(tasks) - sum(1 + task.with_check for task in left.values())
        total, done = len(left), 0
        progress(Progress(done, total, kept))
        while left:
            again: dict[str, Task] = {}
            with closing(_results(left, where, told)) as results:
                for key, text in results:
                    task = left[key]
                    if text is None and task.with_check:
                        # An export was lost: a check of the same target may come to its end.
                        again[key], total = task.check, total + 1
                    rows = (row_of_lost(task, ATTEMPTS),) if text is None else ROWS.from_json(json.loads(text))
                    book.replace(rows)
                    done += 1
                    progress(Progress(done, total, kept, rows))
            left = again
        known = book.rows()
        book.finish()
    wanted = {task.key for task in tasks}
    return tuple(row for row in known if row.key in wanted)


ATTEMPTS = 3
"""How often a task is begun whose process is lost."""


def _results(
    tasks: Mapping[str, Task], where: Where, told: Callable[[str], None]
) -> Generator[tuple[str, str | None], None, None]:
    texts = {key: json.dumps(TASK.to_json(task)) for key, task in tasks.items()}
    if not texts:
        return
    if where.scheduler is not None or where.workers is not None:
        from modellint.sweep import dask_cluster

        if where.scheduler is not None:
            yield from dask_cluster.results_of_scheduler(texts, where.scheduler, told)
        else:
            yield from dask_cluster.results_of_cluster(texts, where.workers or 1, told)
        return
    from modellint.sweep import local_processes

    yield from local_processes.results(texts, where.jobs, ATTEMPTS)


def usual_jobs() -> int:
    """Processes at once where nobody says: half of the cores, as a conversion keeps more than one busy."""
    return max(1, (os.cpu_count() or 1) // 2)


def memory_for_each(jobs: int) -> int:
    """The bytes that each of so many processes may use at once where nobody says: an equal share of nearly all that is available."""
    from modellint.session.resources.process_family import available_memory

    return int(available_memory() * 0.9) // jobs
