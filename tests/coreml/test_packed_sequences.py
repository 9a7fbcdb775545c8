"""Packed sequences: what an export makes of `pack_padded_sequence` and the recurrent layers behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import modellint

pytestmark = pytest.mark.filterwarnings("ignore")
X = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(1))
LENGTHS = torch.tensor([4, 6, 2])


class Encoder(nn.Module):
    def __init__(self, kind: str = "LSTM", *, gives: str = "rows", total: int | None = 6, **options: Any) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(5, 4, batch_first=True, **options)
        self.scale = nn.Linear(5, 5)
        self.gives, self.total = gives, total

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed = PackedSequence(self.scale(packed.data), *packed[1:])
        rows, states = self.layer(packed)
        if self.gives == "rows":
            return pad_packed_sequence(rows, batch_first=True, padding_value=-1.0, total_length=self.total)[0]
        last: Tensor = states if isinstance(states, Tensor) else states[self.gives == "cells"]
        return last


def encoder(*args: Any, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return Encoder(*args, **options).eval()


@pytest.mark.parametrize(
    "model",
    [
        encoder(num_layers=2, bidirectional=True),
        encoder("GRU", bidirectional=True, total=8),
        encoder("RNN", bias=False),
        encoder("RNN", nonlinearity="relu", num_layers=2),
        encoder(num_layers=2, bidirectional=True, gives="states"),
        encoder("GRU", gives="states"),
    ],
    ids=["LSTM", "GRU", "RNN", "relu", "last states", "last state"],
)
def test_an_export_agrees_whatever_the_lengths(model: nn.Module) -> None:
    exported = modellint.export(model, (X, LENGTHS))
    assert exported.verification.verdict == "agrees"
    assert "masked behind their own" in str(exported)


def test_cell_states_are_not_called_equal() -> None:
    with pytest.raises(modellint.ExportError):
        modellint.export(encoder(gives="cells"), (X, LENGTHS))


class Reading(nn.Module):
    """Reads what stands for a packed sequence."""

    def __init__(self, read: Callable[[PackedSequence], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.recurrent = nn.LSTM(5, 4, proj_size=2, batch_first=True)
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        lengths = (x.abs().sum(-1) > 0).sum(1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        if self.read is None:
            return self.recurrent(packed)[1][0]
        return self.layer(x).sum(1) + self.read(packed)


@pytest.mark.parametrize(
    "read",
    [
        lambda packed: packed.batch_sizes.sum(),
        lambda packed: packed.batch_sizes[0].to(torch.float32),
        lambda packed: packed.data.mean(),
        lambda packed: float(packed.data.shape[0]),
        None,
    ],
    ids=["sizes", "the first size", "the mean", "how many", "a projection"],
)
def test_what_padded_rows_cannot_stand_for_is_left_to_pytorch(read: Any) -> None:
    torch.manual_seed(0)
    try:
        told = str(modellint.export(Reading(read).eval(), (X,)))
    except modellint.ExportError as error:
        told = str(error)
    assert "masked behind their own" not in told


def test_rows_as_long_as_the_longest_are_refused_with_what_to_write() -> None:
    with pytest.raises(modellint.ExportError, match=r"total_length=x\.shape\[1\]"):
        modellint.export(encoder(total=None), (X, LENGTHS))


def test_an_example_without_a_row_of_full_length_is_left_alone() -> None:
    with pytest.raises(modellint.ExportError):
        modellint.export(encoder(), (X, torch.tensor([4, 5, 2])))


def test_the_model_computes_as_before() -> None:
    model = encoder(num_layers=2, bidirectional=True)
    before = model(X, LENGTHS)
    modellint.export(model, (X, LENGTHS))
    assert torch.equal(model(X, LENGTHS), before)
