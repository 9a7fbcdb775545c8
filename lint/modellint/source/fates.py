"""Where the value of a call goes: on into tensors, into Python, where a capture loses sight of it, or into a loss."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from modellint.source.nodes import parents_in, walk

_LABELS = re.compile(r"(?:^|_)(?:labels?|targets?|gt|ground_truth|(?:start|end)_positions?)(?:_|$)")
_LOSS = re.compile(r"(?:^|_)loss(?:es)?(?:_|$)")
_TO_PYTHON = frozenset({"item", "tolist", "numpy", "size", "dim", "numel", "shape", "dtype", "device", "ndim"})
_BUILTINS = frozenset({"float", "int", "bool", "len", "str", "print", "repr", "isinstance"})


def ends_in_python(node: ast.expr, function: ast.AST) -> bool:
    """Whether the value of an expression in a function certainly becomes a number, a condition or a text, and no tensor.

    A trace keeps such a number as a constant and drops what it was computed by.
    """
    return _ends(node, function, parents_in(function), frozenset())


def only_for_a_loss(node: ast.expr, function: ast.AST) -> bool:
    """Whether an expression stands where there are labels only: under `if labels is not None`, or in a function called a loss."""
    if _LOSS.search(getattr(function, "name", "")):
        return True
    parents = parents_in(function)
    child: ast.AST = node
    while (parent := parents.get(child)) is not None:
        match parent:
            case ast.If(test=test, body=body) if child in body and _asks_for_labels(test):
                return True
            case ast.IfExp(test=test, body=body) if child is body and _asks_for_labels(test):
                return True
            case _:
                child = parent
    return False


def _asks_for_labels(test: ast.expr) -> bool:
    match test:
        case ast.Compare(
            left=ast.Name(id=name) | ast.Attribute(attr=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]
        ):
            return _LABELS.search(name) is not None
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _LOSS.search(name) is not None
        case ast.BoolOp(op=ast.And(), values=values):
            return any(map(_asks_for_labels, values))
    return False


def _ends(node: ast.expr, function: ast.AST, parents: dict[ast.AST, ast.AST], seen: frozenset[str]) -> bool:
    child: ast.AST = node
    while (parent := parents.get(child)) is not None:
        match parent:
            case ast.Attribute(attr=attribute) if attribute in _TO_PYTHON:
                return True
            case ast.Call(func=ast.Name(id=name)) if name in _BUILTINS and child is not parent.func:
                return True
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test) if (
                test is child
            ):
                return True
            case ast.Assert() | ast.Raise() | ast.FormattedValue():
                return True
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is child:
                reads = list(_reads(name, function))
                if name in seen or not reads or _bound(name, function) != 1:
                    return False
                return all(_ends(read, function, parents, seen | {name}) for read in reads)
            case ast.stmt():
                return False
            case _:
                child = parent
    return False


def _reads(name: str, function: ast.AST) -> Iterator[ast.Name]:
    for part in walk(function):
        if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load):
            yield part


def _bound(name: str, function: ast.AST) -> int:
    return sum(
        isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store) for part in walk(function)
    )
