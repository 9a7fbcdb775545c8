"""Random numbers, of `coremltools.converters.mil.mil.ops.defs.iOS15.random`.

Core ML's generators are not documented: only the distribution is the operation's. A seed that is not negative makes the
numbers the same at every run; PyTorch's global generator is never used.
"""

from __future__ import annotations

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.operation_registry import Refusal, operation


@operation()
def random_normal(shape: list[int], mean: float = 0.0, stddev: float = 1.0, seed: int = -1) -> Tensor:
    """Normally distributed numbers."""
    return torch.randn(shape, generator=_generator(seed)) * stddev + mean


@operation()
def random_uniform(shape: list[int], low: float = 0.0, high: float = 1.0, seed: int = -1) -> Tensor:
    """Uniformly distributed numbers from ``low``, inclusive, to ``high``, exclusive."""
    return torch.rand(shape, generator=_generator(seed)) * (high - low) + low


@operation()
def random_bernoulli(shape: list[int], prob: float = 0.5, seed: int = -1) -> Tensor:
    """Bernoulli draws: ones, with probability ``prob``, and zeros."""
    return (torch.rand(shape, generator=_generator(seed)) < prob).float()


@operation()
def random_categorical(x: Tensor, mode: str = "logits", size: int = 1, seed: int = -1) -> Tensor:
    """Categorical draws: ``size`` indices into the last dimension, with replacement, in the element type of ``x``."""
    match mode:
        case "logits":
            weights = torch.softmax(x, -1)
        case "probs":
            weights = x
        case _:
            raise Refusal(f"the mode {mode!r} is not known")
    drawn = torch.multinomial(weights.reshape(-1, x.shape[-1]), size, True, generator=_generator(seed))
    return drawn.reshape(*x.shape[:-1], size).to(x.dtype)


def _generator(seed: int) -> torch.Generator:
    generator = torch.Generator()
    if seed >= 0:
        generator.manual_seed(seed)
    else:
        generator.seed()
    return generator
