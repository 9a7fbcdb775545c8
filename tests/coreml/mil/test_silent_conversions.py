"""Models that coremltools converts without a word into something else: the executed program shows it.

The rows are kept apart by what shows the difference: the sample itself, or only other inputs than those that the model was
captured with.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from conversions import LIMIT, Call, X, errors, normal
from known_faults import shows
from torch import Tensor, nn
from torch.nn import functional

from modellint.destinations.coreml.mil.executor import ExecutionError

pytestmark = pytest.mark.filterwarnings("ignore")


class LostWrite(nn.Module):
    """A write through a view of another shape."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1
        y.view(-1).add_(1)
        return y * 2


class LostRow(nn.Module):
    """A write to a row."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[0].mul_(3)
        return y


class LostColumn(nn.Module):
    """A write where a tensor says."""

    def forward(self, x: Tensor, i: Tensor) -> Tensor:
        y = x.clone()
        y[:, i] = 0.0
        return y


class Alpha(nn.Module):
    """A factor of the second term."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.add(x, y, alpha=3.0)


class Counter(nn.Module):
    """A buffer that every call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(3))
        self.a: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.a.add_(1)
        return x + self.a


class Average(nn.Module):
    """A running average, kept by binding it anew."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(3))
        self.a: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.a = 0.9 * self.a + 0.1 * x.mean(0)
        return x - self.a


class Branch(nn.Module):
    """A branch on a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 1


class Number(nn.Module):
    """A number taken out of a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x.max().item()


class Flattened(nn.Module):
    """The largest of all, not of an axis."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.argmax(x)


class Masked(nn.Module):
    """Indices of two kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.mask: Tensor

    def forward(self, x: Tensor, j: Tensor) -> Tensor:
        return x[self.mask, j]


class Wide(nn.Module):
    """A number beyond 32 bits."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.long() + 2**40).float()


class LowestMask(nn.Module):
    """The lowest number of single precision, which half precision does not have."""

    def forward(self, x: Tensor, m: Tensor) -> Tensor:
        return torch.softmax(x.masked_fill(m, torch.finfo(torch.float32).min), -1)


class SmallEpsilon(nn.Module):
    """A number below the smallest of half precision."""

    def forward(self, x: Tensor) -> Tensor:
        return x / (x.abs() + 1e-12)


class HiddenTraining(nn.Module):
    """A module in a plain list, which evaluation mode does not reach."""

    def __init__(self, hidden: nn.Module) -> None:
        super().__init__()
        self.hidden = [hidden]

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.hidden[0](x)
        return result


class AlwaysDropped(nn.Module):
    """A dropout that is on in evaluation too."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, 0.5)


class Padded(nn.Module):
    """An encoder with a mask of what is padding."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        result: Tensor = self.encoder(x, src_key_padding_mask=padding)
        return result


class ScatteredConstant(nn.Module):
    """Additions to a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("base", torch.ones(2, 4))
        self.base: Tensor
        self.register_buffer("index", torch.tensor([[0, 1, 2], [3, 2, 1]]))
        self.index: Tensor
        self.register_buffer("updates", torch.full((2, 3), 0.5))
        self.updates: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return x + self.base.scatter_add(1, self.index, self.updates)


