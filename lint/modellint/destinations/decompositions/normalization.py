"""Normalization layers and log-softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


@decomposes("instance_norm", exactness=within(16))
def instance_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """Instance normalization with running statistics, which is a batch normalization."""
    if use_input_stats or running_mean is None or running_var is None:
        return NotImplemented
    shape = [1, -1] + [1] * (x.dim() - 2)
    scale = 1 / torch.sqrt(running_var + eps)
    scale = scale if weight is None else scale * weight
    off = -running_mean * scale if bias is None else bias - running_mean * scale
    return x * scale.reshape(shape) + off.reshape(shape)


@decomposes("rms_norm", "_fused_rms_norm", exactness=within(8))
def rms_norm(x: Tensor, normalized_shape: list[int], weight: Tensor | None = None, eps: float | None = None) -> Any:
    """Root mean square normalization."""
    dims = list(range(x.dim() - len(normalized_shape), x.dim()))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    normalized = x / torch.sqrt((x * x).mean(dims, keepdim=True) + eps)
    return normalized if weight is None else normalized * weight


@decomposes("log_softmax", ".int", "_log_softmax", exactness=within(8))
def log_softmax(x: Tensor, dim: int, dtype: object = None) -> Any:
    """Log-softmax without underflow; coremltools takes the logarithm of what has been rounded to zero."""
    off = x.float() - torch.amax(x.float(), dim, keepdim=True)
    return off - torch.log(torch.exp(off).sum(dim, keepdim=True))


@decomposes("renorm", exactness=within(16))
def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Any:
    """Slices along an axis scaled down to a maximum norm."""
    dims = [axis for axis in range(x.dim()) if axis != dim % x.dim()]
    norm = torch.linalg.vector_norm(x, p, dims, keepdim=True)
    factor = torch.where(norm > maxnorm, maxnorm / (norm + 1e-7), torch.ones_like(norm))
    return x * factor
