"""One run: files to findings, by way of the cache, several processes, and the fix loop."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from modellint.run.checker import Checker, source_of
from modellint.run.job import Job, all_rules, job_for
from modellint.run.outcome import Change, Outcome, UsageError, changes_to

if TYPE_CHECKING:
    from modellint.cache.bundle import Bundle, KeptReport

__all__ = [
    "Change",
    "Checker",
    "Job",
    "Outcome",
    "UsageError",
    "all_rules",
    "changes_to",
    "check_files",
    "job_for",
    "processors",
    "source_of",
]

_FEW = 24
"""Up to so many files one process is faster than starting others."""


def check_files(
    job: Job,
    files: Sequence[Path],
    jobs: int,
    outcome: Outcome,
    progress: Callable[[int], None] | None = None,
    look: str | None = None,
) -> None:
    """Put the findings of all files into ``outcome``, sorted; the same for any number of processes.

    ``look`` is all that decides about the text of a report but the findings: where the cache has one in this look, and nothing
    changed since, that is the outcome.
    """
    # A syntax tree holds no cycles: collecting garbage while it is built only costs time.
    gc.disable()
    checker = Checker(job)
    left: Sequence[Path] = files
    bundle: Bundle | None = None
    names: list[str | None] = []
    if job.cache is not None and len(files) > _FEW:
        from modellint.cache.bundle import Bundle

        bundle = Bundle(job.cache, files)
        names = [*map(checker.entry_name, files)]
        if look is not None:
            outcome.report = bundle.report(names, look)
        left = () if outcome.report is not None else _without_kept(bundle, names, files, outcome)
    done = len(files) - len(left)

    def tell(count: int) -> None:
        if progress is not None:
            progress(done + count)

    if done:
        tell(0)
    if jobs <= 1 or len(left) <= _FEW:
        for count, path in enumerate(left, 1):
            outcome.diagnostics.extend(checker.check_any(path))
            tell(count)
        outcome.unread.extend(checker.unread)
    else:
        from modellint.run.worker_processes import check_in_processes

        check_in_processes(job, left, jobs, outcome, tell)
    if bundle is not None and outcome.report is None:
        if len(left) > max(_FEW, len(files) // 10):
            bundle.keep([*map(checker.entry_name, files)])
        if look is not None:
            outcome.keep_report = partial(_keep_report, job, files, bundle, names, look)
    outcome.diagnostics.sort(key=lambda finding: finding.sort_key)
    outcome.unread.sort()


def _keep_report(
    job: Job, files: Sequence[Path], bundle: Bundle, names: Sequence[str | None], look: str, report: KeptReport
) -> None:
    """Keep what was printed, if the files are what they were when the run began, by their names in the cache."""
    assert job.cache is not None
    again = Checker(job._replace(cache=job.cache.again()))
    if [*map(again.entry_name, files)] == names:
        bundle.keep_report(names, look, report)


def _without_kept(
    bundle: Bundle, names: Sequence[str | None], files: Sequence[Path], outcome: Outcome
) -> Sequence[Path]:
    """The files of which the bundle tells no findings; those of others go into ``outcome``."""
    if not bundle.load():
        return files
    findings = bundle.findings(names)
    left: list[Path] = []
    for path, name in zip(files, names, strict=True):
        if name in findings:
            outcome.diagnostics.extend(findings[name])
        else:
            left.append(path)
    return left


def processors() -> int:
    """How many processes a run may use by default."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
