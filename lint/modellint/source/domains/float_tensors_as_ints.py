"""Counted floats: tensors of floats that coremltools holds as integers, as `torch.arange(4, dtype=torch.float32)` is.

A capture keeps the integers that `arange` is given, and coremltools makes its type of theirs. What is computed of such a tensor
stays so while it meets integers only; a cast, a quotient or a float makes floats of it. Measured with coremltools 9.0, by
`torch.jit.trace` and by `torch.export`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.source.domains.symbolic_numbers import Size
from modellint.source.domains.tensors import FORGOTTEN, Tensor
from modellint.source.engine.abstract_values import Const, Method, Number, Value, alternatives
from modellint.source.syntax.ast_walk import walk

if TYPE_CHECKING:
    from modellint.source.engine.arguments import Arguments

COUNTED = "counted"
"""Under this is told of a tensor that it is one."""
_FLOATS = frozenset(f"torch.{name}" for name in ("float", "float16", "float32", "float64", "half", "double"))
KEEPING = frozenset({"repeat", "flip", "clone", "contiguous", "cumsum", "neg", "square"})
"""Operators whose result coremltools gives the type of what they are given."""
_KEEPING_SIGNS = (ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.Pow)


def counts(arguments: Arguments, node: ast.expr) -> bool:
    """Whether a call of `arange` is given integers alone, and a type of floats."""
    if arguments.spread or None in arguments.keywords or not isinstance(node, ast.Call):
        return False
    words = arguments.keywords
    bounds = [*zip(arguments.positional, node.args, strict=False)]
    bounds += [(words[word.arg], word.value) for word in node.keywords if word.arg in ("start", "end", "step")]
    dtype = words.get("dtype")
    if not bounds or dtype is None or not all(_is_whole(value, written) for value, written in bounds):
        return False
    if isinstance(dtype, Method) and dtype.name == "dtype":
        return isinstance(dtype.receiver, Tensor) and dtype.receiver.is_float
    return dtype.external_name in _FLOATS


def tell(made: object, parts: Sequence[Value]) -> None:
    """Note that a result is one, where all that it is made of are, or are integers that are written down."""
    counted = [part.is_counted if isinstance(part, Tensor) else _is_integer(part) for part in parts]
    if isinstance(made, Tensor) and all(counted) and any(isinstance(part, Tensor) for part in parts):
        made.told = {**(made.told or {}), COUNTED: True}


def keeps(op: ast.operator) -> bool:
    """Whether an operator on integers gives integers to coremltools."""
    return isinstance(op, _KEEPING_SIGNS)


def forget(tensor: Tensor) -> None:
    """Note that a tensor is changed in place, with whatever."""
    part: Tensor | None = tensor
    while part is not None:
        told = part.told = part.told if part.told is not None else {}
        if told.pop(COUNTED, None) is None and FORGOTTEN in told:
            # So are those behind it: the views of a long chain are each written to.
            return
        told[FORGOTTEN] = True
        part = part.base


def _is_whole(value: Value, written: ast.expr) -> bool:
    """Whether an argument is an integer: a size, a constant, or what `int` and `len` give; other numbers may be floats."""
    if any(isinstance(part, ast.Div) for part in walk(written)):
        return False
    made = isinstance(written, ast.Call) and isinstance(written.func, ast.Name) and written.func.id in ("int", "len")
    return all(
        isinstance(part, Size) or _is_integer(part) or (made and isinstance(part, Number))
        for part in alternatives(value)
    )


def _is_integer(value: Value) -> bool:
    return isinstance(value, Const) and type(value.value) is int
