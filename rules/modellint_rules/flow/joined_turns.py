"""Loops that make one part a turn of what a layer's weights say the size of: `torch.cat(parts, 1)` before a convolution."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.authoring import Container, Tensor, alternatives, of_kind, once, walk

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, Loop, Value

_JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.stack"})


def are_counted_by_weights(code: Code, turns: Loop) -> bool:
    """Whether what a loop makes in its turns is joined along a dimension that a layer's weights fix: another number of turns raises."""
    function = turns.function
    if function is None:
        return False
    return any(_are_joined(code, function, statement) for statement in _loops_alike(function, turns))


def _loops_alike(function: ast.AST, turns: Loop) -> Iterator[tuple[ast.AST, ast.expr]]:
    """A loop, and those of its function that take the same number of turns: `for i in range(n)`, where `n` is bound once."""
    yield turns.statement, turns.node
    match turns.node:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Name(id=name)]):
            bound = sum(part.id == name and not isinstance(part.ctx, ast.Load) for part in of_kind(function, ast.Name))
            for loop in of_kind(function, ast.For) if bound == 1 else ():
                if loop is not turns.statement and ast.dump(loop.iter) == ast.dump(turns.node):
                    yield loop, loop.iter


def _are_joined(code: Code, function: ast.AST, loop: tuple[ast.AST, ast.expr]) -> bool:
    name = _list_of_turns(*loop)
    if name is None:
        return False
    reads = once(function, "_calls_by_first", _calls_by_first).get(name, ())
    joins = [readings for call in reads if (readings := code.readings(call)) and readings[0].name in _JOINS]
    return any(all(_is_fixed(code, join) for join in readings) for readings in joins)


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
                match statement:
                    case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"))):
                        # What leaves a turn early leaves the list short.
                        early = any(isinstance(part, (ast.Break, ast.Continue)) for part in walk(loop))
                        return None if early else name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp(generators=[generator])):
            return name if generator.iter is over and not generator.ifs else None
    return None


def _is_fixed(code: Code, join: Call, depth: int = 0) -> bool:
    dim = join.arguments.get(1, "dim")
    axis = dim.integer if dim is not None else None
    parts = alternatives(join.result)
    if axis is None or not all(isinstance(part, Tensor) for part in parts):
        return False
    if all(isinstance(part, Tensor) and code.is_fixed_by_weights(part, axis) for part in parts):
        return True
    # What is joined may be joined again, with others beside it.
    return depth < _DEEPEST and any(
        all(_is_fixed(code, other, depth + 1) for other in readings)
        for readings in code.calls
        if readings[0].name in _JOINS - {"torch.stack"} and all(_takes(other, parts, axis) for other in readings)
    )


def _takes(join: Call, parts: Sequence[Value], axis: int) -> bool:
    """Whether a call joins one of some tensors with others along the same dimension."""
    dim, given = join.arguments.get(1, "dim"), join.arguments.get(0, "tensors")
    items = given.items if isinstance(given, Container) and given.exact else ()
    return dim is not None and dim.integer == axis and any(item is part for item in items for part in parts)


_DEEPEST = 3
"""So often what is joined is followed through other joins."""
