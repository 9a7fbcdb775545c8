"""Activations against numpy, by what coremltools documents and computes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from programs import agree, executed, mb

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(0, 3, 90), [0.0, 6.0, -6.0, 0.5, -0.5, 30.0, -30.0, 1e-6, -1e-6, 2.0]])
X = X.reshape(2, 5, 2, 5).astype(np.float32)


@pytest.mark.parametrize("name", ["relu", "relu6", "sigmoid", "softplus", "softsign", "gelu"])
def test_without_parameters(name: str) -> None:
    agree(getattr(mb, name), x=X)


def test_silu() -> None:
    np.testing.assert_allclose(executed(mb.silu, x=X), X / (1 + np.exp(-X.astype(np.float64))), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("mode", ["EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"])
def test_gelu_in_each_mode(mode: str) -> None:
    agree(lambda x: mb.gelu(x=x, mode=mode), x=X)


@pytest.mark.parametrize("name", ["elu", "leaky_relu", "thresholded_relu"])
@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("opset", [15, 17])
def test_with_a_slope(name: str, alpha: float, opset: int) -> None:
    # coremltools computes thresholded_relu in place, in its own constant.
    agree(lambda x: getattr(mb, name)(x=x.copy() if isinstance(x, np.ndarray) else x, alpha=alpha), opset, x=X)


@pytest.mark.parametrize("name", ["clamped_relu", "linear_activation", "scaled_tanh", "sigmoid_hard"])
@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 0.5), (2.0, 1.5), (-1.5, 3.0)])
def test_with_two_parameters(name: str, alpha: float, beta: float) -> None:
    agree(lambda x: getattr(mb, name)(x=x, alpha=alpha, beta=beta), x=X)


@pytest.mark.parametrize("name", ["prelu", "softplus_parametric"])
def test_parameters_of_channels(name: str) -> None:
    alpha = np.linspace(-1, 2, 5, dtype=np.float32)
    others = {} if name == "prelu" else {"beta": np.linspace(0.5, 1.5, 5, dtype=np.float32)}
    agree(lambda x: getattr(mb, name)(x=x, alpha=alpha, **others), x=X)


def test_softplus_does_not_overflow() -> None:
    far = np.array([-30.0, 200.0, 1000.0], dtype=np.float32)
    expected = [math.log1p(math.exp(-30)), 200.0, 1000.0]
    np.testing.assert_allclose(executed(mb.softplus, x=far), expected, rtol=1e-6)


@pytest.mark.parametrize("axis", [-1, 0, 2])
def test_softmax(axis: int) -> None:
    agree(lambda x: mb.softmax(x=x, axis=axis), x=X)


def test_not_a_number_stays() -> None:
    x = np.array([np.nan, np.inf, -np.inf], dtype=np.float32)
    np.testing.assert_array_equal(executed(mb.relu, x=x), [np.nan, np.inf, 0])
    np.testing.assert_array_equal(executed(lambda x: mb.elu(x=x, alpha=1.0), x=x), [np.nan, np.inf, -1])
