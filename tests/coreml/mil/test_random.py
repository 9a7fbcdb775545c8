"""Random numbers: their distribution, and that nothing else draws from it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from programs import mb, program

from modellint.destinations.coreml.mil.executor import Executor

ONE = np.zeros(1, np.float32)


def drawn(build: object, x: np.ndarray = ONE) -> list[np.ndarray]:
    """Two runs."""
    run = Executor(program(build, 15, x=x))
    return [next(iter(run({"x": torch.from_numpy(x)}).values())).numpy() for _ in range(2)]


def test_normal() -> None:
    first, second = drawn(lambda x: mb.add(x=mb.random_normal(shape=[20000], mean=3.0, stddev=2.0, seed=1), y=x))
    assert abs(first.mean() - 3) < 0.1
    assert abs(first.std() - 2) < 0.1
    np.testing.assert_array_equal(first, second)


def test_uniform() -> None:
    first, _ = drawn(lambda x: mb.add(x=mb.random_uniform(shape=[20000], low=-1.0, high=3.0, seed=2), y=x))
    assert -1 <= first.min() < -0.99
    assert 2.99 < first.max() < 3
    assert abs(first.mean() - 1) < 0.05


def test_bernoulli() -> None:
    first, _ = drawn(lambda x: mb.add(x=mb.random_bernoulli(shape=[20000], prob=0.3, seed=3), y=x))
    assert set(first.tolist()) == {0.0, 1.0}
    assert abs(first.mean() - 0.3) < 0.02


@pytest.mark.parametrize("mode", ["logits", "probs"])
def test_categorical(mode: str) -> None:
    weights = np.array([[0.1, 0.6, 0.3], [0.5, 0.0, 0.5]], np.float32)
    with np.errstate(divide="ignore"):
        x = weights if mode == "probs" else np.log(weights)
    first, _ = drawn(lambda x: mb.random_categorical(x=x, mode=mode, size=20000, seed=4), x)
    assert first.shape == (2, 20000)
    for row, wanted in zip(first, weights, strict=True):
        assert np.abs(np.bincount(row.astype(int), minlength=3) / 20000 - wanted).max() < 0.02


def test_no_seed_draws_anew_and_leaves_the_global_generator() -> None:
    before = torch.get_rng_state()
    first, second = drawn(lambda x: mb.add(x=mb.random_normal(shape=[8]), y=x))
    assert (first != second).any()
    assert torch.equal(torch.get_rng_state(), before)
