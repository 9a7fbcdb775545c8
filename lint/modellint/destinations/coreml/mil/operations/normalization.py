"""Normalization, of `coremltools.converters.mil.mil.ops.defs.iOS15.normalization` and later."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from modellint.destinations.coreml.mil.operation_registry import operation


@operation()
def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """``gamma * (x - mean) / sqrt(variance + epsilon) + beta`` with given statistics of each channel of (n, C, *d)."""
    return functional.batch_norm(x, mean, variance, gamma, beta, False, 0.0, epsilon)


@operation()
def instance_norm(x: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5) -> Tensor:
    """`batch_norm` with each sample's own mean and variance, over the spatial dimensions."""
    return torch.instance_norm(x, gamma, beta, None, None, True, 0.0, epsilon, False)


@operation()
def layer_norm(
    x: Tensor,
    axes: list[int] | None = None,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """Normalization by mean and variance over ``axes``; ``gamma`` and ``beta`` are of those axes' sizes, in their order."""
    rank = x.dim()
    over = list(range(rank)) if axes is None else sorted(axis % rank for axis in axes)
    sizes = [x.shape[axis] for axis in over]
    if over == list(range(rank - len(over), rank)):
        return functional.layer_norm(x, sizes, gamma, beta, epsilon)
    variance, mean = torch.var_mean(x, over, correction=0, keepdim=True)
    normal = (x - mean) / torch.sqrt(variance + epsilon)
    spread = [size if axis in over else 1 for axis, size in enumerate(x.shape)]
    if gamma is not None:
        normal = normal * gamma.reshape(spread)
    return normal if beta is None else normal + beta.reshape(spread)


@operation()
def l2_norm(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """``x / sqrt(sum(x ** 2) + epsilon)``, the sum over the last three dimensions."""
    return x / torch.sqrt((x * x).sum((-1, -2, -3), keepdim=True) + epsilon)


@operation()
def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """``x / (k + alpha / size * sum(x ** 2)) ** beta``, the sum over ``size`` neighbouring channels."""
    return functional.local_response_norm(x, size, alpha, beta, k)
