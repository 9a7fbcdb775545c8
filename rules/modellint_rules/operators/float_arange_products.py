"""Signs that multiply or divide by counted floats, `torch.arange(4, dtype=torch.float32)`, which coremltools holds as integers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Const, Tensor, Value, alternatives, of_kind

if TYPE_CHECKING:
    from modellint.authoring import Code

ADVICE = "Make floats of it: `torch.arange(n).float()`, or `torch.arange(float(n))`"


def counted_products(code: Code) -> Iterator[tuple[ast.expr, ast.stmt, str, bool]]:
    """Every `a @ b` and `1 / a` of `forward` that is refused, with its statement, what it is, and whether no default path runs it.

    Measured with coremltools 9.0 for both routes: a product of matrices is made a linear layer where the one on the right is a constant,
    which wants floats on both sides; a quotient of a number becomes an inverse of floats.
    """
    if code.is_never_exported or not code.in_forward:
        return
    for readings in code.operations:
        node, function = readings[0].node, readings[0].function
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.MatMult, ast.Div)):
            continue
        if any(reading.function not in code.in_forward for reading in readings) or keeps_state(code, function):
            continue
        exported = [reading for reading in readings if reading.exported]
        product = isinstance(node.op, ast.MatMult)
        if not exported or not all(
            (_is_refused if product else _is_inverse)(*reading.operands[:2]) for reading in exported
        ):
            continue
        statement = code.statement_of(node, function)
        if statement is not None and function is not None and not code.is_for_loss_only(node, function):
            shown = "A product of matrices with" if product else "A number divided by"
            yield node, statement, shown, all(reading.aside or reading.unusual for reading in readings)


def _is_refused(left: Value, right: Value) -> bool:
    """Whether a product has counted floats on one side, where the matrix on the right is a constant and makes a linear layer."""
    lefts, rights = alternatives(left), alternatives(right)
    if not all(isinstance(part, Tensor) and part.rank == 2 for part in rights):
        return False
    if all(map(_is_counted, lefts)):
        return all(isinstance(part, Tensor) and part.is_float and _is_constant(part) for part in rights)
    return all(map(_is_counted, rights)) and all(isinstance(part, Tensor) and part.is_float for part in lefts)


def _is_inverse(left: Value, right: Value) -> bool:
    numbers = all(isinstance(part, Const) and part.number is not None for part in alternatives(left))
    return numbers and all(map(_is_counted, alternatives(right)))


def _is_counted(value: Value) -> bool:
    return isinstance(value, Tensor) and value.is_counted


def _is_constant(tensor: Tensor) -> bool:
    """Whether it does not depend on what the caller gives."""
    return tensor.batch is None and tensor.root.origin not in ("argument", "unseen")


def keeps_state(code: Code, function: ast.AST | None) -> bool:
    """Whether a function other than `forward` puts what it computes into attributes: a table, which building fills as a rule."""
    if not isinstance(function, ast.FunctionDef) or function.name == "forward":
        return False
    return any(isinstance(node.ctx, ast.Store) for node in of_kind(function, ast.Attribute)) or any(
        getattr(call.func, "attr", "") == "register_buffer" for call in of_kind(function, ast.Call)
    )
