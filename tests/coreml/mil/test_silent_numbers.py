"""Operators that coremltools converts without a word to other arithmetic: the program differs where numbers show it."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from conversions import LIMIT, Call, X, errors, normal
from known_faults import shows
from torch import Tensor, nn
from torch.nn import functional

pytestmark = pytest.mark.filterwarnings("ignore")

SCORES = torch.tensor([0.0, 1e5]).reshape(1, 1, 2, 1)
"""Keys whose scores, for queries of 1, are further apart than what hides a score."""
SEEN = torch.tensor([[True, False], [True, True]])


def attended(k: Tensor) -> Tensor:
    """Causal attention of queries of 1."""
    return functional.scaled_dot_product_attention(torch.ones_like(k), k, k, is_causal=True)


def attended_by(k: Tensor, mask: Tensor) -> Tensor:
    """Attention of queries of 1, by a mask that is an input."""
    return functional.scaled_dot_product_attention(torch.ones_like(k), k, k, mask)


@pytest.mark.parametrize(
    ("model", "close", "far", "route"),
    [
        (model, close, far, route)
        for (model, close, far), route in product(
            [
                # The threshold is not read: what is above it is to be left as it is.
                (Call(lambda x: functional.softplus(x, threshold=5.0)), X, X + 2),
                # The exponentials are summed as they are.
                (Call(lambda x: torch.logcumsumexp(x, 1)), X, X + 90),
                (Call(lambda x: torch.logcumsumexp(x, 1)), X, X - 150),
                # The epsilon is added after a division by the largest number.
                (nn.RMSNorm(3, eps=1e-5), X, X / 1000),
                (nn.RMSNorm(3, eps=1e-5), X, X * torch.tensor([[0.0], [1.0]])),
                # The largest float32 stands for the bound that is missing.
                (Call(lambda x: (x.exp().clamp(min=0.0) > torch.finfo(torch.float32).max) + x.sigmoid()), X, X + 200),
            ],
            ["trace", "export"],
        )
    ],
    ids=[
        f"{name}-{route}"
        for name, route in product(
            ["softplus", "logcumsumexp_inf", "logcumsumexp_low", "rms_norm_small", "rms_norm_zeros", "clamp_inf"],
            ["trace", "export"],
        )
    ],
)
def test_some_inputs_show_it(model: nn.Module, close: Tensor, far: Tensor, route: str) -> None:
    found = errors(model, (close,), route, (far,))
    assert found[0] <= 2 * LIMIT
    assert found[1] > 1e-4


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (
            lambda x: functional.interpolate(x, size=(2, 2), mode="bilinear", antialias=True),
            normal(1, 1, 4, 4),
        ),
        (lambda x: torch.full_like(x, 0.7) + x, torch.tensor([1, 2, 3], dtype=torch.int32)),
    ],
    ids=["antialias", "full_like"],
)
def test_the_sample_shows_it(model: Callable[[Tensor], Tensor], inputs: Tensor, route: str) -> None:
    assert errors(Call(model), (inputs,), route)[0] > 0.1


@pytest.mark.parametrize("function", [torch.var, torch.std])
def test_a_correction_is_one_in_a_trace(function: Callable[..., Tensor]) -> None:
    model = Call(lambda x: function(x, 1, correction=2))
    assert errors(model, (X,), "trace")[0] > 0.1
    assert errors(model, (X,), "export")[0] <= LIMIT


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize(("model", "more"), [(attended, ()), (attended_by, (SEEN,))], ids=["causal", "mask"])
def test_large_scores_are_not_hidden_before_ios_18(
    model: Callable[..., Tensor], more: tuple[Tensor, ...], route: str
) -> None:
    inputs, smaller = (SCORES, *more), (SCORES / 10, *more)
    found = errors(Call(model), smaller, route, inputs)
    assert found[0] <= LIMIT
    assert found[1] == 1.0
    assert errors(Call(model), inputs, route, target="iOS18") == [0.0]


def test_places_among_unique_numbers_are_those_of_integers() -> None:
    model = Call(lambda x: torch.unique(x, return_inverse=True)[1])
    found = errors(model, (torch.tensor([2.0, 1.0, 3.0]),), "trace", (torch.tensor([2.0, 1.0, 2.5]),))
    assert found[0] == 0
    assert found[1] > 0.1


def test_core_aten_reaches_converters_that_differ() -> None:
    matrix = (normal(3, 3),)
    assert errors(Call(torch.diag), matrix, "export", core=True) == [math.inf if shows("diagonal") else 0.0]
    renormed = errors(Call(lambda x: torch.renorm(x, 2, 0, 0.01)), (X / 100,), "export", core=True)
    assert (renormed[0] > 1e-3) == shows("reciprocal")
