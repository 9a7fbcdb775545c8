"""Operators on constants alone, of sizes that no converter takes: what PyTorch computes stands in the program."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import modellint

pytestmark = pytest.mark.filterwarnings("ignore")


class Fixed(nn.Module):
    """Factors of parameters, larger than what is unrolled; the input takes part afterwards."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tall = nn.Parameter(torch.randn(24, 6))
        self.square = nn.Parameter(torch.randn(20, 20) + 20 * torch.eye(20))

    def forward(self, x):
        basis, _ = torch.linalg.qr(self.tall + 1e-8)
        solved = torch.linalg.solve(self.square, self.square[:, :2])
        return x @ basis.T + torch.linalg.svdvals(self.square)[:1] + solved.sum()


class Moving(nn.Module):
    def forward(self, x):
        return torch.linalg.qr(x)[1].abs()


@pytest.mark.parametrize("frontend", ["trace", "export"])
def test_factors_of_parameters_are_computed_once(frontend: str) -> None:
    exported = modellint.export(Fixed().eval(), (torch.randn(2, 6),), frontend=frontend)
    assert exported.verification is not None and exported.verification.verdict == "agrees"
    operators = {change.what for change in exported.summary.changes if change.kind == "supplied"}
    assert {"aten::linalg_qr", "aten::linalg_svdvals", "aten::linalg_solve"} <= operators


def test_factors_of_an_input_are_still_refused() -> None:
    with pytest.raises(Exception, match="more than 16 rows"):
        modellint.export(Moving().eval(), (torch.randn(24, 6),))
