"""Files of an application: what its programs import, and what may be asked for names by strings there."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.source.project.mentions import import_name
from modellint.source.project.symbols import IndexedFile
from modellint.source.roles.code_roles import is_path_of_tests
from modellint.source.roles.eval_callees import LOOKED_UP, asked_calls
from modellint.source.roles.files.computed_imports import may_be_computed
from modellint.source.roles.files.program_files import reads_command_line
from modellint.source.roles.files.unreferenced_files import (
    has_main,
    holds_a_module,
    imported_modules,
    may_be_installed,
    may_mean,
)
from modellint.source.syntax.ast_walk import of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_PROGRAM_WORDS = ("__main__", "parse_args", "parse_known_args", "argv")
"""What one of stands in the text of a program."""
_FINDS_CLASSES = ("__subclasses__", "__init_subclass__", "getmembers")
"""What finds classes that nothing names."""
_MOST_RUN = 2_000
"""More files than these are more than one application."""
_MOST_IMPORTERS = 100
"""What more files than these import may be asked for anything."""


def is_of_application(project: Project, file: IndexedFile) -> bool:
    """Whether programs of the project import a file, directly or through others, and nothing installs it for others to use.

    Whoever finds classes without their names, or files by any string, may use what such a file holds all the same.
    """
    project.touch_tree()
    mentions = project.mentions
    if not mentions.is_whole or may_be_installed(project, file.path) or is_path_of_tests(project, file.path):
        return False
    if any(mentions.naming(word) for word in _FINDS_CLASSES):
        return False
    return file.path in project.remembered(("run by programs",), lambda: _run_by_programs(project))


def may_be_asked_for(project: Project, file: IndexedFile) -> bool:
    """Whether a file, or one that takes all its names or is its package, may be asked for a name by a string."""
    return project.remembered(("asked by strings", file.path), lambda: _may_be_asked(project, file.path))


def _may_be_asked(project: Project, path: str) -> bool:
    seen = {path}
    pending = [path]
    for one in pending:
        file = project.file(one)
        # A package is a module of the folder above it.
        is_package = os.path.basename(one) == "__init__.py"  # noqa: PTH119
        if (
            file is None
            or LOOKED_UP.search(file.source.text)
            or may_be_computed(project, os.path.dirname(one) if is_package else one)  # noqa: PTH120
        ):
            return True
        others = [other for other in project.mentions.naming(import_name(one)) if other != one]
        if len(others) > _MOST_IMPORTERS:
            return True
        for other in others:
            place = None if other.endswith(".ipynb") else project.file(other)
            if place is None:
                return True
            takes = _takes(project, place, one)
            if takes is None:
                return True
            if takes and other not in seen:
                seen.add(other)
                pending.append(other)
    return False


def _takes(project: Project, place: IndexedFile, path: str) -> bool | None:
    """Whether a place takes names of a file to hand them on; None where it may ask the file for a name by a string."""
    is_package = place.path.endswith("__init__.py")
    takes = False
    for node in _imports(place):
        if isinstance(node, ast.Import):
            bound = [
                (alias.asname or alias.name.partition(".")[0])
                for alias in node.names
                if any(may_mean(project, name, 0, place.path, path) for name in _bound_by(alias))
            ]
        else:
            module = node.module or ""
            if may_mean(project, module, node.level, place.path, path):
                takes = takes or is_package or any(alias.name == "*" for alias in node.names)
            prefix = f"{module}." if module else ""
            bound = [
                alias.asname or alias.name
                for alias in node.names
                if alias.name != "*" and may_mean(project, prefix + alias.name, node.level, place.path, path)
            ]
        if bound and LOOKED_UP.search(place.source.text):
            return None
        if any(asked_calls(place, name) != [] for name in bound):
            return None
        # A package that binds one of its files hands it on.
        takes = takes or (is_package and bool(bound))
    return takes


def _bound_by(alias: ast.alias) -> Iterator[str]:
    """The modules that an import gives a place to ask: the one of its name, and the packages around it unless it is renamed."""
    dotted = alias.name
    while dotted:
        yield dotted
        dotted = "" if alias.asname else dotted.rpartition(".")[0]


def _imports(file: IndexedFile) -> list[ast.Import | ast.ImportFrom]:
    return [*of_kind(file.tree, ast.Import), *of_kind(file.tree, ast.ImportFrom)]


def _run_by_programs(project: Project) -> frozenset[str]:
    """The files that programs of the project import, if one of these files holds a module."""
    project.touch_tree()
    mentions = project.mentions
    named = {path: None for word in _PROGRAM_WORDS for path in mentions.naming(word)}
    programs = [path for path in named if not path.endswith(".ipynb") and not is_path_of_tests(project, path)]
    pending = [path for path in programs if _is_program(project, path)]
    seen = {*pending}
    run: set[str] = set()
    ends = _by_ends(mentions.code_files("python", lambda path: path.endswith(".py")))
    for one in pending:
        file = project.file(one)
        for dotted, level in imported_modules(file) if file is not None else ():
            for path in _files_of(project, dotted, level, one, ends):
                run.add(path)
                if path not in seen:
                    seen.add(path)
                    pending.append(path)
        if len(seen) > _MOST_RUN:
            return frozenset()
    files = (project.file(path) for path in sorted(run))
    return frozenset(run) if any(file is not None and holds_a_module(project, file) for file in files) else frozenset()


def _is_program(project: Project, path: str) -> bool:
    file = project.file(path)
    return file is not None and (
        reads_command_line(project, file)
        or (once(file.tree, "_is_main", has_main) and not holds_a_module(project, file))
    )


def _by_ends(paths: list[str]) -> dict[str, list[str]]:
    ends: dict[str, list[str]] = {}
    for path in paths:
        ends.setdefault(import_name(path), []).append(path)
    return ends


def _files_of(project: Project, dotted: str, level: int, importer: str, ends: dict[str, list[str]]) -> Iterator[str]:
    """The file that an import runs, and those of the packages around it."""
    found = project.find(dotted, level, importer)
    if found is None and not level:
        # A program may have put any folder on the path; that is told where one file alone is meant.
        several = [
            path for path in ends.get(dotted.rpartition(".")[2], ()) if may_mean(project, dotted, 0, importer, path)
        ]
        found = several[0] if len(several) == 1 and "." in dotted else None
    if found is None:
        return
    yield found
    folder = os.path.dirname(found)  # noqa: PTH120
    while "__init__.py" in project.mentions.names_in(folder):
        yield os.path.join(folder, "__init__.py")  # noqa: PTH118
        folder = os.path.dirname(folder)  # noqa: PTH120
