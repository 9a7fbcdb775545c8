"""Unreferenced files: what stands beside the models of an application, and no import, program, configuration or page of it leads to."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.source.project.mentions import blocks, import_name
from modellint.source.project.symbols import ClassRef, External, IndexedFile, dotted_name
from modellint.source.roles.code_roles import is_path_of_tests
from modellint.source.roles.files.computed_imports import may_be_computed
from modellint.source.roles.files.program_files import PACKAGING, reads_command_line, run_statements
from modellint.source.syntax.ast_walk import of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_BACKUP = re.compile(r"([^\W\d]\w*)(?:[ #(~].*|-.*(?:\d{6}|\bcopy\b|\bback\w*|\bbak\b|\bold\b).*)\.py")
"""A name that no import can say, and an editor or a person gives to what is kept."""
_MOST_FILES = 24
"""What more files than these name may be imported by one of them."""
_MOST_BESIDE = 60
"""More files in a folder are a collection, of which one is taken as another."""
_MOST_ABOVE = 40
"""So many files are asked on the way from a file to the programs that import it."""
_DEEPEST = 3
"""How many files that are left behind import each other."""
_ENTRIES = frozenset({"__init__.py", "__main__.py", "hubconf.py", "setup.py", "conftest.py", "manage.py"})
"""Files that are found by their names."""
_SETUP = frozenset({"setup.py"})
_INSTALLS = re.compile(rb"packages|py_modules|package_dir|package_data|scripts|entry_points|\*\*")
"""What says in a `setup.py` that more than extensions is installed."""


def is_unreferenced(project: Project, file: IndexedFile) -> bool:
    """Whether nothing leads to a file of an application: no import, page or configuration, and it is no program itself.

    Programs of the project import most of the files beside it. What is installed, and a collection of models of which others may take one,
    holds nothing that is left behind.
    """
    return project.remembered(("unreferenced", file.path), lambda: _leads_nowhere(project, file))


def _leads_nowhere(project: Project, file: IndexedFile) -> bool:
    name = os.path.basename(file.path)  # noqa: PTH119
    if name in _ENTRIES or not name.endswith(".py") or is_path_of_tests(project, file.path):
        return False
    project.touch_tree()
    mentions = project.mentions
    if not mentions.is_whole or may_be_installed(project, file.path) or _runs(project, file):
        return False
    return (
        not _is_led_to(project, file.path, frozenset({file.path}))
        and not may_be_computed(project, file.path)
        and (_is_backup(project, file.path) or _is_beside_what_is_used(project, file.path))
    )


def _is_backup(project: Project, path: str) -> bool:
    """Whether a file has the name of another, in a folder of the same name, and behind it what backups are told by: `net-20180825.py`."""
    folder, name = os.path.split(path)
    match = _BACKUP.fullmatch(name)
    if match is None:
        return False
    end = os.path.join(os.path.basename(folder), f"{match[1]}.py")  # noqa: PTH118, PTH119
    paths = project.mentions.code_files(f"named {end}", lambda other: other.endswith(os.sep + end))
    return any(other != path for other in paths)


def may_be_installed(project: Project, path: str) -> bool:
    """Whether files above a file install what lies below them; a `setup.py` may do no more than compile."""
    if project.mentions.has_above(path, PACKAGING - {"setup.py"}):
        return True
    folder = os.path.dirname(path)  # noqa: PTH120
    while project.mentions.has_above(os.path.join(folder, "setup.py"), _SETUP):  # noqa: PTH118
        data = project.data(os.path.join(folder, "setup.py"))  # noqa: PTH118
        if data is not None and (b"ext_modules" not in data or _INSTALLS.search(data) is not None):
            return True
        folder = os.path.dirname(folder)  # noqa: PTH120
    return False


def _runs(project: Project, file: IndexedFile) -> bool:
    """Whether a file does something itself when it is run."""
    if _is_program(project, file):
        return True
    for statement in run_statements(file):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        for call in of_kind(statement, ast.Call):
            dotted = dotted_name(call.func)
            symbol = project.resolve(file, dotted) if dotted is not None else None
            if not isinstance(symbol, External):
                return True
    return False


def _is_program(project: Project, file: IndexedFile) -> bool:
    """Whether a file says what is run when it is the program."""
    return once(file.tree, "_is_main", has_main) or reads_command_line(project, file)


def has_main(tree: ast.Module) -> bool:
    """Whether a file says what is run when it is the program: `if __name__ == "__main__":`."""
    return any(isinstance(part, ast.If) and "__name__" in ast.unparse(part.test) for part in tree.body)


def _is_led_to(project: Project, path: str, aside: frozenset[str]) -> bool:
    """Whether a file that is not left behind itself names a file as a module, or as a path."""
    mentions = project.mentions
    written = _written(path)
    paths = [other for other in mentions.naming(import_name(path)) if other not in aside]
    if len(paths) > _MOST_FILES:
        return True
    for other in paths:
        if other.endswith(".ipynb") or other == os.path.join(os.path.dirname(path), "__init__.py"):  # noqa: PTH118, PTH120
            return True
        imports = _imports(project, other, path)
        if not imports and not _names_outside_of_imports(project, other, written):
            continue
        if len(aside) > _DEEPEST or imports is None:
            return True
        file = project.file(other)
        if (
            file is None
            or os.path.basename(other) in _ENTRIES  # noqa: PTH119
            or is_path_of_tests(project, other)
            or _runs(project, file)
            or _is_led_to(project, other, aside | {other})
        ):
            return True
    return mentions.is_configured(written)


def _imports(project: Project, importer: str, path: str) -> bool | None:
    """Whether a file imports another, or may; None where it is not read."""
    file = project.file(importer)
    if file is None:
        return None
    return any(may_mean(project, dotted, level, importer, path) for dotted, level in imported_modules(file))


def imported_modules(file: IndexedFile) -> list[tuple[str, int]]:
    """The dotted names that a file may import modules by, each with its leading dots."""
    return once(file.tree, "_imported_modules", lambda tree: [*_modules_in(tree)])


def _modules_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The dotted names that a file may import modules by, each with its leading dots."""
    pending: list[ast.stmt | ast.Module] = [tree]
    for node in pending:
        for block in blocks(node):
            pending += block
        match node:
            case ast.Import(names=names):
                yield from ((alias.name, 0) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                if module is not None or level:
                    yield module or "", level
                prefix = f"{module}." if module else ""
                yield from ((prefix + alias.name, level) for alias in names if alias.name != "*")


def may_mean(project: Project, dotted: str, level: int, importer: str, path: str) -> bool:
    """Whether a module of a dotted name may be a file: a program may have put any folder above it on the path."""
    found = project.find(dotted, level, importer)
    if found == path or level:
        return found == path
    end = os.sep + os.path.join(*dotted.split("."))  # noqa: PTH118
    for own in (end + ".py", os.path.join(end, "__init__.py")):  # noqa: PTH118
        if path.endswith(own):
            root = path.removesuffix(own)
            return importer.startswith(root + os.sep) or not _has_its_own(project, importer, own, root)
    return False


def _has_its_own(project: Project, importer: str, end: str, root: str) -> bool:
    """Whether a folder above a file, and not above another one, holds a module of a name: a program's own folder comes first."""
    folder = os.path.dirname(importer)  # noqa: PTH120
    while len(folder) > 1 and not f"{root}{os.sep}".startswith(folder + os.sep):
        holder, name = os.path.split(folder + end)
        if name in project.mentions.names_in(holder):
            return True
        folder = os.path.dirname(folder)  # noqa: PTH120
    return False


def _names_outside_of_imports(project: Project, other: str, written: re.Pattern[bytes]) -> bool:
    """Whether a text holds a pattern; what its imports mean is known where it is read."""
    if not project.mentions.matches(other, written):
        return False
    file = project.file(other)
    if file is None:
        return True
    lines = file.source.text.split("\n")
    for node in (*of_kind(file.tree, ast.Import), *of_kind(file.tree, ast.ImportFrom)):
        lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return written.search("\n".join(lines).encode("utf-8", "surrogateescape")) is not None


def _written(path: str) -> re.Pattern[bytes]:
    """What a text holds that names a file by more than one word: `net.py`, `models.net`, `models/net`."""
    stem, parent = (
        re.escape(part.encode("utf-8", "surrogateescape"))
        for part in (import_name(path), os.path.basename(os.path.dirname(path)))  # noqa: PTH119, PTH120
    )
    return re.compile(rb"(?<!\w)(?:" + stem + rb"\.py(?!\w)|" + parent + rb"[./\\]" + stem + rb"(?!\w))")


def _is_beside_what_is_used(project: Project, path: str) -> bool:
    """Whether programs import modules that stand beside a file, or beside a folder of which nothing is imported or run.

    More of the files there are imported than not.
    """
    folder = os.path.dirname(path)  # noqa: PTH120
    state = _state_of_folder(project, folder)
    if state is None:
        state = _state_of_folder(project, os.path.dirname(folder))  # noqa: PTH120
    return state is True


def _state_of_folder(project: Project, folder: str) -> bool | None:
    """Whether programs use most files of a folder; None where nothing of it is used at all."""
    return project.remembered(("used folder", folder), lambda: _look_at_folder(project, folder))


def _look_at_folder(project: Project, folder: str) -> bool | None:
    project.touch_tree()
    names = (name for name in project.mentions.names_in(folder) if name.endswith(".py") and name not in _ENTRIES)
    paths = [os.path.join(folder, name) for name in names]  # noqa: PTH118
    if len(paths) > _MOST_BESIDE:
        return False
    files = [file for file in map(project.file, paths) if file is not None]
    used = [file for file in files if _is_led_to(project, file.path, frozenset({file.path}))]
    unused = sum(file not in used and not _runs(project, file) for file in files)
    if unused == len(paths):
        return None
    return len(used) > unused and any(
        holds_a_module(project, file) and _is_run_by_programs(project, file.path) for file in used
    )


def holds_a_module(project: Project, file: IndexedFile) -> bool:
    """Whether a class at the top of a file is a module."""
    classes = (part for part in file.tree.body if isinstance(part, ast.ClassDef))
    return any(project.is_module(ClassRef(file, part)) is True for part in classes)


def _is_run_by_programs(project: Project, path: str) -> bool:
    """Whether a program, and no file that shows how its own modules work, imports a file, or what does."""
    seen = {path}
    pending = [path]
    for one in pending:
        # The nearest first: a file is run by what stands about it.
        naming = project.mentions.naming(import_name(one))
        for other in sorted(naming, key=lambda other: -len(os.path.commonpath((other, one))))[:_MOST_FILES]:
            if other in seen or other.endswith(".ipynb") or not _imports(project, other, one):
                continue
            file = project.file(other)
            # An evaluation is a program too, whatever its name.
            if file is not None and reads_command_line(project, file):
                return True
            if file is not None and not is_path_of_tests(project, other):
                if once(file.tree, "_is_main", has_main) and not holds_a_module(project, file):
                    return True
                seen.add(other)
                pending.append(other)
        if len(seen) > _MOST_ABOVE:
            return False
    return False
