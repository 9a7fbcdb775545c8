"""Reductions, of `coremltools.converters.mil.mil.ops.defs.iOS15.reduction` and later.

Integers are reduced exactly or in double precision, and the result is truncated to the input's type.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.operation import operation

Axes = Sequence[int] | None


@operation()
def reduce_argmax(x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32") -> Tensor:
    """Index of the maximum along ``axis``, the first of several (MIL leaves open which)."""
    return torch.argmax(x, axis, keep_dims)


@operation()
def reduce_argmin(x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32") -> Tensor:
    """Index of the minimum along ``axis``, the first of several (MIL leaves open which)."""
    return torch.argmin(x, axis, keep_dims)


@operation()
def reduce_l1_norm(x: Tensor, axes: Axes = None, keep_dims: bool = False) -> Tensor:
    """Sum of absolute values over ``axes``, or over all."""
    return reduce_sum(x.abs(), axes, keep_dims)


@operation()
def reduce_l2_norm(x: Tensor, axes: Axes = None, keep_dims: bool = False) -> Tensor:
    """Square root of the sum of squares over ``axes``, or over all."""
    return _as_input(reduce_sum_square(_real(x), axes, keep_dims).sqrt(), x)


@operation()
def reduce_log_sum(x: Tensor, axes: Axes = None, keep_dims: bool = False) -> Tensor:
    """Logarithm of the sum over ``axes``, or over all."""
    return _as_input(reduce_sum(_real(x), axes, keep_dims).log(), x)


@operation()
def reduce_log_sum_exp(x: Tensor, axes: Axes = None, keep_dims: bool = False) -> Tensor:
    """Logarithm of the sum of exponentials over ``axes``, or over all, without overflow."""
    over = _over(x, axes)
    return _as_input(torch.logsumexp(_real(x), over, keep_dims), x) if over else x


@operation(moves=True)
def reduce_max(x: Tensor, axes: Axes = None, keep_dims: bool = False) -> Tensor:
    """Maximum over ``axes``, or over all."""
    over = _over(x, axes)
    return torch.amax(x, over, keep_dims) if over else x


@operation()
def reduce_mean(x: Tensor, axes: Axes = None, keep_dims: bool = False) -> Tensor:
    """Mean over ``axes``, or over all."""
    over = _over(x, axes)
    return _as_input(torch.mean(_real(x), over, keep_dims), x) if over else x


@operation(moves=True)
def reduce_min(x: Tensor, axes: Axes = None, keep_dims: bool = False) -> Tensor:
    """Minimum over ``axes``, or over all."""
    over = _over(x, axes)
    return torch.amin(x, over, keep_dims) if over else x


@operation()
def reduce_prod(x: Tensor, axes: Axes = None, keep_dims: bool = False) -> Tensor:
    """Product over ``axes``, or over all."""
    result = x
    for axis in sorted(_over(x, axes), reverse=True):
        result = torch.prod(result, axis, keep_dims)
    return result


@operation()
def reduce_sum(x: Tensor, axes: Axes = None, keep_dims: bool = False) -> Tensor:
    """Sum over ``axes``, or over all."""
    over = _over(x, axes)
    return torch.sum(x, over, keep_dims) if over else x


@operation()
def reduce_sum_square(x: Tensor, axes: Axes = None, keep_dims: bool = False) -> Tensor:
    """Sum of squares over ``axes``, or over all."""
    return reduce_sum(x * x, axes, keep_dims)


def _over(x: Tensor, axes: Axes) -> list[int]:
    """The axes as positive numbers. torch takes none for all, where MIL reduces nothing."""
    return list(range(x.dim())) if axes is None else [axis % x.dim() for axis in axes]


def _real(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.to(torch.float64)


def _as_input(result: Tensor, x: Tensor) -> Tensor:
    return result.to(x.dtype)
