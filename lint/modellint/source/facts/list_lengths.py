"""Lengths of lists: sizes of tensors that say how often a loop of a fixed number of turns has filled the list that they were made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.source.domains.dimension_arguments import dim_of
from modellint.source.domains.memory_layout import is_fixed
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Const, Container, Instance, alternatives
from modellint.source.syntax.ast_walk import called_name, of_kind, once, parents_in, walk

if TYPE_CHECKING:
    from modellint.source.engine.abstract_values import Value
    from modellint.source.facts.recorded_operations import Call, Recorder

_STACKS = frozenset({"torch.stack", "torch.tensor", "torch.as_tensor"})
_JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate"})
_WRAPPERS = frozenset({"enumerate", "zip", "reversed", "list", "tuple"})
_READING = _WRAPPERS | {name.rpartition(".")[2] for name in _STACKS | _JOINS} | {"len", "sum", "range"}
"""What only looks at the items of a list."""


def counted_symbols(flow: Recorder) -> frozenset[object]:
    """The symbols of sizes that the number of items of a list decides, which is the same for every input."""
    return frozenset(symbol for readings in flow.calls.values() for call in readings for symbol in _counted(flow, call))


def _counted(flow: Recorder, call: Call) -> Iterator[object]:
    if call.name not in _STACKS and call.name not in _JOINS:
        return
    given, result = call.arguments.get(0, "tensors"), call.result
    if (
        not isinstance(given, Container)
        or given.exact
        or given.kind != "list"
        or not isinstance(result, Tensor)
        or result.layout is None
        or not _is_filled_by_fixed_loops(flow, call)
    ):
        return
    dim = call.arguments.get(1, "dim") if call.name not in ("torch.tensor", "torch.as_tensor") else None
    at = 0 if dim is None else dim.integer
    size = result.layout.size(at) if at is not None else None
    if at is None or size is None:
        return
    parts = [part for item in given.items for part in alternatives(item)]
    if call.name in _JOINS and not all(isinstance(part, Tensor) and part.has_fixed_size(at) for part in parts):
        return
    result.layout, dim_of_turns = size
    if len(dim_of_turns.powers) == 1:
        yield from (symbol for symbol, power in dim_of_turns.powers if power == 1)


def _is_filled_by_fixed_loops(flow: Recorder, call: Call) -> bool:
    """Whether a list is a variable of the function around that nothing but `append` fills, in loops of a fixed number of turns."""
    function = call.function
    match call.node:
        case ast.Call(args=[ast.Name(id=name), *_]) if function is not None:
            appends = once(function, "_list_appends", _list_appends).get(name)
            return bool(appends) and all(
                _is_fixed_loop(flow, function, loop) for loops in appends or () for loop in loops
            )
    return False


def _list_appends(function: ast.AST) -> dict[str, list[Sequence[ast.AST]]]:
    """The calls that append to variables of which nothing else changes the list, each as the loops and branches around it."""
    parents = parents_in(function)
    appends: dict[str, list[Sequence[ast.AST]]] = {}
    changed: set[str] = set()
    for name in of_kind(function, ast.Name):
        parent = parents.get(name)
        match parent:
            case ast.Attribute(attr="append"):
                appends.setdefault(name.id, []).append(tuple(_around(parents, name, function)))
            case ast.Attribute() | ast.AugAssign(target=ast.Name()) | ast.keyword() | ast.Subscript(ctx=ast.Del()):
                changed.add(name.id)
            case ast.Assign(value=value) if value is name:
                # It goes by another name, too.
                changed.add(name.id)
            case ast.Assign(value=value) if not isinstance(name.ctx, ast.Load):
                is_empty = isinstance(value, ast.List) and not value.elts
                if not is_empty and not any(part.id == name.id for part in walk(value) if isinstance(part, ast.Name)):
                    changed.add(name.id)
            case ast.Call() if called_name(parent) not in _READING:
                # Another function may fill it.
                changed.add(name.id)
    return {name: loops for name, loops in appends.items() if name not in changed}


def _around(parents: dict[ast.AST, ast.AST], node: ast.AST, function: ast.AST) -> Iterator[ast.AST]:
    part = parents.get(node)
    while part is not None and part is not function:
        if isinstance(part, (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.Lambda, ast.Try)):
            yield part
        part = parents.get(part)


def _is_fixed_loop(flow: Recorder, function: ast.AST, loop: ast.AST) -> bool:
    match loop:
        case ast.For(iter=over):
            # What leaves a turn early leaves the list short.
            return loop not in once(function, "_left_early", _left_early) and _has_fixed_turns(flow, over)
    return False


def _left_early(function: ast.AST) -> frozenset[ast.AST]:
    """The loops that a `break` or a `continue` is of."""
    parents = parents_in(function)
    loops: set[ast.AST] = set()
    for part in (*of_kind(function, ast.Break), *of_kind(function, ast.Continue)):
        around = parents.get(part)
        while around is not None and not isinstance(around, (ast.For, ast.AsyncFor, ast.While)):
            around = parents.get(around)
        if around is not None:
            loops.add(around)
    return frozenset(loops)


def _has_fixed_turns(flow: Recorder, over: ast.expr) -> bool:
    match over:
        case ast.Call(func=ast.Name(id="range")):
            calls = flow.calls.get(over, ())
            return bool(calls) and all(all(map(_is_fixed_number, call.arguments.everything())) for call in calls)
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _WRAPPERS and isinstance(first, ast.Call):
            return _has_fixed_turns(flow, first)
        case ast.Call(func=ast.Name(id=name)) if name in _WRAPPERS:
            calls = flow.calls.get(over, ())
            return bool(calls) and all(any(map(_is_written_down, call.arguments.positional[:1])) for call in calls)
    loops = flow.loops.get(over, ())
    return bool(loops) and all(_is_written_down(loop.value) for loop in loops)


def _is_fixed_number(value: Value) -> bool:
    """Whether a number is written down, or is what the object or its caller is given as one."""
    return all(
        (isinstance(part, Const) and type(part.value) is int) or is_fixed(dim_of(part)) for part in alternatives(value)
    )


def _is_written_down(value: Value) -> bool:
    """Whether a value is a container of the code's own, or a row of layers."""
    return all(
        (isinstance(part, Container) and part.exact) or (isinstance(part, Instance) and part.kind == "module")
        for part in alternatives(value)
    )
