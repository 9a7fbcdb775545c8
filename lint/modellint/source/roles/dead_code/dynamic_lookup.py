"""Dynamic lookup: code that finds a class or function by a string, as `getattr`, `import_module` and registries do."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.mentions import Mention, mentions_in
from modellint.source.project.symbols import ClassRef, External, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.code_roles import is_path_of_tests
from modellint.source.roles.eval_callees import LOOKED_UP
from modellint.source.syntax.ast_walk import called_name, given_to, mentioned_in, of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_MOST_FILES = 24
"""How many of the files that name a function are looked at."""
_DEEPEST_DECORATOR = 2
"""How many functions hand a class on to each other."""
_ASK = frozenset({"isinstance", "issubclass", "type", "super", "hasattr", "getattr", "callable"})
"""Builtins that keep nothing of what they are given."""
ASKED = re.compile(r"(?<![.\w])getattr\(")
"""What finds names of a file that is bound as a whole."""


def is_only_a_word(project: Project, mention: Mention, file: IndexedFile) -> bool:
    """Whether a mention is a string by which a table, or a graph of ONNX, has something else, in a file that finds nothing by strings."""
    if not isinstance(mention.node, ast.Constant):
        return False
    if is_of_onnx(project, mention, file):
        return True
    return mention.node in once(mention.statement, "_words_of_table", _words_of_table) and not once(
        file.tree, "_finds_by_strings", lambda _: finds_by_strings(file.source.text)
    )


def is_of_onnx(project: Project, mention: Mention, file: IndexedFile) -> bool:
    """Whether a mention is a string that ONNX is given to call a graph, an operator or a value by."""
    if "onnx" not in file.source.text:
        return False
    for call in ast.walk(mention.statement):
        if isinstance(call, ast.Call) and mention.node in given_to(call):
            dotted = dotted_name(call.func)
            symbol = project.resolve(file, dotted) if dotted is not None else None
            return isinstance(symbol, External) and symbol.name.startswith("onnx.helper.")
    return False


def builds_by_dotted_names(project: Project, path: str) -> bool:
    """Whether modules in the package of a file build what they are told of by a dotted name: ``getattr(import_module(path), name)``.

    What they are told stands in a configuration, which need not be here. The package is the folder of the function that does.
    """
    folders = project.remembered(("builds by dotted names",), lambda: frozenset(_building_folders(project)))
    return any(path.startswith(folder + os.sep) for folder in folders)


def _building_folders(project: Project) -> Iterator[str]:
    """The folders of functions that take what a dotted name means, and that a module below has do so."""
    project.touch_tree()
    for path in project.mentions.naming("import_module"):
        file = None if path.endswith(".ipynb") or is_path_of_tests(project, path) else project.file(path)
        if file is None or "getattr" not in file.source.text:
            continue
        folder = os.path.dirname(path)  # noqa: PTH120
        functions = [*file.functions.values()]
        first = [function for function in functions if _gets_from_import(function)]
        names = {function.name for function in first}
        builders = [*first, *(part for part in functions if part not in first and names & mentioned_in(part))]
        if any(_is_asked_by_a_module(project, builder.name, folder) for builder in builders):
            yield folder


def _is_asked_by_a_module(project: Project, name: str, folder: str) -> bool:
    """Whether a module class below a folder names a function."""
    for path in project.mentions.naming(name)[:_MOST_FILES]:
        file = project.file(path) if path.startswith(folder + os.sep) and not path.endswith(".ipynb") else None
        for mention in mentions_in(file, name) if file is not None else ():
            owner = mention.cls
            is_outermost = owner is not None and owner is mention.around[0]
            if file is not None and owner is not None and is_outermost and project.is_module(ClassRef(file, owner)):
                return True
    return False


def _gets_from_import(function: _Function) -> bool:
    """Whether a function imports a file by a name that is handed to it as a whole, and takes from it what another names."""
    imports = [
        call
        for call in of_kind(function, ast.Call)
        if called_name(call) == "import_module" and call.args and isinstance(call.args[0], (ast.Name, ast.Attribute))
    ]
    names = {
        target.id
        for part in of_kind(function, ast.Assign)
        if part.value in imports
        for target in part.targets
        if isinstance(target, ast.Name)
    }
    for call in of_kind(function, ast.Call):
        match call:
            case ast.Call(
                func=ast.Name(id="getattr"), args=[place, ast.Name() | ast.Attribute() | ast.Subscript(), *_]
            ):
                if place in imports or (isinstance(place, ast.Name) and place.id in names):
                    return True
    return False


def called_of(file: IndexedFile) -> frozenset[str]:
    """The attributes that a file calls of plain variables that hold modules it imported by a computed name."""
    modules = {
        target.id
        for part in of_kind(file.tree, ast.Assign)
        if isinstance(part.value, ast.Call) and called_name(part.value) == "import_module"
        for target in part.targets
        if isinstance(target, ast.Name)
    }
    return frozenset(
        call.func.attr
        for call in of_kind(file.tree, ast.Call)
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in modules
    )


def _words_of_table(statement: ast.stmt) -> frozenset[ast.expr | None]:
    """The keys by which a statement puts something in a dict, or takes it out, but for what it calls at once: `losses["Far"]`."""
    nodes = [*ast.walk(statement)]
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    keys = {key for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
    return frozenset(keys | {node.slice for node in nodes if isinstance(node, ast.Subscript) and node not in called})


def finds_by_strings(text: str) -> bool:
    """Whether a text finds names by strings, or asks something for an attribute by one."""
    return LOOKED_UP.search(text) is not None or ASKED.search(text) is not None


def may_be_looked_up(project: Project, ref: ClassRef) -> bool:
    """Whether a decorator of a class may keep it under a name; one that only wraps it, or puts it in a set, does not."""
    for decorator in ref.node.decorator_list:
        dotted = dotted_name(decorator)
        symbol = project.resolve(ref.file, dotted) if dotted is not None else None
        if not isinstance(symbol, FunctionRef) or _keeps_first(project, symbol, 0):
            return True
    return False


def _keeps_first(project: Project, function: FunctionRef, depth: int) -> bool:
    """Whether a function may keep its first argument, or a class that it derives from that."""
    return once(function.node, "_keeps_first", lambda node: _looks_keeping(project, function.file, node, depth))


def _looks_keeping(project: Project, file: IndexedFile, function: _Function, depth: int) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args]
    if len(arguments) != 1 or depth > _DEEPEST_DECORATOR or function.decorator_list:
        return True
    names = {arguments[0].arg, *(part.name for part in of_kind(function, ast.ClassDef))}
    for part in of_kind(function, ast.Assign):
        if isinstance(part.value, ast.Name) and part.value.id in names:
            return True
    for call in of_kind(function, ast.Call):
        if not any(isinstance(part, ast.Name) and part.id in names for part in given_to(call)):
            continue
        match call.func:
            case ast.Name(id=name) if name in _ASK and name not in file.names:
                continue
            case ast.Attribute(attr="add"):
                continue
        dotted = dotted_name(call.func)
        symbol = project.resolve(file, dotted) if dotted is not None else None
        if not isinstance(symbol, FunctionRef) or _keeps_first(project, symbol, depth + 1):
            return True
    return False
