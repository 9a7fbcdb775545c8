"""Sizes and ranks that assertions fix: `if x.shape[1] != 7: raise`, `assert x.ndim == 3`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.source.domains.dimension_arguments import dim_of
from modellint.source.domains.memory_layout import Axis, Dim, Layout, is_fixed
from modellint.source.domains.symbolic_numbers import Length, Size, int_of
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Const, Value, alternatives

if TYPE_CHECKING:
    from modellint.source.engine.class_state import Frame
    from modellint.source.engine.domain import Reader


def assume(reader: Reader, test: ast.expr, held: bool, frame: Frame) -> None:
    """Write into the tensors of a function what a condition that is always true, or false, says of their sizes and rank."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            assume(reader, operand, not held, frame)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is held:
            for value in values:
                assume(reader, value, held, frame)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
            if isinstance(op, ast.Eq) is held:
                _equate(reader, left, right, frame)
                _equate(reader, right, left, frame)


def _equate(reader: Reader, asked: ast.expr, wanted: ast.expr, frame: Frame) -> None:
    """Take note that a size, or a rank, is a number."""
    owner = _ranked(asked)
    if owner is not None:
        rank = int_of(reader.value(wanted, frame))
        if rank is not None and rank > 0:
            for part in alternatives(reader.value(owner, frame)):
                if isinstance(part, Tensor) and part.layout is not None and not part.registered:
                    part.layout = part.layout.with_rank(rank) or part.layout
        return
    if not isinstance(asked, (ast.Name, ast.Subscript, ast.Call)):
        return
    size = reader.value(asked, frame)
    if not isinstance(size, Size) or isinstance(size, Length) or size.dim.factor != 1 or len(size.dim.powers) != 1:
        return
    ((symbol, power),) = size.dim.powers
    number = dim_of(reader.value(wanted, frame))
    if power == 1 and not isinstance(symbol, tuple) and number is not None and is_fixed(number) and number.value != 0:
        _replace(symbol, number, asked, reader, frame)


def _replace(symbol: object, number: Dim, asked: ast.expr, reader: Reader, frame: Frame) -> None:
    for name, value in frame.locals.items():
        if isinstance(value, Tensor):
            _replace_in(value, symbol, number)
        elif isinstance(value, Size):
            frame.locals[name] = _sized(value.dim.replaced(symbol, number))


def _sized(dim: Dim) -> Value:
    return Size(dim) if dim.value is None else Const(dim.value)


def _replace_in(tensor: Tensor, symbol: object, number: Dim) -> None:
    layout = tensor.layout
    if layout is None or tensor.registered:
        return
    if any(name == symbol for axis in layout.axes for name, _ in axis.size.powers):
        tensor.layout = Layout(
            [
                Axis(
                    axis.size.replaced(symbol, number), axis.stride and axis.stride.replaced(symbol, number), axis.block
                )
                for axis in layout.axes
            ]
        )


def _ranked(node: ast.expr) -> ast.expr | None:
    """The tensor for the number of whose dimensions an expression asks."""
    match node:
        case ast.Attribute(value=owner, attr="ndim"):
            return owner
        case ast.Call(func=ast.Attribute(value=owner, attr="dim" | "ndimension"), args=[], keywords=[]):
            return owner
        case ast.Call(func=ast.Name(id="len"), args=[ast.Attribute(value=owner, attr="shape")], keywords=[]):
            return owner
        case ast.Call(
            func=ast.Name(id="len"),
            args=[ast.Call(func=ast.Attribute(value=owner, attr="size"), args=[], keywords=[])],
            keywords=[],
        ):
            return owner
    return None
