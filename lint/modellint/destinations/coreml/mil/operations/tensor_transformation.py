"""Changes of shape and order, of `coremltools.converters.mil.mil.ops.defs.iOS15.tensor_transformation` and later.

Slices follow numpy, as MIL's own `value_inference` does: a mask stands for an omitted bound, whatever the stride's sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from modellint.destinations.coreml.mil.operation_registry import Refusal, axis_within, operation

Flags = Sequence[bool] | None


@operation(moves=True)
def batch_to_space(x: Tensor, block_shape: Sequence[int], crops: Sequence[Sequence[int]]) -> Tensor:
    """Blocks of the batch interleaved into the two spatial axes, of which ``crops`` are then cut off."""
    high, wide = block_shape
    count, channels, height, width = x.shape
    blocks = x.reshape(high, wide, count // (high * wide), channels, height, width)
    whole = blocks.permute(2, 3, 4, 0, 5, 1).reshape(-1, channels, height * high, width * wide)
    (top, bottom), (left, right) = crops
    return whole[:, :, top : height * high - bottom, left : width * wide - right]


@operation(moves=True)
def depth_to_space(x: Tensor, block_size: int) -> Tensor:
    """Channels spread into blocks of space; a block's place is the slowest part of a channel's number."""
    count, channels, height, width = x.shape
    depth = channels // block_size**2
    blocks = x.reshape(count, block_size, block_size, depth, height, width)
    return blocks.permute(0, 3, 4, 1, 5, 2).reshape(count, depth, height * block_size, width * block_size)


@operation(moves=True)
def expand_dims(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Axes of size 1 inserted; ``axes`` number those of the result."""
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


@operation(moves=True)
def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """`torch.nn.PixelShuffle`."""
    return functional.pixel_shuffle(x, upscale_factor)


@operation(moves=True)
def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """`torch.nn.PixelUnshuffle`."""
    return functional.pixel_unshuffle(x, downscale_factor)


@operation(moves=True)
def reshape(x: Tensor, shape: Sequence[int], opset: int) -> Tensor:
    """The same elements in another shape: -1 is what is left over, and 0 takes over a size of ``x``.

    Sizes are matched from the right; one without a counterpart is 1 (iOS 17; before, ranks must be equal).
    """
    if 0 not in shape:
        return x.reshape(list(shape))
    if opset < 17 and len(shape) != x.dim():
        raise Refusal(f"0 in a shape of {len(shape)} sizes, for an input of rank {x.dim()}")
    ahead = len(shape) - x.dim()
    sizes = [x.shape[at - ahead] if at >= ahead else 1 for at in range(len(shape))]
    return x.reshape([copied if size == 0 else size for size, copied in zip(shape, sizes, strict=True)])


@operation(moves=True)
def reshape_like(
    x: Tensor, ref_tensors: list[Tensor], begins: Sequence[int], ends: Sequence[int], end_masks: Sequence[bool]
) -> Tensor:
    """The same elements, in a shape put together from ranges of other tensors' shapes."""
    ranges = zip(ref_tensors, begins, ends, end_masks, strict=True)
    return x.reshape(
        [size for tensor, begin, end, whole in ranges for size in tensor.shape[begin : None if whole else end]]
    )


