"""Passed layers: those that a class of the project is built with and certainly runs, and those that a loop calls one after another."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from modellint.source.engine.abstract_values import Instance
from modellint.source.project.symbols import ClassRef
from modellint.source.syntax.ast_walk import of_kind, once, parents_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from modellint.source.engine.abstract_values import Value
    from modellint.source.facts.recorded_operations import Call, Loop

_CONDITIONAL = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""What may leave out an expression in it."""
_EXITS = (ast.Return, ast.Break, ast.Continue)


def passed(module: Instance, readings: Callable[[ast.AST | None], Sequence[Call]]) -> Iterator[Value]:
    """What a module of the project is built with, as far as its `forward` certainly calls it, or each layer in it."""
    callee = module.callee
    run = once(callee.node, "_runs_arguments", _arguments_run) if isinstance(callee, ClassRef) else {}
    return _given(module, run, readings)


def passed_classes(module: Instance, readings: Callable[[ast.AST | None], Sequence[Call]]) -> Iterator[str]:
    """The classes of layers that a module of the project is given, builds without arguments, and certainly runs, by their names."""
    callee = module.callee
    run = once(callee.node, "_runs_classes", _classes_run) if isinstance(callee, ClassRef) else {}
    for value in _given(module, run, readings):
        if value.external_name is not None:
            yield value.external_name


def _given(
    module: Instance, arguments: Mapping[str, int], readings: Callable[[ast.AST | None], Sequence[Call]]
) -> Iterator[Value]:
    """What a module is built with for some arguments of its constructor, by their names and places."""
    for name, place in arguments.items():
        for call in readings(module.node):
            value = None if call.arguments.spread else call.arguments.get(place, name)
            if value is not None:
                yield value


def one_by_one(call: Call, loops: Iterable[Sequence[Loop]]) -> Instance | None:
    """The row of layers that a loop goes through in order to call each, where a call is what does."""
    called = call.node.func
    if not isinstance(called, ast.Name) or call.function is None:
        return None
    loop = parents_in(call.function).get(call.statement)
    if not isinstance(loop, ast.For) or _called_by(loop, called.id) is not call.node:
        return None
    rows = {id(reading.value): reading.value for every in loops for reading in every if reading.node is loop.iter}
    row = next(iter(rows.values())) if len(rows) == 1 else None
    return row if isinstance(row, Instance) and row.name in _ROWS and _is_whole(row) else None


def picked(call: Call, attribute_of: Callable[[str], Value | None], owner: ast.ClassDef) -> Instance | None:
    """The layer that a call picks out of a row or dict by a number or name, or the row that a loop over its numbers calls one by one.

    ``attribute_of``: what one statement alone binds an attribute of the class to.
    """
    match call.node.func:
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id="self"), attr=attribute),
            slice=ast.Constant() | ast.UnaryOp() | ast.Name() as index,
        ):
            pass
        case _:
            return None
    row = attribute_of(attribute)
    if not isinstance(row, Instance) or attribute in once(owner, "_with_items_set", _with_items_set):
        return None
    if isinstance(index, ast.Name):
        is_counted = row.name in _ROWS and _is_whole(row) and _counts(call, index.id, attribute)
        return row if is_counted else None
    try:
        place = ast.literal_eval(index)
    except ValueError:
        return None
    if row.name in _ROWS and type(place) is int and _is_whole(row) and -len(row.held) <= place < len(row.held):
        layer = row.held[place]
    elif row.name == "torch.nn.ModuleDict" and isinstance(place, str) and isinstance(row.node, ast.Call):
        places = once(row.node, "_entries", _entries)
        if len(places) != len(row.held) or place not in places:
            return None
        layer = row.held[places[place]]
    else:
        return None
    return layer if isinstance(layer, Instance) else None


def _with_items_set(node: ast.ClassDef) -> frozenset[str]:
    """The attributes of which a class binds or deletes items: `self.layers[0] = layer`."""
    return frozenset(
        part.value.attr
        for part in of_kind(node, ast.Subscript)
        if not isinstance(part.ctx, ast.Load) and isinstance(part.value, ast.Attribute)
    )


def _entries(node: ast.Call) -> dict[str, int]:
    """The places of the names in a dict that a call is given, where all of it is written out and no name comes twice."""
    match node:
        case ast.Call(args=[ast.Dict(keys=keys)], keywords=[]):
            places = {key.value: at for at, key in enumerate(keys) if isinstance(key, ast.Constant)}
            return (
                {name: at for name, at in places.items() if isinstance(name, str)} if len(places) == len(keys) else {}
            )
    return {}


def _counts(call: Call, index: str, attribute: str) -> bool:
    """Whether every turn of a loop over the numbers of a row comes to a call: `for i in range(len(self.layers))`."""
    loop = parents_in(call.function).get(call.statement) if call.function is not None else None
    match loop:
        case ast.For(
            target=ast.Name(id=counted),
            iter=ast.Call(
                func=ast.Name(id="range"),
                args=[
                    ast.Call(
                        func=ast.Name(id="len"), args=[ast.Attribute(value=ast.Name(id="self"), attr=of)], keywords=[]
                    )
                ],
            ),
        ) if counted == index and of == attribute and len(loop.body) <= _LONGEST and call.statement in loop.body:
            pass
        case _:
            return False
    before = loop.body[: loop.body.index(call.statement)]
    if any(True for statement in before for kind in _EXITS for _ in of_kind(statement, kind)):
        return False
    bound = once(loop, "_times_bound", _times_bound)
    return bound[index] == 1 and call.node in once(
        call.statement, "_certain_calls", lambda node: set(_certain_calls(node))
    )


