"""Sums in order: element after element, as NumPy's running sum has them, and PyTorch's but for rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from modellint.destinations.comparison.sums_in_order import InOrder, added


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((2, 8, 16, 16), [1, 2, 3]),
        ((3, 4096), [1]),
        ((4096, 3), [0]),
        ((1, 500), [1]),
        ((700,), [0]),
        ((2, 70, 5), [1]),
    ],
)
def test_sums_are_running_sums(shape: tuple[int, ...], dims: list[int]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + 3
    rest = [axis for axis in range(len(shape)) if axis not in dims]
    rows = x.permute(*rest, *dims).reshape(*(shape[axis] for axis in rest), -1).numpy()
    running = np.add.accumulate(rows, axis=-1)[..., -1]
    assert np.array_equal(added(x, dims).numpy().reshape(-1), running.reshape(-1))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.group_norm(x, 2, torch.arange(8.0), torch.ones(8)),
        lambda x: F.layer_norm(x, (6, 5), torch.full((6, 5), 2.0)),
        lambda x: x.mean((1, 2)),
        lambda x: x.mean(),
        lambda x: x.sum(-1, keepdim=True),
        lambda x: x.sum(),
        lambda x: x.var((0, 2), unbiased=False),
        lambda x: x.var(-1, keepdim=True),
        lambda x: x[0, 0, 0, 0].sum(),
        lambda x: x.sum(1, dtype=torch.float64),
    ],
    ids=[
        "group_norm",
        "layer_norm",
        "mean",
        "mean of all",
        "sum",
        "sum of all",
        "var",
        "var, one axis",
        "scalar",
        "double",
    ],
)
def test_what_is_summed_is_the_same_but_for_rounding(function) -> None:
    x = torch.randn(2, 8, 6, 5, generator=torch.Generator().manual_seed(0)) + 1
    expected = function(x)
    with torch.no_grad(), InOrder():
        found = function(x)
    assert found.dtype is expected.dtype
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_product_is_added_in_order(batch: tuple[int, ...]) -> None:
    x, y = torch.rand(*batch, 3, 1000), torch.rand(*batch, 1000, 5)
    total = torch.zeros(*batch, 3, 5)
    for at in range(1000):
        total = total + x[..., at, None] * y[..., at, None, :]
    with InOrder():  # type: ignore[no-untyped-call]
        assert torch.equal(x @ y, total)
    assert not torch.equal(x @ y, total)


def test_a_layer_of_many_inputs_rounds_as_its_terms_are_added() -> None:
    layer, x = torch.nn.Linear(4096, 8), torch.rand(1, 4096)
    with torch.no_grad(), InOrder():  # type: ignore[no-untyped-call]
        ordered = layer(x)
    exact = torch.nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double())
    assert torch.allclose(ordered.double(), exact, atol=1e-4)
