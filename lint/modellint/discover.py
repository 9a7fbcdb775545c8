"""Discovery of the files to check: walks folders, keeps to .gitignore and ``exclude``, in a stable order."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from modellint.settings import SettingsError, check_patterns

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SKIPPED = frozenset(
    {
        ".bzr",
        ".direnv",
        ".eggs",
        ".git",
        ".git-rewrite",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pants.d",
        ".pyenv",
        ".pytest_cache",
        ".pytype",
        ".ruff_cache",
        ".modellint_cache",
        ".svn",
        ".tox",
        ".venv",
        ".vscode",
        "__pypackages__",
        "_build",
        "buck-out",
        "build",
        "dist",
        "node_modules",
        "site-packages",
        "venv",
        "__pycache__",
    }
)
"""Folders that are never walked into."""

SUFFIXES = (".py", ".pyw", ".ipynb")
_NAMED_SUFFIXES = (*SUFFIXES, ".pyi")
"""Of files that are named themselves; a stub that is found by walking holds nothing to check."""
_SAVED_MODELS = (".mlpackage", ".mlmodel", ".mlmodelc")
_SHEBANG = re.compile(rb"#!.*\bpython[\d.]*(\s|\Z)")
_ANYTHING = "\x01anything\x02"
"""The name of no file: what covers it covers whatever is in its folder."""


def path_from(path: str | Path, folder: str | Path = os.curdir) -> str:
    """A path as it is reached from a folder; the path itself where nothing leads to it, as between two drives of Windows."""
    try:
        return os.path.relpath(path, folder)
    except ValueError:
        return str(path)


def with_slashes(path: str | Path, folder: str | Path) -> str:
    """A path from a folder, as patterns have it."""
    return path_from(path, folder).replace(os.sep, "/")


class Exclusion:
    """What ``exclude`` names, relative to one folder."""

    __slots__ = ("_base", "_patterns", "_spec")

    def __init__(self, base: Path, patterns: Iterable[str]) -> None:
        self._base = str(base)
        self._patterns = tuple(patterns)
        self._spec: GitIgnoreSpec | None = None

    def covers(self, path: str, folder: bool = False) -> bool:
        """Whether a path is excluded."""
        if not self._patterns:
            return False
        if self._spec is None:
            check_patterns(self._patterns, "exclude")
            try:
                self._spec = _spec(self._patterns)
            except ValueError as error:
                raise SettingsError(f"exclude: {error}") from None
        relative = with_slashes(path, self._base)
        return self._spec.match_file(relative + "/" if folder else relative)

    def below(self, folder: str) -> Exclusion:
        """What is excluded in a folder that is asked for itself: not what excludes the folder as a whole."""
        return Exclusion(Path(self._base), _in_part(self._patterns, self._base, folder))


def _spec(lines: Iterable[str]) -> GitIgnoreSpec:
    """The patterns. Raises ``ValueError`` for what is none."""
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def _is_pattern(line: str) -> bool:
    try:
        _spec([line])
    except ValueError:
        return False
    return True


def _in_part(lines: Iterable[str], base: str, folder: str | None) -> list[str]:
    """The patterns but those that cover a folder below ``base``, or all that is in it."""
    if folder is None:
        return list(lines)
    relative = with_slashes(folder, base)
    if relative == "." or relative.startswith("../"):
        return list(lines)
    whole = (f"{relative}/", f"{relative}/{_ANYTHING}")
    return [line for line in lines if not any(map(_spec([line]).match_file, whole))]


class Found:
    """The files that targets stand for, and what besides them is not checked."""

    __slots__ = ("excluded", "files", "ignored", "problems")

    def __init__(self) -> None:
        self.files: list[Path] = []
        self.problems: list[str] = []
        """What is asked for and cannot be checked, each with the reason and a way out."""
        self.excluded = False
        """Whether ``exclude`` leaves out something."""
        self.ignored = False
        """Whether a .gitignore does."""


def find_files(targets: Iterable[Path], exclusion: Exclusion, force_exclude: bool = False) -> Found:
    """The files that the targets stand for, each once, sorted.

    A file that is named itself is taken even where ``exclude`` covers it, and a folder is walked, unless ``force_exclude``.
    """
    discovery = Found()
    files: dict[str, None] = {}
    for target in targets:
        path = os.path.abspath(target)  # noqa: PTH100
        is_folder = os.path.isdir(path)  # noqa: PTH112
        if force_exclude and os.path.lexists(path) and exclusion.covers(path, is_folder):
            discovery.excluded = True
        elif problem := _problem(target, path):
            discovery.problems.append(f"{target}: {problem}")
        elif is_folder:
            files.update(dict.fromkeys(_walk(path, exclusion if force_exclude else exclusion.below(path), discovery)))
        else:
            files[path] = None
    discovery.files = [Path(path) for path in sorted(files)]
    return discovery


def _problem(target: Path, path: str) -> str:
    """Why what is named cannot be checked; empty where it can."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except FileNotFoundError:
        if os.path.islink(path):  # noqa: PTH114
            return f"a symbolic link to {os.readlink(path)}, which is not there"  # noqa: PTH115
        return "no such file or folder"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if path.endswith(_SAVED_MODELS):
        return (
            "not checked: it is a saved model, and no Python source; compare it with the model that it is of: "
            f"modellint verify {shlex.quote(str(target))} --reference model.py:Net"
        )
    if stat.S_ISDIR(status.st_mode):
        return ""
    if not stat.S_ISREG(status.st_mode):
        return "not checked: it is no regular file; what comes through a pipe is checked by modellint check -"
    if path.endswith(_NAMED_SUFFIXES) or _is_script(path):
        return ""
    return (
        "not checked: it is no Python file by its name (.py, .pyi, .pyw, .ipynb) or its first line (#!/usr/bin/env python3); if it holds "
        f"Python: modellint check - --stdin-filename {shlex.quote(target.stem)}.py < {shlex.quote(str(target))}"
    )


