"""Truth values and bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.coreml.converters.registration import expresses

if TYPE_CHECKING:
    from modellint.coreml.converters.arguments import Operand

_BITS = 31


def _bits(x: Any) -> Any:
    """The lowest 31 bits of integers along a new last axis; two's complement, as floor division has it."""
    powers = torch.tensor([2**at for at in range(_BITS)])
    return torch.remainder(torch.div(x.unsqueeze(-1), powers, rounding_mode="floor"), 2)


def _from_bits(bits: Any, negative: Any) -> Any:
    # In two halves, each of which single precision holds: sums of coremltools' integers may be computed in it.
    weights = torch.tensor([2**at for at in range(16)])
    low = (bits[..., :16] * weights).sum(-1).long()
    high = (bits[..., 16:] * weights[:15]).sum(-1).long()
    return torch.where(negative, high - 2**15, high) * 2**16 + low


def _tensors(x: Any, other: Any) -> tuple[Any, Any]:
    if not isinstance(x, torch.Tensor):
        x = torch.full_like(other, x)
    if not isinstance(other, torch.Tensor):
        other = torch.full_like(x, other)
    if x.dtype != other.dtype:
        x, other = x.long(), other.long()
    x, other = torch.broadcast_tensors(x, other)  # type: ignore[no-untyped-call]
    return x, other


@expresses("bitwise_and", "and", "__and__", "__iand__", "iand")
def bitwise_and(x: Operand, other: Operand) -> Any:
    """Both, for truth values and for the bits of integers."""
    x, other = _tensors(x, other)
    if x.dtype == torch.bool:
        return torch.logical_and(x, other)
    return _from_bits(_bits(x) * _bits(other), torch.logical_and(x < 0, other < 0))


@expresses("bitwise_or", "or", "__or__", "__ior__", "ior")
def bitwise_or(x: Operand, other: Operand) -> Any:
    """Either, for truth values and for the bits of integers."""
    x, other = _tensors(x, other)
    if x.dtype == torch.bool:
        return torch.logical_or(x, other)
    return _from_bits(torch.maximum(_bits(x), _bits(other)), torch.logical_or(x < 0, other < 0))


@expresses("bitwise_xor", "xor", "__xor__", "__ixor__", "ixor")
def bitwise_xor(x: Operand, other: Operand) -> Any:
    """One of both, for truth values and for the bits of integers."""
    x, other = _tensors(x, other)
    if x.dtype == torch.bool:
        return torch.logical_xor(x, other)
    return _from_bits((_bits(x) - _bits(other)).abs(), torch.logical_xor(x < 0, other < 0))


@expresses("bitwise_left_shift", "lshift", "__lshift__", "__ilshift__", "bitwise_left_shift.tensor_scalar")
def bitwise_left_shift(x: Operand, other: Operand) -> Any:
    """Times a power of two; 31 places at most."""
    x, other = _tensors(x, other)
    powers = torch.tensor([2**at for at in range(_BITS)])
    return x * powers[other]


@expresses("bitwise_right_shift", "rshift", "__rshift__", "__irshift__", "bitwise_right_shift.tensor_scalar")
def bitwise_right_shift(x: Operand, other: Operand) -> Any:
    """Divided by a power of two, and rounded down; 30 places at most."""
    x, other = _tensors(x, other)
    powers = torch.tensor([2**at for at in range(_BITS)])
    return torch.div(x, powers[other], rounding_mode="floor")
