"""Exponent, significand and bits of numbers in single precision, by exact steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.elementwise import signbit
from modellint.destinations.decompositions.table import decomposes

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Dtype, Tensor

_STEPS = (64, 64, 32, 16, 8, 4, 2, 1)
_LARGEST = torch.finfo(torch.float32).max


def _parts(size: Any) -> tuple[Any, Any, Any]:
    """Significand in [1/2, 1), the power of two that scales it, and the exponent, of a positive number."""
    scale, exponent = torch.ones_like(size), torch.zeros_like(size)
    for step in _STEPS:
        large, small = size >= 2.0**step, size < 2.0**-step
        scale = torch.where(large, scale * 2.0**step, torch.where(small, scale * 2.0**-step, scale))
        exponent = torch.where(large, exponent + step, torch.where(small, exponent - step, exponent))
        size = torch.where(large, size * 2.0**-step, torch.where(small, size * 2.0**step, size))
    whole = size >= 1
    return (
        torch.where(whole, size * 0.5, size),
        torch.where(whole, scale * 2, scale),
        torch.where(whole, exponent + 1, exponent),
    )


def _is_plain(x: Any) -> Any:
    return torch.logical_and(x != 0, x.abs() <= _LARGEST)


@decomposes("frexp")
def frexp(x: Tensor) -> Any:
    """Significand and exponent."""
    plain = _is_plain(x)
    fraction, _, exponent = _parts(torch.where(plain, x.abs(), 1.0))
    fraction = torch.where(x < 0, -fraction, fraction)
    return torch.where(plain, fraction, x), torch.where(plain, exponent, 0.0).to(torch.int32)


@decomposes("nextafter")
def nextafter(x: Tensor, other: Tensor) -> Any:
    """Next representable number in the direction of ``other``."""
    x, other = torch.broadcast_tensors(x, other)  # type: ignore[no-untyped-call]
    size = x.abs()
    fraction, scale, _ = _parts(torch.where(_is_plain(x), size, 1.0))
    # Below the smallest of these all distances are the same.
    apart = torch.clamp_min(scale, 2.0**-125) * 2.0**-24
    back = torch.where(torch.logical_and(fraction == 0.5, scale > 2.0**-125), apart * 0.5, apart)
    outward = torch.where(x > 0, other > x, other < x)
    neighbour = torch.where(outward, torch.where(size == _LARGEST, torch.inf, size + apart), size - back)
    neighbour = torch.where(torch.logical_and(size > _LARGEST, torch.logical_not(outward)), _LARGEST, neighbour)
    neighbour = torch.where(x < 0, -neighbour, neighbour)
    neighbour = torch.where(x == 0, torch.sign(other) * 2.0**-149, neighbour)
    neighbour = torch.where(x == other, other, neighbour)
    return torch.where(torch.logical_or(torch.isnan(x), torch.isnan(other)), torch.nan, neighbour)


@decomposes("view.dtype")
def view_dtype(x: Tensor, dtype: Dtype) -> Any:
    """Bits of numbers in single precision as int32."""
    if x.dtype != torch.float32 or dtype != torch.int32:
        raise NotImplementedError("bits of other types")
    plain = _is_plain(x)
    fraction, scale, exponent = _parts(torch.where(plain, x.abs(), 1.0))
    normal = (exponent + 126).to(torch.int32) * 2**23 + (fraction * 2.0**24 - 2.0**23).to(torch.int32)
    tiny = torch.where(plain, fraction * scale * 2.0**75 * 2.0**74, 0.0)
    small = torch.where(exponent < -125, tiny, 0.0).to(torch.int32)
    bits = torch.where(exponent < -125, small, normal)
    special = (x != 0).to(torch.int32) * 0x7F800000 + torch.isnan(x).to(torch.int32) * 0x400000
    bits = torch.where(plain, bits, special)
    # Core ML's integers do not reach 2**31.
    return torch.where(torch.logical_and(signbit(x), torch.logical_not(torch.isnan(x))), bits - 2**30 - 2**30, bits)
