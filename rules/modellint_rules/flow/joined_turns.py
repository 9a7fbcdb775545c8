"""Loops that make one part a turn of what a layer's weights say the size of: `torch.cat(parts, 1)` before a convolution."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.authoring import Tensor, alternatives, of_kind, once, walk

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, Loop

_JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.stack"})


def are_counted_by_weights(code: Code, turns: Loop) -> bool:
    """Whether what a loop makes in its turns is joined along a dimension that a layer's weights fix: another number of turns raises."""
    function = turns.function
    if function is None:
        return False
    name = _list_of_turns(turns)
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


def _list_of_turns(turns: Loop) -> str | None:
    """The variable of a list that gets one part in each turn."""
    match turns.statement:
        case ast.For(iter=iterated, body=body) if iterated is turns.node:
            for statement in body:
                match statement:
                    case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"))):
                        # What leaves a turn early leaves the list short.
                        early = any(isinstance(part, (ast.Break, ast.Continue)) for part in walk(turns.statement))
                        return None if early else name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp(generators=[generator])):
            return name if generator.iter is turns.node and not generator.ifs else None
    return None


def _is_fixed(code: Code, join: Call) -> bool:
    dim = join.arguments.get(1, "dim")
    axis = dim.integer if dim is not None else None
    return axis is not None and all(
        isinstance(part, Tensor) and code.is_fixed_by_weights(part, axis) for part in alternatives(join.result)
    )
