"""Branches of functions that TorchScript compiles: taken where sizes decide them, kept where values do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import modellint


@torch.jit.script_if_tracing
def with_channels(x: Tensor) -> Tensor:
    if x.ndim == 1:
        return x.reshape(1, 1, -1)
    if x.ndim == 2:
        return x.unsqueeze(1)
    return x


@torch.jit.script_if_tracing
def spread(x: Tensor) -> Tensor:
    dims: list[int] = torch.arange(1, len(x.shape)).tolist()
    return x - x.mean(dim=dims, keepdim=True)


@torch.jit.script_if_tracing
def signed(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        return x * 2
    return x - 1


@torch.jit.script_if_tracing
def scaled(x: Tensor) -> Tensor:
    if x.ndim == 1:
        return x.unsqueeze(0)
    return x * float(x.abs().sum().item())


@torch.jit.script
def with_depth(x: Tensor) -> Tensor:
    if x.dim() == 3:
        return x.unsqueeze(1)
    return x


def halved(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first, second.sigmoid()], -1)


def placed(x: Tensor) -> Tensor:
    steps = torch.arange(x.shape[-1])
    table = torch.linspace(-1, 1, 40).reshape(20, 2)
    return x + functional.embedding(steps[None] - steps[:, None] + 10, table).sum((0, 2))


class Net(nn.Module):
    def __init__(self, *steps: Any) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step(x)
        return x * 3


@pytest.mark.parametrize(
    ("steps", "is_told"),
    [
        ([with_channels], True),
        ([with_channels, with_depth], True),
        ([with_channels, spread], True),
        # PyTorch's shape analysis of these writes where it may not.
        ([halved, with_channels], True),
        ([with_channels, halved], True),
        ([signed], False),
        ([torch.tanh], False),
    ],
)
def test_a_branch_of_a_compiled_function(steps: list[Any], is_told: bool) -> None:
    exported = modellint.export(Net(*steps).eval(), (torch.randn(2, 5),), frontend="trace", precision="fp32")
    assert exported.verification.ok
    assert ("the branches that the inputs' sizes decide" in str(exported)) is is_told


def test_a_number_that_a_compiled_function_takes_is_not_that_of_the_example() -> None:
    with pytest.raises(modellint.ExportError, match="op 'float' not implemented"):
        modellint.export(Net(scaled).eval(), (torch.randn(2, 5),), frontend="trace", precision="fp32")


def test_a_branch_is_kept_where_sizes_may_change() -> None:
    flexible = {0: {1: (3, 8)}}
    exported = modellint.export(
        Net(signed).eval(), (torch.randn(2, 5),), frontend="trace", precision="fp32", flexible=flexible
    )
    assert exported.verification.ok


def test_a_scripted_model_stays_as_it_is() -> None:
    net = torch.jit.script(Scripted().eval())
    before = str(net.graph)
    modellint.check_model(net, example_inputs=(torch.randn(2, 5),))
    assert str(net.graph) == before
    assert net(torch.zeros(3)).shape == (1, 3)


class Scripted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 1:
            return x.unsqueeze(0)
        return x * 2


def test_branches_beside_what_takes_no_zeros_are_exported() -> None:
    result = modellint.export(Net(placed, with_channels).eval(), (torch.randn(2, 8),), precision="fp32")
    assert result.verification.ok