@operation(moves=True)
def reverse(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """The opposite order along ``axes``, or along all; a scalar has none."""
    return x.flip(list(range(x.dim())) if axes is None else [axis_within(axis, x.dim()) for axis in axes])


@operation(moves=True)
def reverse_sequence(x: Tensor, lengths: Tensor, seq_axis: int = 0, batch_axis: int = 0) -> Tensor:
    """For each item of the batch, the opposite order of the first ``lengths[item]`` elements along ``seq_axis``."""
    moved = x.movedim((batch_axis, seq_axis), (0, 1))
    places = torch.arange(moved.shape[1])
    ends = lengths.to(torch.int64).unsqueeze(1)
    order = torch.where(places < ends, ends - 1 - places, places)
    return moved[torch.arange(moved.shape[0]).unsqueeze(1), order].movedim((0, 1), (batch_axis, seq_axis))


@operation(moves=True)
def slice_by_index(
    x: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    stride: Sequence[int] | None = None,
    begin_mask: Flags = None,
    end_mask: Flags = None,
    squeeze_mask: Flags = None,
) -> Tensor:
    """``x[begin:end:stride]`` along each axis; one in ``squeeze_mask`` is indexed by ``begin`` and falls away."""
    region = _region(x, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    result = x[region.slices]
    if region.reversed:
        result = result.flip(region.reversed)
    return result.squeeze(region.squeezed) if region.squeezed else result


@operation(moves=True)
def slice_by_size(x: Tensor, begin: Sequence[int], size: Sequence[int]) -> Tensor:
    """``size`` elements from ``begin`` on along each axis; -1 is all that follow."""
    for axis, (first, count) in enumerate(zip(begin, size, strict=True)):
        start = first + x.shape[axis] if first < 0 else first
        x = x.narrow(axis, start, x.shape[axis] - start if count == -1 else count)
    return x


@operation(moves=True)
def slice_update(
    x: Tensor,
    update: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    stride: Sequence[int] | None = None,
    begin_mask: Flags = None,
    end_mask: Flags = None,
    squeeze_mask: Flags = None,
) -> Tensor:
    """``x``, where what ``slice_by_index`` would take is replaced by ``update``."""
    region = _region(x, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    result = x.clone(memory_format=torch.contiguous_format)
    place = result[region.slices]
    written = update.reshape(place.shape)
    place.copy_(written.flip(region.reversed) if region.reversed else written)
    return result


@operation(moves=True)
def sliding_windows(x: Tensor, axis: int, size: int, stride: int = 1) -> Tensor:
    """All windows of ``size`` along ``axis``; the elements of a window are the axis after it."""
    axis = axis_within(axis, x.dim())
    return x.unfold(axis, size, stride).movedim(-1, axis + 1)


@operation(moves=True)
def space_to_batch(x: Tensor, block_shape: Sequence[int], paddings: Sequence[Sequence[int]]) -> Tensor:
    """The two spatial axes, padded with zeros, dealt out to the batch by their place in a block."""
    high, wide = block_shape
    (top, bottom), (left, right) = paddings
    padded = functional.pad(x, [left, right, top, bottom])
    count, channels, height, width = padded.shape
    blocks = padded.reshape(count, channels, height // high, high, width // wide, wide)
    return blocks.permute(3, 5, 0, 1, 2, 4).reshape(count * prod(block_shape), channels, height // high, width // wide)


@operation(moves=True)
def space_to_depth(x: Tensor, block_size: int) -> Tensor:
    """The inverse of ``depth_to_space``."""
    count, channels, height, width = x.shape
    blocks = x.reshape(count, channels, height // block_size, block_size, width // block_size, block_size)
    return blocks.permute(0, 3, 5, 1, 2, 4).reshape(count, -1, height // block_size, width // block_size)


@operation(moves=True)
def squeeze(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Without axes of size 1: all of them, or those among ``axes`` that have it."""
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


@operation(moves=True)
def transpose(x: Tensor, perm: Sequence[int]) -> Tensor:
    """Axes in another order."""
    return x.permute(list(perm))


class _Region(NamedTuple):
    """A slice that torch can take: it has no negative strides."""

    slices: tuple[slice, ...]
    reversed: tuple[int, ...]
    """Axes whose elements MIL takes in the opposite order."""
    squeezed: tuple[int, ...]


def _region(
    x: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    stride: Sequence[int] | None,
    begin_mask: Flags,
    end_mask: Flags,
    squeeze_mask: Flags,
) -> _Region:
    slices, backward, squeezed = [], [], []
    for axis, size in enumerate(x.shape):
        first = None if begin_mask is not None and begin_mask[axis] else begin[axis]
        if squeeze_mask is not None and squeeze_mask[axis]:
            index = first or 0
            if not -size <= index < size:
                raise Refusal(f"index {index} into {size}")
            slices.append(slice(index % size, index % size + 1))
            squeezed.append(axis)
            continue
        last = None if end_mask is not None and end_mask[axis] else end[axis]
        chosen = range(size)[first : last : 1 if stride is None else stride[axis]]
        if chosen.step < 0:
            backward.append(axis)
            chosen = chosen[::-1]
        slices.append(slice(chosen.start, max(chosen.start, chosen.stop), chosen.step))
    return _Region(tuple(slices), tuple(backward), tuple(squeezed))
