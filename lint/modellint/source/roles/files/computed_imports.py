"""Computed imports: files that the project imports by strings, as `import_module` and loaders of files do, and how such strings begin."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.roles.code_roles import is_path_of_tests
from modellint.source.roles.files.file_name_templates import HOLE, names_of
from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, walk

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_BY_NAME = ("import_module", "__import__")
"""What imports a file by its dotted name."""
_BY_PATH = ("spec_from_file_location", "SourceFileLoader", "load_source")
"""What imports a file by its path, which is the second argument."""
_LOADS = ("exec_module", "load_module")
"""What ends an import that one of those began; beside others it may be of any file."""
_ANYTHING = (
    *("runpy", "execfile", "pydoc", "pkgutil", "iter_modules", "walk_packages"),
    *("hydra", "LightningCLI", "jsonargparse"),
)
"""What names files in ways that are not followed."""
_EXECUTES = re.compile(rb"(?<![.\w])exec\(")
_LISTS_FILES = re.compile(r"\b(?:glob|rglob|listdir|scandir|iterdir|walk)\b")
"""What finds the files of a folder."""


class _Reach(NamedTuple):
    """What computed imports may lead to, told by the ends of paths."""

    folders: frozenset[str]
    """Any file of these."""
    files: frozenset[str]


def may_be_computed(project: Project, path: str) -> bool:
    """Whether the project, but for its tests, imports files by strings that may lead to a file."""
    reach = project.remembered(("computed imports",), lambda: _reach(project))
    if reach is None:
        return True
    folder = os.path.dirname(path)  # noqa: PTH120
    if any(f"{folder}{os.sep}".endswith(f"{os.sep}{end}{os.sep}") for end in reach.folders):
        return True
    if any(path.endswith(f"{os.sep}{end}") for end in reach.files):
        return True
    package = project.file(os.path.join(folder, "__init__.py"))  # noqa: PTH118
    return package is not None and _LISTS_FILES.search(package.source.text) is not None


def _reach(project: Project) -> _Reach | None:
    """What the project imports by computed names, as far as these are written; None where it may be anything."""
    project.touch_tree()
    mentions = project.mentions
    if any(mentions.naming(word) for word in _ANYTHING):
        return None
    if any(mentions.matches(path, _EXECUTES) for path in _code(project, ("exec",))):
        return None
    folders: set[str] = set()
    files: set[str] = set()
    for path in _code(project, (*_BY_NAME, *_BY_PATH, *_LOADS)):
        file = None if path.endswith(".ipynb") else project.file(path)
        if file is None:
            return None
        if any(word in file.source.text for word in _LOADS) and not any(word in file.source.text for word in _BY_PATH):
            return None
        for call, function in _calls_in(file):
            ends = _ends_by_name(file, call) if called_name(call) in _BY_NAME else _ends_by_path(file, call, function)
            for end in ends:
                if not end.strip(os.sep):
                    return None
                (folders if end.endswith(os.sep) else files).add(end.strip(os.sep))
    return _Reach(frozenset(folders), frozenset(files))


def _code(project: Project, words: tuple[str, ...]) -> list[str]:
    """The files that name one of some words, but for tests."""
    paths = sorted({path for word in words for path in project.mentions.naming(word)})
    return [path for path in paths if not is_path_of_tests(project, path)]


def _calls_in(file: IndexedFile) -> Iterator[tuple[ast.Call, _Function | None]]:
    """The calls that import by a string, each with the function that it stands in."""
    inside = {part: function for function in functions_in(of_kind(file.tree, ast.ClassDef)) for part in walk(function)}
    inside |= {part: function for function in file.functions.values() for part in walk(function)}
    for call in of_kind(file.tree, ast.Call):
        if called_name(call) in (*_BY_NAME, *_BY_PATH):
            yield call, inside.get(call)


def _ends_by_name(file: IndexedFile, call: ast.Call) -> Iterator[str]:
    """The ends of the paths that an import by a dotted name may lead to: of files, or of a folder, which ends with a separator."""
    for name in _values(file, call.args[0]) if call.args else ():
        match name:
            case ast.Constant(value=str() as text):
                end = os.path.join(*(text.strip(".") or ".").split("."))  # noqa: PTH118
                # A package is told by its folder.
                yield from (end + ".py", end)
            case _:
                begin = beginning(name)
                package = begin.strip(".") if begin.endswith(".") else begin.lstrip(".").rpartition(".")[0]
                yield package.replace(".", os.sep) + os.sep
    if not call.args:
        yield os.sep


def _ends_by_path(file: IndexedFile, call: ast.Call, function: _Function | None) -> Iterator[str]:
    """The names of the files that an import by a path may lead to; of any file, where they are not written."""
    location = call.args[1] if len(call.args) > 1 else None
    for name in names_of(location, function, file) if location is not None else {HOLE}:
        yield os.sep if HOLE in name or not name else name


def _values(file: IndexedFile, name: ast.expr, depth: int = 0) -> list[ast.expr]:
    """What an expression may stand for: itself, or what a file binds a variable to each time, in loops over what is written out too."""
    if depth or not isinstance(name, ast.Name) or any(part.arg == name.id for part in of_kind(file.tree, ast.arg)):
        return [name]
    stores = [
        part for part in of_kind(file.tree, ast.Name) if part.id == name.id and not isinstance(part.ctx, ast.Load)
    ]
    values = [part.value for part in of_kind(file.tree, ast.Assign) for target in part.targets if target in stores]
    number = len(values)
    for loop in of_kind(file.tree, ast.For):
        if loop.target in stores:
            number += 1
            rows = [row for over in _bound_lists(file, loop.iter) for row in over.elts]
            values += rows or [name]
    return values if number == len(stores) and values else [name]


def _bound_lists(file: IndexedFile, over: ast.expr) -> list[ast.List | ast.Tuple]:
    """The list that a loop goes over, as it is written; none where that is not known."""
    lists = [over] if not isinstance(over, ast.Name) else _values(file, over)
    return lists if all(isinstance(one, (ast.List, ast.Tuple)) for one in lists) else []  # type: ignore[return-value]


def beginning(name: ast.expr) -> str:
    """What a text begins with, as far as it is written."""
    match name:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=[first, *_]) | ast.BinOp(left=first, op=ast.Add() | ast.Mod()):
            return beginning(first).partition("%")[0]
        case ast.Call(func=ast.Attribute(value=first, attr="format")):
            return beginning(first).partition("{")[0]
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str() as between), attr="join"),
            args=[ast.List(elts=[first, _, *_]) | ast.Tuple(elts=[first, _, *_])],
        ):
            begin = beginning(first)
            return begin + between if isinstance(first, ast.Constant) else begin
    return ""
