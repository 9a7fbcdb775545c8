"""Arguments that are no tensors: an export makes them constants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import modellint

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Flagged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(
        self, x: torch.Tensor, scale: Any = None, twice: bool = False, mode: str = "sum", **rest: Any
    ) -> dict[str, torch.Tensor] | tuple[torch.Tensor]:
        y = self.layer(x)
        y = y * 2 if twice else y
        y = y * scale if scale is not None else y
        y = y + rest.get("offset", 0)
        y = y.cumsum(0) if mode == "sum" else y
        return {"y": y} if rest.get("return_dict", True) else (y,)


@pytest.mark.parametrize(
    ("example", "constants", "count"),
    [
        ({"x": X, "return_dict": False}, {"return_dict": False}, 1),
        ((X, None, True), {"scale": None, "twice": True}, 1),
        ((X, X + 2, True, "none"), {"twice": True, "mode": "none"}, 2),
        ((X, 3.0), {"scale": 3.0}, 1),
        ({"offset": 4, "x": X, "scale": X + 2}, {"offset": 4}, 2),
    ],
)
def test_they_become_constants(example: Any, constants: dict[str, Any], count: int) -> None:
    model = Flagged().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = modellint.export(model, example)
    assert found.verification.ok
    told = {change.what: change.note for change in found.summary.changes if change.what.startswith("argument")}
    assert told == {f"argument {name}": f"always {value!r}" for name, value in constants.items()}
    assert len(found.summary.inputs) == count
    # The model is as it was.
    assert "forward" not in vars(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_sizes_of_the_other_arguments_may_vary() -> None:
    example = (True, torch.rand(2, 4))

    class Behind(nn.Module):
        def forward(self, twice: bool, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if twice else x

    found = modellint.export(Behind(), example, flexible={1: {0: (1, 8)}})
    assert found.verification.ok
    assert [(feature.name, feature.shape) for feature in found.summary.inputs] == [("x", "1..8x4")]


def test_a_check_says_what_to_do() -> None:
    report = modellint.check_model(Flagged().eval(), {"x": X, "return_dict": False}, ignore=["ENV"])
    assert "converts with modellint export" in report.verdict
    assert any("makes it a constant" in finding.message for finding in report.diagnostics)


def test_what_has_no_name_stays() -> None:
    class Unnamed(nn.Module):
        def forward(self, *args: Any) -> torch.Tensor:
            x, twice = args
            return x * 2 if twice else x

    with pytest.raises(modellint.ExportError, match="does not convert"):
        modellint.export(Unnamed(), (X, True))
