"""One run: files to findings, by way of the cache, several processes, and the fix loop."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint.results.diagnostic import Diagnostic, Span
from modellint.rule import Rule
from modellint.rule_index import shipped_rules
from modellint.settings import user_file
from modellint.source.check import Checked, check_source
from modellint.source.project.index import Project
from modellint.source.syntax.parse import LARGE_STACK
from modellint.source.syntax.source_text import SourceText, Undecodable, Unreadable, read_bytes

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from modellint.adoption.baseline import Baseline
    from modellint.cache import Cache
    from modellint.cache.bundle import Bundle, KeptReport
    from modellint.plugins import Plugin
    from modellint.results.conversion_verdict import Conversion
    from modellint.settings import Resolver, Settings
    from modellint.source.fix import Fixed

_FEW = 24
"""Up to so many files one process is faster than starting others."""
_MOST = 61
"""Processes at once; Windows waits for no more."""
_PATIENCE = 2.0
"""Seconds that a process may take to leave nothing behind when it is told to end."""


class UsageError(Exception):
    """What the user asked for cannot be done; the message says why."""


def all_rules(plugins: Sequence[Plugin] = ()) -> dict[str, Rule]:
    """Every rule there is: the knowledge's, the plug-ins', and the machine's own. Raises ``RuleError``."""
    if plugins:
        from modellint.plugins import rules

        return rules(plugins)
    from modellint.tool_diagnostics import machine_rules

    return dict(sorted({**shipped_rules(), **machine_rules()}.items()))


class Change(NamedTuple):
    """A file as it is, and as its fixes would leave it."""

    shown: str
    """How findings name the file."""
    before: str
    after: str
    cell: int | None = None
    """Of a notebook, of which each cell is shown for itself."""


def changes_to(shown: str, source: SourceText, text: str) -> list[Change]:
    """What is another in ``text`` than in ``source``."""
    return [Change(shown, before, after, cell) for cell, before, after in source.changed_parts(text)]


def source_of(path: Path | str, data: bytes) -> SourceText:
    """The text of a file, or the program of a notebook. Raises ``Undecodable``."""
    if str(path).endswith(".ipynb"):
        from modellint.source.syntax.notebook import NotebookText

        return NotebookText.decode(data)
    return SourceText.decode(data)


class Outcome:
    """What a run found and did."""

    __slots__ = (
        "changes",
        "diagnostics",
        "files",
        "fixed",
        "keep_report",
        "problems",
        "report",
        "targets",
        "unchecked",
        "unread",
    )

    def __init__(self, files: int = 0) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.files = files
        self.fixed: Counter[str] = Counter()
        self.changes: list[Change] = []
        """What fixes would change, where nothing is to be written."""
        self.targets: list[tuple[str, Conversion | None]] = []
        self.problems: list[str] = []
        self.unread: list[str] = []
        """Files that cannot be read, where no finding may say so."""
        self.unchecked: list[str] = []
        """What was asked for and is not checked."""
        self.report: KeptReport | None = None
        """What an earlier run printed, if all is as it was then; there are no findings then."""
        self.keep_report: Callable[[KeptReport], None] | None = None
        """Keeps what is printed of this run, where a later one may ask for it."""


class Job(NamedTuple):
    """Everything that checking needs besides the file; cheap to hand to another process."""

    root: Path
    resolver: Resolver
    rules: Mapping[str, Rule]
    cache: Cache | None
    folder: Path
    baseline: Baseline | None = None
    """Known findings, which are not fixed either."""
    plugins: tuple[Plugin, ...] = ()
    """The plug-ins whose rules are among ``rules``."""

    def __reduce__(self) -> tuple[Any, ...]:
        # A process that is not a copy of this one cannot import a plug-in by a name: it loads all of them again.
        return _received, (*self._replace(rules={}),)

    def shown(self, path: Path) -> str:
        """How findings name a file: relative to the working folder where it is below that."""
        # By text, as thousands are asked for.
        return str(path).removeprefix(os.path.join(self.folder, ""))  # noqa: PTH118

    def rules_for(self, path: Path, settings: Settings) -> dict[str, Rule]:
        """The rules that read a file."""
        return {
            code: rule
            for code, rule in self.reporting_on(path, settings).items()
            if any(rule.reads_for(goal.name) for goal in settings.goals)
        }

    def reporting_on(self, path: Path, settings: Settings) -> dict[str, Rule]:
        """The rules whose findings are wanted in a file: of those that read it, and of those that see what a model does there."""
        ignored = settings.ignored_in(path)
        return {
            code: rule
            for code, rule in self.rules.items()
            if settings.enables(code, rule.default)
            and any(rule.holds_for(goal.name) for goal in settings.goals)
            and not any(s == "ALL" or code.startswith(s) for s in ignored)
        }


