"""Value-dependent lengths: tensors whose first dimension is as long as the values of another say, as that of `x[mask]`.

What an operator computes of such a tensor is as long while the operator keeps its first dimension.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.source.domains.masks import is_mask
from modellint.source.domains.operator_sets import BINARY, REDUCTIONS, SAME
from modellint.source.domains.symbolic_numbers import int_of
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Const, Container, Value, alternatives

if TYPE_CHECKING:
    from modellint.source.engine.arguments import Arguments

OF_VALUES = "length of values"
"""Under this is told of a tensor that values decide its length."""
_EACH = "lengths of values"
"""Under this is told of what stands for a tuple that values decide the length of each tensor in it."""

_MAKERS = frozenset({"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive"})
_KEEPING = frozenset({"clone", "detach", "contiguous", "data", "sort", "argsort"})


def is_of_values(value: object) -> bool:
    """Whether the first dimension certainly is as long as values say that depend on what the caller gives."""
    return isinstance(value, Tensor) and value.is_data and _is_told(value)


def tell(name: str, made: Value, tensor: Tensor, arguments: Arguments) -> None:
    """Note that values decide how long the result of an operator of torch is, where they do."""
    if name in _MAKERS:
        if not arguments.spread and None not in arguments.keywords:
            _tell_made(name, made, arguments)
    elif name == "where" and not arguments.positional and not arguments.keywords and not arguments.spread:
        note(made, _EACH)
    elif _keeps(name, tensor, arguments):
        for part in made.items if isinstance(made, Container) else (made,):
            note(part)


def note(made: Value, what: str = OF_VALUES) -> None:
    """Note that values decide the length of a tensor."""
    if isinstance(made, Tensor):
        made.told = {**(made.told or {}), what: True}


def picks(index: Value) -> bool:
    """Whether an index certainly picks as many rows as values say: a mask, or indices of such a length."""
    return all(isinstance(part, Tensor) and (is_of_values(part) or _is_of_truths(part)) for part in alternatives(index))


def _is_of_truths(tensor: Tensor) -> bool:
    """Whether it certainly is a mask: `hashed & (size - 1)` holds whole numbers."""
    if not tensor.is_data or not is_mask(tensor):
        return False
    match tensor.node:
        case ast.BinOp(left=left, right=right):
            return not any(map(_is_whole, (left, right)))
        case ast.UnaryOp(operand=operand):
            return not _is_whole(operand)
    return True


def _is_whole(node: ast.expr) -> bool:
    signs = (ast.BitAnd, ast.BitOr, ast.BitXor)
    match node:
        case ast.Constant(value=value):
            return type(value) is int
        case ast.BinOp(op=op, left=left, right=right) if isinstance(op, signs):
            return _is_whole(left) or _is_whole(right)
    return isinstance(node, ast.BinOp)


def tell_element(element: Tensor, tensor: Tensor) -> None:
    """Note it of an element of a tuple of such tensors: `torch.where(mask)[0]`."""
    if tensor.told is not None and _EACH in tensor.told:
        note(element)


def _is_told(tensor: Tensor) -> bool:
    return tensor.told is not None and OF_VALUES in tensor.told


def _tell_made(name: str, made: Value, arguments: Arguments) -> None:
    words = arguments.keywords
    flag = words.get("as_tuple")
    if flag is not None:
        if isinstance(flag, Const):
            note(made, _EACH if flag.value else OF_VALUES)
    elif not any(word.startswith("return_") for word in words if word is not None) and (
        name in ("nonzero", "argwhere", "masked_select") or not arguments.positional
    ):
        note(made)


def _keeps(name: str, tensor: Tensor, arguments: Arguments) -> bool:
    """Whether an operator keeps the first dimension, which values decide."""
    if name == "index_select":
        index = arguments.get(1, "index")
        return int_of(arguments.get(0, "dim")) == 0 and isinstance(index, Tensor) and _is_told(index)
    if not _is_told(tensor):
        return False
    if name in _KEEPING or name in SAME:
        return True
    if name in BINARY:
        return all(not isinstance(part, Tensor) or _is_told(part) for part in arguments.positional)
    if name in ("view", "reshape"):
        return int_of(arguments.get(0, "shape")) == -1
    if name == "flatten":
        return not arguments.positional and not arguments.keywords
    dim = int_of(arguments.get(0, "dim"))
    if name == "squeeze":
        return dim != 0 and (dim is not None or not arguments.positional)
    if name == "unsqueeze":
        return dim is not None and dim != 0
    return name in REDUCTIONS and dim is not None and dim > 0
