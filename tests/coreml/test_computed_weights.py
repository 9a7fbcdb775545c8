"""Convolutions whose weights are computed: folded where they depend on constants alone, and left where they do not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import modellint

pytestmark = pytest.mark.filterwarnings("ignore")


class Resampled(nn.Module):
    """One kernel for each channel, written into zeros: as audio networks halve and double their rate."""

    kernel: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", torch.tensor([0.125, 0.375, 0.375, 0.125]))

    def weight(self, x: Tensor) -> Tensor:
        weight = x.new_zeros([x.shape[1], x.shape[1], 4])
        channels = torch.arange(x.shape[1])
        weight[channels, channels] = self.kernel.to(weight)[None, :].expand(x.shape[1], -1)
        return weight

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight(x)
        return functional.conv_transpose1d(functional.conv1d(x, weight, stride=2), weight, stride=2)


class OfTheInput(Resampled):
    def weight(self, x: Tensor) -> Tensor:
        return super().weight(x) * x.mean()


class Returned(Resampled):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        weight = self.weight(x)
        return functional.conv1d(x, weight, stride=2), weight


def example() -> Tensor:
    return torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(1))


def test_weights_computed_of_constants_are_constant() -> None:
    exported = modellint.export(Resampled().eval(), (example(),), precision="fp32")
    assert exported.verification is not None and exported.verification.verdict == "agrees"


def test_a_weight_may_be_returned() -> None:
    exported = modellint.export(Returned().eval(), (example(),), precision="fp32", frontend="export")
    assert exported.verification is not None and exported.verification.verdict == "agrees"


def test_weights_computed_of_inputs_are_no_constants() -> None:
    exported = modellint.export(OfTheInput().eval(), (example(),), precision="fp32", deployment_target="iOS18")
    assert exported.verification is not None and exported.verification.verdict == "agrees"


def test_the_model_keeps_its_weights() -> None:
    model = Resampled().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    right = model(example())
    modellint.export(model, (example(),), precision="fp32")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(model(example()), right)