def job_for(
    resolver: Resolver,
    tell: Callable[[str], None] = warnings.warn,
    *,
    named: Sequence[str] = (),
    trusts: bool = False,
    isolated: bool = False,
) -> Job:
    """A job under the settings of a root, with the rules of the plug-ins that may run; what is said of others is told.

    These are the user's own and, on the command line, those ``named`` there; those that the root's settings name only where
    the user trusts them. Codes in the settings are not checked yet. Raises ``RuleError`` and ``SettingsError``.
    """
    plugins: tuple[Plugin, ...] = ()
    file = None if isolated else user_file()
    # Few have any, and all would wait for this.
    if named or resolver.top.plugins or (file is not None and os.path.isfile(file)):  # noqa: PTH113
        from modellint.plugins import choose

        chosen = choose(resolver.top, resolver.root, named, trusts=trusts, isolated=isolated)
        for warning in chosen.warnings:
            tell(warning)
        resolver.tolerant = bool(chosen.left_out)
        plugins = chosen.plugins
    return Job(resolver.root, resolver, all_rules(plugins), None, Path.cwd(), plugins=plugins)


def _received(*parts: Any) -> Job:
    """A job in another process."""
    job = Job(*parts)
    return job._replace(rules=all_rules(job.plugins))


class Checker:
    """Checks files one after another, with one project index for all."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._projects: dict[tuple[tuple[str, ...], str | None], Project] = {}
        self._rules: dict[tuple[int, tuple[str, ...]], dict[str, Rule]] = {}
        """The rules that run, by the settings, which the resolver keeps, and what those ignore in a file."""
        self._variants: dict[tuple[int, tuple[str, ...]], str] = {}
        self.unread: list[str] = []
        """Files that could not be read, and why, where settings ignore the finding."""

    def project(self, settings: Settings) -> Project:
        """The index that files with these settings share."""
        key = settings.module_bases, settings.prelu_import
        if key not in self._projects:
            self._projects[key] = Project(self.job.root, *key)
            self._projects[key].digesting = self.job.cache is not None
        return self._projects[key]

    def _rules_for(self, path: Path, settings: Settings) -> dict[str, Rule]:
        key = id(settings), settings.ignored_in(path)
        if key not in self._rules:
            self._rules[key] = self.job.rules_for(path, settings)
        return self._rules[key]

    def _variant(self, shown: str, path: Path, settings: Settings) -> str:
        """What besides the files decides about findings, and how they name the file."""
        key = id(settings), settings.ignored_in(path)
        if key not in self._variants:
            goal = settings.goal
            ends = (goal.target, goal.coremltools or "", settings.destination, settings.prelu_import or "")
            words = (*self._rules_for(path, settings), "", *settings.module_bases, "", *ends)
            self._variants[key] = "\n".join(words)
        return f"{shown}\n{self._variants[key]}"

    def entry_name(self, path: Path) -> str | None:
        """The name of a file's entry in the cache; None where there can be none."""
        cache = self.job.cache
        try:
            data = read_bytes(path)
        except Unreadable:
            return None
        settings = self.job.resolver.of_file(path)
        return None if cache is None else cache.name(path, data, self._variant(self.job.shown(path), path, settings))

    def check(self, path: Path) -> list[Diagnostic]:
        """The findings of a file on disk."""
        settings = self.job.resolver.of_file(path)
        shown = self.job.shown(path)
        rules = self._rules_for(path, settings)
        try:
            data = read_bytes(path)
        except Unreadable as error:
            return self.kept([_unreadable(shown, str(error))], rules)
        cache = self.job.cache
        variant = self._variant(shown, path, settings)
        if cache is not None:
            cached = cache.get(path, data, variant)
            if cached is not None:
                return cached
        try:
            source = source_of(path, data)
        except Undecodable as error:
            return self.kept([_unreadable(shown, str(error))], rules)
        checked = self.check_text(source, path, shown, rules, settings)
        silenced = len(self.unread)
        findings = self.kept(checked.diagnostics, rules)
        if cache is not None and silenced == len(self.unread):
            cache.put(path, data, variant, findings, checked.consulted)
        return findings

    def kept(self, findings: Iterable[Diagnostic], rules: Mapping[str, Rule]) -> list[Diagnostic]:
        """The findings of rules that run; a file that nobody read is noted all the same."""
        kept: list[Diagnostic] = []
        for finding in findings:
            if finding.code in rules:
                kept.append(finding)
            elif finding.code == "LNT002":
                self.unread.append(f"{finding.path}: {finding.message}")
        return kept

    def check_text(
        self,
        source: SourceText,
        path: Path,
        shown: str,
        rules: Mapping[str, Rule],
        settings: Settings,
        suppress: bool = True,
    ) -> Checked:
        """The findings of a text; an expression too deep for the stack is read again on a larger one."""
        project = self.project(settings)

        def work() -> Checked:
            return check_source(source, path, shown, settings, project, rules, suppress=suppress)

        with _uncollected():
            try:
                checked = work()
            except RecursionError:
                checked = _on_large_stack(work)
        return _of_notebook(checked, source, shown) if source.cells else checked

    def fix_proven(self, path: Path, findings: Sequence[Diagnostic], outcome: Outcome) -> bool:
        """Apply the safe fixes of findings of a file that is on disk as it was when they were found; whether it has changed."""
        from modellint.source.fix import ReplaceError, fix_text, replace_file

        shown = self.job.shown(path)
        if not self.may_change(path):
            return False
        data = path.read_bytes()
        source = source_of(path, data)
        fixed = fix_text(source, lambda text: tuple(findings) if text is source else ())
        if fixed.text == source.text:
            return False
        try:
            replace_file(path, data, source.encode(fixed.text))
        except (ReplaceError, OSError) as error:
            outcome.problems.append(f"{shown}: not fixed: {error}")
            return False
        if self.job.cache is not None:
            self.job.cache.forget(path)
        outcome.fixed.update(fixed.applied)
        return True

    def fix(
        self, path: Path, unsafe: bool, write: bool, outcome: Outcome, known: Sequence[Diagnostic] | None = None
    ) -> None:
        """Apply the fixes of a file; note in ``outcome`` what was done and what is left.

        ``known`` are the findings of the file as it is, if not those of source alone.
        """
        shown = self.job.shown(path)
        before = None if known is not None else _content(path)
        findings = self.check(path) if known is None else known
        if not any(finding.fix for finding in findings):
            outcome.diagnostics.extend(findings)
            return
        from modellint.source.fix import ReplaceError, replace_file

        if not self.may_change(path):
            outcome.problems.append(f"{shown}: not fixed: outside the project root, or in site-packages")
            outcome.diagnostics.extend(findings)
            return
        data = path.read_bytes()
        source = source_of(path, data)
        # What was found is that of this text, if nobody wrote to the file meanwhile.
        fixed = self._fixed(path, source, unsafe, findings if data == before else known)
        if fixed.problem:
            outcome.problems.extend(f"{shown}: {line}" for line in fixed.problem.splitlines())
        if fixed.text == source.text:
            outcome.diagnostics.extend(fixed.remaining)
            return
        if write:
            try:
                replace_file(path, data, source.encode(fixed.text))
            except (ReplaceError, OSError) as error:
                outcome.problems.append(f"{shown}: not fixed: {error}")
                outcome.diagnostics.extend(findings)
                return
            if self.job.cache is not None:
                self.job.cache.forget(path)
        else:
            outcome.changes.extend(changes_to(shown, source, fixed.text))
        outcome.diagnostics.extend(fixed.remaining)
        outcome.fixed.update(fixed.applied)

    def tried(self, path: Path, unsafe: bool) -> Fixed | None:
        """A file as its fixes would leave it, which is not written; None where they change nothing, or may not."""
        if not self.may_change(path) or not any(finding.fix for finding in self.check(path)):
            return None
        source = source_of(path, path.read_bytes())
        fixed = self._fixed(path, source, unsafe, None)
        return None if fixed.text == source.text else fixed

    def may_change(self, path: Path) -> bool:
        """Whether fixes may write to a file: it belongs to the project."""
        return "site-packages" not in path.parts and path.resolve().is_relative_to(self.job.root.resolve())

    def _fixed(self, path: Path, source: SourceText, unsafe: bool, known: Sequence[Diagnostic] | None) -> Fixed:
        from modellint.source.fix import fix_text

        settings = self.job.resolver.of_file(path)
        shown = self.job.shown(path)
        rules = self.job.rules_for(path, settings)

        def look(text: SourceText) -> tuple[Diagnostic, ...]:
            findings = known if text is source else None
            if findings is None:
                findings = self.kept(self.check_text(text, path, shown, rules, settings).diagnostics, rules)
            if self.job.baseline is not None:
                findings = self.job.baseline.without_fixes(findings, lambda _: text)
            return tuple(findings)

        return fix_text(source, look, unsafe)


