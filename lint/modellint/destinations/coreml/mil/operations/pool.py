"""Pooling, of `coremltools.converters.mil.mil.ops.defs.iOS15.pool`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from modellint.destinations.coreml.mil.operation_registry import operation
from modellint.destinations.coreml.mil.operations.conv import Margins, margins, padded

_MAX = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_AVERAGE = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


@operation(moves=True)
def max_pool(
    x: Tensor,
    kernel_sizes: list[int],
    pad_type: str,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Max pooling; padding is never the maximum."""
    strides = strides or [1] * len(kernel_sizes)
    around, missing = _around(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    pool = _MAX[len(kernel_sizes)]
    if _native(around, missing, kernel_sizes):
        return pool(x, kernel_sizes, strides, [before for before, _ in around])
    return pool(padded(x, _longer(around, missing), -math.inf), kernel_sizes, strides)


@operation()
def avg_pool(
    x: Tensor,
    kernel_sizes: list[int],
    pad_type: str,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    exclude_padding_from_average: bool = False,
    ceil_mode: bool = False,
) -> Tensor:
    """Average pooling, in which padding counts as zeros unless it is excluded.

    What ``ceil_mode`` lets a window reach over beyond the padding counts as padding does, unlike in PyTorch: devices divide by the whole
    window (coremltools #2844, #2772).
    """
    strides = strides or [1] * len(kernel_sizes)
    around, missing = _around(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    pool = _AVERAGE[len(kernel_sizes)]
    if _native(around, missing, kernel_sizes):
        before = [margin for margin, _ in around]
        return pool(x, kernel_sizes, strides, before, count_include_pad=not exclude_padding_from_average)
    longer = _longer(around, missing)
    mean = pool(padded(x, longer), kernel_sizes, strides)
    if not exclude_padding_from_average:
        return mean
    counted = torch.ones([1, 1, *x.shape[2:]], dtype=x.dtype)
    return mean / pool(padded(counted, longer), kernel_sizes, strides)


@operation()
def l2_pool(
    x: Tensor,
    kernel_sizes: list[int],
    pad_type: str,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """L2 pooling: the square root of the sum of squares of each window."""
    strides = strides or [1] * len(kernel_sizes)
    around, missing = _around(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    squares = padded(x * x, _longer(around, missing))
    return torch.sqrt(_AVERAGE[len(kernel_sizes)](squares, kernel_sizes, strides) * math.prod(kernel_sizes))


def _around(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pad_type: str,
    pad: Sequence[int] | None,
    ceil_mode: bool,
) -> tuple[Margins, list[int]]:
    """The padding, and how much more the last windows need that ``ceil_mode`` adds.

    The number of windows is `coremltools.converters.mil.mil.ops.defs._utils.spatial_dimensions_out_shape`'s. Unlike
    PyTorch's, it keeps a window that begins behind an input without padding.
    """
    sizes = x.shape[2:]
    around = margins(pad_type, pad, sizes, kernel, strides, [1] * len(kernel))
    missing = [0] * len(kernel)
    if ceil_mode:
        for at, (before, after) in enumerate(around):
            whole = sizes[at] + before + after
            count = (whole - kernel[at] + strides[at] - 1) // strides[at] + 1
            if before + after > 0 and (count - 1) * strides[at] >= sizes[at] + (before + after) / 2:
                count -= 1
            missing[at] = max(0, (count - 1) * strides[at] + kernel[at] - whole)
    return around, missing


def _native(around: Margins, missing: Sequence[int], kernel: Sequence[int]) -> bool:
    """Whether PyTorch's own padding, symmetric and of at most half a window, is what is asked for."""
    if any(missing):
        return False
    return all(before == after <= width // 2 for (before, after), width in zip(around, kernel, strict=True))


def _longer(around: Margins, missing: Sequence[int]) -> Margins:
    return [(before, after + more) for (before, after), more in zip(around, missing, strict=True)]
