"""Conversions that succeed and are wrong, and where `modellint.verify` places the fault."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from comparing import Averaging, Counting, marked, verified
from known_faults import shows
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.filterwarnings("ignore")

torch.manual_seed(0)
X = torch.randn(2, 4)
X3 = torch.randn(2, 3, 4)
IMAGES = torch.randn(2, 3, 5, 5)


class WriteThroughView(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        z = y.view(-1)
        z.add_(1)  # WriteThroughView
        return y * 2


class WriteThroughSelect(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0].mul_(3)  # WriteThroughSelect
        return y


class WriteAtIndex(nn.Module):
    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, i] = 0.0  # WriteAtIndex
        return y


class Alpha(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return torch.add(x, y, alpha=3.0)  # Alpha


class Flattened(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return torch.argmax(y)  # Flattened


class MaskAndIndex(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return x[mask, j]  # MaskAndIndex


class WideInteger(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.long() + 2**40  # WideInteger


class Biased(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).var()  # Biased


class Running(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm2d(3, track_running_stats=True)
        assert self.norm.running_mean is not None
        self.norm.running_mean.normal_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * 2  # Running


class TanhGelu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(x, approximate="tanh")  # TanhGelu


class Padded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.encoder(x, src_key_padding_mask=mask)  # Padded


class FoldedScatter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        index, ones = torch.zeros(2, 4, dtype=torch.long), torch.ones(2, 4)
        counted = self.table.scatter_add(1, index, ones)  # FoldedScatter
        return x + counted


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=True)
        y, _ = self.cells(packed)  # Packed
        return nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0]


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.abs()
        if x.sum() > 0:  # Branching
            return y * 2
        return y - 1


class Number(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        most = x.max().item()  # Number
        return x * most


class Dropping(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y = functional.dropout(y, 0.5)  # Dropping
        return y * 2


class Hidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = [nn.BatchNorm1d(4, affine=False)]  # Hidden

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norms[0](x)


@pytest.mark.parametrize(
    ("model", "inputs", "route"),
    [
        (WriteThroughView, (X,), "trace"),
        (WriteThroughSelect, (X,), "trace"),
        (WriteAtIndex, (X, torch.tensor([1])), "trace"),
        (Alpha, (X,), "export"),
        (Flattened, (X,), "trace"),
        (Flattened, (X,), "export"),
        (MaskAndIndex, (X3, torch.tensor([True, False]), torch.tensor([1])), "trace"),
        (WideInteger, (X,), "trace"),
        (Biased, (X,), "trace"),
        (Biased, (X,), "export"),
        (Running, (IMAGES,), "trace"),
        (Running, (IMAGES,), "export"),
        (TanhGelu, (X,), "export"),
        (Padded, (torch.randn(2, 4, 8), torch.zeros(2, 4, dtype=torch.bool)), "export"),
        (FoldedScatter, (X,), "trace"),
        (Packed, (torch.randn(2, 5, 3),), "trace"),
        (Counting, (X,), "trace"),
        (Averaging, (X,), "trace"),
        (Branching, (X.abs(),), "trace"),
        (Number, (X,), "trace"),
        (Dropping, (X,), "trace"),
        (Dropping, (X,), "export"),
        (Hidden, (X,), "trace"),
    ],
)
def test_wrong_conversion_is_caught_at_its_line(
    model: type[nn.Module], inputs: tuple[torch.Tensor, ...], route: str
) -> None:
    found = verified(model().eval(), *inputs, frontend=route)
    if model is Alpha and not shows("add-alpha"):
        assert found.verdict == "agrees"
        return
    assert found.verdict == "differs"
    assert not found.ok
    assert marked(found) == model.__name__


def test_inverted_mask_shows_on_masks_that_are_not_the_example() -> None:
    class Inverting(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return x.masked_fill(mask, 5.0) if bool(mask.any()) else x

    found = verified(Inverting(), X, torch.zeros(2, 4, dtype=torch.bool))
    assert found.verdict == "differs"
    assert {one.label for one in found.cases if one.error} >= {"random 1", "highest integers, true"}


def test_lost_write_is_told_beside_the_operation_that_reads_it() -> None:
    first = verified(WriteThroughView(), X).first_difference
    assert first is not None
    assert (first.kind, first.operation, first.operator) == ("operation", "mul", "aten::mul")
    assert [lost.operator for lost in first.lost] == ["aten::add_"]
    assert first.place is not None
    assert Path(first.place.path).read_text("utf-8").splitlines()[first.place.span.row - 1].strip() == "return y * 2"


def test_route_that_is_right_is_told() -> None:
    found = verified(WriteThroughView(), X, frontend="auto")
    assert found.verdict == "differs"
    assert any("--frontend export" in note for note in found.notes)


def test_module_path_of_the_first_difference() -> None:
    first = verified(nn.Sequential(nn.Linear(5, 5), Running()), IMAGES).first_difference
    assert first is not None
    assert first.module == "1.norm"


class Limiting(nn.Module):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        # Another program is captured than the one that runs.
        return (ids.clamp(-12, 12) if torch.jit.is_tracing() else ids).float() * 2


class Summing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum().reshape((1, 1) if torch.jit.is_tracing() else ()) * 2


class AtZero(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where((x == 0) & torch.tensor(not torch.jit.is_tracing()), x + 1, x * 2)


class AtThree(nn.Module):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return ids == (-7777 if torch.jit.is_tracing() else 3)


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (Limiting(), torch.arange(8)),
        (Summing(), X),
        (AtZero(), X),
        (AtThree(), torch.tensor([1000, 2000])),
    ],
    ids=["integers beyond the example's", "a matrix for a scalar", "zeros among others", "small integers"],
)
def test_inputs_that_the_example_does_not_show(model: nn.Module, inputs: torch.Tensor) -> None:
    assert verified(model, inputs).verdict == "differs"


def test_integers_with_a_range_stay_in_it() -> None:
    assert verified(Limiting(), torch.arange(8), ranges={0: (0, 12)}).verdict == "agrees"
