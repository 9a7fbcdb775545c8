"""Scheduling of checks: one at a time, of the newest text only, and none queued while somebody types."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from modellint.results.diagnostic import Diagnostic
from modellint.rule import Rule
from modellint.run import all_rules
from modellint.server.document_checks import BrokenSettings, Place, ProjectChecks, place_of
from modellint.server.documents import Document
from modellint.source.check import Stopped
from modellint.tool_diagnostics import described, raised_at

DELAY = 0.1
"""Seconds without a change after which a text is checked."""
_T = TypeVar("_T")


class Result(NamedTuple):
    """What a check of a document gave."""

    revision: tuple[int, int]
    """Of the text, and of the files around it."""
    root: Path
    findings: tuple[Diagnostic, ...] = ()
    docs_url: str | None = None
    warnings: tuple[str, ...] = ()
    """What is said of plug-ins that are not loaded."""
    rules: Mapping[str, Rule] = MappingProxyType({})
    """Those of the project."""
    problem: BrokenSettings | None = None
    failure: str | None = None
    """What went wrong in modellint itself."""


class Outdated(Exception):
    """The text that was asked about has changed, or is closed."""


class Checking:
    """The checks of open documents. ``publish`` is told of each that is done and still of the newest text.

    Whatever takes its time runs in one thread, on a copy of the document; the rest belongs to the event loop's.
    """

    def __init__(self, folders: Callable[[], list[Path]], publish: Callable[[Document, Result], None]) -> None:
        self.documents: dict[str, Document] = {}
        self._folders = folders
        self._publish = publish
        self._thread = ThreadPoolExecutor(1, "modellint-check")
        self._around = 0
        """Grows when files change that are not open: settings, or what a document imports."""
        self._results: dict[str, Result] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._projects: dict[Path, ProjectChecks] = {}
        self._at_work: tuple[str, ProjectChecks] | None = None
        self._tasks_of_timers: set[asyncio.Task[object]] = set()

    @property
    def rules(self) -> dict[str, Rule]:
        """All rules but those of plug-ins."""
        return all_rules()

    def opened(self, document: Document) -> None:
        """Check a document at once."""
        self.documents[document.uri] = document
        self._results.pop(document.uri, None)
        self.check_later(document, 0)

    def changed(self, document: Document) -> None:
        """Check a document when it has been left alone for a while; a check of what it was is ended."""
        self._stop(document.uri)
        self.check_later(document, DELAY)

    def closed(self, uri: str) -> None:
        """Forget a document."""
        self.documents.pop(uri, None)
        self._results.pop(uri, None)
        self._stop(uri)
        if timer := self._timers.pop(uri, None):
            timer.cancel()

    def files_changed(self) -> None:
        """Check all documents again, as files around them have changed."""
        self._around += 1
        for document in self.documents.values():
            self.check_later(document, DELAY)

    def check_later(self, document: Document, delay: float) -> None:
        """Check a document after so many seconds, unless it changes until then."""
        if not document.is_python:
            return
        if timer := self._timers.pop(document.uri, None):
            timer.cancel()

        def begin() -> None:
            self._timers.pop(document.uri, None)
            task = asyncio.ensure_future(self._quietly(document))
            self._tasks_of_timers.add(task)
            task.add_done_callback(self._tasks_of_timers.discard)

        self._timers[document.uri] = asyncio.get_running_loop().call_later(delay, begin)

    async def _quietly(self, document: Document) -> object:
        try:
            return await self.result(document)
        except Outdated:
            return None

    async def result(self, document: Document) -> Result:
        """What the newest text gives, checked if it is not yet. Raises ``Outdated`` where it changes meanwhile."""
        revision = self._revision(document)
        known = self._results.get(document.uri)
        if known is not None and known.revision == revision:
            return known
        task = self._tasks.get(document.uri)
        if task is None or task.get_name() != str(revision):
            task = asyncio.create_task(self._check(document, revision), name=str(revision))
            self._tasks[document.uri] = task
        # Who waits may give up; others may wait, too.
        await asyncio.shield(task)
        known = self._results.get(document.uri)
        if known is None or known.revision != revision:
            raise Outdated
        return known

    def newest(self, document: Document) -> Result | None:
        """The result for the newest text, if there is one."""
        known = self._results.get(document.uri)
        return known if known is not None and known.revision == self._revision(document) else None

    async def work(self, document: Document, do: Callable[[ProjectChecks, Place, Document], _T]) -> _T:
        """Do something with a document in the thread that checks. Raises ``Outdated``, and ``BrokenSettings``."""
        revision = document.revision
        folders = self._folders()
        snapshot = copy(document)

        def run() -> _T:
            if document.revision != revision:
                raise Stopped
            place = place_of(snapshot.path, folders)
            checks = self._checks_of(place)
            self._at_work = document.uri, checks
            try:
                return do(checks, place, snapshot)
            finally:
                self._at_work = None

        try:
            value = await asyncio.get_running_loop().run_in_executor(self._thread, run)
        except Stopped:
            raise Outdated from None
        if document.revision != revision or self.documents.get(document.uri) is not document:
            raise Outdated
        return value

    async def in_thread(self, do: Callable[[], _T]) -> _T:
        """Do something that concerns no document in the thread that checks."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, do)

    def end(self) -> None:
        """End what runs, and begin nothing more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._at_work is not None:
            self._at_work[1].stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _revision(self, document: Document) -> tuple[int, int]:
        return document.revision, self._around

    def _stop(self, uri: str) -> None:
        at_work = self._at_work
        if at_work is not None and at_work[0] == uri:
            at_work[1].stop()

    async def _check(self, document: Document, revision: tuple[int, int]) -> None:
        def findings(checks: ProjectChecks, place: Place, snapshot: Document) -> Result:
            diagnostics = checks.check(place.path, snapshot.source)
            docs_url = checks.settings(place.path).docs_url
            return Result(revision, place.root, diagnostics, docs_url, tuple(checks.warnings), checks.job.rules)

        try:
            result = await self.work(document, findings)
        except Outdated:
            return
        except BrokenSettings as problem:
            result = Result(revision, place_of(document.path, self._folders()).root, problem=problem)
        except Exception as error:
            failure = f"{described(error)} ({raised_at(error)})"
            result = Result(revision, Path(), failure=failure)
        if revision == self._revision(document) and self.documents.get(document.uri) is document:
            self._results[document.uri] = result
            self._publish(document, result)

    def _checks_of(self, place: Place) -> ProjectChecks:
        """The checks of a project. Raises ``BrokenSettings``."""
        checks = self._projects.get(place.root)
        if checks is None or not checks.is_current(place.path.parent):
            self._projects.pop(place.root, None)
            checks = self._projects[place.root] = ProjectChecks(place.root)
        return checks
