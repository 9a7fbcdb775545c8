"""Reset states: attributes that every module which holds an object sets anew before it runs it: `self.attention.reset()`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.roles.parent_modules import holders_of
from modellint.source.syntax.ast_walk import always_run, functions_in, of_kind, once, parents_in, walk

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 2
"""Modules that hold each other."""


def is_reset_by_holders(project: Project, ref: ClassRef, attribute: str) -> bool:
    """Whether all modules of a project that run an object of a class have it set an attribute anew before, in the same method.

    Then one capture of such a module holds both, and nothing is left of the call before. They set a flag, too, which has `forward`
    set it anew (`if self.fresh: self.state = x * 0`).
    """
    methods = _methods(project, ref)
    flags = _flags(methods, attribute)
    setters = _setters(
        methods, lambda method: attribute in _set_by(method) or not flags.isdisjoint(_switched_by(method))
    )
    return bool(setters) and _is_reset(project, ref, setters, _DEEPEST)


def _is_reset(project: Project, ref: ClassRef, setters: set[str], depth: int) -> bool:
    holders = holders_of(project, ref)
    if depth == 0 or not holders or any(holder.attribute is None for holder in holders):
        return False
    told = [_is_reset_by(project, owner, holder.attribute or "", setters, depth) for holder in holders
            if (owner := holder.owner(project)) is not None]  # fmt: skip
    return True in told and False not in told


def _is_reset_by(project: Project, owner: ClassRef, part: str, setters: set[str], depth: int) -> bool | None:
    """Whether a class resets what it holds whenever it runs it; None where it does not run it."""
    methods = _methods(project, owner)
    ran = [(method, call) for method in methods.values() for call in _runs(method, part)]
    if not ran:
        return None
    # It may hand on what resets it: `def reset(self): self.layer.reset()`.
    onward = _setters(methods, lambda method: any(_resets(call, part, setters) for call in _always_called(method)))
    if all(_comes_after_reset(method, call, part, setters, onward) for method, call in ran):
        return True
    return bool(onward) and _is_reset(project, owner, onward, depth - 1)


def _methods(project: Project, ref: ClassRef) -> dict[str, _Function]:
    lineage = reversed(project.lineage(ref))
    return {function.name: function for owner in lineage for function in functions_in([owner.node])}


def _setters(methods: dict[str, _Function], sets: Callable[[_Function], bool]) -> set[str]:
    """The methods, but for those that build or run the object, that always do something, or call one that does."""
    found = {name for name, method in methods.items() if sets(method)}
    calling = {
        name
        for name, method in methods.items()
        if any(_method_of_self(call) in found for call in _always_called(method))
    }
    return (found | calling) - {"__init__", "forward", "__call__"}


def _set_by(method: _Function) -> frozenset[str]:
    """The attributes of `self` that a method sets by statements that nothing goes round, to what it does not read there."""
    return once(method, "_always_set_by", lambda method: frozenset(_find_set_by(method)))


def _find_set_by(method: _Function) -> Iterator[str]:
    for statement in always_run(method):
        if isinstance(statement, ast.Assign) and not any(
            _is_of_self(part) for part in of_kind(statement.value, ast.Attribute)
        ):
            yield from (
                target.attr for target in statement.targets if isinstance(target, ast.Attribute) and _is_of_self(target)
            )


def _switched_by(method: _Function) -> Iterator[tuple[str, bool]]:
    """The attributes of `self` that a method always sets to a constant, and whether that is true."""
    for statement in always_run(method):
        match statement:
            case ast.Assign(targets=[ast.Attribute(attr=name) as target], value=ast.Constant(value=value)):
                if _is_of_self(target):
                    yield name, bool(value)


def _flags(methods: dict[str, _Function], attribute: str) -> set[tuple[str, bool]]:
    """The flags, and whether they hold, for which `forward` sets an attribute before anything there may read it."""
    forward = methods.get("forward")
    found: set[tuple[str, bool]] = set()
    for statement in always_run(forward) if forward is not None else ():
        match statement:
            case ast.If(test=ast.Attribute(attr=name) as test, body=body) if _is_of_self(test):
                holds = True
            case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Attribute(attr=name) as test), body=body) if (
                _is_of_self(test)
            ):
                holds = False
            case _:
                name, holds, body = "", True, []
        for part in body:
            if _sets_anew(part, attribute):
                found.add((name, holds))
            elif _may_read(part, attribute, methods):
                break
        if _may_read(statement, attribute, methods):
            break
    return found


def _sets_anew(statement: ast.stmt, attribute: str) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr=name) as target], value=value) if name == attribute:
            return _is_of_self(target) and not any(
                isinstance(part, ast.Attribute) and _is_of_self(part) for part in walk(value)
            )
    return False


def _may_read(statement: ast.stmt, attribute: str, methods: dict[str, _Function]) -> bool:
    """Whether a statement reads an attribute of `self`, or runs a method that may, or hands `self` on."""
    owners = {part.value for part in of_kind(statement, ast.Attribute) if _is_of_self(part)}
    return any(
        _is_of_self(part) and isinstance(part.ctx, ast.Load) and (part.attr == attribute or part.attr in methods)
        for part in of_kind(statement, ast.Attribute)
    ) or any(part.id == "self" and part not in owners for part in of_kind(statement, ast.Name))


def _always_called(method: _Function) -> Iterator[ast.Call]:
    """The calls that stand alone in statements that nothing goes round."""
    for statement in always_run(method):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield statement.value


def _method_of_self(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) and _is_of_self(call.func) else ""


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _runs(method: _Function, part: str) -> Iterator[ast.Call]:
    """The calls of what `self` holds under a name, by itself or by its `forward`."""
    for call in of_kind(method, ast.Call):
        match call.func:
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if name == part:
                yield call
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr="forward") if (
                name == part
            ):
                yield call


def _resets(call: ast.Call, part: str, setters: set[str]) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr=method):
            return name == part and method in setters
    return False


def _comes_after_reset(method: _Function, call: ast.Call, part: str, setters: set[str], onward: set[str]) -> bool:
    """Whether a call always comes after one that resets the object, in a method, by itself or by another method."""
    around = {*_around(method, call)}
    return any(
        (reset.lineno, reset.col_offset) < (call.lineno, call.col_offset) and around.issuperset(_around(method, reset))
        for reset in of_kind(method, ast.Call)
        if _resets(reset, part, setters) or _method_of_self(reset) in onward
    )


def _around(method: _Function, node: ast.AST) -> Iterator[tuple[str, bool]]:
    """The conditions and loops that a node of a method stands in: of a condition what it asks, and whether it holds there."""
    parents = parents_in(method)
    child = node
    while (parent := parents.get(child)) is not None:
        match parent:
            case ast.If(test=test, body=body) if child is not test:
                yield ast.dump(test), child in body
            case (
                ast.For()
                | ast.AsyncFor()
                | ast.While()
                | ast.Try()
                | ast.ExceptHandler()
                | ast.IfExp()
                | ast.BoolOp()
                | ast.Lambda()
            ):
                yield f"{parent.lineno}.{parent.col_offset}", True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield f"{parent.lineno}.{parent.col_offset}", True
            case _:
                pass
        child = parent
