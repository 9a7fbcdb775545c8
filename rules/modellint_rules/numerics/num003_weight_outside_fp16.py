"""NUM003: a parameter or buffer with values that float16 cannot hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    import torch

    from modellint.authoring import LiveModel

_LARGEST = 65504.0
_PIECE = 1 << 22


class WeightOutsideFp16(Rule):
    """A parameter or buffer that holds finite numbers beyond what float16 can hold.

    ## What it does
    Looks at the values of all floating parameters and buffers for numbers beyond ±65504. With example inputs, state that no
    operator of the run reads is left out.

    ## Why
    By default coremltools stores weights and computes in float16, in which such a number is infinite. A mask filled with
    `torch.finfo(torch.float32).min` is the usual case: a row of the softmax that is masked as a whole is NaN then, where PyTorch
    gives a mean.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Scores(nn.Module):
        def __init__(self):
            super().__init__()
            mask = torch.full((4, 4), torch.finfo(torch.float32).min)
            self.register_buffer("mask", mask.triu(1))

        def forward(self, x):
            return (x + self.mask).softmax(-1)


    inputs = (torch.randn(2, 4, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Scores(nn.Module):
        def __init__(self):
            super().__init__()
            mask = torch.full((4, 4), -1e4)
            self.register_buffer("mask", mask.triu(1))

        def forward(self, x):
            return (x + self.mask).softmax(-1)


    inputs = (torch.randn(2, 4, 4),)
    ```

    ## Fix safety
    There is no fix: another number is another model. For a mask `-1e4` will do, or the export in float32.

    ## Known limits
    Infinite numbers are taken to be meant. Integers are left alone. Values are needed: a model on the meta device is not asked.

    ## References
    - <https://github.com/apple/coremltools/issues/351>
    - <https://github.com/apple/coremltools/issues/2164>
    """

    code = "NUM003"
    name = "weight-outside-fp16"
    severity = Severity.WARNING
    only_for = ("coreml",)
    advice = "Use a number within ±65504, or convert with `--precision fp32`"
    live_needs = "values"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every tensor of the state for its largest number."""
        beyond = [(state, extreme) for state in subject.state if (extreme := _beyond(state.tensor)) is not None]
        if not beyond:
            return
        run = subject.run
        read = subject.state_read if run is not None and run.failure is None else None
        for state, extreme in beyond:
            if read is not None and read.isdisjoint(state.names):
                continue
            yield subject.finding(
                self,
                f"the {state.kind} `{state.attribute}` holds {extreme:.4g}, which is infinite in float16",
                modules=_holders(state.names),
                **subject.binding(state.name).keywords(),
            )


def _holders(names: tuple[str, ...]) -> Iterator[str]:
    return (name.rpartition(".")[0] for name in names)


def _beyond(tensor: torch.Tensor) -> float | None:
    """The finite number that is furthest from zero, if float16 cannot hold it."""
    import torch

    wide = (torch.float32, torch.float64, torch.bfloat16)
    if (
        tensor.dtype not in wide
        or tensor.device.type == "meta"
        or tensor.layout is not torch.strided
        or not tensor.numel()
    ):
        return None
    with torch.no_grad():
        values = tensor.detach()
        low, high = (float(bound) for bound in values.aminmax())
        if low >= -_LARGEST and high <= _LARGEST:
            return None
        extreme = 0.0
        for piece in torch.split(values.reshape(-1), _PIECE):
            finite = piece[piece.isfinite()]
            if finite.numel():
                low, high = (float(bound) for bound in finite.aminmax())
                extreme = max(extreme, low, high, key=abs)
    return extreme if abs(extreme) > _LARGEST else None
