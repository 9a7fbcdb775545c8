"""Element-wise arithmetic, rounding, comparison and elementary functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import Function, decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Number, Operand, Tensor


@decomposes("addcmul", exactness=within(1))
def addcmul(x: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number = 1) -> Any:
    """x + value · tensor1 · tensor2; of integers PyTorch takes the whole part of ``value``."""
    value = value if x.is_floating_point() else int(value)
    return x + (tensor1 * tensor2 if value == 1 else value * tensor1 * tensor2)


@decomposes("addcdiv", exactness=within(1))
def addcdiv(x: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number = 1) -> Any:
    """x + value · tensor1 / tensor2."""
    return x + (tensor1 / tensor2 if value == 1 else value * (tensor1 / tensor2))


@decomposes("add", exactness=within(1))
def add(x: Operand, other: Operand, alpha: Number = 1) -> Any:
    """Addition with ``alpha``, x + alpha · other."""
    return x + alpha * other


@decomposes("sub", exactness=within(1))
def sub(x: Operand, other: Operand, alpha: Number = 1) -> Any:
    """Subtraction with ``alpha``, x - alpha · other."""
    return x - alpha * other


@decomposes("rsub", exactness=within(1))
def rsub(x: Operand, other: Operand, alpha: Number = 1) -> Any:
    """Reverse subtraction with ``alpha``, other - alpha · x."""
    return other - alpha * x


@decomposes("clamp", "clip")
def clamp(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Any:  # noqa: A002
    """Clamp by one bound; coremltools takes the largest float32 for the other, and so makes infinities finite, and integers real."""
    low, high = _bound(min, -math.inf), _bound(max, math.inf)
    if (low is None) == (high is None):
        return NotImplemented
    bound: Any = high if low is None else low
    if not x.is_floating_point():
        if x.dtype is torch.bool or isinstance(bound, float):
            return NotImplemented
        if not isinstance(bound, torch.Tensor):
            bound = torch.full([1] * x.dim(), bound, dtype=x.dtype)
    if isinstance(bound, torch.Tensor):
        if bound.dtype is not x.dtype:
            return NotImplemented
        return torch.minimum(x, bound) if low is None else torch.maximum(x, bound)
    return torch.clamp_max(x, float(bound)) if low is None else torch.clamp_min(x, float(bound))


def _bound(bound: Operand | None, infinite: float) -> Operand | None:
    """A bound; None where it bounds nothing."""
    return bound if bound is None or isinstance(bound, torch.Tensor) or float(bound) != infinite else None


@decomposes("expm1", exactness=within(4))
def expm1(x: Tensor) -> Any:
    """exp(x) - 1, exact near zero (W. Kahan's way); coremltools subtracts, which loses all digits there."""
    x = x if x.is_floating_point() else x.float()
    grown = torch.exp(x)
    less = grown - 1
    near = torch.abs(x) < 0.5
    inner = torch.where(torch.logical_and(near, less != 0), grown, 2.0)
    return torch.where(near, torch.where(less == 0, x, (inner - 1) * (x / torch.log(inner))), less)


@decomposes("log1p", exactness=within(4))
def log1p(x: Tensor) -> Any:
    """log(1 + x), exact near zero; coremltools adds first, which loses all digits there."""
    x = x if x.is_floating_point() else x.float()
    far = torch.abs(x) > 1e6
    return torch.where(far, torch.log(1 + x), _log1p(torch.where(far, 0.0, x)))


@decomposes("atan2", exactness=within(4))
def atan2(x: Tensor, other: Tensor) -> Any:
    """Arc tangent of x / other by quadrant, on the axes too, where coremltools gives 0 for pi."""
    x, other = _tensors(x, other)
    x = x if x.is_floating_point() else x.float()
    other = other if other.is_floating_point() else other.float()
    up, along = torch.abs(x), torch.abs(other)
    large, small = torch.maximum(up, along), torch.minimum(up, along)
    ratio = torch.where(large == 0, 0.0, torch.where(up == along, 1.0, small / large))
    angle = torch.atan(ratio)
    angle = torch.where(up > along, math.pi / 2 - angle, angle)
    # A zero may be a negative one.
    angle = torch.where(torch.where(other == 0, 1 / other, other) < 0, math.pi - angle, angle)
    angle = torch.where(torch.where(x == 0, 1 / x, x) < 0, -angle, angle)
    return torch.where(torch.logical_or(torch.isnan(x), torch.isnan(other)), x + other, angle)


@decomposes("softplus", exactness=within(4))
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """Softplus with a threshold that is low enough to show: above it the identity."""
    scaled = x * beta
    return torch.where(scaled > threshold, x, torch.log1p(torch.exp(scaled)) / beta)


@decomposes("prelu")
def prelu(x: Tensor, weight: Tensor) -> Any:
    """PReLU with slopes that differ by channel at any rank, or are computed."""
    slopes = weight.reshape([-1] + [1] * (x.dim() - 2) if x.dim() > 1 else [1] * x.dim())
    return torch.where(x > 0, x, slopes * x)


@decomposes("sqrt", exactness=within(1))
def sqrt(x: Tensor) -> Any:
    """Square root, of integers too."""
    return torch.sqrt(x.float())


def _of_integers(name: str) -> Function:
    @decomposes(name, exactness=within(4))
    def function(x: Tensor) -> Any:
        """A function of floating point, of integers and truth values too."""
        return getattr(torch, name)(x.float())

    return function


OF_INTEGERS = tuple(
    map(
        _of_integers,
        ["exp", "exp2", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "atanh", "sigmoid", "erf"],
    )
)
"""Functions of floating point, of integers."""


@decomposes("masked_fill", ".scalar", ".tensor")
def masked_fill(x: Tensor, mask: Tensor, value: Operand) -> Any:
    """Masked fill whose mask may be larger than the tensor."""
    shape = torch.broadcast_shapes(x.shape, mask.shape)  # type: ignore[no-untyped-call]
    return torch.masked_fill(x.expand(shape) + 0, mask, value)


@decomposes("trunc", "fix")
def trunc(x: Tensor) -> Any:
    """Truncation towards zero."""
    return torch.where(x < 0, torch.ceil(x), torch.floor(x)) if x.is_floating_point() else x


@decomposes("fmod", exactness=within(4))
def fmod(x: Operand, other: Operand) -> Any:
    """Remainder with the sign of the dividend."""
    x, other = _tensors(x, other)
    size, divisor = torch.abs(x), torch.abs(other)
    remainder = torch.remainder(size, divisor)
    if x.is_floating_point():
        # Core ML subtracts a multiple of the divisor, which an infinite number is not, nor a quotient beyond all numbers. That of a
        # large one is rounded, and leaves more than the divisor.
        remainder = torch.where(torch.abs(remainder) >= divisor, torch.remainder(remainder, divisor), remainder)
        tiny = torch.logical_and(divisor > 0, isfinite(size))
        remainder = torch.where(torch.logical_and(tiny, isinf(size / divisor)), 0.0, remainder)
        remainder = torch.where(torch.logical_and(tiny, isinf(divisor)), size, remainder)
        return torch.where(torch.logical_and(x == 0, divisor > 0), x, torch.where(x < 0, -remainder, remainder))
    return torch.where(x < 0, -remainder, remainder)


def _tensors(x: Any, other: Any) -> tuple[Any, Any]:
    wanted = torch.result_type(x, other)
    x = x.to(wanted) if isinstance(x, torch.Tensor) else torch.full_like(other, x, dtype=wanted)
    other = other.to(wanted) if isinstance(other, torch.Tensor) else torch.full_like(x, other, dtype=wanted)
    return x, other


@decomposes("signbit")
def signbit(x: Tensor) -> Any:
    """Sign bit, of negative zero too."""
    return torch.where(x == 0, torch.reciprocal(x) < 0, x < 0) if x.is_floating_point() else x < 0


@decomposes("copysign")
def copysign(x: Tensor, other: Operand) -> Any:
    """Magnitude of x with the sign of ``other``."""
    x, other = _tensors(x, other)
    x, other = x.float(), other.float()
    return torch.where(signbit(other), -torch.abs(x), torch.abs(x))


@decomposes("isinf")
def isinf(x: Tensor) -> Any:
    """Test for infinity."""
    return (
        torch.abs(x) > torch.finfo(torch.float32).max
        if x.is_floating_point()
        else torch.zeros_like(x, dtype=torch.bool)
    )


@decomposes("isposinf")
def isposinf(x: Tensor) -> Any:
    """Test for positive infinity."""
    return x > torch.finfo(torch.float32).max if x.is_floating_point() else torch.zeros_like(x, dtype=torch.bool)


@decomposes("isneginf")
def isneginf(x: Tensor) -> Any:
    """Test for negative infinity."""
    return x < torch.finfo(torch.float32).min if x.is_floating_point() else torch.zeros_like(x, dtype=torch.bool)


@decomposes("isfinite")
def isfinite(x: Tensor) -> Any:
    """Test for finite numbers."""
    return (
        torch.abs(x) <= torch.finfo(torch.float32).max
        if x.is_floating_point()
        else torch.ones_like(x, dtype=torch.bool)
    )


@decomposes("isclose")
def isclose(x: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Test for equality up to a tolerance."""
    near = torch.abs(x - other) <= atol + torch.abs(rtol * other)
    close = torch.logical_or(x == other, torch.logical_and(near, isfinite(x - other)))
    return torch.logical_or(close, torch.logical_and(torch.isnan(x), torch.isnan(other))) if equal_nan else close


@decomposes("sgn")
def sgn(x: Tensor) -> Any:
    """Sign of real numbers."""
    return torch.sign(x)


@decomposes("angle")
def angle(x: Tensor) -> Any:
    """Angle of real numbers: 0, or pi for negative ones."""
    result = torch.where(x < 0, torch.pi, 0.0).to(torch.float32)
    return torch.where(torch.isnan(x), x, result) if x.is_floating_point() else result


def _ignoring_nan(extreme: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def of_numbers(x: Tensor, other: Tensor) -> Any:
        """Maximum or minimum that is NaN only where both are."""
        x, other = _tensors(x, other)
        result = extreme(x, other)
        if not x.is_floating_point():
            return result
        return torch.where(torch.isnan(x), other, torch.where(torch.isnan(other), x, result))

    return of_numbers


decomposes("fmax")(_ignoring_nan(torch.maximum))


decomposes("fmin")(_ignoring_nan(torch.minimum))


@decomposes("hypot", exactness=within(4))
def hypot(x: Tensor, other: Tensor) -> Any:
    """Hypotenuse, sqrt(x² + other²), without overflow."""
    x, other = torch.abs(x), torch.abs(other)
    large, small = torch.maximum(x, other), torch.minimum(x, other)
    ratio = torch.where(torch.logical_or(large == 0, isinf(large)), 0.0, small / large)
    length = large * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.logical_or(isinf(x), isinf(other)), torch.inf, length)


@decomposes("lerp", ".scalar", ".tensor", exactness=within(2))
def lerp(x: Tensor, end: Tensor, weight: Operand) -> Any:
    """Linear interpolation between x and ``end``."""
    far = end - x
    if not isinstance(weight, torch.Tensor):
        return x + weight * far if abs(weight) < 0.5 else end - far * (1 - weight)
    return torch.where(torch.abs(weight) < 0.5, x + weight * far, end - far * (1 - weight))


@decomposes("ldexp", exactness=within(1))
def ldexp(x: Tensor, other: Tensor) -> Any:
    """x · 2^other."""
    # 9.1 makes exp(y · ln 2) of a power of two, which is 8 units off.
    return x * torch.exp2(other.to(torch.float32))


@decomposes("asinh", exactness=within(16))
def asinh(x: Tensor) -> Any:
    """Inverse hyperbolic sine."""
    size = torch.abs(x)
    near = size + size * size / (1 + torch.sqrt(size * size + 1))
    result = torch.where(
        size > 1e4, torch.log(torch.where(size > 1, size, 1.0)) + 0.6931471805599453, _log1p(torch.clamp_max(near, 1e8))
    )
    # Zero keeps its sign, by which `atan2` and a division decide.
    return torch.where(x == 0, x, torch.where(x < 0, -result, result))


@decomposes("acosh", exactness=within(16))
def acosh(x: Tensor) -> Any:
    """Inverse hyperbolic cosine."""
    more = x - 1
    return torch.where(
        x > 1e4,
        torch.log(torch.where(x > 1, x, 1.0)) + 0.6931471805599453,
        _log1p(more + torch.sqrt(more * (more + 2))),
    )


def _log1p(x: Any) -> Any:
    """log(1 + x), exact near zero."""
    whole = 1 + x
    return torch.where(whole == 1, x, torch.log(whole) * (x / torch.where(whole == 1, 1.0, whole - 1)))


@decomposes("float_power", ".tensor_scalar", ".scalar", ".tensor_tensor", exactness=within(4))
def float_power(x: Operand, exponent: Operand) -> Any:
    """Power in floating point, of integers too."""
    x = x.float() if isinstance(x, torch.Tensor) else float(x)
    return torch.pow(x, exponent.float() if isinstance(exponent, torch.Tensor) else float(exponent))


@decomposes("polar", exactness=within(4))
def polar(magnitude: Tensor, angle: Tensor) -> Any:
    """Complex number of a magnitude and an angle."""
    return torch.complex(magnitude * torch.cos(angle), magnitude * torch.sin(angle))


@decomposes("_is_all_true")
def is_all_true(x: Tensor) -> Any:
    """Whether all truth values hold."""
    return torch.all(x)


@decomposes("_is_any_true")
def is_any_true(x: Tensor) -> Any:
    """Whether any truth value holds."""
    return torch.any(x)


@decomposes("log_sigmoid", exactness=within(8))
def log_sigmoid(x: Tensor) -> Any:
    """Logarithm of the sigmoid, without overflow."""
    return torch.clamp_max(x, 0.0) - _log1p(torch.exp(-torch.abs(x)))
