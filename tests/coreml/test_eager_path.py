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
