"""Operations on one tensor, by element, of `coremltools.converters.mil.mil.ops.defs.iOS15.elementwise_unary` and later.

An ``epsilon`` is added to the input, and not held against it; a default reaches a program as the number that its element
type makes of it, so that those of ``log`` and ``rsqrt`` are 0 in fp16.
"""

from __future__ import annotations

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.element_types import DTYPES, as_dtype
from modellint.destinations.coreml.mil.operation_registry import operation, unary

_WIDTHS = {"uint16": 16, "uint32": 32}
"""Bits of the unsigned types that a wider signed one holds."""


unary(
    {
        "acos": torch.acos,
        "asin": torch.asin,
        "atan": torch.atan,
        "atanh": torch.atanh,
        "cos": torch.cos,
        "cosh": torch.cosh,
        "erf": torch.erf,
        "exp": torch.exp,
        "logical_not": torch.logical_not,
        "sin": torch.sin,
        "sinh": torch.sinh,
        "sqrt": torch.sqrt,
        "square": torch.square,
        "tan": torch.tan,
        "tanh": torch.tanh,
    }
)
unary(
    # Of two integers as near, `torch.round` takes the even one.
    {"abs": torch.abs, "ceil": torch.ceil, "floor": torch.floor, "round": torch.round, "sign": torch.sign},
    moves=True,
)


@operation(moves=True)
def cast(x: Tensor, dtype: str) -> Tensor:
    """Another element type: a float becomes an integer by truncation, and a boolean by being other than 0."""
    if dtype in _WIDTHS and not x.is_floating_point():
        return (x.to(torch.int64) & ((1 << _WIDTHS[dtype]) - 1)).to(DTYPES[dtype])
    return as_dtype(x, dtype)


@operation(moves=True)
def clip(x: Tensor, alpha: float, beta: float) -> Tensor:
    """``min(max(x, alpha), beta)``."""
    return x.clamp(alpha, beta)


@operation()
def exp2(x: Tensor) -> Tensor:
    """``2 ** x``; of integers truncated to an integer."""
    return torch.exp2(x) if x.is_floating_point() else torch.exp2(x.to(torch.float64)).to(x.dtype)


@operation()
def inverse(x: Tensor, epsilon: float = 1e-4) -> Tensor:
    """``1 / (x + epsilon)``."""
    return torch.reciprocal(x + epsilon)


@operation()
def log(x: Tensor, epsilon: float = 1e-45) -> Tensor:
    """``log(x + epsilon)``: of 0 with the default, about -103 rather than minus infinity."""
    return torch.log(x + epsilon)


@operation()
def rsqrt(x: Tensor, epsilon: float = 1e-12) -> Tensor:
    """``1 / sqrt(x + epsilon)``."""
    return torch.rsqrt(x + epsilon)


@operation(moves=True)
def threshold(x: Tensor, alpha: float) -> Tensor:
    """``max(x, alpha)``."""
    return x.clamp(min=alpha)
