"""Rows that a mask chooses, and products of merged columns: exported, and held against Apple's interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import modellint

pytest.importorskip("coreai_torch", reason="coreai-torch is not installed: pip install '.[coreai]'")
pytestmark = pytest.mark.filterwarnings("ignore")

X, MASK = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([1, 0, 1, 1, 0, 0]).bool()


class PutBack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = x.clone()
        y[mask] = torch.relu(self.linear(x[mask]))
        return y


class Expert(PutBack):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        (rows,) = torch.where(mask)
        return torch.zeros_like(x).index_add(0, rows, self.linear(x[rows]))


class Pooled(PutBack):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.linear(torch.cat([x[mask], x[:1]]).mean(0))


class OthersOnly(PutBack):
    """Pairs without the pair of each with itself, by a mask that no input reaches; and what a mask of rows chooses of all columns."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        pairs = (x @ x.T).masked_select(~torch.eye(6, dtype=torch.bool)).reshape(6, 5)
        return torch.cat([pairs.sum(1), x.masked_select(mask[:, None]).sum()[None]])


class Kept(PutBack):
    """As many rows, columns and elements as values tell, as a detector gives them."""

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        scores = self.linear(x)
        return scores[mask], x[:, scores[0] > 0], scores[scores > 0.1], x[[True, False] * 3]


class Assigned(PutBack):
    """Assignments by masks, of which some choose nothing: the interpreter ends its process at `index_put` by those."""

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        y, z = x.clone(), torch.stack([x, x * 2])
        nowhere = mask & (x[:, 0] > 50)
        y[y > 50] = 0.0
        y[mask] = torch.arange(4.0)
        y[nowhere] = x[nowhere]
        y = y.index_put((y < -1,), torch.zeros(1, 1, 1))
        z[:, mask] = x[mask]
        z[:, :, z[0, 0] > 0] = 3.0
        added = x.index_put((x > 0.2,), torch.tensor(1.0), accumulate=True)
        return y, z, added, x.masked_select(x > 50).sum(), x.masked_select(x > 0)


class Contracted(nn.Module):
    """An `einsum` whose second operand was a mean over the last axis."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("ki,ijl->kjl", self.weight, x.mean(-1))


@pytest.mark.parametrize(
    "model", [PutBack(), Expert(), Pooled(), OthersOnly(), Kept(), Assigned()], ids=lambda model: type(model).__name__
)
def test_rows_by_a_mask(model: nn.Module, tmp_path: Path) -> None:
    result = modellint.export(model.eval(), (X, MASK), output=tmp_path / "a.aimodel", destination="coreai")
    assert result.verification is not None
    assert result.verification.verdict == "agrees"
    told = any(note.startswith("some sizes depend on values") for note in result.summary.notes)
    assert told == isinstance(model, (Kept, Assigned))


def test_products_of_merged_columns(tmp_path: Path) -> None:
    x = torch.randn(4, 6, 4, 2, generator=torch.Generator().manual_seed(0))
    plain = modellint.verify(Contracted().eval(), (x,), destination="coreai")
    assert plain.verdict == "differs"
    result = modellint.export(Contracted().eval(), (x,), output=tmp_path / "a.aimodel", destination="coreai")
    assert result.verification is not None
    assert result.verification.verdict == "agrees"


class Outer(nn.Module):
    """Columns over a row, both of which views have merged."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("row", torch.randn(3, 9, 1, generator=torch.Generator().manual_seed(1)))

    def forward(self, x: Tensor) -> Tensor:
        columns = x.sum(1, keepdim=True).permute(0, 2, 1).reshape(60, 1)
        return (columns @ self.row.permute(2, 0, 1).reshape(1, 27)).view(5, 12, 3, 9)


def test_products_of_one_term(tmp_path: Path) -> None:
    x = torch.randn(5, 2, 12, generator=torch.Generator().manual_seed(0))
    result = modellint.export(Outer().eval(), (x,), output=tmp_path / "a.aimodel", destination="coreai")
    assert result.verification is not None
    assert result.verification.verdict == "agrees"


class Experts(nn.Module):
    """Experts that are left out where no row is theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(1, -1)
        mask = nn.functional.one_hot(chosen, 3).permute(2, 1, 0)
        final = torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            which, rows = torch.where(mask[at])
            if rows.shape[0] == 0:
                continue
            final.index_add_(0, rows, expert(x[rows]) * weights[rows, which, None])
        return final


def test_experts_without_rows_are_computed_like_others(tmp_path: Path) -> None:
    torch.manual_seed(0)
    exported = modellint.export(Experts().eval(), (X,), output=tmp_path / "net.aimodel", destination="coreai")
    assert exported.verification is not None and exported.verification.verdict == "agrees"
    assert "whether a mask found rows" in str(exported)
