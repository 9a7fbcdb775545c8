"""Checks of texts under the settings of their project, as `modellint check` makes them; the user's code is never run.

Plug-ins are code, too: those of the user's own settings are loaded, and those of a project's settings where the user trusts the project.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple, TypeAlias

from modellint.adoption.baseline import Baseline
from modellint.adoption.ignore_comments import Commented, with_comments, with_needed_comments
from modellint.discover import SKIPPED, Exclusion
from modellint.results.diagnostic import Applicability, Diagnostic
from modellint.rule import RuleError
from modellint.run import Checker, job_for
from modellint.server.documents import SETTINGS_FILES
from modellint.settings import Resolver, Settings, SettingsError, find_root, user_file
from modellint.source.fix import Fixed, fix_text
from modellint.source.project.index import Project
from modellint.source.syntax.source_text import LARGEST, SourceText, too_large
from modellint.tool_diagnostics import cannot_parse

_Stamp: TypeAlias = "tuple[int, int, int] | None"
_FILE = re.compile(r"(.+?\.toml): ", re.DOTALL)
_LINE = re.compile(r"\(at line (\d+), column (\d+)\)")
_QUOTED = re.compile(r"'([^']+)'")
_KEY = re.compile(r"([\w-]+)(?:, table \d+)?(?:,|:| must)")


class BrokenSettings(Exception):
    """Settings that cannot be used: the file, the row, and why."""

    def __init__(self, file: Path | None, row: int, message: str) -> None:
        super().__init__(message)
        self.file = file
        self.row = row
        self.message = message


class Place(NamedTuple):
    """Where a text stands for its check: its path, that of a file that need not be there, and the root of its project."""

    path: Path
    root: Path


def place_of(path: Path | None, folders: list[Path], name: str = "untitled.py") -> Place:
    """The place of a document; one that is not saved stands in the first of the client's folders.

    The root is that of ``modellint check FILE``; where nothing marks one, the client's folder around the file is.
    """
    if path is None:
        path = (folders[0] if folders else Path.cwd()) / name
    root = find_root(path)
    if not any((root / mark).exists() for mark in (*SETTINGS_FILES, ".git")):
        around = [folder for folder in folders if path.is_relative_to(folder)]
        root = max(around, key=lambda folder: len(folder.parts), default=root)
    return Place(path, root)


class ProjectChecks:
    """The checks of one project. What settings say is read once; ``is_current`` tells whether it still holds."""

    def __init__(self, root: Path) -> None:
        self._stamps: dict[Path, _Stamp] = {}
        self.warnings: list[str] = []
        """What is said of plug-ins that are not loaded."""
        self._project: Project | None = None
        self._watch(root)
        try:
            resolver = Resolver(root, None, False, {}, None)
            top = resolver.top
            if (own := user_file()) is not None:
                self._stamps[own] = _stamp(own)
            job = job_for(resolver, self.warnings.append)
            resolver.use_codes(job.rules)
            baseline = None
            if top.baseline is not None:
                file = Path(os.path.normpath(top.base_of("baseline") / top.baseline))
                self._stamps[file] = _stamp(file)
                baseline = Baseline.read(file, root)
            self._exclusion = Exclusion(top.base_of("exclude"), top.exclude)
            self._exclusion.covers(str(root / "any.py"))
        except (RuleError, SettingsError) as error:
            raise _located(error, root) from None
        self.job = job._replace(folder=root, baseline=baseline)
        self._note(top)

    def is_current(self, folder: Path) -> bool:
        """Whether the settings of files in a folder are as they were read."""
        self._watch(folder)
        return all(_stamp(path) == stamp for path, stamp in self._stamps.items())

    def _watch(self, folder: Path) -> None:
        for place in (folder, *folder.parents):
            for name in SETTINGS_FILES:
                if place / name not in self._stamps:
                    self._stamps[place / name] = _stamp(place / name)

    def _note(self, settings: Settings) -> None:
        files = {name for origin in settings.origins.values() for name in origin.split(", ")}
        for file in map(Path, files):
            self._stamps.setdefault(file, _stamp(file))

    def settings(self, path: Path) -> Settings:
        """The settings in force for a file. Raises ``BrokenSettings``."""
        try:
            settings = self.job.resolver.of_folder(path.parent)
        except SettingsError as error:
            raise _located(error, path.parent) from None
        self._note(settings)
        return settings

    def excludes(self, path: Path) -> bool:
        """Whether a check of the whole project would leave a file out."""
        try:
            inside = path.relative_to(self.job.root).parts[:-1]
        except ValueError:
            inside = ()
        return not SKIPPED.isdisjoint(inside) or self._exclusion.covers(str(path))

    def stop(self) -> None:
        """End the check that runs, of which nobody wants to hear any longer; it raises ``Stopped``. For another thread."""
        project = self._project
        if project is not None:
            project.is_stopped = True

    def check(self, path: Path, source: SourceText) -> tuple[Diagnostic, ...]:
        """What is shown of a text. Raises ``BrokenSettings``, and ``Stopped`` where it was told to stop."""
        if self.excludes(path):
            return ()
        return self._without_known(self._found(path, source), source)

    def _without_known(self, findings: list[Diagnostic], source: SourceText) -> tuple[Diagnostic, ...]:
        if self.job.baseline is None:
            return tuple(findings)
        known = self.job.baseline.is_known(findings, lambda _: source)
        return tuple(finding for finding, old in zip(findings, known, strict=True) if not old)

    def _found(self, path: Path, source: SourceText) -> list[Diagnostic]:
        settings = self.settings(path)
        rules = self.job.rules_for(path, settings)
        shown = self.job.shown(path)
        # An index of its own: that of another text knows classes by the rows that they stood in.
        checker = Checker(self.job)
        if len(source.text) > LARGEST:
            return checker.kept([cannot_parse(shown, too_large(len(source.text)))], rules)
        self._project = checker.project(settings)
        try:
            checked = checker.check_text(source, path, shown, rules, settings)
        except (RecursionError, MemoryError) as error:
            return [cannot_parse(shown, f"too deeply nested to be read ({type(error).__name__})")]
        finally:
            self._project = None
        return checker.kept(checked.diagnostics, rules)

    def may_change(self, path: Path) -> bool:
        """Whether fixes may change a file: it belongs to the project."""
        return Checker(self.job).may_change(path)

    def fixed(self, path: Path, source: SourceText) -> Fixed:
        """A text after all safe fixes, as `modellint check --fix` leaves it."""
        return fix_text(source, lambda text: self.check(path, text))

    def fixed_once(self, source: SourceText, finding: Diagnostic) -> str | None:
        """A text after the fix of one finding; None where it cannot be applied."""
        fixed = fix_text(source, lambda text: (finding,) if text is source else (), unsafe=True)
        return None if fixed.text == source.text else fixed.text

    def ignored(self, path: Path, source: SourceText, finding: Diagnostic) -> Commented | None:
        """A text with a comment that suppresses a finding, as `modellint check --add-ignore` writes it; None where there can be none.

        Raises ``Unparsable``.
        """
        if finding.evidence == "source":
            return with_comments(source, [finding])
        # Whether source alone needs the comment has to be seen.
        return with_needed_comments(source, [finding], lambda text: self._found(path, text))


def offers(finding: Diagnostic) -> bool:
    """Whether a finding has a fix that can be applied."""
    fix = finding.fix
    return fix is not None and bool(fix.edits) and fix.applicability is not Applicability.DISPLAY


def _stamp(path: Path) -> _Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _located(error: Exception, folder: Path) -> BrokenSettings:
    """A mistake in settings with the file that it stands in, and the row, as far as the message tells."""
    text = str(error)
    match = _FILE.match(text)
    file = Path(match[1]) if match is not None else None
    if file is None or not file.is_file():
        for place in (folder, *folder.parents):
            file = next((place / name for name in SETTINGS_FILES if (place / name).is_file()), None)
            if file is not None:
                break
    return BrokenSettings(file, _row(file, text[match.end() :] if match is not None else text), text)


def _row(file: Path | None, message: str) -> int:
    """The row, from 1, of what a message is about."""
    if match := _LINE.search(message):
        return int(match[1])
    try:
        lines = file.read_text("utf-8", "replace").splitlines() if file is not None else []
    except OSError:
        return 1
    words = _QUOTED.findall(message)
    if match := _KEY.match(message):
        words.insert(0, match[1])
    for word in words:
        # A key, a table, or a word in a list.
        for number, line in enumerate(lines, 1):
            if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", line.partition("#")[0]):
                return number
    return next((number for number, line in enumerate(lines, 1) if "tool.modellint" in line), 1)
