"""Targets to the files to check: walks folders, keeps to .gitignore and ``exclude``, in a stable order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

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

SUFFIXES = (".py", ".pyw")


class NoSuchTarget(Exception):
    """A target that does not exist or cannot be read; the message says which."""


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
            self._spec = _spec(self._patterns)
        relative = os.path.relpath(path, self._base).replace(os.sep, "/")
        return self._spec.match_file(relative + "/" if folder else relative)


def _spec(lines: Iterable[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def find_files(targets: Iterable[Path], exclusion: Exclusion, force_exclude: bool = False) -> list[Path]:
    """The files that the targets stand for, each once, sorted. Raises ``NoSuchTarget``.

    A file that is named itself is taken whatever its suffix, and even where ``exclude`` covers it, unless ``force_exclude``.
    """
    found: dict[str, None] = {}
    for target in targets:
        path = os.path.abspath(target)  # noqa: PTH100
        if os.path.isdir(path):  # noqa: PTH112
            if not (force_exclude and exclusion.covers(path, folder=True)):
                found.update(dict.fromkeys(_walk(path, exclusion)))
        elif os.path.exists(path):  # noqa: PTH110
            if not (force_exclude and exclusion.covers(path)):
                found[path] = None
        else:
            raise NoSuchTarget(f"{target}: no such file or folder")
    return [Path(path) for path in sorted(found)]


def _walk(top: str, exclusion: Exclusion) -> Iterator[str]:
    pending: list[tuple[str, tuple[tuple[str, GitIgnoreSpec], ...]]] = [(top, _rules_above(top))]
    seen: set[tuple[int, int]] = set()
    while pending:
        folder, ignores = pending.pop()
        try:
            status = os.stat(folder)  # noqa: PTH116
            entries = list(os.scandir(folder))
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        if any(entry.name == ".gitignore" for entry in entries):
            ignores = (*ignores, *_rules_of(folder, ".gitignore"))
        for entry in entries:
            is_folder = entry.is_dir()
            if is_folder and (entry.name in SKIPPED or entry.is_symlink()):
                continue
            if not is_folder and not entry.name.endswith(SUFFIXES):
                continue
            if _ignored(entry.path, is_folder, ignores) or exclusion.covers(entry.path, is_folder):
                continue
            if is_folder:
                pending.append((entry.path, ignores))
            elif entry.is_file():
                yield entry.path


def _ignored(path: str, is_folder: bool, ignores: tuple[tuple[str, GitIgnoreSpec], ...]) -> bool:
    # The innermost file that says anything about the path decides.
    for base, spec in reversed(ignores):
        relative = os.path.relpath(path, base).replace(os.sep, "/")
        answer = spec.check_file(relative + "/" if is_folder else relative).include
        if answer is not None:
            return answer
    return False


def _rules_of(folder: str, name: str, base: str | None = None) -> list[tuple[str, GitIgnoreSpec]]:
    try:
        lines = Path(folder, name).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [(base or folder, _spec(lines))] if lines else []


def _rules_above(top: str) -> tuple[tuple[str, GitIgnoreSpec], ...]:
    """The .gitignore files between a folder and the top of its git checkout."""
    chain: list[str] = []
    folder = top
    while True:
        if os.path.exists(os.path.join(folder, ".git")):  # noqa: PTH110, PTH118
            found = _rules_of(os.path.join(folder, ".git", "info"), "exclude", folder)  # noqa: PTH118
            for place in [folder, *reversed(chain)]:
                if place != top:
                    found.extend(_rules_of(place, ".gitignore"))
            return tuple(found)
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            return ()
        if folder != top:
            chain.append(folder)
        folder = parent
