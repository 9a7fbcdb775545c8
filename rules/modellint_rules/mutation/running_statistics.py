"""Running statistics: buffers computed from their old value and from data; what the rules about them share."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from modellint.authoring import Tensor, Value, alternatives, once, walk

if TYPE_CHECKING:
    from modellint.authoring import Code, Write

_ADDING = frozenset({"add_", "sub_", "lerp_", "addcmul_"})
_REDUCING = frozenset({"mean", "sum", "var", "std", "var_mean", "std_mean", "norm", "bincount", "nanmean", "median"})
_NAMES = (
    r"(?i)running|moving|(^|_)ema(_|$)|avg|average|mean|(^|_)var|std|momentum|cluster|centroid|center|(^|_)stats?(_|$)"
)
_MAY_COPY = frozenset({"to", "type", "cuda", "cpu", "float", "reshape", "reshape_as", "flatten", "ravel", "contiguous"})
_DEEPEST = 4
_CACHES = r"(?i)cache|(?:^|_)(?:kv|queue|history|memory|mems?)(?:_|$)"
_OF_METRICS = frozenset({"compute", "value", "clear"})
"""Methods of what counts while it is evaluated."""


class Update(NamedTuple):
    """A statement that updates a running statistic.

    ``full``: the attribute as the statement writes it; ``old``: where the new value names the old one, as far as the
    statement itself does; ``in_place``: it changes the tensor instead of putting another in its place.
    """

    attribute: str
    full: str
    write: Write
    readings: list[Write]
    value: ast.expr
    old: tuple[ast.Attribute, ...]
    in_place: bool


def updates(code: Code) -> Iterator[Update]:
    """Every statement that `forward` runs and that updates a registered buffer as a running statistic."""
    if not _OF_METRICS.isdisjoint(getattr(method.node, "name", "") for method in code.methods):
        return
    names: dict[int, str] | None = None
    for readings in code.writes:
        write = readings[0]
        if write.function not in code.in_forward:
            continue
        if names is None:
            names = buffers(code)
        names_written = {written_buffer(reading, names) for reading in readings}
        name = names_written.pop() if len(names_written) == 1 else None
        module = code.self_name(write.function) or "self"
        update = _update(write, readings, name, f"{module}.{name}") if name else None
        if update is not None and _is_statistic(update):
            yield update


def buffers(code: Code) -> dict[int, str]:
    """The names of the buffers that are registered in the file itself, by identity."""
    return {
        id(part): name
        for name, bindings in code.attributes.items()
        for binding in bindings
        for part in alternatives(binding.value)
        if isinstance(part, Tensor) and part.kind == "buffer" and binding.file is code.file
    }


def written_buffer(write: Write, names: dict[int, str]) -> str | None:
    """The one buffer that a statement writes to."""
    buffers_written = {named(part, names) for part in alternatives(write.target)}
    return buffers_written.pop() if len(buffers_written) == 1 else None


def named(value: Value, names: dict[int, str]) -> str | None:
    """The buffer that a value is, or is a view of."""
    part: Value | None = value
    while isinstance(part, Tensor):
        if id(part) in names:
            return names[id(part)]
        if part.made_by in _MAY_COPY:
            return None
        part = part.base
    return None


def _update(write: Write, readings: list[Write], name: str, full: str) -> Update | None:
    node, value = write.node, getattr(write.statement, "value", None)
    keeps = False
    match node:
        case ast.AugAssign(op=ast.Add() | ast.Sub()):
            keeps = True
        case ast.Call(func=ast.Attribute(attr=method), args=[first, *others]) if method in _ADDING or method == "copy_":
            keeps = method in _ADDING
            value = others[0] if method == "addcmul_" and others else first
        case ast.Assign() | ast.AnnAssign() | ast.Subscript():
            pass
        case _:
            return None
    if not isinstance(value, ast.expr) or (write.how == "attribute" and write.attribute != name):
        return None
    everything = _expanded(value, write)
    if not keeps and not (any(_is_old(part, full) for part in everything) and any(map(_computes, everything))):
        return None
    if not any(isinstance(part, ast.Name) and part.id in _arguments(write.function) for part in everything):
        return None
    old = tuple(part for part in walk(value) if _is_old(part, full))
    return Update(name, full, write, readings, value, old, write.how != "attribute")  # type: ignore[arg-type]


def _computes(node: ast.AST) -> bool:
    """Whether it is arithmetic, and no mere move or cast."""
    match node:
        case ast.BinOp():
            return True
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in ("add", "mul", "sub", "lerp", "addcmul")
    return False


def _is_old(node: ast.AST, name: str) -> bool:
    """Whether a node is `self.name`, where ``name`` is both."""
    owner, _, attribute = name.partition(".")
    match node:
        case ast.Attribute(value=ast.Name(id=holder), attr=last, ctx=ast.Load()):
            return holder == owner and last == attribute
    return False


def _arguments(function: ast.AST | None) -> frozenset[str]:
    """What a function is given, its module left out."""
    arguments = getattr(function, "args", None)
    if not isinstance(arguments, ast.arguments):
        return frozenset()
    names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return frozenset(
        argument.arg
        for argument in (*names, arguments.vararg)
        if argument is not None and argument.arg not in ("self", "cls")
    )


def _expanded(value: ast.expr, write: Write) -> list[ast.AST]:
    """The nodes of an expression, and of what the function's variables in it were bound to before the write."""
    bound = once(write.function, "_bound", _bound) if write.function is not None else {}
    nodes: list[ast.AST] = []
    pending, seen = [(value, 0)], set[str]()
    while pending:
        expression, depth = pending.pop()
        for node in walk(expression):
            nodes.append(node)
            if isinstance(node, ast.Name) and node.id not in seen and depth < _DEEPEST:
                seen.add(node.id)
                before = (value_before for row, value_before in bound.get(node.id, ()) if row < write.statement.lineno)
                pending.extend((value_before, depth + 1) for value_before in before)
    return nodes


