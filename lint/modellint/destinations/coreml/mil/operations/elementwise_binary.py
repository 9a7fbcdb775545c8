"""Operations on two tensors, by element and broadcast, of `coremltools.converters.mil.mil.ops.defs.iOS15.elementwise_binary`.

Of integers every result is an integer: ``real_div`` truncates (coremltools' `test_builder_real_div_both_ints`: 5 / 2 is 2).
Division of an integer by 0 gives 0, as numpy's and the arithmetic unit's of Apple's processors do.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.operation import operation


@operation()
def add(x: Tensor, y: Tensor) -> Tensor:
    """``x + y``."""
    return x + y


@operation()
def equal(x: Tensor, y: Tensor) -> Tensor:
    """``x == y``."""
    return torch.eq(x, y)


@operation()
def floor_div(x: Tensor, y: Tensor) -> Tensor:
    """``x / y``, rounded towards minus infinity."""
    return torch.div(x, y, rounding_mode="floor") if _floating(x, y) else _integer_division(x, y, "floor")


@operation()
def greater(x: Tensor, y: Tensor) -> Tensor:
    """``x > y``."""
    return torch.gt(x, y)


@operation()
def greater_equal(x: Tensor, y: Tensor) -> Tensor:
    """``x >= y``."""
    return torch.ge(x, y)


@operation()
def less(x: Tensor, y: Tensor) -> Tensor:
    """``x < y``."""
    return torch.lt(x, y)


@operation()
def less_equal(x: Tensor, y: Tensor) -> Tensor:
    """``x <= y``."""
    return torch.le(x, y)


@operation()
def logical_and(x: Tensor, y: Tensor) -> Tensor:
    """Whether both are true."""
    return torch.logical_and(x, y)


@operation()
def logical_or(x: Tensor, y: Tensor) -> Tensor:
    """Whether either is true."""
    return torch.logical_or(x, y)


@operation()
def logical_xor(x: Tensor, y: Tensor) -> Tensor:
    """Whether exactly one is true."""
    return torch.logical_xor(x, y)


@operation(moves=True)
def maximum(x: Tensor, y: Tensor) -> Tensor:
    """The greater of both."""
    return torch.maximum(x, y)


@operation(moves=True)
def minimum(x: Tensor, y: Tensor) -> Tensor:
    """The lesser of both."""
    return torch.minimum(x, y)


@operation()
def mod(x: Tensor, y: Tensor) -> Tensor:
    """The remainder of ``floor_div``: it has the sign of ``y``."""
    if _floating(x, y):
        return torch.remainder(x, y)
    nothing = y == 0
    return torch.where(nothing, 0, torch.remainder(x, torch.where(nothing, 1, y)))


@operation()
def mul(x: Tensor, y: Tensor) -> Tensor:
    """``x * y``."""
    return x * y


@operation()
def not_equal(x: Tensor, y: Tensor) -> Tensor:
    """``x != y``."""
    return torch.ne(x, y)


@operation("pow")
def power(x: Tensor, y: Tensor) -> Tensor:
    """``x ** y``; of integers with a negative exponent, truncated."""
    if _floating(x, y):
        return torch.pow(x, y)
    # torch refuses negative exponents of integers. 0 to one of them is divided by 0.
    whole = torch.pow(x, y.clamp(min=0))
    truncated = torch.where(x == 1, 1, torch.where(x == -1, 1 - 2 * (y & 1), 0))
    return torch.where(y < 0, truncated, whole)


@operation()
def real_div(x: Tensor, y: Tensor) -> Tensor:
    """``x / y``; of integers truncated."""
    return x / y if _floating(x, y) else _integer_division(x, y, "trunc")


@operation()
def sub(x: Tensor, y: Tensor) -> Tensor:
    """``x - y``."""
    return x - y


def _floating(x: Tensor, y: Tensor) -> bool:
    return x.is_floating_point() or y.is_floating_point()


def _integer_division(x: Tensor, y: Tensor, rounding: Literal["trunc", "floor"]) -> Tensor:
    nothing = y == 0
    return torch.where(nothing, 0, torch.div(x, torch.where(nothing, 1, y), rounding_mode=rounding))