_LONGEST = 64
"""A loop of more statements is not looked at."""


def _times_bound(loop: ast.For) -> Counter[str]:
    return Counter(part.id for part in of_kind(loop, ast.Name) if not isinstance(part.ctx, ast.Load))


_ROWS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList"})


def _is_whole(row: Instance) -> bool:
    """Whether a row holds what it was built with, written out, and nothing else."""
    name = "_parts_of_list" if row.name.endswith(".ModuleList") else "_parts_of_row"
    make = _parts_of_list if row.name.endswith(".ModuleList") else _parts_of_row
    return isinstance(row.node, ast.Call) and once(row.node, name, make) == len(row.held)


def _parts_of_list(node: ast.Call) -> int | None:
    """How many layers a call is given as a list that is written out."""
    match node:
        case ast.Call(args=[ast.List(elts=parts) | ast.Tuple(elts=parts)], keywords=[]):
            return None if any(isinstance(part, ast.Starred) for part in parts) else len(parts)
    return None


def _parts_of_row(node: ast.Call) -> int | None:
    """How many layers a call is given one by one."""
    spread = node.keywords or any(isinstance(part, ast.Starred) for part in node.args)
    return None if spread else len(node.args)


def _classes_run(node: ast.ClassDef) -> dict[str, int]:
    """The arguments of a constructor that it calls, without arguments, for layers that `forward` runs, with their places."""
    return _arguments_run(node, built=True)


def _arguments_run(node: ast.ClassDef, built: bool = False) -> dict[str, int]:
    """The arguments of a constructor that `forward` calls whatever it is given, or goes through to call each, with their places."""
    methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
    init, forward = methods.get("__init__"), methods.get("forward")
    if init is None or forward is None:
        return {}
    places = {argument.arg: at for at, argument in enumerate([*init.args.posonlyargs, *init.args.args][1:])}
    rebound = {name.id for name in of_kind(init, ast.Name) if not isinstance(name.ctx, ast.Load)}
    stored = [part.attr for part in of_kind(node, ast.Attribute) if not isinstance(part.ctx, ast.Load)]
    run = set(_attributes_run(forward.body))
    found: dict[str, int] = {}
    for statement in init.body:
        match statement:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)], value=value) if (
                attribute in run and stored.count(attribute) == 1
            ):
                for name in _built(value) if built else _taken(value):
                    if name in places and name not in rebound:
                        found[name] = places[name]
    return found


def _taken(value: ast.expr) -> Iterator[str]:
    """The variables that an expression certainly gives, or runs the layers of: `act or nn.ReLU()`, `nn.Sequential(conv, act)`."""
    match value:
        case ast.Name(id=name):
            yield name
        case ast.BoolOp(op=ast.Or(), values=[ast.Name(id=name), *_]):
            yield name
        case ast.IfExp(
            test=ast.Name(id=asked)
            | ast.Compare(left=ast.Name(id=asked), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]),
            body=ast.Name(id=name),
        ) if asked == name:
            yield name
        case ast.IfExp(
            test=ast.Compare(left=ast.Name(id=asked), ops=[ast.Is()], comparators=[ast.Constant(value=None)]),
            orelse=ast.Name(id=name),
        ) if asked == name:
            yield name
        case ast.Call(func=ast.Attribute(attr="Sequential") | ast.Name(id="Sequential"), args=parts, keywords=[]):
            for part in parts:
                yield from _taken(part)


def _built(value: ast.expr) -> Iterator[str]:
    """The variables that an expression calls for a layer that it gives, or runs: `act()`, `nn.Sequential(conv, act(inplace=True))`."""
    match value:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords) if all(
            word.arg == "inplace" for word in keywords
        ):
            yield name
        case ast.Call(func=ast.Attribute(attr="Sequential") | ast.Name(id="Sequential"), args=parts, keywords=[]):
            for part in parts:
                yield from _built(part)


def _attributes_run(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The attributes of `self` that statements call, or go through to call each, up to the first that may end them."""
    for statement in body:
        match statement:
            case ast.For(target=ast.Name(id=name), iter=ast.Attribute(value=ast.Name(id="self"), attr=attribute)) if (
                _called_by(statement, name) is not None
            ):
                yield attribute
            case ast.With():
                yield from _attributes_run(statement.body)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Return():
                for call in _certain_calls(statement):
                    match call.func:
                        case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
                            yield attribute
        if any(True for kind in _EXITS for _ in of_kind(statement, kind)):
            return


def _called_by(loop: ast.For, name: str) -> ast.Call | None:
    """The call of its variable that every turn of a loop comes to."""
    if not isinstance(loop.target, ast.Name) or loop.target.id != name:
        return None
    for statement in loop.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)):
            for call in _certain_calls(statement):
                if isinstance(call.func, ast.Name) and call.func.id == name:
                    return call
        rebinds = any(part.id == name and not isinstance(part.ctx, ast.Load) for part in of_kind(statement, ast.Name))
        if rebinds or any(True for kind in _EXITS for _ in of_kind(statement, kind)):
            return None
    return None


def _certain_calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """The calls of a simple statement, unless a part of it may be left out."""
    if not any(True for kind in _CONDITIONAL for _ in of_kind(statement, kind)):
        yield from of_kind(statement, ast.Call)
