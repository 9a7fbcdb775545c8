"""Compressed weights, of `coremltools.converters.mil.mil.ops.defs.iOS16.constexpr_ops` and `iOS18.compression`.

iOS 16 packs bits into bytes, the least significant first, and passes the shape; iOS 18 types them (``uint1`` to ``uint6``)
and allows blocks: along each axis, a parameter's element counts for a run of the weight's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.element_types import as_dtype
from modellint.destinations.coreml.mil.operation_registry import operation
from modellint.destinations.coreml.mil.operations.quantization import dequantize


@operation()
def constexpr_cast(source_val: Tensor, output_dtype: str) -> Tensor:
    """Weights of another element type."""
    return as_dtype(source_val, output_dtype)


@operation()
def constexpr_affine_dequantize(quantized_data: Tensor, zero_point: Tensor, scale: Tensor, axis: int) -> Tensor:
    """``scale * (quantized_data - zero_point)``; vectors lie along ``axis``."""
    return dequantize(quantized_data, scale, zero_point, axis)


@operation()
def constexpr_blockwise_shift_scale(data: Tensor, scale: Tensor, offset: Tensor | None = None) -> Tensor:
    """``scale * (data - offset)``, scale and offset by block."""
    whole = data.to(scale.dtype)
    if offset is not None:
        whole = whole - _spread(offset.to(scale.dtype), data.shape)
    return _spread(scale, data.shape) * whole


@operation(moves=True)
def constexpr_lut_to_dense(
    indices: Tensor, lut: Tensor, shape: list[int] | None = None, vector_axis: int | None = None
) -> Tensor:
    """Elements of a look-up table.

    iOS 16: ``lut`` is a vector, ``indices`` are packed in ``log2`` of its length bits. iOS 18: ``lut`` is of shape
    (\\*blocks, entries, vector), and an entry's elements follow each other along ``vector_axis``.
    """
    if shape is not None:
        return lut[_unpacked(indices, (lut.numel() - 1).bit_length(), math.prod(shape))].reshape(shape)
    entries, width = lut.shape[-2:]
    rank = indices.dim()
    # The number of the block that each element is in, times the entries of a block, is where its entry starts.
    block = torch.arange(math.prod(lut.shape[:-2])).reshape(lut.shape[:-2])
    start = _spread(block, indices.shape) * entries
    vectors = lut.reshape(-1, width)[start + indices.long()]
    if width == 1:
        return vectors[..., 0]
    axis = (0 if vector_axis is None else vector_axis) % rank
    return vectors.movedim(-1, axis + 1).flatten(axis, axis + 1)


@operation(moves=True)
def constexpr_sparse_to_dense(nonzero_data: Tensor, mask: Tensor, shape: list[int] | None = None) -> Tensor:
    """``nonzero_data`` where the mask's bits are set, in row-major order, and zeros elsewhere."""
    if shape is not None:
        mask = _unpacked(mask, 1, math.prod(shape)).reshape(shape)
    dense = nonzero_data.new_zeros(mask.shape)
    dense[mask != 0] = nonzero_data
    return dense


@operation(moves=True)
def constexpr_lut_to_sparse(
    indices_mask: Tensor, indices_nonzero_data: Tensor, lut: Tensor, vector_axis: int | None = None
) -> tuple[Tensor, Tensor]:
    """`constexpr_lut_to_dense` of sparse indices: the mask, longer by the entries' length, and the nonzero data."""
    indices = constexpr_sparse_to_dense(indices_nonzero_data, indices_mask)
    dense = constexpr_lut_to_dense(indices, lut, vector_axis=vector_axis)
    mask = indices_mask
    if vector_axis is not None:
        mask = mask.repeat_interleave(lut.shape[-1], vector_axis)
    return mask, dense[mask != 0]


@operation()
def constexpr_sparse_blockwise_shift_scale(
    data_mask: Tensor, nonzero_data: Tensor, scale: Tensor, offset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`constexpr_blockwise_shift_scale` of sparse data: the mask, and the nonzero data."""
    dense = constexpr_blockwise_shift_scale(constexpr_sparse_to_dense(nonzero_data, data_mask), scale, offset)
    return data_mask, dense[data_mask != 0]


def _unpacked(packed: Tensor, bits: int, count: int) -> Tensor:
    """``count`` integers of so many bits each, from bytes whose least significant bit comes first."""
    places = torch.arange(8, dtype=torch.uint8)
    stream = ((packed.to(torch.uint8)[:, None] >> places) & 1).reshape(-1)[: count * bits].reshape(count, bits).long()
    return (stream << torch.arange(bits)).sum(-1)


def _spread(blocks: Tensor, shape: Sequence[int]) -> Tensor:
    """One element for each element of ``shape``, from one for each block; a size of 1 stays, to be broadcast."""
    for axis, size in enumerate(shape):
        if 1 < blocks.shape[axis] < size:
            blocks = blocks.repeat_interleave(size // blocks.shape[axis], axis)
    return blocks
