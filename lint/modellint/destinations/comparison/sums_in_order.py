"""Sums in order: a model's sums, means, variances and normalizations computed by adding one element after the other.

Core AI's interpreter adds so in float32 (coreai-core 1.0.0b3: sums, means and group normalizations are equal to these bit for bit;
products of matrices are ten times as far from what is exact as PyTorch's, as these are), while PyTorch adds pairwise. Of many
elements, and of equal ones above all, the result is off by more than random rounding shows: a mean of 16,384 equal numbers by some
hundred roundings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class InOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode in which sums of float32 are made in order; other operators are PyTorch's."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator."""
        kwargs = kwargs or {}
        ordered = _ORDERED.get(func)
        if ordered is not None and args[0].dtype is torch.float32 and args[0].numel() and not kwargs.get("dtype"):
            return ordered(*args, **kwargs)
        return func(*args, **kwargs)


def added(x: Tensor, dims: Sequence[int]) -> Tensor:
    """The sum over axes, one element after the other; the axes stay, of size 1."""
    rest = [axis for axis in range(x.dim()) if axis not in dims]
    count = math.prod(x.shape[axis] for axis in dims)
    columns = np.ascontiguousarray(x.detach().permute(*sorted(dims), *rest).reshape(count, -1).numpy())
    # Over the first axis of several columns NumPy adds row after row; one column it adds pairwise.
    total = np.add.reduce(columns, axis=0) if columns.shape[1] > 1 else np.add.accumulate(columns, axis=0)[-1]
    return torch.from_numpy(total).reshape([1 if axis in dims else x.shape[axis] for axis in range(x.dim())])


def _dims(x: Tensor, dim: Any) -> list[int]:
    given = [dim] if isinstance(dim, int) else dim
    return [axis % x.dim() for axis in given] if given else [*range(x.dim())]


def _sum(x: Tensor, dim: Any = None, keepdim: bool = False, **_: Any) -> Tensor:
    if not x.dim():
        return x.clone()
    dims = _dims(x, dim)
    total = added(x, dims)
    return total if keepdim else total.squeeze(dims)


def _mean(x: Tensor, dim: Any = None, keepdim: bool = False, **_: Any) -> Tensor:
    return _sum(x, dim, keepdim) / (math.prod(x.shape[axis] for axis in _dims(x, dim)) if x.dim() else 1)


def _var(x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    dims = _dims(x, dim)
    count = math.prod(x.shape[axis] for axis in dims)
    apart = x - _mean(x, dims, True)
    return _sum(apart * apart, dims, keepdim) / max(count - (1 if correction is None else correction), 0)


def _normalized(x: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    mean = _mean(x, dims, True)
    apart = x - mean
    factor = torch.rsqrt(_mean(apart * apart, dims, True) + eps)
    return apart * factor, mean, factor


def _layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    y, mean, factor = _normalized(x, [*range(x.dim() - len(shape), x.dim())], eps)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias), mean, factor


def _group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, batch: int, channels: int, size: int, groups: int, eps: float
) -> Any:
    y, mean, factor = _normalized(x.reshape(batch, groups, -1), [2], eps)
    y, shape = y.reshape(x.shape), [1, channels, *[1] * (x.dim() - 2)]
    y = y if weight is None else y * weight.reshape(shape)
    y = y if bias is None else y + bias.reshape(shape)
    return y, mean.reshape(batch, groups), factor.reshape(batch, groups)


def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """With the statistics of the batch, as an instance normalization has them: it is one of a batch of one."""
    if not training or mean is not None:
        return aten.native_batch_norm.default(x, weight, bias, mean, variance, training, momentum, eps)
    y, average, factor = _normalized(x, [0, *range(2, x.dim())], eps)
    shape = [1, -1, *[1] * (x.dim() - 2)]
    y = y if weight is None else y * weight.reshape(shape)
    return (y if bias is None else y + bias.reshape(shape)), average.flatten(), factor.flatten()


def _product(x: Tensor, y: Tensor) -> Tensor:
    """Product of two matrices, or of as many pairs of them."""
    *batch, rows, count = x.shape
    if math.prod(batch) * rows * count * y.shape[-1] > _LARGEST:
        return x @ y
    terms = x.transpose(-1, -2).unsqueeze(-1) * y.unsqueeze(-2)
    return added(terms, [len(batch)]).squeeze(len(batch))


def _added_product(x: Tensor, first: Tensor, second: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _product(first, second) * alpha + x * beta


_LARGEST = 1 << 24
"""Of how many terms a product is made in order; PyTorch makes larger ones, as several layers of them take seconds."""
_ORDERED: dict[Any, Any] = {
    aten.mm.default: _product,
    aten.bmm.default: _product,
    aten.addmm.default: _added_product,
    aten.sum.default: _sum,
    aten.sum.dim_IntList: _sum,
    aten.mean.default: _mean,
    aten.mean.dim: _mean,
    aten.var.correction: _var,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_group_norm.default: _group_norm,
    aten.native_batch_norm.default: _batch_norm,
}
