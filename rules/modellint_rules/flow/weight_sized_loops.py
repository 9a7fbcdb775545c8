"""Loops that make one part a turn of what a layer's weights say the size of: `torch.cat(parts, 1)` before a convolution."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from modellint.authoring import Container, Tensor, alternatives, of_kind, once, walk

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, Loop, Value

_JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.stack"})


class Joins:
    """The calls that join tensors, by what they are given: told once for all loops of a class."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self.counted: dict[tuple[ast.AST, str], bool] = {}
        """Whether a layer's weights fix a variable of a function."""

    def taking(self, parts: Sequence[Value], axis: int) -> Iterator[Sequence[Call]]:
        """The calls, with all their readings, that join one of some tensors with others along a dimension."""
        for part in parts:
            for readings in self._by_item.get(id(part), ()):
                if all(_takes(call, parts, axis) for call in readings):
                    yield readings

    @cached_property
    def _by_item(self) -> dict[int, list[Sequence[Call]]]:
        known: dict[int, list[Sequence[Call]]] = {}
        for readings in self._code.calls:
            given = readings[0].arguments.get(0, "tensors") if readings[0].name in _JOINS - {"torch.stack"} else None
            for item in given.items if isinstance(given, Container) and given.exact else ():
                known.setdefault(id(item), []).append(readings)
        return known


def are_counted_by_weights(code: Code, turns: Loop, again: Joins) -> bool:
    """Whether what a loop makes in its turns is joined along a dimension that a layer's weights fix: another number of turns raises."""
    function = turns.function
    if function is None:
        return False
    if _are_joined(code, function, (turns.statement, turns.node), again):
        return True
    match turns.node:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Name(id=name)]):
            if (function, name) not in again.counted:
                loops = once(function, "_loops_by_range", _loops_by_range).get(name, ())
                again.counted[function, name] = any(
                    _are_joined(code, function, (loop, loop.iter), again) for loop in loops
                )
            return again.counted[function, name]
    return False


def _loops_by_range(function: ast.AST) -> dict[str, list[ast.For]]:
    """The loops over `range(n)`, by the variable, where that is bound once: all of these take the same number of turns."""
    stores = Counter(part.id for part in of_kind(function, ast.Name) if not isinstance(part.ctx, ast.Load))
    loops: dict[str, list[ast.For]] = {}
    for loop in of_kind(function, ast.For):
        match loop.iter:
            case ast.Call(func=ast.Name(id="range"), args=[ast.Name(id=name)], keywords=[]) if stores[name] == 1:
                loops.setdefault(name, []).append(loop)
    return loops


def _are_joined(code: Code, function: ast.AST, loop: tuple[ast.AST, ast.expr], again: Joins) -> bool:
    name = _list_of_turns(*loop)
    if name is None:
        return False
    reads = once(function, "_calls_by_first", _calls_by_first).get(name, ())
    joins = [readings for call in reads if (readings := code.readings(call)) and readings[0].name in _JOINS]
    return any(all(_is_fixed(code, join, again) for join in readings) for readings in joins)


def _calls_by_first(function: ast.AST) -> dict[str, list[ast.Call]]:
    """The calls of a function, by the variable that is their first argument."""
    calls: dict[str, list[ast.Call]] = {}
    for call in of_kind(function, ast.Call):
        if call.args and isinstance(call.args[0], ast.Name):
            calls.setdefault(call.args[0].id, []).append(call)
    return calls


def _list_of_turns(loop: ast.AST, over: ast.expr) -> str | None:
    """The variable of a list that gets one part in each turn."""
    match loop:
        case ast.For(iter=iterated, body=body) if iterated is over:
            for statement in body:
                appended = _appended_to(statement)
                if appended is not None:
                    # What leaves a turn early leaves the list short.
                    early = any(isinstance(part, (ast.Break, ast.Continue)) for part in walk(loop))
                    return None if early else appended
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp(generators=[generator])):
            return name if generator.iter is over and not generator.ifs else None
    return None


def _appended_to(statement: ast.stmt) -> str | None:
    """The variable of a list that a statement adds one part to, whichever branch it takes."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"))):
            return name
        case ast.If(body=[*_, last], orelse=[*_, other]):
            appended = _appended_to(last)
            return appended if appended == _appended_to(other) else None
    return None


def _is_fixed(code: Code, join: Call, again: Joins, depth: int = 0) -> bool:
    dim = join.arguments.get(1, "dim")
    axis = dim.integer if dim is not None else None
    parts = alternatives(join.result)
    if axis is None or not all(isinstance(part, Tensor) for part in parts):
        return False
    if all(isinstance(part, Tensor) and code.is_fixed_by_weights(part, axis) for part in parts):
        return True
    # What is joined may be joined again, with others beside it.
    return depth < _DEEPEST and any(
        all(_is_fixed(code, other, again, depth + 1) for other in readings) for readings in again.taking(parts, axis)
    )


def _takes(join: Call, parts: Sequence[Value], axis: int) -> bool:
    """Whether a call joins one of some tensors with others along the same dimension."""
    dim, given = join.arguments.get(1, "dim"), join.arguments.get(0, "tensors")
    items = given.items if isinstance(given, Container) and given.exact else ()
    return dim is not None and dim.integer == axis and any(item is part for item in items for part in parts)


_DEEPEST = 3
"""So often what is joined is followed through other joins."""
