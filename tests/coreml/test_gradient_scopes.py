"""What a model computes under `torch.set_grad_enabled` is computed like all else; distributions are not asked whether they are valid."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import modellint
from modellint.destinations.capture import constant_scalars
from modellint.destinations.capture.preparation import prepared
from modellint.live.inputs.model_inputs import Inputs


class Scoped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.set_grad_enabled(True):
            y, z = self.first(x), torch.tensor([1.0, 2.0, 3.0, 4.0]) * x
        with torch.enable_grad():
            y = self.second(y) + z
        return y, z.flatten(1)


class Acting(nn.Module):
    """A policy that gives the mode of its distribution, and how likely that is."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.deviation = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.distributions.Normal(self.mean(x), self.deviation(x).clamp(-2, 2).exp(), validate_args=True)
        return chosen.mean.tanh(), chosen.log_prob(chosen.mean)


@pytest.mark.parametrize("frontend", ["trace", "export"])
@pytest.mark.parametrize("model", [Scoped(), Acting()])
def test_they_are_exported(model: nn.Module, frontend: str) -> None:
    asking = torch.distributions.Distribution.__init__
    result = modellint.export(model.eval(), (torch.randn(3, 4),), frontend=frontend, precision="fp32")
    assert result.verification.ok
    assert torch.distributions.Distribution.__init__ is asking


class Chosen(nn.Module):
    """All of `forward` is one scope, and what it asks of its buffer is a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.mask: Tensor
        self.register_buffer("mask", torch.tensor([True, False, True, True]))

    @torch.enable_grad()
    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.mask.nonzero()[:, 0]] * 2


class Inferring(Chosen):
    @torch.inference_mode()
    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.mask.nonzero()[:, 0]]


class Prior(nn.Module):
    """A distribution that the model holds."""

    def __init__(self) -> None:
        super().__init__()
        self.prior = torch.distributions.Normal(torch.zeros(4), torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.distributions.Independent(self.prior, 1).log_prob(x)


@pytest.mark.parametrize("model", [Chosen(), Inferring(), Prior()])
def test_a_program_of_them_is_whole(model: nn.Module) -> None:
    inputs = Inputs((torch.randn(3, 4),))
    with prepared(model.eval(), inputs), torch.no_grad():
        program, _ = constant_scalars.exported(model, inputs)
    program.validate()
    assert not any("wrap_with" in str(node.target) for node in program.graph.nodes)
    assert torch.allclose(program.module()(*inputs.args), model(*inputs.args))
