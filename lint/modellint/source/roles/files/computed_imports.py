"""Computed imports: files that the project imports by strings, as `import_module` and loaders of files do, and how such strings begin."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from modellint.source.roles.code_roles import is_path_of_tests
from modellint.source.roles.eval_callees import LOOKED_UP
from modellint.source.syntax.ast_walk import called_name, of_kind, walk

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

_BY_NAME = ("import_module", "__import__")
"""What imports a file by its dotted name."""
_BY_PATH = ("spec_from_file_location", "SourceFileLoader", "load_source")
"""What imports a file by its path, which is the second argument."""
_ALL = frozenset((*_BY_NAME, *_BY_PATH))
_LOADS = ("exec_module", "load_module")
"""What ends an import that one of those began; of others it may be of any file."""
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
        ends = _ends(file) if file is not None else None
        if ends is None:
            return None
        for end in ends:
            (folders if end.endswith(os.sep) else files).add(end.strip(os.sep))
    return _Reach(frozenset(folders), frozenset(files))


def _code(project: Project, words: tuple[str, ...]) -> list[str]:
    """The files that name one of some words, but for tests, which nothing else uses."""
    paths = sorted({path for word in words for path in project.mentions.naming(word)})
    return [path for path in paths if not (_TEST.match(os.path.basename(path)) and is_path_of_tests(project, path))]  # noqa: PTH119


_TEST = re.compile(r"test_\w*\.py$|\w*_test\.py$")


def _ends(file: IndexedFile) -> list[str] | None:
    """The ends of the paths that a file's computed imports may lead to, those of folders with a separator; None where it may be any."""
    calls = [call for call in of_kind(file.tree, ast.Call) if called_name(call) in (*_BY_NAME, *_BY_PATH)]
    if not _are_called_alone(file, calls):
        return None
    ends: list[str] = []
    for call in calls:
        ends += _ends_by_name(file, call) if called_name(call) in _BY_NAME else _ends_by_path(call)
    return ends if all(end.strip(os.sep) for end in ends) else None


def _are_called_alone(file: IndexedFile, calls: list[ast.Call]) -> bool:
    """Whether a file only calls what imports by a string, under its own name, and loads no more than it finds by a path."""
    named = Counter(re.findall(r"\w+", file.source.text))
    loads = sum(named[word] for word in _LOADS)
    by_path = [call for call in calls if called_name(call) in _BY_PATH]
    if loads > len(by_path) or (loads and named["find_spec"]):
        return False
    imported = [alias for alias in of_kind(file.tree, ast.alias) if alias.name.rpartition(".")[2] in _ALL]
    if any(alias.asname for alias in imported):
        return False
    uses = [part.id for part in of_kind(file.tree, ast.Name) if part.id in _ALL]
    uses += [part.attr for part in of_kind(file.tree, ast.Attribute) if part.attr in _ALL]
    return len(uses) == len(calls)


def _ends_by_name(file: IndexedFile, call: ast.Call) -> Iterator[str]:
    """The ends of the paths that an import by a dotted name may lead to."""
    for name in _values(file, call, call.args[0]) if call.args else ():
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


def _ends_by_path(call: ast.Call) -> Iterator[str]:
    """The name of the file that an import by a path leads to; of any file, where it is not written."""
    yield _last_part(call.args[1]) if len(call.args) > 1 else os.sep


def _last_part(path: ast.expr) -> str:
    """The name at the end of a path, as it is written; a separator where it is not."""
    match path:
        case ast.Constant(value=str() as text):
            return re.split(r"[/\\]", text)[-1] or os.sep
        case ast.BinOp(op=ast.Div(), right=ast.Constant() as last):
            return _last_part(last)
        case ast.Call(func=ast.Name(id="str" | "Path"), args=[inner]):
            return _last_part(inner)
        case ast.Call(args=[_, *_, last]) if called_name(path) in ("join", "joinpath"):
            return _last_part(last)
    return os.sep


def _values(file: IndexedFile, call: ast.Call, name: ast.expr) -> list[ast.expr]:
    """What an expression may stand for: itself, what a file binds a variable to each time, or what the loop around it goes over."""
    if not isinstance(name, ast.Name) or any(part.arg == name.id for part in of_kind(file.tree, ast.arg)):
        return [name]
    stores = [
        part for part in of_kind(file.tree, ast.Name) if part.id == name.id and not isinstance(part.ctx, ast.Load)
    ]
    values = [part.value for part in of_kind(file.tree, ast.Assign) for target in part.targets if target in stores]
    if len({ast.unparse(value) for value in values}) == 1 and len(values) == len(stores):
        return values[:1] if not isinstance(values[0], ast.Constant) or _is_bound_by_stores(file, name.id) else [name]
    for loop in of_kind(file.tree, ast.For):
        if [loop.target] == stores and call in walk(loop) and _is_bound_by_stores(file, name.id):
            return loop.iter.elts if isinstance(loop.iter, (ast.List, ast.Tuple)) else [name]
    return [name]


def _is_bound_by_stores(file: IndexedFile, name: str) -> bool:
    """Whether nothing but assignments and loops binds a variable: no import, pattern, and no name that is looked up."""
    imported = any(name in (part.asname, part.name) for part in of_kind(file.tree, ast.alias))
    matched = any(part.name == name for part in of_kind(file.tree, ast.MatchAs))
    return not imported and not matched and LOOKED_UP.search(file.source.text) is None


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
