"""OPS009: a `torch.autograd.Function` in a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule
from modellint_rules.operators.conversions import PYTHON

if TYPE_CHECKING:
    from modellint.live.subject import Subject


class AutogradFunction(Rule):
    """A `torch.autograd.Function` of which a trace keeps only that it was called.

    ## What it does
    Finds `prim::PythonOp` in what `torch.jit.trace` captures: what `Function.apply` leaves there.

    ## Why
    The trace does not look into the function, so that coremltools gets a call of Python that it cannot convert.
    `torch.export` looks into it.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient


    class Net(nn.Module):
        def forward(self, x):
            return Double.apply(x) + 1


    inputs = (torch.randn(2, 3),)
    frontend = "trace"
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            return 2 * x + 1


    inputs = (torch.randn(2, 3),)
    frontend = "trace"
    ```

    ## Fix safety
    There is no fix: write the forward pass of the function where it is exported, or use `--frontend export`.

    ## Known limits
    With `--frontend auto` nothing is said where `torch.export` leads to a program that converts.

    ## References
    - <https://github.com/apple/coremltools/issues/1135>
    - <https://github.com/apple/coremltools/issues/1520>
    """

    code = "OPS009"
    name = "autograd-function"
    severity = Severity.ERROR
    live_needs = "conversion"

    def live(self, subject: Subject) -> Iterator[Diagnostic]:
        """Look for calls of Python."""
        from modellint.coreml.verdict import blockers

        for blocker, capture in blockers(subject, "missing"):
            if blocker.operator == PYTHON:
                yield subject.finding(
                    self,
                    f"`{capture}` does not look into the autograd function `{blocker.detail}`, and coremltools cannot convert it",
                    at=blocker.place,
                    modules=blocker.modules,
                    operator=blocker.operator,
                    advice="call its operations directly where the model is exported",
                )
