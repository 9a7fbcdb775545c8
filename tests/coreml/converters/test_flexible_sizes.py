"""Converters where a size is not known before a run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from modellint.destinations.coreml.convert.conversion import NotConverted, captures, convert
from modellint.destinations.coreml.mil.executor import Executor
from modellint.live.inputs.model_inputs import Inputs
from modellint.settings import Destination

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    def __init__(self, run: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x)


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda x: torch.addcmul(x, x, x, value=0.5), id="addcmul"),
        pytest.param(lambda x: x.diff(dim=1), id="diff"),
        pytest.param(lambda x: ((x > 0) & (x < 1)).float(), id="and"),
        pytest.param(lambda x: x.var(1), id="var"),
        pytest.param(lambda x: x.new_ones((2, x.shape[1])), id="new_ones"),
        pytest.param(lambda x: x.unfold(0, 2, 1), id="unfold"),
        pytest.param(lambda x: (x > 0).unfold(0, 2, 1).float(), id="unfold of truth values"),
        pytest.param(lambda x: torch.where(x > 0, x, 0.5), id="where"),
        pytest.param(lambda x: torch.fmod(x, 2.0), id="fmod"),
        pytest.param(lambda x: torch.lgamma(x.abs() + 0.1), id="lgamma"),
        pytest.param(lambda x: torch.special.bessel_y1(x.abs() + 0.1), id="bessel_y1"),
        pytest.param(lambda x: torch.nextafter(x, -x), id="nextafter"),
    ],
)
def test_other_sizes_than_the_example(run: Callable[[Tensor], Tensor], route: str) -> None:
    model, destination = Net(run).eval(), Destination()
    inputs = Inputs((torch.randn(3, 6),), {}, {0: {1: (2, 20)}})
    with captures(model, inputs, destination, route, supplied=True) as found:
        execute = Executor(convert(found[0], destination, "fp32", supplied=True).program)
    for size in (6, 9, 17):
        x = torch.randn(3, size)
        (result,) = execute(dict(zip(execute.inputs, [x], strict=True))).values()
        torch.testing.assert_close(result, model(x))


def test_a_size_that_would_be_fixed_is_refused() -> None:
    model, destination = Net(lambda x: torch.kron(x[:, :1], x)).eval(), Destination()
    inputs = Inputs((torch.randn(3, 6),), {}, {0: {1: (2, 20)}})
    with (
        captures(model, inputs, destination, "trace", supplied=True) as found,
        pytest.raises(NotConverted, match="not known before a run"),
    ):
        convert(found[0], destination, "fp32", supplied=True)
