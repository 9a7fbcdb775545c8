"""Weighted logarithms: ``p * log(p + eps)``, the terms of an entropy, which are 0 where `eps` is all that `log` gets.

There `p` is 0, and so is the product, whatever the epsilon is, as long as it is none of 0 itself; where `p` is greater, an epsilon
that float16 rounds does not show. coremltools 9.0 writes 6e-8; our executor gives the same with it. A device that took 6e-8 for 0
would give no number; none was tried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import of_kind, parents_in

if TYPE_CHECKING:
    from modellint.authoring import Code

_LOGARITHMS = frozenset({"log", "log2", "log10"})
_FLOORS = frozenset({"clamp", "clamp_min", "clip"})


def is_weighted(code: Code, node: ast.AST, number: ast.expr | None) -> bool:
    """Whether the logarithm of a sum with a number, or of a tensor with a floor, is only multiplied by the tensor itself."""
    function = next((part for part in reversed([m.node for m in code.methods]) if _holds(part, node)), None)
    tensor = _guarded(node, number)
    if function is None or tensor is None:
        return False
    parents = parents_in(function)
    log = parents.get(node)
    if isinstance(log, ast.Attribute):
        log = parents.get(log)
    if not (isinstance(log, ast.Call) and isinstance(_name(log), str) and _name(log) in _LOGARITHMS):
        return False
    if log.args[:1] != [node] and not (isinstance(log.func, ast.Attribute) and log.func.value is node):
        return False
    wanted = ast.dump(tensor)
    if _is_multiplied(log, wanted, parents):
        return True
    match parents.get(log):
        case ast.Assign(targets=[ast.Name(id=name)]):
            names = [part for part in of_kind(function, ast.Name) if part.id == name]
            reads = [part for part in names if isinstance(part.ctx, ast.Load)]
            if len(names) != len(reads) + 1 or not reads or _is_bound_again(function, tensor, log):
                return False
            return all(_is_multiplied(part, wanted, parents) for part in reads)
    return False


def _holds(function: ast.AST, node: ast.AST) -> bool:
    row = getattr(node, "lineno", 0)
    return getattr(function, "lineno", 0) <= row <= (getattr(function, "end_lineno", 0) or 0)


def _guarded(node: ast.AST, number: ast.expr | None) -> ast.expr | None:
    """The tensor that a number is added to, or that has it for a floor."""
    match node:
        case ast.BinOp(op=ast.Add(), left=left, right=right) if number is not None:
            return right if left is number else left if right is number else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[tensor, *_]) if name in _FLOORS:
            return tensor
        case ast.Call(func=ast.Attribute(value=tensor, attr=name)) if name in _FLOORS:
            return tensor
    return None


def _name(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)


def _is_multiplied(node: ast.AST, wanted: str, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a value, with whatever is added to it, is a factor beside a tensor."""
    child, parent = node, parents.get(node)
    while (isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Sub))) or isinstance(
        parent, ast.UnaryOp
    ):
        child, parent = parent, parents.get(parent)
    while isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
        other = parent.left if parent.right is child else parent.right
        if any(ast.dump(factor) == wanted for factor in _factors(other)):
            return True
        child, parent = parent, parents.get(parent)
    return False


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield from _factors(operand)
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            yield from _factors(left)
            yield from _factors(right)
        case _:
            yield node


def _is_bound_again(function: ast.AST, tensor: ast.expr, log: ast.AST) -> bool:
    """Whether the names of a tensor may be bound to something else behind its logarithm."""
    names = {part.id for part in ast.walk(tensor) if isinstance(part, ast.Name)}
    return any(
        part.id in names and not isinstance(part.ctx, ast.Load) and part.lineno >= getattr(log, "lineno", 0)
        for part in of_kind(function, ast.Name)
    )