class Packed(nn.Module):
    """Sequences of several lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        lengths = torch.tensor([5, 3])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]


ROW = torch.tensor([[1.0, 2.0, 3.0, 4.0], [9.0, 8.0, 7.0, 6.0]])


def running_statistics() -> nn.Module:
    layer = nn.InstanceNorm2d(2, track_running_stats=True)
    assert layer.running_mean is not None
    layer.running_mean += 1
    return layer


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (Flattened, (ROW,)),
        (Wide, (X,)),
        (ScatteredConstant, (normal(2, 4),)),
        (AlwaysDropped, (X,)),
        (running_statistics, (normal(1, 2, 4, 4),)),
        (lambda: HiddenTraining(nn.Dropout(0.5)), (X,)),
        (lambda: Call(lambda x: x.var()), (X,)),
        (lambda: Call(lambda x: x.std()), (X,)),
        (lambda: nn.MaxPool2d(1, stride=2, ceil_mode=True), (normal(1, 2, 8, 8),)),
        (lambda: Call(torch.log), (X.relu(),)),
        (lambda: Call(torch.rsqrt), (X.relu(),)),
    ],
    ids=[
        *("argmax", "int64", "scatter", "dropout", "instance_norm", "hidden_dropout", "var", "std"),
        *("pool", "log", "rsqrt"),
    ],
)
def test_the_sample_shows_it_by_both_routes(
    model: Callable[[], nn.Module], inputs: tuple[Tensor, ...], route: str
) -> None:
    assert errors(model(), inputs, route)[0] > LIMIT


@pytest.mark.parametrize("route", ["trace", "export"])
def test_a_reciprocal_of_small_numbers_is_off(route: str) -> None:
    assert (errors(Call(lambda x: 1 / x), (X / 100,), route)[0] > LIMIT) == shows("reciprocal")


@pytest.mark.parametrize(
    ("model", "inputs"),
    [(LostWrite, (X,)), (LostRow, (X,)), (LostColumn, (X, torch.tensor([1]))), (Counter, (X,))],
)
def test_writes_are_lost_in_a_trace_only(model: Callable[[], nn.Module], inputs: tuple[Tensor, ...]) -> None:
    assert errors(model(), inputs, "trace")[0] > 0.1
    assert errors(model(), inputs, "export", target="iOS18")[0] <= LIMIT


def test_a_part_that_is_counted_from_the_end_is_empty_in_a_trace() -> None:
    model = Call(lambda x: x.narrow(1, -2, 2))
    assert errors(model, (X,), "trace") == [math.inf if shows("narrow-from-the-end") else 0.0]
    assert errors(model, (X,), "export") == [0.0]


def test_indices_beside_a_mask_are_left_out_of_a_trace() -> None:
    assert errors(Masked(), (normal(3, 4), torch.tensor([0, 2])), "trace") == [math.inf]


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (Alpha, (X, X)),
        (lambda: nn.GELU(approximate="tanh"), (X,)),
        (Padded, (normal(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2]))),
    ],
    ids=["alpha", "gelu", "mask"],
)
def test_the_sample_shows_it_in_an_export(model: Callable[[], nn.Module], inputs: tuple[Tensor, ...]) -> None:
    is_wrong = model is not Alpha or shows("add-alpha")
    assert (errors(model(), inputs, "export")[0] > LIMIT) == is_wrong


def test_an_exported_diagonal_is_the_matrix() -> None:
    assert errors(Call(torch.diagonal), (normal(3, 3),), "export") == [math.inf if shows("diagonal") else 0.0]


def test_counts_are_those_of_integers() -> None:
    counts = Call(lambda x: torch.unique(x, return_counts=True)[1])
    x = torch.tensor([1.0, 2.0, 2.0, 3.0])
    found = errors(counts, (x,), "trace", (x / 2,))
    assert found[0] <= LIMIT < found[1]


def test_a_branch_is_the_samples() -> None:
    found = errors(Branch(), (X,), "trace", (-X,))
    assert found[0] <= LIMIT < found[1]


def test_a_number_is_the_samples_in_a_trace() -> None:
    found = errors(Number(), (X,), "trace", (-X,))
    assert found[0] <= LIMIT < found[1]
    assert max(errors(Number(), (X,), "export", (-X,))) <= LIMIT


def test_an_average_stands_still_in_a_trace() -> None:
    found = errors(Average(), (X,), "trace", (X,))
    assert found[0] <= LIMIT < found[1]


def test_an_average_moves_in_an_export() -> None:
    # States are of half precision in programs of single precision too.
    assert max(errors(Average(), (X,), "export", (X,), (X,), target="iOS18")) <= 1e-3


def test_a_hidden_module_stays_in_training_mode() -> None:
    model = HiddenTraining(nn.BatchNorm1d(3, affine=False))
    wanted = nn.BatchNorm1d(3, affine=False).eval()
    assert errors(model, (X,), "trace", reference=wanted)[0] > 0.1


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (LowestMask, (normal(2, 3), torch.tensor([[True, False, True], [True, True, True]]))),
        (SmallEpsilon, (torch.tensor([[1e-7, 2e-7, 1.0]]),)),
    ],
)
def test_half_precision_shows_it(model: Callable[[], nn.Module], inputs: tuple[Tensor, ...], route: str) -> None:
    assert errors(model(), inputs, route)[0] <= LIMIT
    is_wrong = model is not LowestMask or shows("lowest-mask")
    assert (errors(model(), inputs, route, precision="FLOAT16")[0] > 0.1) == is_wrong


@pytest.mark.parametrize("route", ["trace", "export"])
def test_a_conversion_negates_the_models_own_mean(route: str) -> None:
    layer = nn.BatchNorm1d(4, affine=False)
    model = nn.Sequential(nn.Conv1d(3, 4, 3), layer)
    assert layer.running_mean is not None
    layer.running_mean += torch.tensor([1.0, 2.0, 3.0, 4.0])
    untouched = copy.deepcopy(model).eval()
    assert errors(model, (normal(2, 3, 8),), route, reference=untouched)[0] <= LIMIT
    assert layer.running_mean.tolist() == [-1.0, -2.0, -3.0, -4.0]


def test_packed_sequences_make_a_program_that_does_not_run() -> None:
    with pytest.raises(ExecutionError, match="do not fit: 5x2x3, 5x4"):
        errors(Packed(), (normal(2, 5, 3),), "trace")


@pytest.mark.parametrize("route", ["trace", "export"])
def test_a_mask_wider_than_what_it_fills_makes_a_program_that_does_not_run(route: str) -> None:
    with pytest.raises(ExecutionError, match="gives 2x3, and 1x3 is declared"):
        errors(Call(lambda x, y: y.masked_fill(x > 0, 2.0)), (X, X[:1]), route)


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (lambda: Call(lambda x: x.var(1)), (X,)),
        (lambda: nn.InstanceNorm2d(2), (normal(1, 2, 4, 4),)),
        (lambda: Call(lambda x: torch.argmax(x, 1)), (ROW,)),
        (nn.GELU, (X,)),
    ],
    ids=["var", "instance_norm", "argmax", "gelu"],
)
def test_what_is_close_by_converts_right(
    model: Callable[[], nn.Module], inputs: tuple[Tensor, ...], route: str
) -> None:
    assert max(errors(model(), inputs, route, tuple(one.flip(0) for one in inputs))) <= LIMIT
