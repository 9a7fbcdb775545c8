"""Parts alone: modules whose parts the project runs one by one, and whose own `forward` it calls nowhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.source.project.mentions import mentions_in
from modellint.source.project.symbols import ClassRef, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.code_roles import is_in_tests
from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, once, parents_in

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_MOST_FILES = 24
"""What more files than these name is not followed."""
_OF_ALL_PARTS = frozenset({"children", "named_children", "modules", "named_modules", "_modules"})
"""What gives the parts of a module without their names."""
_BY_NAME = re.compile(r"getattr\(|get_submodule\(|attrgetter\(|__dict__|\b_modules\b")
"""What finds an attribute by a string."""


def is_run_by_parts(project: Project, ref: ClassRef) -> bool:
    """Whether other modules hold the objects of a class, and all that the project does with these is to run their parts.

    ``self.predictor = Predictor()``, and everywhere ``….predictor.lstm(x)``; nothing is told where one of them is used in another way.
    """
    return project.remembered(("run by parts", *ref.key), lambda: _is_run_by_parts(project, ref))


def _is_run_by_parts(project: Project, ref: ClassRef) -> bool:
    project.touch_tree()
    mentions = project.mentions
    name = ref.node.name
    if ref.within or ref.node.decorator_list or not mentions.is_whole or mentions.is_in_configuration(name):
        return False
    holders: set[str] = set()
    for file in _files(project, ref.file, name):
        held = _held_in(project, file, ref) if file is not None else None
        if held is None:
            return False
        holders |= held
    return bool(holders) and all(_is_only_taken_apart(project, ref, attribute) for attribute in sorted(holders))


def _files(project: Project, own: IndexedFile | None, name: str) -> Iterator[IndexedFile | None]:
    """The files that name something, but tests; None for one that is not read, and where there are too many."""
    paths = [path for path in project.mentions.naming(name) if own is None or path != own.path]
    if own is not None:
        yield own
    if len(paths) > _MOST_FILES:
        yield None
        return
    for path in paths:
        file = None if path.endswith(".ipynb") else project.file(path)
        if file is None or not is_in_tests(project, file):
            yield file


def _held_in(project: Project, file: IndexedFile, ref: ClassRef) -> set[str] | None:
    """The attributes in which modules of a file hold objects of a class; None where it is used in another way."""
    name = ref.node.name
    if any(alias.name == name and alias.asname not in (None, name) for alias in of_kind(file.tree, ast.alias)):
        return None
    held: set[str] = set()
    for mention in mentions_in(file, name):
        if ref.node in mention.around or mention.is_in_test:
            continue
        dotted = dotted_name(mention.node) if isinstance(mention.node, ast.expr) else None
        symbol = project.resolve(file, dotted) if dotted is not None else None
        if isinstance(symbol, (ClassRef, FunctionRef)) and symbol.node is not ref.node:
            continue
        match mention.statement:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)], value=ast.Call(func=maker)
            ) if maker is mention.node and mention.cls is not None and mention.cls in file.tree.body:
                owner = ClassRef(file, mention.cls)
                if project.is_module(owner) is not True or once(owner.node, "_takes_all_parts", _takes_all_parts):
                    return None
                held.add(attribute)
            case _:
                return None
    return held


def _takes_all_parts(owner: ast.ClassDef) -> bool:
    """Whether a class may run its parts without naming them."""
    if any(part.attr in _OF_ALL_PARTS for part in of_kind(owner, ast.Attribute)):
        return True
    for function in functions_in([owner]):
        parents = parents_in(function)
        for call in of_kind(function, ast.Call):
            if called_name(call) == "getattr" and not isinstance(call.func, ast.Attribute):
                around = parents.get(call)
                if not (isinstance(around, ast.Attribute) and around.attr == "load_state_dict"):
                    return True
    return False


def _is_only_taken_apart(project: Project, ref: ClassRef, attribute: str) -> bool:
    """Whether the project asks what an attribute of a name holds for its parts or own methods alone, and does so."""
    own = {part.attr for part in of_kind(ref.node, ast.Attribute) if not isinstance(part.ctx, ast.Load)}
    own |= {function.name for function in functions_in([ref.node])} - {"forward", "__call__"}
    is_taken = False
    for file in _files(project, None, attribute):
        if file is None or _may_be_found(file, attribute):
            return False
        taken = once(file.tree, "_taken_apart", _taken_apart).get(attribute, frozenset())
        if not taken <= own:
            return False
        is_taken = is_taken or bool(taken)
    return is_taken


def _may_be_found(file: IndexedFile, attribute: str) -> bool:
    """Whether a file finds attributes by strings, and has one that is the name of an attribute."""
    if not _BY_NAME.search(file.source.text):
        return False
    strings = once(
        file.tree, "_constants_as_text", lambda tree: {str(part.value) for part in of_kind(tree, ast.Constant)}
    )
    return attribute in strings


def _taken_apart(tree: ast.Module) -> dict[str, frozenset[str | None]]:
    """What a file asks of what attributes hold, by their names; None stands for another use than to ask for a part of it."""
    attributes = of_kind(tree, ast.Attribute)
    inner = {id(part.value): part.attr for part in attributes if isinstance(part.value, ast.Attribute)}
    taken: dict[str, set[str | None]] = {}
    for part in attributes:
        is_bound_here = isinstance(part.value, ast.Name) and part.value.id == "self"
        if isinstance(part.ctx, ast.Load) or not is_bound_here:
            taken.setdefault(part.attr, set()).add(inner.get(id(part)) if isinstance(part.ctx, ast.Load) else None)
    return {name: frozenset(parts) for name, parts in taken.items()}
