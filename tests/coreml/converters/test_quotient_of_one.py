"""A rounded quotient by one, and its remainder: coremltools leaves the rounding out, and exports put it back."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import modellint


class Net(nn.Module):
    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form

    def forward(self, x: Tensor) -> Tensor:
        match self.form:
            case "x % 1":
                return x % 1
            case "x // 1":
                return x // 1 + 2
            case "div":
                return torch.div(x, 1.0, rounding_mode="floor") * 2
            case "ones":
                return x % torch.ones(4)
            case "larger ones":
                return x % torch.ones(2, 3, 4)
        return x.long() % 1 + x.round()


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize("form", ["x % 1", "x // 1", "div", "ones", "larger ones", "integers"])
def test_an_export_rounds(form: str, route: str) -> None:
    x = torch.tensor([[0.25, -1.5, 7.0, -0.0], [1e-9, -1e-9, 100.3, 2.5], [0.5, -7.25, 3.0, 12.125]])
    exported = modellint.export(Net(form).eval(), (x,), frontend=route, precision="fp32")
    assert exported.verification.ok


@pytest.mark.parametrize("form", ["x % 1", "x // 1", "div"])
def test_infinity_is_divided_as_pytorch_does(form: str) -> None:
    x = torch.tensor([[float("inf"), -1.5, float("-inf"), 2.5]])
    exported = modellint.export(Net(form).eval(), (x,), frontend="trace", precision="fp32")
    assert exported.verification.ok
