"""NUM004: an operation whose values float16 cannot hold on the example inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import LiveModel

_LARGEST = 65504.0


class ActivationOutsideFp16(Rule):
    """An operation of the converted model gives more than float16 can hold.

    ## What it does
    Converts the model, executes its float16 program on the example inputs, and reports the operations that give infinite numbers
    or NaN, of finite ones, where the same operation of the float32 program does not. `modellint verify` asks this rule; `check`
    does where it is selected, as a conversion takes time.

    ## Why
    By default coremltools converts to float16, whose largest number is 65504. A sum of squares, an attention without scaling, or
    an intermediate product overflows long before anything looks wrong in PyTorch, and what comes after it is infinite or NaN.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Energy(nn.Module):
        def forward(self, x):
            power = (x * 300.0) ** 2
            return power.mean(-1).sqrt()


    inputs = (torch.linspace(-2, 2, 16).reshape(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Energy(nn.Module):
        def forward(self, x):
            power = x**2
            return power.mean(-1).sqrt() * 300.0


    inputs = (torch.linspace(-2, 2, 16).reshape(2, 8),)
    ```

    ## Fix safety
    There is no fix. Scale before squaring or summing, or convert with `compute_precision=ct.precision.FLOAT32`, or keep the one
    operation in float32 with coremltools' `FP16ComputePrecision(op_selector=...)`.

    ## Known limits
    Only the example inputs are looked at. Of networks with random weights many overflow that do not once they are trained. What is
    executed is the meaning of the program as modellint reads it, rounded after each operation; Apple's hardware may hold sums
    inside an operation in more bits or fewer. With `--precision fp32` there is nothing to report.

    ## References
    - <https://github.com/apple/coremltools/issues/2110>
    - <https://github.com/apple/coremltools/issues/1671>
    """

    code = "NUM004"
    name = "activation-outside-fp16"
    severity = Severity.WARNING
    only_for = ("coreml",)
    advice = "Scale before the sum or product, or convert with `--precision fp32`"
    default = False
    live_needs = "run execution"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Report where the float16 program loses numbers."""
        verification = subject.execution if subject.destination.precision == "fp16" else None
        for layer in () if verification is None else verification.overflows:
            name = layer.operator or layer.operation
            if layer.largest > _LARGEST:
                message = f"`{name}` gives up to {layer.largest:.4g}, which is infinite in float16"
            else:
                message = (
                    f"`{name}` gives infinite numbers or NaN in float16, where float32 gives up to {layer.largest:.4g}"
                )
            operator = layer.operator or None
            yield subject.finding(self, message, at=layer.place, modules=(layer.module,), operator=operator)
