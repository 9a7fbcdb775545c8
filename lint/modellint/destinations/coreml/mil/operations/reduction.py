"""Reductions, of `coremltools.converters.mil.mil.ops.defs.iOS15.reduction` and later.

Integers are reduced exactly or in double precision, and the result is truncated to the input's type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.operation_registry import axis_within, operation

Axes = Sequence[int] | None


@operation()
def reduce_argmax(x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32") -> Tensor:
    """Index of the maximum along ``axis``, the first of several (MIL leaves open which)."""
    return torch.argmax(x, axis, keep_dims)


@operation()
def reduce_argmin(x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32") -> Tensor:
    """Index of the minimum along ``axis``, the first of several (MIL leaves open which)."""
    return torch.argmin(x, axis, keep_dims)


def _sum(x: Tensor, over: list[int], keep_dims: bool) -> Tensor:
    return torch.sum(x, over, keep_dims) if over else x


def _product(x: Tensor, over: list[int], keep_dims: bool) -> Tensor:
    for axis in sorted(over, reverse=True):
        x = torch.prod(x, axis, keep_dims)
    return x


Reduction = Callable[[Tensor, list[int], bool], Tensor]
_REDUCTIONS: dict[str, Reduction] = {
    "reduce_l1_norm": lambda x, over, keep: _sum(x.abs(), over, keep),
    "reduce_l2_norm": lambda x, over, keep: _as_input(_sum(_real(x).square(), over, keep).sqrt(), x),
    "reduce_log_sum": lambda x, over, keep: _as_input(_sum(_real(x), over, keep).log(), x),
    # Without overflow.
    "reduce_log_sum_exp": lambda x, over, keep: _as_input(torch.logsumexp(_real(x), over, keep), x) if over else x,
    "reduce_mean": lambda x, over, keep: _as_input(torch.mean(_real(x), over, keep), x) if over else x,
    "reduce_prod": _product,
    "reduce_sum": _sum,
    "reduce_sum_square": lambda x, over, keep: _sum(x * x, over, keep),
}
_EXTREMES: dict[str, Reduction] = {
    "reduce_max": lambda x, over, keep: torch.amax(x, over, keep) if over else x,
    "reduce_min": lambda x, over, keep: torch.amin(x, over, keep) if over else x,
}


def _reducing(reduction: Reduction) -> Callable[..., Tensor]:
    def reduce(x: Tensor, axes: Axes = None, keep_dims: bool = False) -> Tensor:
        """Reduction over ``axes``, or over all."""
        return reduction(x, _over(x, axes), keep_dims)

    return reduce


for _name, _reduction in (_REDUCTIONS | _EXTREMES).items():
    operation(_name, moves=_name in _EXTREMES)(_reducing(_reduction))


def _over(x: Tensor, axes: Axes) -> list[int]:
    """The axes as positive numbers. torch takes none for all, where MIL reduces nothing."""
    return list(range(x.dim())) if axes is None else [axis_within(axis, x.dim()) for axis in axes]


def _real(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.to(torch.float64)


def _as_input(result: Tensor, x: Tensor) -> Tensor:
    return result.to(x.dtype)
