"""Program files: those that are run, so that nobody imports what they do not use themselves, and classes that others have superseded."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.source.project.mentions import blocks
from modellint.source.project.symbols import ClassRef, FunctionRef, IndexedFile, dotted_name
from modellint.source.syntax.ast_walk import functions_in, of_kind
from modellint.source.syntax.call_signature_mismatch import misfits

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_DEEPEST = 2
"""So many functions call each other before one reads the command line."""
_MOST_FILES = 24
"""What more files than these name is in use."""
_COMMAND_LINE = frozenset({"argv", "parse_args", "parse_known_args"})
"""Attributes that hold or read the command line."""
PACKAGING = frozenset({"setup.py", "setup.cfg", "pyproject.toml"})
"""Files by which what lies beside them, or below, is installed."""


def reads_command_line(project: Project, file: IndexedFile) -> bool:
    """Whether a file reads the command line whenever it is run: by itself, or by functions that it calls."""
    parts = [part for statement in run_statements(file) for part in ast.walk(statement)]
    if any(isinstance(part, ast.Attribute) and part.attr in _COMMAND_LINE for part in parts):
        return True
    calls = {(file, name) for part in parts if isinstance(part, ast.Call) and (name := dotted_name(part.func))}
    seen: set[ast.AST] = set()
    for _ in range(_DEEPEST):
        symbols = [project.resolve(place, name) for place, name in calls]
        functions = [symbol for symbol in symbols if isinstance(symbol, FunctionRef) and symbol.node not in seen]
        seen.update(function.node for function in functions)
        if any(part.attr in _COMMAND_LINE for function in functions for part in of_kind(function.node, ast.Attribute)):
            return True
        calls = {
            (function.file, name)
            for function in functions
            for part in of_kind(function.node, ast.Call)
            if (name := dotted_name(part.func))
        }
    return False


def run_statements(file: IndexedFile) -> Iterator[ast.stmt]:
    """The simple statements that are run with a file, or as it is the program."""
    pending: list[ast.stmt | ast.Module] = [file.tree]
    for node in pending:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        inner = [part for block in blocks(node) for part in block]
        pending += inner
        if not inner and isinstance(node, ast.stmt):
            yield node


def is_script(project: Project, file: IndexedFile) -> bool:
    """Whether a file is run to call functions of its own, and lies in no package that others may install.

    The project has other files: a text alone may be a part of one.
    """
    if os.path.exists(os.path.join(os.path.dirname(file.path), "__init__.py")):  # noqa: PTH110, PTH118, PTH120
        return False
    if not any(_calls_its_own(file, statement) for statement in file.tree.body):
        return False
    project.touch_tree()
    return len(project.mentions.naming("import")) > 1 and not project.mentions.has_above(file.path, PACKAGING)


def _calls_its_own(file: IndexedFile, statement: ast.stmt) -> bool:
    """Whether a statement does nothing but call functions of the file when this is the program."""
    match statement:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__")), body=body, orelse=[]):
            calls = [part.value for part in body if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call)]
            names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
            return len(calls) == len(body) and bool(names) and names <= file.functions.keys()
    return False


def is_superseded(project: Project, file: IndexedFile, node: ast.ClassDef) -> bool:
    """Whether the project uses another class of that name, from a file beside this one, in a way that this class does not take.

    A copy that was left behind: `from model import Net`, and `Net(8).fit(data, steps=3)`, which the `Net` of `old_model.py` refuses.
    """
    folder = os.path.dirname(file.path)  # noqa: PTH120
    mentions = project.mentions
    paths = [path for path in mentions.naming(node.name) if path != file.path and not path.endswith(".ipynb")]
    if len(paths) > _MOST_FILES:
        return False
    methods = {method.name: method for method in functions_in([node])}
    for path in paths:
        other = project.file(path) if os.path.dirname(path) == folder else None  # noqa: PTH120
        twin = other.names.get(node.name, ()) if other is not None else ()
        if other is None or len(twin) != 1 or not isinstance(twin[0], ast.ClassDef):
            continue
        rivals = {method.name: method for method in functions_in([twin[0]])}
        for user_path in paths:
            user = project.file(user_path)
            symbol = project.resolve(user, node.name) if user is not None and user is not other else None
            if user is None or not isinstance(symbol, ClassRef) or symbol.key != ClassRef(other, twin[0]).key:
                continue
            if any(_is_misfit(call, node.name, methods, rivals) for call in of_kind(user.tree, ast.Call)):
                return True
    return False


_Methods = dict[str, "ast.FunctionDef | ast.AsyncFunctionDef"]


def _is_misfit(call: ast.Call, name: str, methods: _Methods, rivals: _Methods) -> bool:
    """Whether a call builds a class, or calls a method, with arguments that one takes and the other does not."""
    match call.func:
        case ast.Name(id=called) if called == name:
            method = "__init__"
        case ast.Attribute(attr=method) if not method.startswith("__"):
            pass
        case _:
            return False
    own, rival = methods.get(method), rivals.get(method)
    if own is None or rival is None or own.decorator_list or rival.decorator_list:
        return False
    return misfits(own, call) and not misfits(rival, call)
