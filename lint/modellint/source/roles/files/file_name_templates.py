"""File name patterns: what the file that a path leads to may be called, with holes for what is not spelt out (``{epoch}_net.pth``)."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, once, walk

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
HOLE = "\0"
"""Stands in the name of a file for what is not spelt out."""
_MOST_NAMES = 8
"""So many names are told of one path."""
_MOST_STEPS = 3
"""So many variables are followed to what they are bound to."""
_LONGEST_NAME = 120


def values_of(name: ast.expr, function: _Function | None, file: IndexedFile) -> Sequence[object]:
    """All that is bound to a variable, or to an attribute of `self` by the methods of the class."""
    match name:
        case ast.Name(id=variable):
            local = file.bound_in(function) if function is not None else None
            if local is not None and (variable in local.parameters or variable in local.locals):
                return [*local.locals.get(variable, ()), *([None] if variable in local.parameters else ())]
            return file.names.get(variable, ())
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute) if function is not None:
            stores = once(file.tree, "_stores_beside", lambda _: _stores_beside(file))
            return stores.get(function, {}).get(attribute, ())
    return ()


def _stores_beside(file: IndexedFile) -> dict[_Function, dict[str, list[ast.expr]]]:
    """What the methods of its class bind to attributes, for each method of a file."""
    found: dict[_Function, dict[str, list[ast.expr]]] = {}
    for cls in of_kind(file.tree, ast.ClassDef):
        stores: dict[str, list[ast.expr]] = {}
        for method in functions_in([cls]):
            found[method] = stores
            for attribute, value in file.bound_in(method).stores:
                stores.setdefault(attribute, []).append(value)
    return found


def names_of(path: ast.expr, function: _Function | None, file: IndexedFile) -> set[str]:
    """How the file that a path leads to may be called, with holes: ``{epoch}_net.pth``."""
    names = _texts(path, function, file, frozenset()) if _is_short(path) else {HOLE}
    return {_in_one_hole(re.split(r"[/\\]", name)[-1]) for name in names}


def _texts(node: ast.expr | None, function: _Function | None, file: IndexedFile, seen: frozenset[str]) -> set[str]:
    """The texts that an expression may stand for, with holes."""
    match node:
        case ast.Constant(value=str() as text):
            return {text.replace(HOLE, "")[-_LONGEST_NAME:]}
        case ast.JoinedStr(values=parts):
            return _joined([_texts(part, function, file, seen) for part in parts], "")
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _joined([_texts(part, function, file, seen) for part in (left, right)], "")
        case ast.BinOp(op=ast.Div(), left=left, right=right):
            return _joined([_texts(part, function, file, seen) for part in (left, right)], "/")
        case ast.BinOp(op=ast.Mod(), left=left):
            return {_PLACEHOLDER.sub(HOLE, text) for text in _texts(left, function, file, seen)}
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return {re.sub(r"\{[^{}]*\}", HOLE, part) for part in _texts(text, function, file, seen)}
        case ast.Call(args=parts) if called_name(node) in ("join", "joinpath", "Path"):
            whole = [_texts(part, function, file, seen) for part in parts]
            return _joined(whole, "/") if whole else {HOLE}
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            return _texts(inner, function, file, seen)
        case ast.IfExp(body=body, orelse=other):
            return _few(_texts(body, function, file, seen) | _texts(other, function, file, seen))
        case ast.Name(id=name) if name not in seen and len(seen) < _MOST_STEPS:
            values = values_of(node, function, file)
            if function is not None and name in file.bound_in(function).parameters:
                # Callers may hand over another than the default.
                values = [*values, _default_of(name, function)]
            named = [value if isinstance(value, ast.expr) and _is_short(value) else None for value in values]
            texts = {text for value in named for text in _texts(value, function, file, seen | {name})}
            return _few(texts or {HOLE})
        case ast.Attribute() if function is not None:
            dotted = ast.unparse(node)
            bound = once(function, "_bound_attributes", _bound_attributes).get(dotted, ())
            if len(bound) == 1 and dotted not in seen and len(seen) < _MOST_STEPS and _is_short(bound[0]):
                return _texts(bound[0], function, file, seen | {dotted})
    return {HOLE}


_PLACEHOLDER = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]")


def _is_short(node: ast.expr) -> bool:
    return len(walk(node)) <= _LONGEST_NAME


def _joined(parts: list[set[str]], between: str) -> set[str]:
    """The texts that parts make together."""
    texts = {""}
    for number, part in enumerate(parts):
        pairs = product(texts, part)
        texts = _few({(left + between + right if number else right)[-_LONGEST_NAME:] for left, right in pairs})
    return texts


def _few(texts: set[str]) -> set[str]:
    return texts if len(texts) <= _MOST_NAMES else {HOLE}


def _default_of(name: str, function: _Function) -> ast.expr | None:
    """The default of an argument."""
    positional = [*function.args.posonlyargs, *function.args.args]
    first = len(positional) - len(function.args.defaults)
    defaults = dict(zip((part.arg for part in positional[first:]), function.args.defaults, strict=True))
    own = zip((part.arg for part in function.args.kwonlyargs), function.args.kw_defaults, strict=True)
    return defaults.get(name) or dict(own).get(name)


def _bound_attributes(function: _Function) -> dict[str, list[ast.expr]]:
    """What a function binds to attributes of whatever it knows: ``args.path = "net.pth"``."""
    bound: dict[str, list[ast.expr]] = {}
    for part in of_kind(function, ast.Assign):
        for target in part.targets:
            if isinstance(target, ast.Attribute):
                bound.setdefault(ast.unparse(target), []).append(part.value)
    return bound


def _in_one_hole(name: str) -> str:
    return re.sub(f"{HOLE}+", HOLE, name)


def _words_in(name: str) -> frozenset[str]:
    """The words of a name, without its suffixes."""
    return frozenset(re.findall(r"[^\W\d_]{2,}", re.sub(r"(?<!^)(?:\.\w+)+$", "", name)))


def has_words(name: str) -> bool:
    """Whether a name spells out a word."""
    return bool(_words_in(name))


def is_alike(name: str, other: str) -> bool:
    """Whether two names may be one, and share a word."""
    return not _words_in(name).isdisjoint(_words_in(other)) and may_be_one(name, other)


def may_be_one(left: str, right: str) -> bool:
    """Whether two names with holes may be one."""
    reached = _over_holes({0}, right)
    for part in left:
        if part == HOLE:
            reached = set(range(min(reached), len(right) + 1))
        else:
            kept = {at for at in reached if right[at : at + 1] == HOLE}
            reached = _over_holes(kept | {at + 1 for at in reached if right[at : at + 1] == part}, right)
        if not reached:
            return False
    return len(right) in reached


def _over_holes(places: set[int], name: str) -> set[int]:
    """Places in a name, and those behind the holes that begin there: names have no two holes in a row."""
    return places | {at + 1 for at in places if name[at : at + 1] == HOLE}
