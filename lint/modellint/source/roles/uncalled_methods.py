"""Unnamed methods: what stands in a class of an application, and nothing calls by its name."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from modellint.source.project.external_name_facts import MODULE_ATTRIBUTES, MODULE_CLASSES
from modellint.source.project.symbols import ClassRef, External, FileRef, IndexedFile, dotted_name
from modellint.source.roles.files.application_reachability import is_of_application
from modellint.source.roles.files.computed_imports import beginning
from modellint.source.syntax.ast_walk import of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_MOST_FILES = 24
"""What more files than these hold is in use."""
_CALLS_ANY = ("methodcaller", "attrgetter", "fire", "Fire", "getmembers", "__getattribute__")
"""What calls methods by any name."""
_ASKED = re.compile(rb"(?<![.\w])getattr\(")
_LOOKED_UP = re.compile(rb"(?<![.\w])(?:eval|exec|vars)\(|\.__dict__\b")


def is_unnamed(project: Project, ref: ClassRef, method: _Function) -> bool:
    """Whether no file of an application names a method of a class of it, in code or in a string, and no other class has it called."""
    key = "unnamed method", ref.file.path, ref.node.lineno, method.lineno
    return project.remembered(key, lambda: _is_unnamed(project, ref, method))


def _is_unnamed(project: Project, ref: ClassRef, method: _Function) -> bool:
    name = method.name
    if name.startswith("__") or name in MODULE_ATTRIBUTES or ref.node.decorator_list or ref.node.keywords:
        return False
    if any(not isinstance(part, ast.Name) or part.id != "staticmethod" for part in method.decorator_list):
        return False
    # What another library's class has, that may call.
    if any(
        not (isinstance(base, ClassRef) or (isinstance(base, External) and base.name in MODULE_CLASSES))
        for one in project.lineage(ref)
        for base in project.bases(one)
    ):
        return False
    if _stands_in(ref.file, name):
        return False
    project.touch_tree()
    mentions = project.mentions
    if not mentions.is_whole or not is_of_application(project, ref.file):
        return False
    paths = [path for path in mentions.naming(name) if path != ref.file.path]
    if len(paths) > _MOST_FILES or mentions.is_in_configuration(name):
        return False
    for path in paths:
        other = None if path.endswith(".ipynb") else project.file(path)
        if other is None or _stands_in(other, name):
            return False
    beginnings = project.remembered(("asked attributes",), lambda: _asked_attributes(project))
    return beginnings is not None and not name.startswith(tuple(beginnings))


def _stands_in(file: IndexedFile, name: str) -> bool:
    """Whether a file names something anywhere but where it is defined: as a variable, an attribute, an import or in a string."""
    if name not in file.source.text:
        return False
    return name in once(file.tree, "_all_words", _all_words)


def _all_words(tree: ast.Module) -> frozenset[str]:
    words = {part.id for part in of_kind(tree, ast.Name)}
    words |= {part.attr for part in of_kind(tree, ast.Attribute)}
    words |= {word for part in of_kind(tree, ast.alias) for word in (part.name.rpartition(".")[2], part.asname) if word}
    words |= {part.arg for part in of_kind(tree, ast.keyword) if part.arg is not None}
    for part in of_kind(tree, ast.Constant):
        if isinstance(part.value, str):
            words.update(re.findall(r"\w+", part.value))
    return frozenset(words)


def _asked_attributes(project: Project) -> frozenset[str] | None:
    """What the names begin with by which a project asks objects for attributes; None where these may be any."""
    project.touch_tree()
    mentions = project.mentions
    if any(mentions.naming(word) for word in _CALLS_ANY):
        return None
    for word in ("eval", "exec", "vars", "__dict__"):
        if any(mentions.matches(path, _LOOKED_UP) for path in mentions.naming(word)):
            return None
    found: set[str] = set()
    for path in mentions.naming("getattr"):
        if not mentions.matches(path, _ASKED):
            continue
        file = None if path.endswith(".ipynb") else project.file(path)
        if file is None:
            return None
        for call in of_kind(file.tree, ast.Call):
            match call:
                case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(), *_]):
                    continue
                case ast.Call(func=ast.Name(id="getattr"), args=[owner, wanted, *_]):
                    dotted = dotted_name(owner)
                    symbol = project.resolve(file, dotted) if dotted is not None else None
                    # A file, or a library, holds no method.
                    if isinstance(symbol, (External, FileRef)):
                        continue
                    begin = beginning(wanted)
                    if not begin:
                        return None
                    found.add(begin)
    return frozenset(found)
