"""Models that ask whether they are compiled, and that `torch.export` cannot capture on the path that they take then."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import modellint


class Masked(nn.Module):
    """A mask is made only where nothing is compiled, and is needed everywhere: as in LongT5 of transformers."""

    def __init__(self, query: str) -> None:
        super().__init__()
        self.query = query
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        space = torch._dynamo if self.query.startswith("old ") else torch.compiler
        mask = None if getattr(space, self.query.removeprefix("old "))() else torch.ones(4)
        return self.layer(x) * mask.reshape(1, 4)  # type: ignore[union-attr]


class Refused(nn.Module):
    """Neither path can be captured."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            raise ValueError("not while it is compiled")
        return x * 2 if x.sum() > 0 else x


class Experts(nn.ModuleDict):
    """Experts that are named by the number of the one that is asked for: as in Switch Transformers."""

    def __init__(self) -> None:
        super().__init__({f"expert_{number}": nn.Linear(4, 4) for number in range(3)})

    def forward(self, x: Tensor) -> Tensor:
        chosen = nn.functional.one_hot((x.sum(-1) > 0).long(), 3)
        result = torch.zeros_like(x)
        for number in (chosen.sum(0) > 0).nonzero():
            rows = torch.where(chosen[:, number].squeeze(-1))[0]
            result.index_add_(0, rows, self[f"expert_{number[0]}"](x[rows]))
        return result


def test_a_module_is_found_by_a_name_that_a_number_is_written_into(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.tensor([[1.0, 2, 3, 4], [-1, -2, -3, -4], [1, -2, 3, 1]])
    result = modellint.export(Experts().eval(), x, frontend="export", output=tmp_path / "net.mlpackage")
    assert result.verification is not None
    assert result.verification.verdict == "agrees"


@pytest.mark.parametrize("query", ["is_compiling", "is_exporting", "old is_compiling"])
def test_the_path_of_a_run_is_captured(query: str, tmp_path: Path) -> None:
    model = Masked(query).eval()
    result = modellint.export(model, torch.randn(2, 4), frontend="export", output=tmp_path / "net.mlpackage")
    assert result.verification is not None
    assert result.verification.verdict == "agrees"
    assert not torch.compiler.is_compiling()


def test_a_path_that_cannot_be_captured_either_leaves_the_reason_of_the_first(tmp_path: Path) -> None:
    queries = torch.compiler.is_compiling, torch.compiler.is_exporting
    with pytest.raises(modellint.ExportError, match="not while it is compiled"):
        modellint.export(Refused().eval(), torch.ones(2, 4), frontend="export", output=tmp_path / "net.mlpackage")
    assert (torch.compiler.is_compiling, torch.compiler.is_exporting) == queries