def _content(path: Path) -> bytes | None:
    try:
        return read_bytes(path)
    except Unreadable:
        return None


def _unreadable(shown: str, message: str) -> Diagnostic:
    from modellint.tool_diagnostics import cannot_parse

    return cannot_parse(shown, message)


def _of_notebook(checked: Checked, source: SourceText, shown: str) -> Checked:
    """The findings with the cells that they stand in, and one for each cell that is no Python."""
    from modellint.source.syntax.notebook import NotebookText
    from modellint.tool_diagnostics import cannot_parse

    findings = list(checked.diagnostics)
    if isinstance(source, NotebookText):
        for row, column, message in source.problems:
            findings.append(cannot_parse(shown, message, Span(row, column, row, column)))
    placed = [finding._replace(cells=source.cells) for finding in findings]
    return checked._replace(diagnostics=tuple(sorted(placed, key=lambda finding: finding.sort_key)))


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Let Python's garbage collector rest: it would go through a growing syntax tree, which holds no cycles, again and again."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _on_large_stack(work: Callable[[], Checked]) -> Checked:
    """Run in a thread with a 512 MB stack; a sum of 3,000 terms overflows the ordinary one in ``ast`` and in libcst."""
    import threading

    result: list[Checked] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            result.append(work())
        except BaseException as error:
            failure.append(error)

    limit = sys.getrecursionlimit()
    size = threading.stack_size(512 * 1024 * 1024)
    try:
        sys.setrecursionlimit(LARGE_STACK)
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(size)
    if failure:
        raise failure[0]
    return result[0]


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
            outcome.diagnostics.extend(_safely(checker, path))
            tell(count)
        outcome.unread.extend(checker.unread)
    else:
        _in_processes(job, left, jobs, outcome, tell)
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


