"""Activations, of `coremltools.converters.mil.mil.ops.defs.iOS15.activation` and later."""

from __future__ import annotations

import numpy
import torch
from torch import Tensor
from torch.nn import functional

from modellint.destinations.coreml.mil.operation_registry import Refusal, operation, unary

unary(
    {
        "sigmoid": torch.sigmoid,
        "silu": functional.silu,
        "softplus": functional.softplus,
        "softsign": functional.softsign,
    }
)
unary({"relu": torch.relu}, moves=True)


@operation()
def clamped_relu(x: Tensor, alpha: float, beta: float) -> Tensor:
    """``min(beta, x)`` where ``x`` is not negative, ``min(beta, alpha * x)`` elsewhere."""
    return functional.leaky_relu(x, alpha).clamp(max=beta)


@operation()
def elu(x: Tensor, alpha: float) -> Tensor:
    """``x`` where it is positive, ``alpha * (exp(x) - 1)`` elsewhere."""
    return functional.elu(x, alpha)


@operation()
def gelu(x: Tensor, mode: str = "EXACT") -> Tensor:
    """Gaussian error linear unit; ``mode`` says by which formula."""
    match mode:
        case "EXACT":
            return functional.gelu(x)
        case "TANH_APPROXIMATION":
            return functional.gelu(x, approximate="tanh")
        case "SIGMOID_APPROXIMATION":
            return x * torch.sigmoid(1.702 * x)
        case _:
            raise Refusal(f"there is no mode {mode!r}")


@operation()
def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """``x`` where it is not negative, ``alpha * x`` elsewhere."""
    return functional.leaky_relu(x, alpha)


@operation()
def linear_activation(x: Tensor, alpha: float, beta: float) -> Tensor:
    """``alpha * x + beta``."""
    return x * alpha + beta


@operation()
def prelu(x: Tensor, alpha: Tensor) -> Tensor:
    """``x`` where it is positive, ``alpha[channel] * x`` elsewhere; channels are axis 1."""
    return functional.prelu(x, alpha)


@operation(moves=True)
def relu6(x: Tensor) -> Tensor:
    """``min(max(x, 0), 6)``."""
    return x.clamp(0, 6)


@operation()
def scaled_tanh(x: Tensor, alpha: float, beta: float) -> Tensor:
    """``alpha * tanh(beta * x)``."""
    return torch.tanh(x * beta) * alpha


@operation()
def sigmoid_hard(x: Tensor, alpha: float, beta: float) -> Tensor:
    """``min(max(alpha * x + beta, 0), 1)``."""
    return (x * alpha).add_(beta).clamp_(0, 1)


@operation()
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``axis``."""
    return torch.softmax(x, axis)


@operation()
def softplus_parametric(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """``alpha[channel] * log(1 + exp(beta[channel] * x))``; channels are axis 1."""
    channels = [1, -1] + [1] * (x.dim() - 2)
    return alpha.reshape(channels) * functional.softplus(x * beta.reshape(channels))


@operation(moves=True)
def thresholded_relu(x: Tensor, alpha: float) -> Tensor:
    """``x`` where it is at least ``alpha``, 0 elsewhere."""
    # PyTorch keeps what is greater than a threshold: here, than the number before. One pass, and not a comparison first.
    return functional.threshold(x, float(numpy.nextafter(numpy.float32(alpha), numpy.float32(-numpy.inf))), 0.0)
