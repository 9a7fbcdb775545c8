"""`.data` of a parameter or another tensor: `torch.export` loses where it comes from."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import modellint


class Narrowed(nn.Module):
    """A convolution that takes fewer channels than its weights are for."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.first.weight.data[:, : x.shape[1]], self.first.bias.data)  # type: ignore[union-attr]


class Halved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 3
        return y + (x * 2).data / 2 + y.data.sum(-1, keepdim=True)


@pytest.mark.parametrize("frontend", ["trace", "export"])
@pytest.mark.parametrize("model", [Narrowed(), Halved()])
def test_it_is_exported(model: nn.Module, frontend: str) -> None:
    result = modellint.export(model.eval(), (torch.randn(2, 3, 4, 4),), frontend=frontend, precision="fp32")
    assert result.verification.ok


class Writing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 3
        y.data.mul_(2)
        return y + 1


def test_a_write_through_it_is_kept_or_told() -> None:
    x = torch.randn(2, 3)
    # A trace takes the detached tensor for another one.
    assert modellint.verify(Writing().eval(), (x,), frontend="trace", precision="fp32").verdict == "differs"
    assert modellint.export(Writing().eval(), (x,), frontend="export", precision="fp32").verification.ok
