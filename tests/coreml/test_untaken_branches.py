"""Branches that values of inputs decide, of which the example takes one: the other is captured where it gives the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import modellint
from modellint.destinations.capture.untaken_branches import NOTE


class ShortCut(nn.Module):
    """Padding is masked where there is any: as FSMT of transformers has it."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question
        self.embedding = nn.Embedding(9, 4)
        self.layer = nn.Linear(4, 3)

    def forward(self, ids: Tensor) -> Tensor:
        rows = self.embedding(ids)
        padding = ids == 1
        match self.question:
            case "any":
                has_padding = bool(padding.any())
            case "in":
                has_padding = 1 in ids
            case "all":
                has_padding = not (~padding).all().item()
            case "equal":
                has_padding = not torch.equal(padding, torch.zeros_like(padding))
            case _:
                raise AssertionError
        if has_padding:
            rows = rows.masked_fill(padding.unsqueeze(-1), 0.0)
        return self.layer(rows)


class Asserted(nn.Module):
    """The other way raises."""

    def forward(self, x: Tensor) -> Tensor:
        if not (x < 1e6).all():
            raise ValueError("too large")
        return x * 2


class Signed(nn.Module):
    """The other way is another result."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 1


@pytest.mark.parametrize("question", ["any", "in", "all", "equal"])
@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_the_way_that_holds_for_all_inputs_is_captured(question: str, frontend: str, tmp_path: Path) -> None:
    ids = torch.tensor([[2, 3, 4, 5, 6, 7]])
    result = modellint.export(
        ShortCut(question).eval(), ids, frontend=frontend, ranges={0: (0, 9)}, output=tmp_path / "net.mlpackage"
    )
    assert result.verification is not None
    assert result.verification.verdict == "agrees"
    assert NOTE in str(result)


def test_the_example_may_take_the_way_that_holds_for_all(tmp_path: Path) -> None:
    ids = torch.tensor([[2, 1, 4, 5, 1, 7]])
    result = modellint.export(
        ShortCut("any").eval(), ids, frontend="trace", ranges={0: (0, 9)}, output=tmp_path / "net.mlpackage"
    )
    assert result.verification is not None
    assert result.verification.verdict == "agrees"
    assert NOTE not in str(result)


def test_a_way_that_raises_is_not_taken(tmp_path: Path) -> None:
    model = Asserted().eval()
    result = modellint.export(model, torch.ones(2, 4), frontend="trace", output=tmp_path / "net.mlpackage")
    assert NOTE not in str(result)
    assert "forward" not in vars(model)


def test_a_way_with_another_result_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(modellint.ExportError, match=r"FLW001|differs") as raised:
        modellint.export(Signed().eval(), torch.ones(2, 4), frontend="trace", output=tmp_path / "net.mlpackage")
    assert NOTE not in str(raised.value)
