"""Activations, of `coremltools.converters.mil.mil.ops.defs.iOS15.activation` and later."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from modellint.coreml.mil.operation import operation


@operation()
def relu(x: Tensor) -> Tensor:
    """``max(0, x)``, by element."""
    return torch.relu(x)


@operation()
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``axis``."""
    return torch.softmax(x, axis)


@operation()
def leaky_relu(x: Tensor, alpha: Tensor) -> Tensor:
    """``x`` where it is not negative, ``alpha * x`` elsewhere."""
    return torch.where(x >= 0, x, x * alpha)


@operation()
def gelu(x: Tensor, mode: str = "EXACT") -> Tensor:
    """Gaussian error linear unit; ``mode`` says by which formula."""
    match mode:
        case "EXACT":
            return functional.gelu(x)
        case "TANH_APPROXIMATION":
            return functional.gelu(x, approximate="tanh")
        case _:
            return x * torch.sigmoid(1.702 * x)
