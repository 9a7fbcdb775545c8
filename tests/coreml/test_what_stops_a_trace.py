"""Autograd functions written in Python, trainers, and parts of no length: what stops a plain conversion, and no export."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import modellint

pytestmark = pytest.mark.filterwarnings("ignore")


class Bounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bound: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.needs = any(ctx.needs_input_grad)
        return x.clamp_min(bound) * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0], None


class SetUp(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Any:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0] * ctx.saved_tensors[0].cos()


bounded = Bounded.apply


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.own = SetUp.apply

    def forward(self, x: Tensor) -> Tensor:
        return bounded(self.linear(x), 0.1) + self.own(x) + SetUp.apply(x)


@pytest.mark.parametrize("route", ["trace", "export"])
def test_what_an_autograd_function_computes_is_exported(route: str) -> None:
    model = Net().eval()
    before = bounded, vars(model)["own"]
    exported = modellint.export(model, (torch.randn(2, 3),), frontend=route)
    assert exported.verification is not None and exported.verification.verdict == "agrees"
    assert (bounded, vars(model)["own"]) == before
    assert bounded(torch.ones(1, requires_grad=True), 0.1).grad_fn is not None


class Attached(nn.Module):
    """Asked for what only a trainer, or a loaded file, gives it."""

    @property
    def trainer(self) -> None:
        raise RuntimeError("not attached to a trainer")


class Described(Attached):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.metadata: dict[str, float] = {}

    @property
    def rate(self) -> float:
        return self.metadata["rate"]

    @property
    def width(self) -> int:
        return self.linear.in_features

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.width


@pytest.mark.parametrize("route", ["trace", "export"])
def test_a_module_with_properties_that_raise_is_exported(route: str) -> None:
    model = Described().eval()
    exported = modellint.export(model, (torch.randn(2, 3),), frontend=route)
    assert exported.verification is not None and exported.verification.verdict == "agrees"
    with pytest.raises((RuntimeError, KeyError)):
        torch.jit.trace(model, torch.randn(2, 3))


class Padded(nn.Module):
    """As causal convolutions pad, of a kernel of one."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.conv = nn.Conv1d(2, 2, size)

    def forward(self, x: Tensor) -> Tensor:
        first = x[:, :, :1].repeat(1, 1, self.size - 1)
        return self.conv(torch.concatenate([first, x], dim=2))


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize("size", [1, 3])
def test_parts_of_no_length_are_not_joined(size: int, route: str) -> None:
    exported = modellint.export(Padded(size).eval(), (torch.randn(1, 2, 6),), frontend=route)
    assert exported.verification is not None and exported.verification.verdict == "agrees"


class Begun(nn.Module):
    """As a cache begins, with a tensor of rank one that PyTorch joins to any."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([x.new_zeros(0), x, 2 * x], dim=-2), torch.cat((x.new_zeros(0), x.relu()), axis=2)


@pytest.mark.parametrize("route", ["trace", "export"])
def test_a_tensor_without_elements_is_not_joined(route: str) -> None:
    exported = modellint.export(Begun().eval(), (torch.randn(1, 2, 6),), frontend=route)
    assert exported.verification is not None and exported.verification.verdict == "agrees"


class Sorted(nn.Module):
    """Experts over rows in their order, as many for each as it is chosen by, and joined again."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4, 4))
        self.router = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        choice = self.router(x).topk(1, dim=1)[1]
        counts = torch.zeros(len(x), 3).scatter(1, choice, 1).long().sum(0).tolist()
        order = choice.flatten().sort(0)[1]
        rows = x[order].split(counts, dim=0)
        parts = [nn.functional.linear(rows[at], self.weight[at]) for at in range(3)]
        return torch.zeros_like(x).index_add(0, order, torch.cat(parts, dim=0))


def test_parts_whose_sizes_are_values_are_joined() -> None:
    """Whether one is of no length no capture can tell, and is not asked."""
    result = modellint.export(Sorted().eval(), (torch.randn(6, 4),), precision="fp32")
    assert result.frontend != "trace"
    assert result.verification.ok
