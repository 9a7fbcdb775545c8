"""Element-wise arithmetic, rounding, comparison and elementary functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.private.operator_tables import cast_to, is_boolean, is_integral, mb
from modellint.destinations.coreml.supplied_converters.arguments import Call
from modellint.destinations.coreml.supplied_converters.registration import adapts, builds
from modellint.destinations.decompositions.table import within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Operand, Tensor


@builds("reciprocal")
def reciprocal(x: Tensor) -> Any:
    """Reciprocal, 1 / x; coremltools adds 1e-4 to x."""
    return mb.real_div(x=1.0, y=cast_to(x, torch.float32) if is_integral(x) else x)


def _as_float(x: Any) -> Any:
    return cast_to(x, torch.float32) if is_integral(x) or is_boolean(x) else x


@builds("log")
def log(x: Tensor) -> Any:
    """Natural logarithm; coremltools adds 1e-45 to x, so that zero gives -103.28."""
    return mb.log(x=_as_float(x), epsilon=0.0)


@builds("log2", exactness=within(2))
def log2(x: Tensor) -> Any:
    """Logarithm to base 2."""
    return mb.mul(x=mb.log(x=_as_float(x), epsilon=0.0), y=np.float32(1 / np.log(2.0)))


@builds("log10", exactness=within(2))
def log10(x: Tensor) -> Any:
    """Logarithm to base 10."""
    return mb.mul(x=mb.log(x=_as_float(x), epsilon=0.0), y=np.float32(1 / np.log(10.0)))


@builds("rsqrt")
def rsqrt(x: Tensor) -> Any:
    """Reciprocal square root; coremltools adds 1e-12 to x."""
    return mb.rsqrt(x=_as_float(x), epsilon=0.0)


@adapts("gelu", exactness=within(4))
def gelu(call: Call) -> Any:
    """GELU with the tanh approximation, which coremltools reads of traced models only."""
    if not operator_tables.is_export(call.context) or call.kwargs.get("approximate") != "tanh":
        return NotImplemented
    return mb.gelu(x=call.args[0], mode="TANH_APPROXIMATION")


@builds("round", ".decimals", "special_round", exactness=within(1))
def rounded(x: Tensor, decimals: int | None = None) -> Any:
    """Rounding to decimals; not to tens or hundreds, where coremltools' product in the place of a quotient may miss a tie.

    Integers stay as they are: coremltools refuses them.
    """
    if is_integral(x) and not decimals:
        return mb.identity(x=x)
    if decimals is None or decimals < 0 or is_integral(x):
        return NotImplemented
    if not decimals:
        return mb.round(x=x)
    power = np.float32(10.0**decimals)
    return mb.real_div(x=mb.round(x=mb.mul(x=x, y=power)), y=power)


@builds("pow", ".scalar", ".tensor_tensor", exactness=within(1))
def power_of_two(x: Operand, exponent: Operand) -> Any:
    """2 to the power of a float tensor: devices square what a constant 2 is raised to (coremltools #2628, #2742)."""
    known = not isinstance(x, operator_tables.Var) and x == 2
    if not known or not isinstance(exponent, operator_tables.Var) or is_integral(exponent) or is_boolean(exponent):
        return NotImplemented
    return mb.exp2(x=exponent)


@builds("floor_divide", ".scalar")
def floor_divide(x: Operand, y: Operand) -> Any:
    """Quotient rounded down: of integers an integer, and of floats by one, which coremltools leaves out, rounded or not (#2761).

    coremltools makes a float of every quotient, which is no index, and which float16 rounds above 2048.
    """
    if whole := _as_integers(x, y):
        return mb.floor_div(x=whole[0], y=whole[1])
    return _rounded_down(x) if _divides_by_one(x, y) else NotImplemented


@builds("div", ".tensor_mode", ".scalar_mode")
def div_rounded(x: Operand, y: Operand, rounding_mode: str | None = None) -> Any:
    """Quotient that is rounded, as ``floor_divide``; towards zero of integers alone."""
    whole = _as_integers(x, y) if rounding_mode else None
    if whole and rounding_mode == "trunc":
        sizes, signs = ([make(x=each) for each in whole] for make in (mb.abs, mb.sign))
        return mb.mul(x=mb.floor_div(x=sizes[0], y=sizes[1]), y=mb.mul(x=signs[0], y=signs[1]))
    if whole and rounding_mode == "floor":
        return mb.floor_div(x=whole[0], y=whole[1])
    return _rounded_down(x) if rounding_mode == "floor" and _divides_by_one(x, y) else NotImplemented


@builds("remainder", ".scalar", ".tensor")
def remainder_by_one(x: Tensor, y: Operand) -> Any:
    """Fraction of floats; of what coremltools takes from them it leaves the rounding out, so that nothing is left (#2836)."""
    return mb.sub(x=x, y=mb.floor(x=x)) if _divides_by_one(x, y) else NotImplemented


def _as_integers(*operands: Any) -> tuple[Any, ...] | None:
    """Whole numbers in one type; None where one is no whole number, or all are known, as sizes are: coremltools folds those."""
    if all(not isinstance(each, operator_tables.Var) or each.val is not None for each in operands):
        return None
    if not all(
        is_integral(each) if isinstance(each, operator_tables.Var) else type(each) is int and abs(each) < 2**31
        for each in operands
    ):
        return None
    return tuple(
        cast_to(each, torch.int32) if isinstance(each, operator_tables.Var) else np.int32(each) for each in operands
    )


def _rounded_down(x: Any) -> Any:
    """Floor, but of infinity not a number: so PyTorch divides."""
    return mb.add(x=mb.floor(x=x), y=mb.sub(x=x, y=x))


def _divides_by_one(x: Any, y: Any) -> bool:
    """Whether a divisor is known to be one, and leaves the shape of floats as it is."""
    if not isinstance(x, operator_tables.Var) or is_integral(x) or is_boolean(x):
        return False
    if not isinstance(y, operator_tables.Var):
        return bool(y == 1)
    shape = tuple(x.shape)
    return (
        y.val is not None
        and bool(np.all(y.val == 1))
        and np.ndim(y.val) <= len(shape)
        and (np.size(y.val) == 1 or tuple(np.shape(y.val)) == shape[len(shape) - np.ndim(y.val) :])
    )


@builds("floordiv")
def floordiv(x: Operand, y: Operand) -> Any:
    """Rounded quotient of sizes, an integer as they are; coremltools makes a float of it, which it does not take for a size."""
    if not all(
        is_integral(size) if isinstance(size, operator_tables.Var) else isinstance(size, int) for size in (x, y)
    ):
        return NotImplemented
    x, y = (size if isinstance(size, operator_tables.Var) else np.int32(size) for size in (x, y))
    return mb.floor_div(x=x, y=y)


@builds("gcd")
def gcd(x: Tensor, other: Tensor) -> Any:
    """Greatest common divisor by Euclid's algorithm, in as many steps as 32 bits can take."""
    # Below zero there is room for all numbers of 32 bits.
    x, other = (mb.minimum(x=number, y=mb.sub(x=0, y=number)) for number in (x, other))
    nothing = mb.equal(x=mb.minimum(x=x, y=other), y=0)
    x = mb.select(cond=nothing, a=-1, b=x)
    for _ in range(46):
        divisor = mb.select(cond=mb.equal(x=other, y=0), a=x, b=other)
        whole = mb.floor_div(x=x, y=divisor)
        x, other = divisor, mb.sub(x=x, y=mb.mul(x=whole, y=divisor))
    return mb.select(cond=nothing, a=0, b=mb.sub(x=0, y=x))


@builds("lcm")
def lcm(x: Tensor, other: Tensor) -> Any:
    """Least common multiple."""
    divisor = gcd(x, other)
    divisor = mb.select(cond=mb.equal(x=divisor, y=0), a=1, b=divisor)
    return mb.abs(x=mb.mul(x=mb.floor_div(x=x, y=divisor), y=other))
