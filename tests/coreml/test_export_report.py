"""What an export's report tells of the copy that is exported."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import modellint

pytestmark = pytest.mark.filterwarnings("ignore")

HERE = Path(__file__).parent
X = torch.rand(2, 4)


class Hiding(nn.Module):
    """Hides layers in a list that may become another, and in one that may not."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(4, 4)]
        self.others = [nn.Linear(4, 4)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.others[self.others.index(self.others[0])](self.layers[0](x))


class Eigenvalues(nn.Module):
    """No route converts it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.linalg.eigvals(x @ x.mT).abs().sum()


def registered(report: modellint.Report) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """What was registered, and what was not."""
    return (
        [one.modules for one in report.fixed if one.code == "REG001"],
        [one.modules for one in report.undone if one.code == "REG001"],
    )


def test_what_was_fixed_and_what_was_undone() -> None:
    model = Hiding().eval()
    report = modellint.export(model, (X,), root=HERE).report
    assert "REG001" in {one.code for one in report.diagnostics}
    assert registered(report) == ([("layers[0]",), ("others[0]",)], [("others[0]",)])
    assert [one.exactness for one in report.fixed] == ["bit-equal"] * len(report.fixed)
    assert "index" in report.undone[0].note
    _, again = modellint.fix_model(model, (X,), root=HERE)
    assert (report.fixed, report.undone) == (again.fixed, again.undone)
    assert "fixed: REG001 made a `ModuleList` of the list (layers[0]): adds `state_dict` keys" in repr(report)


def test_in_a_notebook() -> None:
    result = modellint.export(Hiding().eval(), (X,), root=HERE)
    shown = result._repr_html_()
    assert "exported, and agrees with PyTorch" in shown
    assert '<th scope="row" class="m">route</th><td class="m">' in shown
    assert result.verification._repr_html_() in shown  # type: ignore[attr-defined]


def test_of_a_model_that_does_not_convert_too() -> None:
    with pytest.raises(modellint.ExportError) as caught:
        modellint.export(nn.Sequential(Hiding(), Eigenvalues()).eval(), (X,), root=HERE)
    assert registered(caught.value.report) == ([("0.layers[0]",), ("0.others[0]",)], [("0.others[0]",)])


def test_nothing_where_there_is_nothing_to_fix() -> None:
    report = modellint.export(nn.Linear(4, 4).eval(), (X,), root=HERE).report
    assert report.fixed == report.undone == ()
