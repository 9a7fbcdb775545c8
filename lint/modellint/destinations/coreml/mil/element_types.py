"""MIL's element types as torch's.

fp16 is held as float32 whose numbers are all representable in half precision: an operation on fp16 computes in single
precision, and its result is rounded. This is MIL's semantics by our reading; Apple's hardware may accumulate otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy
import torch
from torch import Tensor

DTYPES = {
    "fp16": torch.float32,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "bool": torch.bool,
    "int4": torch.int8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint1": torch.uint8,
    "uint2": torch.uint8,
    "uint3": torch.uint8,
    "uint4": torch.uint8,
    "uint6": torch.uint8,
    "uint8": torch.uint8,
    "uint16": torch.int32,
    "uint32": torch.int64,
    "uint64": torch.int64,
}
"""What holds each of MIL's element types. torch computes little on wide unsigned integers, so that wider signed ones hold them."""


def rounded_to_half(tensor: Tensor) -> Tensor:
    """The nearest fp16 numbers, held in float32; what is larger than 65504 overflows to infinity."""
    return tensor.to(torch.float16).to(torch.float32)


def tensor_of(value: Any, dtype: str) -> Tensor:
    """A constant of a program (a numpy array or scalar) as a tensor that holds MIL's ``dtype``."""
    array = numpy.asarray(value)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(numpy.int64)
    elif array.dtype.kind not in "biuf":
        # coremltools holds integers of 1 to 6 bits in types of its own; they are numbers all the same.
        array = array.astype(numpy.int8 if dtype.startswith("int") else numpy.uint8)
    tensor = torch.from_numpy(numpy.array(array, copy=None if array.flags.writeable else True, order="C"))
    return as_dtype(tensor.reshape(array.shape), dtype)


def as_dtype(tensor: Tensor, dtype: str) -> Tensor:
    """A tensor converted to what holds MIL's ``dtype``, rounded where that is fp16."""
    if dtype == "fp16":
        return tensor.to(torch.float32) if tensor.dtype == torch.float16 else rounded_to_half(tensor)
    storage = DTYPES[dtype]
    return tensor if tensor.dtype == storage else tensor.to(storage)
