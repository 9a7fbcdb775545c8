"""Operations on one tensor, by element, of `coremltools.converters.mil.mil.ops.defs.iOS15.elementwise_unary` and later.

An ``epsilon`` is added to the input, and not held against it; a default reaches a program as the number that its element
type makes of it, so that those of ``log`` and ``rsqrt`` are 0 in fp16.
"""

from __future__ import annotations

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.operation import operation
from modellint.destinations.coreml.mil.values import DTYPES, as_dtype

_WIDTHS = {"uint16": 16, "uint32": 32}
"""Bits of the unsigned types that a wider signed one holds."""


@operation("abs", moves=True)
def absolute(x: Tensor) -> Tensor:
    """``|x|``."""
    return torch.abs(x)


@operation()
def acos(x: Tensor) -> Tensor:
    """Inverse cosine."""
    return torch.acos(x)


@operation()
def asin(x: Tensor) -> Tensor:
    """Inverse sine."""
    return torch.asin(x)


@operation()
def atan(x: Tensor) -> Tensor:
    """Inverse tangent."""
    return torch.atan(x)


@operation()
def atanh(x: Tensor) -> Tensor:
    """Inverse hyperbolic tangent."""
    return torch.atanh(x)


@operation(moves=True)
def cast(x: Tensor, dtype: str) -> Tensor:
    """Another element type: a float becomes an integer by truncation, and a boolean by being other than 0."""
    if dtype in _WIDTHS and not x.is_floating_point():
        return (x.to(torch.int64) & ((1 << _WIDTHS[dtype]) - 1)).to(DTYPES[dtype])
    return as_dtype(x, dtype)


@operation(moves=True)
def ceil(x: Tensor) -> Tensor:
    """The next integer above."""
    return torch.ceil(x)


@operation(moves=True)
def clip(x: Tensor, alpha: float, beta: float) -> Tensor:
    """``min(max(x, alpha), beta)``."""
    return x.clamp(alpha, beta)


@operation()
def cos(x: Tensor) -> Tensor:
    """Cosine."""
    return torch.cos(x)


@operation()
def cosh(x: Tensor) -> Tensor:
    """Hyperbolic cosine."""
    return torch.cosh(x)


@operation()
def erf(x: Tensor) -> Tensor:
    """Gauss error function."""
    return torch.erf(x)


@operation()
def exp(x: Tensor) -> Tensor:
    """``e ** x``."""
    return torch.exp(x)


@operation()
def exp2(x: Tensor) -> Tensor:
    """``2 ** x``; of integers truncated to an integer."""
    return torch.exp2(x) if x.is_floating_point() else torch.exp2(x.to(torch.float64)).to(x.dtype)


@operation(moves=True)
def floor(x: Tensor) -> Tensor:
    """The next integer below."""
    return torch.floor(x)


@operation()
def inverse(x: Tensor, epsilon: float = 1e-4) -> Tensor:
    """``1 / (x + epsilon)``."""
    return torch.reciprocal(x + epsilon)


@operation()
def log(x: Tensor, epsilon: float = 1e-45) -> Tensor:
    """``log(x + epsilon)``: of 0 with the default, about -103 rather than minus infinity."""
    return torch.log(x + epsilon)


@operation()
def logical_not(x: Tensor) -> Tensor:
    """Whether ``x`` is 0."""
    return torch.logical_not(x)


@operation("round", moves=True)
def rounded(x: Tensor) -> Tensor:
    """The nearest integer, of two the even one."""
    return torch.round(x)


@operation()
def rsqrt(x: Tensor, epsilon: float = 1e-12) -> Tensor:
    """``1 / sqrt(x + epsilon)``."""
    return torch.rsqrt(x + epsilon)


@operation(moves=True)
def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1."""
    return torch.sign(x)


@operation()
def sin(x: Tensor) -> Tensor:
    """Sine."""
    return torch.sin(x)


@operation()
def sinh(x: Tensor) -> Tensor:
    """Hyperbolic sine."""
    return torch.sinh(x)


@operation()
def sqrt(x: Tensor) -> Tensor:
    """Square root."""
    return torch.sqrt(x)


@operation()
def square(x: Tensor) -> Tensor:
    """``x * x``."""
    return x * x


@operation()
def tan(x: Tensor) -> Tensor:
    """Tangent."""
    return torch.tan(x)


@operation()
def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return torch.tanh(x)


@operation(moves=True)
def threshold(x: Tensor, alpha: float) -> Tensor:
    """``max(x, alpha)``."""
    return x.clamp(min=alpha)
