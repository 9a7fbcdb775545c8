"""Reductions against what coremltools computes of constants."""

from __future__ import annotations

import numpy as np
import pytest
from programs import agree, executed, mb

RNG = np.random.default_rng(0)
X = RNG.normal(0, 2, (2, 3, 4, 5)).astype(np.float32)
WHOLE = RNG.integers(-9, 10, (2, 3, 4)).astype(np.int32)
NAMES = ["reduce_l1_norm", "reduce_l2_norm", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum"]
NAMES += ["reduce_sum_square", "reduce_log_sum_exp"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axes", [None, [-1], [1], [0, 2], [3, 1, 0], [-2, -1]])
@pytest.mark.parametrize("keep_dims", [True, False])
def test_numbers(name: str, axes: list[int] | None, keep_dims: bool) -> None:
    chosen = {} if axes is None else {"axes": axes}
    agree(lambda x: getattr(mb, name)(x=x, keep_dims=keep_dims, **chosen), tolerance=1e-5, x=X)


@pytest.mark.parametrize("axes", [[1], [0, -1]])
def test_logarithm_of_a_sum(axes: list[int]) -> None:
    agree(lambda x: mb.reduce_log_sum(x=x, axes=axes), tolerance=1e-5, x=np.abs(X))


@pytest.mark.parametrize("name", NAMES)
def test_integers(name: str) -> None:
    agree(lambda x: getattr(mb, name)(x=x, axes=[1]), x=WHOLE)


def test_the_mean_of_integers_is_truncated() -> None:
    x = np.array([[1, 2], [-1, -2], [3, 6]], dtype=np.int32)
    assert executed(lambda x: mb.reduce_mean(x=x, axes=[1]), x=x).tolist() == [1, -1, 4]


@pytest.mark.parametrize("name", ["reduce_argmax", "reduce_argmin"])
@pytest.mark.parametrize("axis", [-1, 0, 2])
@pytest.mark.parametrize("keep_dims", [True, False])
def test_places(name: str, axis: int, keep_dims: bool) -> None:
    agree(lambda x: getattr(mb, name)(x=x, axis=axis, keep_dims=keep_dims), x=X)
    agree(lambda x: getattr(mb, name)(x=x, axis=0, output_dtype="uint16"), 17, x=X)


def test_exponentials_do_not_overflow() -> None:
    x = np.array([1000.0, 1000.0], dtype=np.float32)
    assert executed(lambda x: mb.reduce_log_sum_exp(x=x), x=x) == pytest.approx(1000 + np.log(2))


def test_half_precision_is_summed_in_single_precision() -> None:
    x = np.full(4096, 1.0, dtype=np.float16)
    assert executed(lambda x: mb.reduce_sum(x=x), x=x) == 4096
    assert executed(lambda x: mb.reduce_sum(x=x), x=np.full(70000, 1.0, dtype=np.float16)) == np.inf
