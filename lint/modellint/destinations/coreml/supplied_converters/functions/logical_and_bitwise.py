"""Logical and bitwise operators.

Integers are taken apart and put together with integer operations only, in two halves of 16 bits: what coremltools makes of a rounded
division computes in single precision, which holds 24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from modellint.destinations.coreml.private.operator_tables import Var, cast_to, is_boolean, mb
from modellint.destinations.coreml.supplied_converters.arguments import Unfit
from modellint.destinations.coreml.supplied_converters.registration import builds

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Operand

_HALF = 2**16
_POWERS = np.array([2**at for at in range(16)], np.int32)
_SIGNED = np.array([*_POWERS[:15], -(2**15)], np.int32)
"""What the bits of the upper half stand for, in two's complement."""
_FACTORS = np.array([2**at for at in range(17)], np.int32)


def _are_truths(*operands: Any) -> bool:
    return all(is_boolean(operand) if isinstance(operand, Var) else isinstance(operand, bool) for operand in operands)


def _truth(x: Any) -> Any:
    return x if isinstance(x, Var) else np.bool_(x)


def _integer(x: Any) -> Any:
    """Operand as integers: a variable, or a number. Raises ``Unfit`` for a number that Core ML's integers do not hold."""
    if isinstance(x, Var):
        return cast_to(x, torch.int32) if is_boolean(x) else x
    if not -(2**31) <= x < 2**31:
        raise Unfit(f"{x} has more than 32 bits")
    return np.int32(x)


def _halves(x: Any) -> tuple[Any, Any]:
    """Upper 16 bits, with the sign, and lower 16 bits."""
    if not isinstance(x, Var):
        high, low = divmod(int(x), _HALF)
        return np.int32(high), np.int32(low)
    high = mb.floor_div(x=x, y=_HALF)
    return high, mb.sub(x=x, y=mb.mul(x=high, y=_HALF))


def _bits(half: Any) -> Any:
    """Bits of 16-bit halves along a new last axis, the lowest first."""
    if not isinstance(half, Var):
        return np.array([int(half) >> at & 1 for at in range(16)], np.int32)
    whole = mb.floor_div(x=mb.expand_dims(x=half, axes=[-1]), y=_POWERS)
    return mb.sub(x=whole, y=mb.mul(x=mb.floor_div(x=whole, y=2), y=2))


def _combined(x: Any, other: Any, sums: int, common: int) -> Any:
    """Bitwise combination of each half: ``sums`` times the sum, and ``common`` times the bits that both have."""
    halves = []
    for half_x, half_other, stand_for in zip(_halves(x), _halves(other), (_SIGNED, _POWERS), strict=True):
        both = mb.reduce_sum(x=mb.mul(x=mb.mul(x=_bits(half_x), y=_bits(half_other)), y=stand_for), axes=[-1])
        combined = both if common == 1 else mb.mul(x=both, y=common)
        halves.append(mb.add(x=mb.add(x=half_x, y=half_other), y=combined) if sums else combined)
    return mb.add(x=mb.mul(x=halves[0], y=_HALF), y=halves[1])


@builds("bitwise_and", ".scalar_tensor", "and", "__and__", "__iand__", "iand")
def bitwise_and(x: Operand, other: Operand) -> Any:
    """Bitwise and, of truth values too."""
    if _are_truths(x, other):
        return mb.logical_and(x=_truth(x), y=_truth(other))
    return _combined(_integer(x), _integer(other), 0, 1)


@builds("bitwise_or", ".scalar_tensor", "or", "__or__", "__ior__", "ior")
def bitwise_or(x: Operand, other: Operand) -> Any:
    """Bitwise or, of truth values too."""
    if _are_truths(x, other):
        return mb.logical_or(x=_truth(x), y=_truth(other))
    return _combined(_integer(x), _integer(other), 1, -1)


@builds("bitwise_xor", ".scalar_tensor", "xor", "__xor__", "__ixor__", "ixor")
def bitwise_xor(x: Operand, other: Operand) -> Any:
    """Bitwise exclusive or, of truth values too."""
    if _are_truths(x, other):
        return mb.logical_xor(x=_truth(x), y=_truth(other))
    return _combined(_integer(x), _integer(other), 1, -2)


def _factors(places: Any) -> tuple[Any, Any]:
    """2^places for 0 to 31 places, as a product of two 32-bit integers."""
    if isinstance(places, Var):
        first = mb.minimum(x=places, y=np.int32(15))
        return tuple(mb.gather(x=_FACTORS, indices=exponent, axis=0) for exponent in (first, mb.sub(x=places, y=first)))
    if not 0 <= places < 32:
        raise Unfit(f"a shift by {places}")
    first = min(int(places), 15)
    return _FACTORS[first], _FACTORS[places - first]


@builds("bitwise_left_shift", "lshift", "__lshift__", "__ilshift__", ".tensor_scalar", ".scalar_tensor")
def bitwise_left_shift(x: Operand, other: Operand) -> Any:
    """Left shift, by up to 31 places."""
    first, second = _factors(_integer(other))
    return mb.mul(x=mb.mul(x=_integer(x), y=first), y=second)


@builds("bitwise_right_shift", "rshift", "__rshift__", "__irshift__", ".tensor_scalar", ".scalar_tensor")
def bitwise_right_shift(x: Operand, other: Operand) -> Any:
    """Arithmetic right shift, by up to 31 places."""
    first, second = _factors(_integer(other))
    return mb.floor_div(x=mb.floor_div(x=_integer(x), y=first), y=second)
