"""The checker: files to findings one after another, with one project index for all, and their fixes."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modellint.results.diagnostic import Diagnostic, Span
from modellint.rule import Rule
from modellint.run.job import Job
from modellint.run.outcome import Outcome, changes_to
from modellint.source.check import Checked, check_source
from modellint.source.project.index import Project
from modellint.source.syntax.parse import LARGE_STACK
from modellint.source.syntax.source_text import SourceText, Undecodable, Unreadable, read_bytes

if TYPE_CHECKING:
    from modellint.settings import Settings
    from modellint.source.fix import Fixed


def source_of(path: Path | str, data: bytes) -> SourceText:
    """The text of a file, or the program of a notebook. Raises ``Undecodable``."""
    if str(path).endswith(".ipynb"):
        from modellint.source.syntax.notebook import NotebookText

        return NotebookText.decode(data)
    return SourceText.decode(data)


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
            return self.kept([unreadable(shown, str(error))], rules)
        cache = self.job.cache
        variant = self._variant(shown, path, settings)
        if cache is not None:
            cached = cache.get(path, data, variant)
            if cached is not None:
                return cached
        try:
            source = source_of(path, data)
        except Undecodable as error:
            return self.kept([unreadable(shown, str(error))], rules)
        checked = self.check_text(source, path, shown, rules, settings)
        silenced = len(self.unread)
        findings = self.kept(checked.diagnostics, rules)
        if cache is not None and silenced == len(self.unread):
            cache.put(path, data, variant, findings, checked.consulted)
        return findings

    def check_any(self, path: Path) -> list[Diagnostic]:
        """The findings of a file on disk; one that is nested too deep has a finding that says so."""
        try:
            return self.check(path)
        except (RecursionError, MemoryError) as error:
            return [unreadable(self.job.shown(path), f"too deeply nested to be read ({type(error).__name__})")]

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


def unreadable(shown: str, message: str) -> Diagnostic:
    """The finding of a file that nobody could read, or check."""
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
