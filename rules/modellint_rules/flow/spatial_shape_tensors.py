"""Tables of sizes: tensors of which a row says how large a part of each input is, as of a level of a pyramid."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.authoring import called_name, walk

if TYPE_CHECKING:
    from modellint.authoring import Loop

_SHAPED = frozenset({"view", "reshape", "unflatten", "expand", "linspace", "arange"})


def goes_through_sizes(turns: Loop) -> bool:
    """Whether each turn of a loop takes a row of two sizes, and a part of every input: `x[:, at : at + h * w].view(n, h, w)`.

    How many parts there are is the model's own then. What is taken along the first dimension is a part of the batch.
    """
    loops = [
        part
        for part in walk(turns.statement)
        if isinstance(part, (ast.For, ast.comprehension)) and part.iter is turns.node
    ]
    return bool(loops) and all(_takes_parts(turns.statement, loop) for loop in loops)


def _takes_parts(statement: ast.AST, loop: ast.For | ast.comprehension) -> bool:
    counter: str | None = None
    row = loop.target
    match loop:
        case ast.For(target=ast.Tuple(elts=[ast.Name(id=number), inner]), iter=ast.Call(func=ast.Name(id="enumerate"))):
            counter, row = number, inner
    match row:
        case ast.Tuple(elts=[ast.Name(id=height), ast.Name(id=width)]):
            sizes = frozenset({height, width})
        case _:
            return False
    if isinstance(loop, ast.comprehension):
        return any(_splits_by(part, loop) for part in walk(statement))
    inside = [part for inner in loop.body for part in walk(inner)]
    shaping = {name for part in inside for name in _shaping(part)}
    return sizes <= shaping and any(_takes_part(part, counter, sizes) for part in inside)


def _splits_by(node: ast.AST, loop: ast.comprehension) -> bool:
    """Whether a call splits a tensor, not along its first dimension, into parts of the sizes that a comprehension gives."""
    match node:
        case ast.Call(func=ast.Attribute(attr="split" | "split_with_sizes"), args=[*given], keywords=keywords):
            dim = next((word.value for word in keywords if word.arg == "dim"), given[-1] if len(given) > 1 else None)
            behind = dim is not None and not (isinstance(dim, ast.Constant) and dim.value == 0)
            return behind and any(isinstance(part, ast.ListComp) and loop in part.generators for part in given)
    return False


def _shaping(node: ast.AST) -> frozenset[str]:
    """The variables in what tells an operator the shape of a tensor."""
    if isinstance(node, ast.Call) and called_name(node) in _SHAPED:
        return frozenset(name for part in node.args for name in _names(part))
    return frozenset()


def _takes_part(node: ast.AST, counter: str | None, sizes: frozenset[str]) -> bool:
    """Whether a subscript takes a part by its number or its sizes, along another dimension than the first."""
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None), *others])):
            names = [_names(part) for part in others]
            return any(sizes <= part or counter in part for part in names)
    return False


def _names(node: ast.AST) -> frozenset[str]:
    return frozenset(part.id for part in walk(node) if isinstance(part, ast.Name))
