"""A capture begins with a model as it is: what a run before it keeps is not taken for constant."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from modellint.destinations.capture.preparation import prepared
from modellint.live.inputs.model_inputs import Inputs


class Rotating(nn.Module):
    """Angles that the first call keeps in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(8, 2), persistent=False)
        self.length = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.length < x.shape[0]:
            self.kept[: x.shape[0]] = torch.arange(x.shape[0]).unsqueeze(-1) * torch.tensor([1.0, 0.5])
            self.length = x.shape[0]
        return x * torch.cos(self.kept[: x.shape[0]])


def test_the_run_before_a_capture_leaves_nothing() -> None:
    model, inputs = Rotating().eval(), Inputs((torch.randn(4, 2),))
    with torch.no_grad(), prepared(model, inputs):
        assert model.length == 0
        assert not model.kept.any()


def test_what_is_captured_computes_what_a_first_call_keeps() -> None:
    model, x = Rotating().eval(), torch.randn(4, 2)
    expected = x * torch.cos(torch.arange(4).unsqueeze(-1) * torch.tensor([1.0, 0.5]))
    with torch.no_grad(), prepared(model, Inputs((x,))):
        traced = torch.jit.trace(model, (x,), check_trace=False)
    for buffer in traced.buffers():
        buffer.zero_()
    torch.testing.assert_close(traced(x), expected)
