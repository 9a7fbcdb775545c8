"""Quantization of activations, of `coremltools.converters.mil.mil.ops.defs.iOS17.quantization_ops`."""

from __future__ import annotations

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.element_types import DTYPES
from modellint.destinations.coreml.mil.operation_registry import operation

_RANGES = {"int8": (-128, 127), "uint8": (0, 255)}


@operation()
def quantize(
    input: Tensor,  # noqa: A002
    scale: Tensor,
    output_dtype: str,
    zero_point: Tensor | None = None,
    axis: int | None = None,
) -> Tensor:
    """``clip(round(input / scale) + zero_point)``, halves rounded to even; vectors lie along ``axis``."""
    whole = torch.round(input / along(scale, input, axis))
    if zero_point is not None:
        whole = whole + along(zero_point, input, axis).to(whole.dtype)
    return whole.clamp(*_RANGES[output_dtype]).to(DTYPES[output_dtype])


@operation()
def dequantize(
    input: Tensor,  # noqa: A002
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int | None = None,
) -> Tensor:
    """``scale * (input - zero_point)``; vectors lie along ``axis``."""
    whole = input.to(scale.dtype)
    if zero_point is not None:
        whole = whole - along(zero_point, input, axis).to(scale.dtype)
    return along(scale, input, axis) * whole


def along(vector: Tensor, x: Tensor, axis: int | None) -> Tensor:
    """A scalar as it is, a vector shaped to be broadcast along an axis of ``x``."""
    if vector.dim() != 1 or axis is None:
        return vector
    sizes = [1] * x.dim()
    sizes[axis] = -1
    return vector.reshape(sizes)
