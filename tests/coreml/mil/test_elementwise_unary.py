"""Operations on one tensor, by element, against what coremltools computes of constants."""

from __future__ import annotations

import numpy as np
import pytest
from programs import agree, executed, mb

RNG = np.random.default_rng(0)
X = RNG.normal(0, 2, (3, 40)).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(1e-3)
UNIT = (RNG.random((3, 40)) * 2 - 1).astype(np.float32)
HALVES = np.arange(-8, 9, dtype=np.float32) / 2
INTEGERS = np.array([-7, -1, 0, 1, 2, 9], dtype=np.int32)


@pytest.mark.parametrize(
    "name", ["abs", "atan", "cos", "cosh", "erf", "exp", "exp2", "sign", "sin", "sinh", "square", "tanh"]
)
def test_of_any_number(name: str) -> None:
    agree(getattr(mb, name), x=X)


@pytest.mark.parametrize("name", ["acos", "asin", "atanh", "tan"])
def test_between_minus_one_and_one(name: str) -> None:
    agree(getattr(mb, name), tolerance=4e-6, x=UNIT)


@pytest.mark.parametrize("name", ["sqrt", "log", "rsqrt", "inverse"])
def test_of_a_positive_number(name: str) -> None:
    agree(getattr(mb, name), x=POSITIVE)


@pytest.mark.parametrize("name", ["ceil", "floor", "round"])
def test_rounding(name: str) -> None:
    agree(getattr(mb, name), x=HALVES)


@pytest.mark.parametrize("name", ["abs", "sign", "square"])
def test_of_integers(name: str) -> None:
    agree(getattr(mb, name), x=INTEGERS)


def test_power_of_two_of_integers() -> None:
    np.testing.assert_array_equal(executed(mb.exp2, x=INTEGERS), [0, 0, 1, 2, 4, 512])


@pytest.mark.parametrize("name", ["log", "rsqrt", "inverse"])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0])
def test_epsilon_is_added(name: str, epsilon: float) -> None:
    agree(lambda x: getattr(mb, name)(x=x, epsilon=epsilon), x=np.append(POSITIVE, np.float32(0)))


def test_logarithm_of_zero_is_finite() -> None:
    agree(mb.log, x=np.zeros(20, dtype=np.float32))
    assert executed(mb.log, x=np.zeros(1, dtype=np.float32))[0] == pytest.approx(-103.28, abs=0.01)
    assert executed(mb.log, x=np.zeros(1, dtype=np.float16))[0] == -np.inf


def test_bounds() -> None:
    agree(lambda x: mb.clip(x=x, alpha=-0.5, beta=1.25), x=X)
    agree(lambda x: mb.threshold(x=x, alpha=0.75), x=X)
    agree(lambda x: mb.threshold(x=x, alpha=1), x=INTEGERS)


def test_upper_bound_wins() -> None:
    agree(lambda x: mb.clip(x=x, alpha=1.0, beta=-1.0), x=X)


def test_logical_not() -> None:
    agree(mb.logical_not, x=np.array([True, False]))


@pytest.mark.parametrize("dtype", ["int32", "fp16", "fp32", "bool", "int16", "int8", "uint8", "uint16"])
@pytest.mark.parametrize("source", [np.float32, np.float16, np.int32, np.bool_])
def test_cast(source: type, dtype: str) -> None:
    x = np.array([0, 1, 2.7, 100]).astype(source)
    agree(lambda x: mb.cast(x=x, dtype=dtype), 17, x=x)


def test_cast_truncates_towards_zero() -> None:
    agree(lambda x: mb.cast(x=x, dtype="int32"), x=np.array([-1.7, -0.2, 0.9, 1.5], dtype=np.float32))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_cast_of_integers_wraps(dtype: str) -> None:
    agree(lambda x: mb.cast(x=x, dtype=dtype), 17, x=np.array([-1, 70000, -32769, 300], dtype=np.int32))


def test_half_precision_overflows() -> None:
    x = np.array([300.0, 1e-5], dtype=np.float16)
    assert executed(mb.square, x=x).tolist() == [np.inf, 0.0]
