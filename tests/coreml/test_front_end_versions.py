"""What versions of coremltools' front end read otherwise: the verdict is that of the conversion, whichever is installed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import modellint
from modellint.destinations.coreml.private.entry_points import ct, silence

pytestmark = pytest.mark.filterwarnings("ignore")


class Returned(nn.Module):
    """An input as it is: later versions take the alias that an export makes of it, but for truth values."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :]


class Sliced(nn.Module):
    """An export keeps sizes and offsets of the slice that nothing uses."""

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        return (x * 2)[torch.squeeze(start) :, :]


MODELS: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
    "truth values": (Returned(), (torch.ones(1, 2).bool(),)),
    "integers": (Returned(), (torch.ones(1, 2).int(),)),
    "floats": (Returned(), (torch.ones(1, 2),)),
    "slice": (Sliced(), (torch.ones(4, 2), torch.tensor([1], dtype=torch.int32))),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_verdict_is_that_of_the_conversion(name: str) -> None:
    model, inputs = MODELS[name]
    report = modellint.check_model(model.eval(), inputs, frontend="export")
    assert report.convertible is converts(model.eval(), inputs)


def converts(model: nn.Module, inputs: tuple[Tensor, ...]) -> bool:
    exported = torch.export.export(model, inputs)
    for table in ({}, None):
        try:
            with silence():
                ct.convert(exported.run_decompositions(table), skip_model_load=True)
        except (NotImplementedError, ValueError):
            continue
        return True
    return False
