"""Matrix products, of `coremltools.converters.mil.mil.ops.defs.iOS15.linear` and later."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from modellint.destinations.coreml.mil.element_types import DTYPES
from modellint.destinations.coreml.mil.operation_registry import Declared, Refusal, operation


@operation()
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias``; ``x`` is of rank 1 to 3, ``weight`` of shape (out, in)."""
    if x.is_floating_point():
        return functional.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))
    product = x @ weight.to(x.dtype).T
    return product if bias is None else product + bias.to(x.dtype)


@operation()
def matmul(
    x: Tensor,
    y: Tensor,
    declared: tuple[Declared, ...],
    transpose_x: bool = False,
    transpose_y: bool = False,
) -> Tensor:
    """Matrix product of the last two dimensions, the others broadcast as in NumPy; a transposition precedes it.

    From iOS 17 on, a constant may be of another type than the other operand, whose type is the result's. What becomes of
    fractions where that is an integer's is not documented.
    """
    if transpose_x and x.dim() > 1:
        x = x.mT
    if transpose_y and y.dim() > 1:
        y = y.mT
    if x.dtype == y.dtype:
        return torch.matmul(x, y)
    wide = torch.promote_types(x.dtype, y.dtype)
    product = torch.matmul(x.to(wide), y.to(wide))
    result = DTYPES[declared[0].dtype]
    if not result.is_floating_point and not all(torch.equal(side, side.to(result).to(side.dtype)) for side in (x, y)):
        raise Refusal("fractions are multiplied to integers")
    return product.to(result)


@operation()
def einsum(values: list[Tensor], equation: str) -> Tensor:
    """Einstein summation; a size of 1 is broadcast."""
    return torch.einsum(equation, values)
