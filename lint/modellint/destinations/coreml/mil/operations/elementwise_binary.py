"""Operations on two tensors, by element and broadcast, of `coremltools.converters.mil.mil.ops.defs.iOS15.elementwise_binary`.

Of integers every result is an integer: ``real_div`` truncates (coremltools' `test_builder_real_div_both_ints`: 5 / 2 is 2).
Division of an integer by 0 gives 0, as numpy's and the arithmetic unit's of Apple's processors do.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.operation_registry import binary, operation

binary(
    {
        "add": torch.add,
        "equal": torch.eq,
        "greater": torch.gt,
        "greater_equal": torch.ge,
        "less": torch.lt,
        "less_equal": torch.le,
        "logical_and": torch.logical_and,
        "logical_or": torch.logical_or,
        "logical_xor": torch.logical_xor,
        "mul": torch.mul,
        "not_equal": torch.ne,
        "sub": torch.sub,
    }
)
binary({"maximum": torch.maximum, "minimum": torch.minimum}, moves=True)


@operation()
def floor_div(x: Tensor, y: Tensor) -> Tensor:
    """``x / y``, rounded towards minus infinity."""
    return torch.div(x, y, rounding_mode="floor") if _floating(x, y) else _integer_division(x, y, "floor")


@operation()
def mod(x: Tensor, y: Tensor) -> Tensor:
    """What is left of a quotient that is rounded towards zero: it has the sign of ``x``.

    So devices compute it; the specification, and what coremltools folds, have the sign of ``y`` (coremltools #2778).
    """
    if _floating(x, y):
        return torch.fmod(x, y)
    nothing = y == 0
    return torch.where(nothing, 0, torch.fmod(x, torch.where(nothing, 1, y)))


@operation("pow")
def power(x: Tensor, y: Tensor, constants: frozenset[str] = frozenset()) -> Tensor:
    """``x ** y``; of integers with a negative exponent, truncated.

    Devices square what a constant 2 is raised to (coremltools #2628, #2742).
    """
    if "x" in constants and "y" not in constants and x.numel() == 1 and bool((x == 2).all()):
        return y * y
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


def _floating(x: Tensor, y: Tensor) -> bool:
    return x.is_floating_point() or y.is_floating_point()


def _integer_division(x: Tensor, y: Tensor, rounding: Literal["trunc", "floor"]) -> Tensor:
    nothing = y == 0
    return torch.where(nothing, 0, torch.div(x, torch.where(nothing, 1, y), rounding_mode=rounding))
