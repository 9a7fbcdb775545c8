"""Truth values where an operator wants a number: a trace of it does not hold in PyTorch, and ``export`` takes the number for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import modellint

pytestmark = pytest.mark.filterwarnings("ignore")


class Applied(nn.Module):
    """A function of numbers, and of a mask."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, x > 0.2).float() + 0 * x.sign()


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, mask: mask.scatter(1, x.topk(2, dim=-1)[1], False), id="scatter"),
        pytest.param(
            lambda x, mask: torch.ones_like(mask).scatter_(1, x.argsort(1)[:, 1:2], value=False), id="in place"
        ),
        pytest.param(lambda x, mask: mask.masked_fill(x > 0.9, False), id="masked_fill"),
        pytest.param(lambda x, mask: x.masked_fill(mask, True), id="masked_fill of numbers"),
        pytest.param(lambda x, mask: mask == False, id="eq"),  # noqa: E712
        pytest.param(lambda x, mask: torch.full((3, 5), True) & mask, id="full"),
        pytest.param(lambda x, mask: mask.new_full((3, 5), fill_value=True) & mask, id="new_full"),
        pytest.param(lambda x, mask: torch.full_like(x, True) * mask, id="full_like"),
    ],
)
def test_what_is_exported_agrees(function: Callable[[Tensor, Tensor], Tensor], route: str) -> None:
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    exported = modellint.export(Applied(function).eval(), (x,), precision="fp32", frontend=route)
    assert exported.verification is not None
    assert [output.max_abs_error for output in exported.verification.outputs] == [0.0]