def _is_script(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return _SHEBANG.match(file.readline(256)) is not None
    except OSError:
        return False


def _walk(top: str, exclusion: Exclusion, discovery: Found) -> Iterator[str]:
    pending: list[tuple[str, tuple[tuple[str, GitIgnoreSpec], ...]]] = [(top, _rules_above(top))]
    seen: set[tuple[int, int]] = set()
    while pending:
        folder, ignores = pending.pop()
        try:
            status = os.stat(folder)  # noqa: PTH116
            entries = list(os.scandir(folder))
        except OSError as error:
            discovery.problems.append(f"{path_from(folder)}: cannot be read: {error.strerror}")
            continue
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        if any(entry.name == ".gitignore" for entry in entries):
            ignores = (*ignores, *_rules_of(folder, ".gitignore"))
        for entry in entries:
            is_folder = _is_folder(entry)
            if is_folder and (entry.name in SKIPPED or entry.is_symlink()):
                continue
            if not is_folder and not entry.name.endswith(SUFFIXES):
                continue
            if _ignored(entry.path, is_folder, ignores):
                discovery.ignored = True
            elif exclusion.covers(entry.path, is_folder):
                discovery.excluded = True
            elif is_folder:
                pending.append((entry.path, ignores))
            elif not _is_file(entry):
                # Links that lead nowhere, pipes: they hold no code.
                continue
            else:
                yield entry.path


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link to itself.
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _ignored(path: str, is_folder: bool, ignores: tuple[tuple[str, GitIgnoreSpec], ...]) -> bool:
    # The innermost file that says anything about the path decides.
    for base, spec in reversed(ignores):
        relative = with_slashes(path, base)
        answer = spec.check_file(relative + "/" if is_folder else relative).include
        if answer is not None:
            return answer
    return False


def _rules_of(
    folder: str, name: str, base: str | None = None, top: str | None = None
) -> list[tuple[str, GitIgnoreSpec]]:
    """The rules in a file, relative to ``base``; without those that cover the whole of the folder ``top``."""
    file = Path(folder, name)
    base = base or folder
    try:
        lines = file.read_text("utf-8", "replace").splitlines() if file.is_file() else []
    except OSError:
        return []
    try:
        return [(base, _spec(_in_part(lines, base, top)))] if lines else []
    except ValueError:
        # Git takes no notice of what is no pattern.
        return [(base, _spec(_in_part(filter(_is_pattern, lines), base, top)))]


def _rules_above(top: str) -> tuple[tuple[str, GitIgnoreSpec], ...]:
    """The .gitignore files between a folder and the top of its git checkout, as far as they leave something of it."""
    chain: list[str] = []
    folder = top
    while True:
        if os.path.exists(os.path.join(folder, ".git")):  # noqa: PTH110, PTH118
            rules = _rules_of(os.path.join(folder, ".git", "info"), "exclude", folder, top)  # noqa: PTH118
            for place in [folder, *reversed(chain)]:
                if place != top:
                    rules.extend(_rules_of(place, ".gitignore", top=top))
            return tuple(rules)
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            return ()
        if folder != top:
            chain.append(folder)
        folder = parent
