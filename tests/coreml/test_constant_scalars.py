"""Branches on the values of buffers: decided once for an export, as a program holds them as constants, and no others are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import modellint
from modellint.destinations.capture import constant_scalars

pytestmark = pytest.mark.filterwarnings("ignore")


class Skipping(nn.Module):
    """Layers that a buffer switches off, and a number of it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.tensor([0.0, 1.0, 0.5]))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.zeros_like(x[0, :3]) + self.kept
        for at, layer in enumerate(self.layers):
            if weights[at] > 0:
                x = layer(x) * self.kept[at].item()
        return x


class Patches(nn.Module):
    """Sizes that a buffer holds: listed, handed over as tensors, repeated by, chosen and written by a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("grid", torch.tensor([[2, 3]]))
        self.register_buffer("mask", torch.tensor([True, False, True, True, False, True]))
        self.table = nn.Parameter(torch.randn(1, 2, 4, 4))

    def forward(self, x: Tensor) -> Tensor:
        torch._check_tensor_all(x.sum() < 1e6, lambda: f"too much: {x.sum()}")
        (height, width), *_ = self.grid.tolist()
        rows, columns = self.grid[0]
        table = nn.functional.interpolate(self.table, size=(rows, columns)) + x.view(1, 1, height, width)
        ends = torch.tensor([self.grid.prod(), self.grid.sum()]).cumsum(0)
        lengths = torch.repeat_interleave(self.grid[0], ends[:1])[: x.shape[0]]
        out = torch.zeros_like(x)
        out[self.mask] = x[self.mask] * lengths[0]
        return table.flatten() * torch.cat([out, out]) + max(rows, columns)


class ThroughList(nn.Module):
    """A branch on a tensor whose memory is read of an input's."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if torch.tensor([x.sum(), x.sum()])[0] > 0 else x * 3


class ThroughOperand(nn.Module):
    """A branch on a tensor whose size is a number that an operator takes out of an input."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if torch.arange(x.abs().sum().long()).sum() > 3 else x * 3


class OfInputs(nn.Module):
    """A branch on what an input has written to a tensor of zeros."""

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.zeros(2)
        seen[0] = x.sum()
        return x * 2 if seen[0] > 0 else x * 3


class ThroughPython(nn.Module):
    """A branch on a tensor that is made of a number of the input."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if torch.full((), x.sum().item()) > 0 else x * 3


class ThroughSize(nn.Module):
    """A branch on a tensor whose size depends on values."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if torch.ones(x.nonzero().shape[0]).sum() > 4 else x * 3


class Counting(nn.Module):
    """A branch on a buffer that each run writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.count > 3:
            x = x * 2
        self.count += 1
        return x + self.count


class Drawing(nn.Module):
    """A branch on a random number."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if torch.rand(()) > 0.5 else x * 3


class OfSizes(nn.Module):
    """A branch on a number that comes of a size."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if torch.arange(x.shape[0]).sum() > 3 else x * 3


def test_branches_on_buffers_are_decided() -> None:
    torch.manual_seed(0)
    exported = modellint.export(Skipping().eval(), (torch.randn(2, 4),), frontend="export")
    assert exported.verification.verdict == "agrees"
    assert constant_scalars.NOTE in str(exported)


def test_sizes_of_buffers_are_decided() -> None:
    torch.manual_seed(0)
    exported = modellint.export(Patches().eval(), (torch.randn(6),), frontend="export")
    assert exported.verification.verdict == "agrees"
    assert constant_scalars.NOTE in str(exported)


@pytest.mark.parametrize("make", [OfInputs, ThroughPython, ThroughSize, ThroughList, ThroughOperand, Counting, Drawing])
def test_other_branches_are_refused(make: type[nn.Module]) -> None:
    with pytest.raises(modellint.ExportError) as caught:
        modellint.export(make().eval(), (torch.randn(2, 4),), frontend="export")
    assert "data-dependent" in str(caught.value) or "not allocated" in str(caught.value)


def test_a_branch_on_a_flexible_size_is_refused() -> None:
    with pytest.raises(modellint.ExportError):
        modellint.export(OfSizes().eval(), (torch.randn(2, 4),), frontend="export", flexible={0: {0: (2, 8)}})


class Moving(nn.Module):
    """A layer that is moved to where it is."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer.to(x.device)(x) + self.layer.to(torch.float32)(x)


def test_layers_that_stay_where_they_are_are_exported() -> None:
    torch.manual_seed(0)
    model = Moving().eval()
    exported = modellint.export(model, (torch.randn(2, 4),), frontend="export")
    assert exported.verification.verdict == "agrees"
    assert "to" not in vars(model.layer)


class Scratch(nn.Module):
    """A buffer that is written as a whole before it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.ones(4), persistent=False)
        self.register_buffer("short", torch.ones(4))
        self.register_buffer("long", torch.full((4,), 0.5))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        self.frequencies.copy_(torch.where(places.max() > 8, self.long, self.short))
        return x * (places[:, None] * self.frequencies).cos()


def test_a_buffer_that_is_written_before_it_is_read_needs_no_state() -> None:
    found = modellint.export(Scratch().eval(), (torch.randn(6, 4), torch.arange(6)), frontend="export")
    assert found.verification.ok
    assert found.summary.target == "iOS15"
    assert not found.summary.states
    assert "frequencies is written before it is read, and is no state" in found.summary.notes


def test_such_a_buffer_is_a_state_where_states_are_asked_for() -> None:
    example = torch.randn(6, 4), torch.arange(6)
    found = modellint.export(Scratch().eval(), example, frontend="export", deployment_target="iOS18", states=True)
    assert [feature.name for feature in found.summary.states] == ["frequencies"]


class Rotating(nn.Module):
    """A table that a first layer writes for the next: they share it, and write it outside of autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("angles", torch.zeros(16, 4), persistent=False)
        self.known = 0

    @torch.autocast("cuda", enabled=False)
    def forward(self, length: int) -> Tensor:
        if length <= self.known:
            return self.angles[:length].detach()
        angles = torch.arange(length)[:, None] * torch.linspace(0.1, 1, 4)
        self.angles[:length] = angles.detach()
        self.known = length
        return angles


class Rotated(nn.Module):
    def __init__(self, rotation: Rotating) -> None:
        super().__init__()
        self.rotation = rotation
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * self.rotation(x.shape[1]).cos()


class Read(nn.Module):
    """A table of which more is read than was written."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.table[:2] = x[0, :2]
        return x + self.table


def test_a_table_that_layers_share_needs_no_state() -> None:
    torch.manual_seed(0)
    rotation = Rotating()
    model = nn.Sequential(Rotated(rotation), Rotated(rotation)).eval()
    found = modellint.export(model, (torch.randn(1, 6, 4),), frontend="export")
    assert found.verification.ok
    assert not found.summary.states
    assert any("angles is written before it is read, and is no state" in note for note in found.summary.notes)
    assert rotation.known == 0


class Changed(nn.Module):
    """What a table was given is changed before the table is read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        row = x[0] * 2
        self.table[:2] = row[:2]
        row.add_(1)
        return row[:2] + self.table[:2]


def test_a_table_keeps_what_it_was_given() -> None:
    found = modellint.export(Changed().eval(), (torch.randn(2, 4),), frontend="export")
    assert found.verification.ok
    assert not found.summary.states


def test_a_table_that_is_read_beyond_what_was_written_stays_a_state() -> None:
    with pytest.raises(modellint.ExportError, match="does not convert"):
        modellint.export(Read().eval(), (torch.randn(2, 4),), frontend="export")
