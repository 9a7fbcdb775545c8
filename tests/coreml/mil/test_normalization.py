"""Normalization against its formulas in numpy, and against what coremltools computes of constants."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from programs import agree, executed, mb

Array = NDArray[np.float32]
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return RNG.normal(1, 2, size=shape).astype(np.float32)


@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(rank: int, affine: bool) -> None:
    x, mean, variance = normal(2, 3, 4, 5, 2)[(..., *[0] * (5 - rank))], normal(3), np.abs(normal(3))
    spread = (3, *[1] * (rank - 2))
    gamma, beta = (normal(3), normal(3)) if affine else (np.ones(3, np.float32), np.zeros(3, np.float32))
    options = {"gamma": gamma, "beta": beta} if affine else {}
    made = executed(lambda x: mb.batch_norm(x=x, mean=mean, variance=variance, epsilon=0.25, **options), x=x)
    scaled = (x - mean.reshape(spread)) / np.sqrt(variance.reshape(spread) + 0.25)
    np.testing.assert_allclose(made, scaled * gamma.reshape(spread) + beta.reshape(spread), atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 6), (2, 3, 4, 5), (1, 3, 1)])
def test_instance_norm(shape: tuple[int, ...]) -> None:
    x, gamma, beta = normal(*shape), normal(3), normal(3)
    spread = (3, *[1] * (len(shape) - 2))
    over = tuple(range(2, len(shape)))
    made = executed(lambda x: mb.instance_norm(x=x, gamma=gamma, beta=beta, epsilon=0.01), x=x)
    scaled = (x - x.mean(over, keepdims=True)) / np.sqrt(x.var(over, keepdims=True) + 0.01)
    np.testing.assert_allclose(made, scaled * gamma.reshape(spread) + beta.reshape(spread), atol=2e-5)


@pytest.mark.parametrize("axes", [[-1], [2, 3], [-1, -2], [1], [1, 2], [0, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(axes: list[int], affine: bool) -> None:
    x = normal(2, 3, 4, 5)
    options = {}
    if affine:
        over = sorted(axis % 4 for axis in axes)
        sizes = [x.shape[axis] for axis in over]
        options |= {"gamma": normal(*sizes), "beta": normal(*sizes)}
    agree(lambda x: mb.layer_norm(x=x, axes=axes, epsilon=0.01, **options), tolerance=1e-5, x=x)


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5), (2, 2, 3, 4, 5)])
def test_l2_norm(shape: tuple[int, ...]) -> None:
    agree(lambda x: mb.l2_norm(x=x, epsilon=0.5), tolerance=1e-5, x=normal(*shape))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_local_response_norm(size: int) -> None:
    x = normal(2, 6, 4)
    made = executed(lambda x: mb.local_response_norm(x=x, size=size, alpha=0.5, beta=0.6, k=2.0), x=x)
    squares = np.pad(x * x, [(0, 0), (size // 2, (size - 1) // 2), (0, 0)])
    sums = sum(squares[:, at : at + 6] for at in range(size))
    np.testing.assert_allclose(made, x / (2.0 + 0.5 / size * sums) ** 0.6, atol=1e-5)