def _safely(checker: Checker, path: Path) -> list[Diagnostic]:
    try:
        return checker.check(path)
    except (RecursionError, MemoryError) as error:
        return [_unreadable(checker.job.shown(path), f"too deeply nested to be read ({type(error).__name__})")]


_worker: list[Checker] = []


def _start_worker(job: Job) -> None:
    gc.disable()
    _worker[:] = [Checker(job)]
    _end_with_parent()


def _end_with_parent() -> None:
    """Let this process end when the one that started it does, whatever ends that one, and leave nothing half written."""
    import multiprocessing
    import multiprocessing.connection
    import signal
    import threading

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
        return [finding for path in paths for finding in _safely(checker, path)], list(checker.unread)
    except SystemExit as ended:
        # The pool would take it for a result, and go on.
        os._exit(ended.code if isinstance(ended.code, int) else 1)


def _in_processes(
    job: Job, files: Sequence[Path], jobs: int, outcome: Outcome, progress: Callable[[int], None]
) -> None:
    import multiprocessing
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool

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
                outcome.diagnostics.append(_unreadable(job.shown(path), "the process that checked it was killed"))


def _take(outcome: Outcome, result: tuple[list[Diagnostic], list[str]]) -> None:
    outcome.diagnostics.extend(result[0])
    outcome.unread.extend(result[1])


@contextlib.contextmanager
def _pool(job: Job, size: int, context: Any) -> Iterator[ProcessPoolExecutor]:
    """Worker processes, which are gone when the block is left, at once if an exception ends it."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

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


def processors() -> int:
    """How many processes a run may use by default."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
