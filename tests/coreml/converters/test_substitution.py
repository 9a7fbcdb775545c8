"""What PyTorch does in memory, in place or in Python is converted as what it computes, and the model is as it was."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from modellint.destinations.coreml.convert.conversion import NotConverted, captures, convert
from modellint.destinations.coreml.mil.executor import Executor
from modellint.live.inputs.model_inputs import Inputs
from modellint.settings import Destination

pytestmark = pytest.mark.filterwarnings("ignore")
DESTINATION = Destination()


def executed(model: nn.Module, route: str, *args: Tensor) -> Tensor:
    with captures(model.eval(), Inputs(args), DESTINATION, route, supplied=True) as found:
        execute = Executor(convert(found[0], DESTINATION, "fp32", supplied=True).program)
    (result,) = execute(dict(zip(execute.inputs, args, strict=True))).values()
    return result


class Bounded(nn.Module):
    def __init__(self, power: float) -> None:
        super().__init__()
        self.layer = nn.Embedding(6, 4, max_norm=1.5, norm_type=power)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize("power", [2.0, 1.0])
def test_embedding_with_a_limit(route: str, power: float) -> None:
    model, x = Bounded(power), torch.tensor([[0, 3], [5, 3]])
    before = model.layer.weight.detach().clone()
    result = executed(model, route, x)
    assert torch.equal(model.layer.weight, before)
    torch.testing.assert_close(result, copy.deepcopy(model)(x))


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_normalization_across_channels(route: str, size: int) -> None:
    model = nn.Sequential(nn.CrossMapLRN2d(size, alpha=0.5, k=2), nn.ReLU())
    x = torch.randn(2, 6, 3, 4)
    torch.testing.assert_close(executed(model, route, x), model(x))
    assert "forward" not in vars(model[0])


class Put(nn.Module):
    def __init__(self, stride: tuple[int, int]) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.as_strided_scatter(x.mT, y, (2, 3), self.stride, 1)


@pytest.mark.parametrize("route", ["trace", "export"])
def test_elements_put_by_their_places(route: str) -> None:
    model, x, y = Put((6, 2)), torch.randn(4, 3), torch.randn(2, 3)
    assert torch.equal(executed(model, route, x, y), model(x, y))


def test_an_element_that_is_put_twice_is_refused() -> None:
    with pytest.raises(NotConverted, match="twice"):
        executed(Put((1, 1)), "trace", torch.randn(4, 3), torch.randn(2, 3))


class Packed(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 3]))
        found, (hidden, cell) = self.layer(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(found)
        return torch.cat([padded.flatten(), hidden.flatten(), cell.flatten()])


@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}, {"bias": False}])
def test_packed_sequences(options: dict[str, bool]) -> None:
    model, x = Packed(nn.LSTM(2, 4, **options)), torch.randn(5, 3, 2)
    torch.testing.assert_close(executed(model, "trace", x), model(x))


class Selected(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.index_select(0, x[:, 0].argmax()) * 2


@pytest.mark.parametrize("route", ["trace", "export"])
def test_an_index_without_axes_leaves_the_axis(route: str) -> None:
    x = torch.randn(4, 3)
    torch.testing.assert_close(executed(Selected(), route, x), Selected()(x))
