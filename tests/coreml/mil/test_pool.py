"""Pooling against windows that numpy cuts out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from programs import executed, mb
from torch.nn import functional

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 7, 9)).astype(np.float32)


def windows(
    x: NDArray[np.float32], kernel: list[int], strides: list[int], pad: list[int], sizes: list[int]
) -> NDArray[np.float32]:
    """The windows of two dimensions, as (n, C, h, w, elements); NaN where there is nothing."""
    (top, _), (left, _) = (pad[:2], pad[2:])
    found = np.full((*x.shape[:2], *sizes, math.prod(kernel)), np.nan, np.float32)
    for i, j in itertools.product(*map(range, sizes)):
        for at, (a, b) in enumerate(itertools.product(*map(range, kernel))):
            row, column = i * strides[0] + a - top, j * strides[1] + b - left
            if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
                found[:, :, i, j, at] = x[:, :, row, column]
    return found


@pytest.mark.parametrize(
    ("kind", "pad", "around"),
    [
        ("valid", None, [0, 0, 0, 0]),
        ("custom", [2, 1, 0, 1], [2, 1, 0, 1]),
        ("custom", [1, 1, 1, 1], [1, 1, 1, 1]),
        ("same", None, [1, 1, 0, 1]),
        ("same_lower", None, [1, 1, 1, 0]),
    ],
)
@pytest.mark.parametrize("strides", [[1, 1], [2, 1]])
def test_windows(kind: str, pad: list[int] | None, around: list[int], strides: list[int]) -> None:
    kernel = [3, 2]
    whole = [X.shape[2] + sum(around[:2]), X.shape[3] + sum(around[2:])]
    seen = windows(
        X, kernel, strides, around, [(n - k) // s + 1 for n, k, s in zip(whole, kernel, strides, strict=True)]
    )
    options = {"kernel_sizes": kernel, "strides": strides, "pad_type": kind, **({} if pad is None else {"pad": pad})}
    assert not np.isnan(seen).all(-1).any()
    np.testing.assert_array_equal(executed(lambda x: mb.max_pool(x=x, **options), 16, x=X), np.nanmax(seen, -1))
    sums = np.nansum(seen, -1)
    counted = executed(lambda x: mb.avg_pool(x=x, **options), 16, x=X)
    np.testing.assert_allclose(counted, sums / 6, atol=1e-6)
    excluded = executed(lambda x: mb.avg_pool(x=x, exclude_padding_from_average=True, **options), 16, x=X)
    np.testing.assert_allclose(excluded, np.nanmean(seen, -1), atol=1e-6)
    squares = executed(lambda x: mb.l2_pool(x=x, **options), 16, x=X)
    np.testing.assert_allclose(squares, np.sqrt(np.nansum(seen * seen, -1)), atol=1e-5)


@pytest.mark.parametrize("size", range(4, 12))
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("included", [True, False])
def test_ceil_mode_is_that_of_pytorch(size: int, stride: int, pad: int, included: bool) -> None:
    x = RNG.normal(size=(1, 2, size)).astype(np.float32)
    options = {
        "kernel_sizes": [3],
        "strides": [stride],
        "pad_type": "custom",
        "pad": [pad, pad],
        "ceil_mode": True,
    }
    given = torch.from_numpy(x)
    greatest = executed(lambda x: mb.max_pool(x=x, **options), x=x)
    np.testing.assert_array_equal(greatest, functional.max_pool1d(given, 3, stride, pad, ceil_mode=True).numpy())
    mean = executed(lambda x: mb.avg_pool(x=x, exclude_padding_from_average=not included, **options), x=x)
    wanted = functional.avg_pool1d(given, 3, stride, pad, ceil_mode=True, count_include_pad=included)
    if included:
        # What the last window reaches over counts on devices, unlike in PyTorch.
        behind = torch.nn.functional.pad(given, (pad, max(0, (mean.shape[-1] - 1) * stride + 3 - size - pad)))
        wanted = functional.avg_pool1d(behind, 3, stride)
    np.testing.assert_allclose(mean, wanted.numpy(), atol=1e-6)


def test_ceil_mode_keeps_the_declared_number_of_windows() -> None:
    # Without padding coremltools counts a window that begins behind the last element; PyTorch does not.
    x = RNG.normal(size=(1, 1, 5)).astype(np.float32)
    made = executed(
        lambda x: mb.max_pool(x=x, kernel_sizes=[1], strides=[3], pad_type="valid", ceil_mode=True),
        x=x,
    )
    assert made.shape == (1, 1, 3)
    np.testing.assert_array_equal(made[0, 0], [x[0, 0, 0], x[0, 0, 3], -np.inf])


@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
def test_three_dimensions(name: str) -> None:
    x = RNG.normal(size=(1, 2, 4, 6, 4)).astype(np.float32)
    made = executed(
        lambda x: getattr(mb, name)(x=x, kernel_sizes=[2, 3, 2], strides=[2, 3, 2], pad_type="valid"),
        x=x,
    )
    blocks = x.reshape(1, 2, 2, 2, 2, 3, 2, 2).transpose(0, 1, 2, 4, 6, 3, 5, 7).reshape(1, 2, 2, 2, 2, -1)
    np.testing.assert_allclose(made, blocks.max(-1) if name == "max_pool" else blocks.mean(-1), atol=1e-6)
