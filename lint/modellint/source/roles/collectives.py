"""Collectives: code that runs only where processes exchange tensors, as its calls tell, and which nobody exports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.project.mentions import mentions_in
from modellint.source.project.symbols import ClassRef, External, FunctionRef, IndexedFile, dotted_name
from modellint.source.roles.constant_variables import always_holds
from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_COLLECTIVE = re.compile(
    r"torch\.distributed\.(?:\w+\.)*(?:all_(?:gather|reduce|to_all)|reduce_scatter|broadcast|barrier)\w*"
)
_MAY_BE = re.compile(r"all_(?:gather|reduce|to_all)|reduce_scatter|broadcast|barrier")
_DEEPEST = 3
"""How many functions call each other."""
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class _Place(NamedTuple):
    """A function, and the class whose method it is."""

    project: Project
    file: IndexedFile
    owner: ClassRef | None
    function: _Function


def runs_with_collectives(
    project: Project, file: IndexedFile, owner: ClassRef | None, function: _Function, row: int
) -> bool:
    """Whether all that runs a row of a function, or of a method of an owner, has processes exchange tensors, before or behind it.

    Functions and methods of the project count that always do: ``keys = gathered(keys)``.
    """
    project.touch_tree()
    if not project.mentions.naming("distributed"):
        return False
    place = _Place(project, file, owner, function)
    return _comes_with(place, function.body, row, _rows(place, 0))


def _rows(place: _Place, depth: int) -> frozenset[int]:
    """The rows of calls in a function that processes have to make together."""
    key = "collectives", *_key(place), depth
    return place.project.remembered(key, lambda: frozenset(_find_rows(place, depth)))


def _key(place: _Place) -> tuple[object, ...]:
    owner = place.owner.key if place.owner is not None else None
    return place.file.path, place.function.lineno, place.function.col_offset, owner


def _find_rows(place: _Place, depth: int) -> Iterator[int]:
    left_open = once(place.function, "_left_open", lambda node: frozenset(map(id, _left_open(node))))
    for call in of_kind(place.function, ast.Call):
        if id(call) not in left_open and _exchanges(place, call, depth):
            yield call.lineno


def _left_open(function: _Function) -> Iterator[ast.AST]:
    """What of the expressions of a function is not always run: `x if size == 1 else gather(x)`."""
    parts: list[ast.AST] = [*of_kind(function, ast.Lambda)]
    for choice in of_kind(function, ast.IfExp):
        parts += [choice.body, choice.orelse]
    for join in of_kind(function, ast.BoolOp):
        parts += join.values[1:]
    for inner in of_kind(function, ast.FunctionDef):
        parts += inner.body
    for part in parts:
        yield from ast.walk(part)


def _exchanges(place: _Place, call: ast.Call, depth: int) -> bool:
    """Whether a call has processes exchange tensors, or runs what always does."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if place.owner is not None:
            return depth < _DEEPEST and _has_method(place.project, place.owner, name, depth)
    project, file = place.project, place.file
    dotted = dotted_name(call.func)
    if dotted is None or dotted.startswith("self."):
        return False
    if _MAY_BE.search(called_name(call)):
        symbol = project.resolve(file, dotted)
        if isinstance(symbol, External):
            return _COLLECTIVE.fullmatch(symbol.name) is not None
    if depth >= _DEEPEST:
        return False
    if dotted.endswith(".apply"):
        # An autograd function.
        symbol = project.resolve(file, dotted.removesuffix(".apply"))
        return isinstance(symbol, ClassRef) and _has_method(project, symbol, "forward", depth)
    symbol = project.resolve(file, dotted)
    return isinstance(symbol, FunctionRef) and _always_exchanges(
        _Place(project, symbol.file, None, symbol.node), depth + 1
    )


def _has_method(project: Project, owner: ClassRef, name: str, depth: int) -> bool:
    """Whether an own method of a class always has processes exchange tensors, and no class that derives from it another of its name."""
    method = next((part for part in functions_in([owner.node]) if part.name == name), None)
    return (
        method is not None
        and not owner.within
        and _always_exchanges(_Place(project, owner.file, owner, method), depth + 1)
        and not _is_overridden(project, owner, name)
    )


def _always_exchanges(place: _Place, depth: int) -> bool:
    """Whether processes exchange tensors whenever a function is run to its end."""
    rows = _rows(place, depth)
    return bool(rows) and _reaches(place, place.function.body, rows)


def _is_overridden(project: Project, owner: ClassRef, name: str) -> bool:
    """Whether a class that derives from another may have a method of a name."""
    project.touch_tree()
    for path in dict.fromkeys((owner.file.path, *project.mentions.naming(owner.node.name))):
        file = owner.file if path == owner.file.path else None if path.endswith(".ipynb") else project.file(path)
        if file is None:
            continue
        for mention in mentions_in(file, owner.node.name):
            node = mention.statement
            if isinstance(node, ast.ClassDef) and mention.node in node.bases and node is not owner.node:
                if any(part.name == name for part in functions_in([node])):
                    return True
                if node.name != owner.node.name and _is_overridden(project, ClassRef(file, node), name):
                    return True
    return not project.mentions.is_whole


def _comes_with(place: _Place, body: Sequence[ast.stmt], row: int, rows: frozenset[int]) -> bool:
    if not rows:
        return False
    at = next((at for at, part in enumerate(body) if part.lineno <= row <= (part.end_lineno or 0)), None)
    if at is None:
        return False
    if any(_runs(place, before, rows) for before in reversed(body[:at])):
        return True
    for behind in body[at:]:
        if _runs(place, behind, rows) and not (behind is body[at] and hasattr(behind, "body")):
            return True
        if any(isinstance(part, _EXITS) for part in ast.walk(behind)):
            break
    blocks = (getattr(body[at], field, ()) for field in ("body", "orelse", "finalbody"))
    return any(_comes_with(place, block, row, rows) for block in blocks)


def _reaches(place: _Place, body: Sequence[ast.stmt], rows: frozenset[int]) -> bool:
    """Whether statements always come to one of the calls."""
    for statement in body:
        if _runs(place, statement, rows):
            return True
        if any(isinstance(part, _EXITS) for part in ast.walk(statement)):
            return False
    return False


def _runs(place: _Place, statement: ast.stmt, rows: frozenset[int]) -> bool:
    """Whether a statement makes one of the calls whenever it is run."""
    if not any(statement.lineno <= row <= (statement.end_lineno or 0) for row in rows):
        return False
    match statement:
        case ast.With(body=body):
            return _reaches(place, body, rows)
        case ast.If(test=test, body=body):
            project, file, owner, function = place
            return _reaches(place, body, rows) and always_holds(project, file, owner, function, test)
    return not hasattr(statement, "body")