def is_first_value(code: Code, update: Update) -> bool:
    """Whether a statement gives an element another value where a comparison of the old one says so, and does not compute with that.

    ``if self.scales[0] < 0: self.scales[0] = x.abs().max()``: nobody knows that the comparison holds again.
    """
    match update.write.statement:
        case ast.Assign(targets=[ast.Subscript() as target], value=value):
            element = ast.unparse(target)
        case _:
            return False
    if any(map(_is_named(element), _expanded(value, update.write))):
        return False
    return any(
        isinstance(test, ast.Compare) and any(map(_is_named(element), _expanded(test, update.write)))
        for test in code.conditions(update.write.statement, update.write.function)
    )


def _is_named(text: str) -> Callable[[ast.AST], bool]:
    """A test whether a node is an element that is written in some way."""
    return lambda node: isinstance(node, ast.Subscript) and ast.unparse(node) == text


def _bound(function: ast.AST) -> dict[str, list[tuple[int, ast.expr]]]:
    """What the variables of a function are bound to, and in which rows."""
    bound: dict[str, list[tuple[int, ast.expr]]] = {}
    for node in walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for part in walk(target):
                        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                            bound.setdefault(part.id, []).append((node.lineno, value))
            case ast.For(target=ast.Name(id=name), iter=value) | ast.AugAssign(target=ast.Name(id=name), value=value):
                bound.setdefault(name, []).append((node.lineno, value))
            case _:
                pass
    return bound


def _is_statistic(update: Update) -> bool:
    """Whether the form of an update, or the buffer's name, says that it is no cache, no counter and no recurrent state."""
    if re.search(_CACHES, update.attribute):
        return False
    everything = _expanded(update.value, update.write)
    calls = {
        part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
        for part in everything
        if isinstance(part, ast.Call)
    }
    if calls & {"cat", "stack", "roll", "concat", "where", "vstack", "hstack", "pad", "scatter", "scatter_"}:
        return False
    if re.search(_NAMES, update.attribute) or calls & _REDUCING:
        return True
    return any(isinstance(part, ast.BinOp) and _is_average(part, update.full) for part in everything)


def _is_average(node: ast.BinOp, name: str) -> bool:
    """`a * old + (1 - a) * new`."""
    if not isinstance(node.op, ast.Add):
        return False
    sides = [_factors(side) for side in (node.left, node.right)]
    for mine, opposite in (sides, sides[::-1]):
        own = [part for part in mine if any(_is_old(inner, name) for inner in walk(part))]
        if len(own) == 1 and len(mine) == len(opposite) == 2:
            weight = next(part for part in mine if part is not own[0])
            if any(_complement(weight, part) or _complement(part, weight) for part in opposite):
                return True
    return False


def _factors(node: ast.expr) -> list[ast.expr]:
    return [node.left, node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else [node]


def _complement(weight: ast.expr, complement: ast.expr) -> bool:
    match weight, complement:
        case ast.Constant(value=float() | int() as first), ast.Constant(value=float() | int() as second):
            return abs(first + second - 1) < 1e-6
        case ast.BinOp(left=ast.Constant(value=1 | 1.0), op=ast.Sub(), right=subtracted), _:
            return ast.dump(subtracted) == ast.dump(complement)
    return False
