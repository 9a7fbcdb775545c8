"""Broadcasts of what a mask selects, which may be nothing: coremltools divides a size by it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import modellint

pytestmark = pytest.mark.filterwarnings("ignore")


class Masked(nn.Module):
    """Never above 6: the mask selects nothing of some inputs, and all of others."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        y[x > 2] *= -1
        return y


class Expanded(nn.Module):
    """A broadcast of an input, whose size is never 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.expand(3, x.shape[1]) * 2


def divisors(mlmodel: Any) -> list[str]:
    """The operations that make what sizes are divided by."""
    (block,) = mlmodel.get_spec().mlProgram.functions["main"].block_specializations.values()
    makers = {output.name: operation.type for operation in block.operations for output in operation.outputs}
    names = [part.inputs["y"].arguments[0].name for part in block.operations if part.type == "real_div"]
    return [makers[name] for name in names if name in makers]


@pytest.mark.parametrize("route", ["trace", "export"])
def test_nothing_is_divided_by_the_size_of_nothing(route: str) -> None:
    x = torch.tensor([[3.0, 1.0, 4.0], [1.0, 5.0, 0.5]])
    exported = modellint.export(Masked().eval(), (x,), precision="fp32", frontend=route)
    assert exported.verification.verdict == "agrees"
    assert "broadcast of an empty tensor (bit-equal)" in repr(exported)
    assert set(divisors(exported.mlmodel)) == {"add"}


@pytest.mark.parametrize("route", ["trace", "export"])
def test_sizes_of_inputs_are_divided_by_as_they_are(route: str) -> None:
    flexible = {0: {1: (2, 8)}}
    exported = modellint.export(
        Expanded().eval(), (torch.randn(1, 4),), precision="fp32", frontend=route, flexible=flexible
    )
    assert exported.verification.verdict == "agrees"
    assert "broadcast of an empty tensor" not in repr(exported)


@pytest.mark.parametrize("route", ["trace", "export"])
def test_integers_are_rounded_to_themselves(route: str) -> None:
    class Rounded(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 3).round() + 1

    exported = modellint.export(Rounded().eval(), (torch.tensor([1, -2, 3]),), frontend=route)
    assert exported.verification.verdict == "agrees"
