"""Pooling, padding, and folding of windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Number, Tensor


def _each(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


class _Windows:
    """Geometry of pooling windows: sizes, strides, padding, dilation, and how many there are."""

    def __init__(
        self, x: Any, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> None:
        self.rank = rank
        self.sizes = [int(size) for size in x.shape[-rank:]]
        self.kernel = _each(kernel, rank)
        self.stride = _each(stride or kernel, rank)
        self.padding = _each(padding, rank)
        self.dilation = _each(dilation, rank)
        self.out, self.cut = [], False
        for size, width, step, pad, far in zip(
            self.sizes, self.kernel, self.stride, self.padding, self.dilation, strict=True
        ):
            room = size + 2 * pad - far * (width - 1) - 1
            out = (room + (step - 1 if ceil_mode else 0)) // step + 1
            if ceil_mode and (out - 1) * step >= size + pad:
                # No window begins behind the input.
                out, self.cut = out - 1, True
            self.out.append(out)

    def _behind(self) -> list[int]:
        """How far windows reach behind the input, along each axis."""
        axes = zip(self.sizes, self.kernel, self.stride, self.padding, self.dilation, self.out, strict=True)
        return [
            max(0, (out - 1) * step + far * (width - 1) + 1 - size - pad) for size, width, step, pad, far, out in axes
        ]

    def reaches_over(self) -> bool:
        """Whether a window reaches over beyond the padding."""
        return any(behind > pad for behind, pad in zip(self._behind(), self.padding, strict=True))

    def padded(self, x: Any, value: float) -> Any:
        """The input, padded as far as windows reach."""
        pads: list[int] = []
        for pad, behind in zip(self.padding, self._behind(), strict=True):
            pads = [pad, behind, *pads]
        return torch.nn.functional.pad(x, pads, value=value) if any(pads) else x

    def parts(self, x: Any) -> Iterator[Any]:
        """The elements at each offset within all windows, of the padded input."""
        for offsets in itertools.product(*(range(width) for width in self.kernel)):
            part = x
            for axis, offset in enumerate(offsets):
                begin = offset * self.dilation[axis]
                end = begin + (self.out[axis] - 1) * self.stride[axis] + 1
                part = torch.ops.aten.slice(part, axis - self.rank, begin, end, self.stride[axis])
            yield part

    def places(self) -> Any:
        """Index of each element of the input, -1 in the padding."""
        indices = torch.arange(math.prod(self.sizes)).reshape(1, 1, *self.sizes).float()
        return self.padded(indices, -1.0)


def _largest(x: Any, windows: _Windows, placed: bool = True) -> tuple[Any, Any]:
    """Maximum of each window, and its index."""
    padded = windows.padded(x, -math.inf)
    best: Any = None
    place: Any = None
    for part, at in zip(windows.parts(padded), windows.parts(windows.places()), strict=True):
        at = at.expand(part.shape) + 0
        if best is None:
            best, place = part, at
        else:
            better = part > best
            if part.is_floating_point():
                better = torch.logical_or(better, torch.isnan(part))
            if placed and any(windows.padding):
                # The padding is never the largest, where all else is as small as it.
                better = torch.logical_or(better, place < 0)
            best, place = torch.where(better, part, best), torch.where(better, at, place)
    return best, place.long()


_MAXIMUM = {
    1: torch.ops.aten.max_pool1d,
    2: torch.ops.aten.max_pool2d,
    3: torch.ops.aten.max_pool3d,
}


def _max_pool(rank: int) -> Callable[..., Any]:
    def max_pool(
        x: Tensor,
        kernel_size: list[int],
        stride: list[int] = [],  # noqa: B006
        padding: list[int] = [0],  # noqa: B006
        dilation: list[int] = [1],  # noqa: B006
        ceil_mode: bool = False,
    ) -> Any:
        """Max pooling, dilated too, without a batch, and without windows that begin behind the input."""
        if x.dim() == rank + 1:
            whole = _MAXIMUM[rank](x.unsqueeze(0), kernel_size, stride, padding, dilation, ceil_mode)
            return whole.squeeze(0)
        windows = _Windows(x, rank, kernel_size, stride, padding, dilation, ceil_mode)
        if not windows.cut and all(step == 1 for step in windows.dilation):
            return NotImplemented
        return _largest(x, windows, placed=False)[0]

    return max_pool


def _max_pool_with_indices(rank: int) -> Callable[..., Any]:
    def max_pool_with_indices(
        x: Tensor,
        kernel_size: list[int],
        stride: list[int] = [],  # noqa: B006
        padding: list[int] = [0],  # noqa: B006
        dilation: list[int] = [1],  # noqa: B006
        ceil_mode: bool = False,
    ) -> Any:
        """Max pooling with the index of each maximum."""
        batched = x if x.dim() == rank + 2 else x.unsqueeze(0)
        windows = _Windows(batched, rank, kernel_size, stride, padding, dilation, ceil_mode)
        values, indices = _largest(batched, windows)
        return (values, indices) if x.dim() == rank + 2 else (values.squeeze(0), indices.squeeze(0))

    return max_pool_with_indices


_AVERAGE = {
    1: torch.ops.aten.avg_pool1d,
    2: torch.ops.aten.avg_pool2d,
    3: torch.ops.aten.avg_pool3d,
}


def _avg_pool(rank: int) -> Callable[..., Any]:
    def avg_pool(
        x: Tensor,
        kernel_size: list[int],
        stride: list[int] = [],  # noqa: B006
        padding: list[int] = [0],  # noqa: B006
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        """Average pooling, with a divisor of its own, without a batch, and without windows that begin behind the input.

        What a window reaches over beyond the padding does not count; coremltools 9.0 counts it (#2844).
        """
        if x.dim() == rank + 1:
            divisor = [] if divisor_override is None else [divisor_override]
            whole = _AVERAGE[rank](x.unsqueeze(0), kernel_size, stride, padding, ceil_mode, count_include_pad, *divisor)
            return whole.squeeze(0)
        windows = _Windows(x, rank, kernel_size, stride, padding, [1], ceil_mode)
        if not divisor_override and not windows.cut and not (count_include_pad and windows.reaches_over()):
            return NotImplemented
        if not divisor_override and not windows.cut and not any(windows.padding):
            return _AVERAGE[rank](x, kernel_size, stride, padding, ceil_mode, False)
        total = sum(windows.parts(windows.padded(x, 0.0)))
        if divisor_override:
            return total / divisor_override
        real = torch.ones([1, 1, *windows.sizes])
        if count_include_pad:
            pads = [pad for pad in reversed(windows.padding) for _ in range(2)]
            real = torch.nn.functional.pad(real, pads, value=1.0)
            bare = _Windows(real, rank, kernel_size, stride, [0], [1], ceil_mode)
            bare.out = windows.out
            return total / sum(bare.parts(bare.padded(real, 0.0)))
        return total / sum(windows.parts(windows.padded(real, 0.0)))

    return avg_pool


for _rank in (1, 2, 3):
    decomposes(f"max_pool{_rank}d")(_max_pool(_rank))
    decomposes(f"max_pool{_rank}d_with_indices")(_max_pool_with_indices(_rank))
    decomposes(f"avg_pool{_rank}d", exactness=within(8))(_avg_pool(_rank))


def _adaptive(size: int, out: int) -> list[tuple[int, int]]:
    """Windows of adaptive pooling along an axis: begin and end."""
    return [(at * size // out, -((-(at + 1) * size) // out)) for at in range(out)]


@decomposes("adaptive_avg_pool3d", "_adaptive_avg_pool3d", exactness=within(16))
def adaptive_avg_pool3d(x: Tensor, output_size: list[int]) -> Any:
    """Adaptive average pooling, one axis after another, with a constant matrix for each."""
    for axis, out in enumerate(output_size, start=x.dim() - 3):
        size = int(x.shape[axis])
        if out == size:
            continue
        if out == 1:
            x = x.mean(axis, keepdim=True)
            continue
        rows = [
            [1 / (end - begin) if begin <= at < end else 0.0 for at in range(size)]
            for begin, end in _adaptive(size, out)
        ]
        x = torch.matmul(x.movedim(axis, -1), torch.tensor(rows).T).movedim(-1, axis)
    return x


@decomposes("adaptive_max_pool3d")
@decomposes("adaptive_max_pool2d")
@decomposes("adaptive_max_pool1d")
def adaptive_max_pool(x: Tensor, output_size: list[int]) -> Any:
    """Adaptive max pooling, with the index of each maximum."""
    rank = len(output_size)
    sizes = [int(size) for size in x.shape[-rank:]]
    lead = list(x.shape[:-rank])
    places = torch.arange(math.prod(sizes)).reshape(sizes)
    values, indices = [], []
    for window in itertools.product(*(_adaptive(size, out) for size, out in zip(sizes, output_size, strict=True))):
        part, at = x, places
        for axis, (begin, end) in enumerate(window):
            part = torch.ops.aten.slice(part, axis - rank, begin, end)
            at = torch.ops.aten.slice(at, axis, begin, end)
        part, at = part.reshape(*lead, -1), at.reshape(-1)
        place = torch.index_select(at, 0, torch.argmax(part, -1).reshape(-1)).reshape(lead)
        if x.is_floating_point():
            # Of what is no number, the last one.
            last = torch.amax(torch.where(torch.isnan(part), at, -1), -1)
            place = torch.where(last >= 0, last, place)
        values.append(torch.amax(part, -1))
        indices.append(place)
    return torch.stack(values, -1).reshape(*lead, *output_size), torch.stack(indices, -1).reshape(*lead, *output_size)


@decomposes("col2im", exactness=within(16))
def col2im(
    x: Tensor,
    output_size: list[int],
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Any:
    """Fold: overlapping windows added up, as a transposed convolution with one-hot kernels."""
    high, wide = kernel_size
    counts, full = [], []
    for size, width, far, pad, step in zip(output_size, kernel_size, dilation, padding, stride, strict=True):
        counts.append((size + 2 * pad - far * (width - 1) - 1) // step + 1)
        full.append((counts[-1] - 1) * step + far * (width - 1) + 1)
    batched = x if x.dim() == 3 else x.unsqueeze(0)
    channels = int(batched.shape[1]) // (high * wide)
    kernels = torch.eye(high * wide).reshape(high * wide, 1, high, wide).repeat(channels, 1, 1, 1)
    folded = torch.nn.functional.conv_transpose2d(
        batched.reshape(-1, channels * high * wide, *counts), kernels, stride=stride, dilation=dilation, groups=channels
    )
    for axis, (size, pad, length) in enumerate(zip(output_size, padding, full, strict=True), start=2):
        if pad + size > length:
            missing = list(folded.shape)
            missing[axis] = pad + size - length
            folded = torch.cat([folded, torch.zeros(missing)], axis)
        if pad or pad + size < folded.shape[axis]:
            folded = torch.ops.aten.slice(folded, axis, pad, pad + size)
    return folded if x.dim() == 3 else folded.squeeze(0)


@decomposes("constant_pad_nd")
def constant_pad_nd(x: Tensor, pad: list[int], value: Number = 0) -> Any:
    """Padding with a constant, also of truth values; negative padding crops."""
    if x.dtype is torch.bool:
        return torch.constant_pad_nd(x.to(torch.float32), pad, float(bool(value))) != 0
    for at in range(len(pad) // 2):
        axis = x.dim() - 1 - at
        before, after = (min(0, margin) for margin in pad[2 * at : 2 * at + 2])
        if before or after:
            x = torch.ops.aten.slice(x, axis, -before, x.shape[axis] + after)
    rest = [max(0, margin) for margin in pad]
    return torch.constant_pad_nd(x, rest, value) if any(rest) else x


@decomposes("pad")
def pad(x: Tensor, pad: list[int], mode: str = "constant", value: float | None = None) -> Any:
    """Padding in any mode and direction; negative padding crops."""
    if mode == "constant":
        return torch.constant_pad_nd(x, pad, value or 0.0)
    for at in range(len(pad) // 2):
        axis = x.dim() - 1 - at
        before, after = pad[2 * at : 2 * at + 2]
        if not before and not after:
            continue
        size = int(x.shape[axis])
        wanted = range(-before, size + after)
        match mode:
            case "circular":
                places = [position % size for position in wanted]
            case "replicate":
                places = [min(max(position, 0), size - 1) for position in wanted]
            case _:
                period = max(1, 2 * (size - 1))
                places = [min(position % period, period - position % period) for position in wanted]
        x = torch.index_select(x, axis, torch.tensor(places))
    return x
