"""Operations on two tensors, by element, against what coremltools computes of constants."""

from __future__ import annotations

import numpy as np
import pytest
from programs import agree, executed, mb

RNG = np.random.default_rng(0)
X = RNG.normal(0, 3, (2, 1, 4, 5)).astype(np.float32)
Y = RNG.normal(0, 3, (3, 4, 5)).astype(np.float32)
WHOLE = RNG.integers(-9, 10, (2, 1, 4, 5)).astype(np.int32)
DIVISORS = RNG.integers(-9, 10, (3, 4, 5)).astype(np.int32)
ARITHMETIC = ["add", "sub", "mul", "maximum", "minimum"]
COMPARISONS = ["equal", "not_equal", "greater", "greater_equal", "less", "less_equal"]
DIVISIONS = ["real_div", "floor_div"]


@pytest.mark.parametrize("name", ARITHMETIC + COMPARISONS + DIVISIONS)
def test_numbers(name: str) -> None:
    agree(getattr(mb, name), x=X, y=Y)


@pytest.mark.parametrize("name", COMPARISONS)
def test_equal_numbers(name: str) -> None:
    agree(getattr(mb, name), x=X, y=np.where(RNG.random(X.shape) < 0.5, X, -X))


@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARISONS, "floor_div"])
def test_integers(name: str) -> None:
    agree(getattr(mb, name), x=WHOLE, y=np.where(DIVISORS == 0, 1, DIVISORS).astype(np.int32))


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_truth_values(name: str) -> None:
    agree(getattr(mb, name), x=X > 0, y=Y > 0)


def test_integers_divide_to_an_integer() -> None:
    x, y = np.array([5, -5, 5, -5, 9]), np.array([2, 2, -2, -2, 3])
    assert executed(mb.real_div, x=x.astype(np.int32), y=y.astype(np.int32)).tolist() == [2, -2, -2, 2, 3]


def test_remainders_have_the_sign_of_the_dividend_as_on_devices() -> None:
    x, y = np.array([-7, 7, -7, 7]), np.array([2, -2, -2, 2])
    for kind in (np.float32, np.int32):
        assert executed(mb.mod, x=x.astype(kind), y=y.astype(kind)).tolist() == [-1, 1, -1, 1]
    agree(mb.mod, x=np.abs(X), y=np.abs(Y))
    agree(mb.mod, x=np.abs(WHOLE), y=np.where(DIVISORS == 0, 1, np.abs(DIVISORS)).astype(np.int32))


def test_a_constant_two_raised_to_a_power_is_a_square_as_on_devices() -> None:
    y = np.array([0.0, 1.0, 3.0, -2.0, 0.5], dtype=np.float32)
    assert executed(lambda y: mb.pow(x=np.float32(2.0), y=y), y=y).tolist() == [0.0, 1.0, 9.0, 4.0, 0.25]
    agree(lambda y: mb.pow(x=np.float32(3.0), y=y), y=y)
    agree(lambda y: mb.exp2(x=y), y=y)


@pytest.mark.parametrize("name", [*DIVISIONS, "mod"])
def test_integers_divide_by_zero(name: str) -> None:
    result = executed(getattr(mb, name), x=np.array([5, -5, 0], dtype=np.int32), y=np.zeros(3, dtype=np.int32))
    assert result.tolist() == [0, 0, 0]


def test_powers() -> None:
    agree(mb.pow, x=np.abs(X), y=Y)
    agree(mb.pow, x=X, y=np.array([0, 1, 2, 3, -1], dtype=np.float32))
    agree(mb.pow, x=WHOLE, y=np.array([0, 1, 2, 3, 4], dtype=np.int32))


def test_a_negative_power_of_integers() -> None:
    x = np.array([1, 1, -1, -1, 2, -3, 0], dtype=np.int32)
    y = np.array([-1, -2, -1, -2, -1, -1, -1], dtype=np.int32)
    assert executed(mb.pow, x=x, y=y).tolist() == [1, 1, -1, 1, 0, 0, 0]


def test_sums_of_integers_wrap() -> None:
    x = np.array([2**31 - 1], dtype=np.int32)
    agree(mb.add, x=x, y=np.array([1], dtype=np.int32))


def test_half_precision_is_rounded_once_for_each_operation() -> None:
    x, y = np.array([2048.0], dtype=np.float16), np.array([1.0], dtype=np.float16)
    assert executed(lambda x, y: mb.sub(x=mb.add(x=x, y=y), y=x), x=x, y=y).tolist() == [0.0]


def test_division_by_zero_of_numbers() -> None:
    x = np.array([1, -1, 0], dtype=np.float32)
    agree(mb.real_div, x=x, y=np.zeros(3, dtype=np.float32))
