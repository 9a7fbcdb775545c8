"""Models in bfloat16, float16 and float64: an export computes them in float32, and says that it is compared with that."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import modellint


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(16, 8)
        self.norm = nn.LayerNorm(8)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, ids: Tensor) -> Tensor:
        return self.norm(self.words(ids)) * self.scale.to(self.words.weight.dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_is_computed_in_float32(dtype: torch.dtype) -> None:
    model = Words().eval().to(dtype)
    found = modellint.export(model, (torch.tensor([[1, 2, 3]]),))
    assert found.verification.ok
    change = found.summary.changes[0]
    name = str(dtype).removeprefix("torch.")
    assert (change.what, change.code) == ("model.float()", "NUM007")
    assert f"that in {name} is" in change.note
    assert str(found).startswith("exported, and agrees with the model in float32")
    # The model is as it was.
    assert model.words.weight.dtype is dtype


def test_inputs_are_float32_too() -> None:
    draw = torch.Generator().manual_seed(1)
    layer = nn.Linear(64, 32).double().eval()
    with torch.no_grad():
        # Of few weights some round so well that the model converts as it is.
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    found = modellint.export(layer, (torch.randn(2, 64, generator=draw, dtype=torch.float64),), precision="fp32")
    assert found.verification.ok
    assert [feature.dtype for feature in found.summary.inputs] == ["float32"]
    assert "that in float64 is" in found.summary.changes[0].note


def test_check_says_so() -> None:
    report = modellint.check_model(Words().eval().bfloat16(), (torch.tensor([[1, 2, 3]]),))
    assert "converts with modellint export (fixes NUM007)" in str(report)


class Rounds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x).to(dtype=torch.bfloat16).relu().float()


def test_a_float32_model_does_not_round_to_bfloat16() -> None:
    model = Rounds().eval()
    found = modellint.export(model, (torch.randn(2, 4),))
    assert found.verification.ok
    change = found.summary.changes[0]
    assert (change.what, change.code) == ("casts to bfloat16, as casts to float32", "OPS002")
    assert "that in bfloat16 is" in change.note
    assert str(found).startswith("exported, and agrees with the model in float32")
    # The model is as it was.
    assert type(model) is Rounds


def test_weights_of_bfloat16_in_a_float32_model_round() -> None:
    class Rounding(Rounds):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.randn(4, dtype=torch.bfloat16))

        def forward(self, x: Tensor) -> Any:
            return self.layer(x).to(torch.bfloat16) * self.scale

    with pytest.raises(modellint.ExportError, match=r"(?i)bfloat16"):
        modellint.export(Rounding().eval(), (torch.randn(2, 4),))
