"""Unused results: elements of a tuple that a `forward` or a function gives back and that no call site in the project reads."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.roles.forward_call_sites.call_sites import Calls
from modellint.source.syntax.ast_walk import of_kind, parents_in

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef, IndexedFile

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Place(NamedTuple):
    """An element of a tuple that a `forward` gives back: where it stands, and how many there are."""

    at: int
    width: int


def is_discarded(project: Project, ref: ClassRef, places: frozenset[Place]) -> bool:
    """Whether other modules alone call a `forward`, certainly all of them known, and none reads any of these elements."""
    if ref.within or ref.node.decorator_list:
        return False
    sites = Calls(project).sites(ref)
    return bool(sites) and all(
        site.owner is not None
        and site.function is not None
        and project.is_module(site.owner) is True
        and all(_discards(site.call, site.function, place) for place in places)
        for site in sites or ()
    )


def is_discarded_of(project: Project, file: IndexedFile, function: _Function, places: frozenset[Place]) -> bool:
    """Whether all calls of a function at the top of a file are known, and none reads any of these elements."""
    sites = Calls(project).of_function(file, function, by_functions=True)
    return bool(sites) and all(
        site.function is not None and all(_discards(site.call, site.function, place) for place in places)
        for site in sites or ()
    )


def _discards(node: ast.expr, function: _Function, place: Place, depth: int = 0) -> bool:
    """Whether what an expression gives, a tuple, is taken apart where it stands, and an element of it is bound to what nobody reads."""
    around = parents_in(function).get(node)
    match around:
        case ast.Expr():
            return True
        case ast.Subscript(slice=ast.Constant(value=int(at)), ctx=ast.Load()) if around.value is node:
            return at % place.width != place.at
        case ast.Assign(targets=[ast.Tuple(elts=elts) | ast.List(elts=elts)]):
            target = _target_of(elts, place)
            return isinstance(target, ast.Name) and _reads(function, target.id) == []
        case ast.Assign(targets=[ast.Name(id=name)]) if depth == 0:
            reads = _reads(function, name)
            return reads is not None and all(_discards(read, function, place, 1) for read in reads)
    return False


def _target_of(targets: list[ast.expr], place: Place) -> ast.expr | None:
    """What an element of a tuple is bound to; the list that a star makes of several is one variable."""
    starred = next((at for at, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    if starred is None:
        return targets[place.at] if len(targets) == place.width else None
    behind = len(targets) - starred - 1
    if place.at < starred:
        return targets[place.at]
    if place.at >= place.width - behind:
        return targets[place.at - place.width]
    star = targets[starred]
    return star.value if isinstance(star, ast.Starred) else None


def _reads(function: _Function, name: str) -> list[ast.Name] | None:
    """Where a variable of a function is read; None where it is also one of the file's."""
    outer = [part.names for part in of_kind(function, ast.Global)]
    outer += [part.names for part in of_kind(function, ast.Nonlocal)]
    if any(name in names for names in outer):
        return None
    return [part for part in of_kind(function, ast.Name) if part.id == name and not isinstance(part.ctx, ast.Store)]
