"""SIG003: a model that returns one tensor twice, or an input."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import LiveModel


class DuplicateOutput(Rule):
    """A model that returns the same tensor twice, or an input as it came.

    ## What it does
    Compares the tensors that the model returned in the run with each other and with its inputs, as objects. What changes
    nothing, such as dropout in evaluation or `.float()` of a float32 tensor, returns the tensor that it was given.

    ## Why
    coremltools names outputs after what computes them: two outputs get one name, or an output that of an input, and the program
    cannot be loaded.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x):
            y = self.linear(x)
            return y, y.float()


    inputs = (torch.randn(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x):
            return self.linear(x)


    inputs = (torch.randn(2, 8),)
    ```

    ## Fix safety
    There is no fix in source: callers count on the number of outputs.

    ## Known limits
    A copy of an input or an output (`x.clone()`), which coremltools takes away, is not seen.

    ## References
    - <https://github.com/apple/coremltools/issues/1887>
    - <https://github.com/apple/coremltools/issues/956>
    """

    code = "SIG003"
    name = "duplicate-output"
    severity = Severity.ERROR
    only_for = ("coreml",)
    advice = "Return each tensor once, and inputs not at all"
    live_needs = "run"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every returned tensor whether it was there before."""
        run = subject.run
        if run is None or run.failure is not None:
            return
        tensors = [part.value for part in subject.outputs if part.kind == "tensor"]
        returned = list(dict.fromkeys(fact.name for fact in tensors if fact.is_input))
        if returned:
            named = ", ".join(_argument(name) for name in returned)
            yield subject.finding(
                self,
                f"the model returns {named} as it came: input and output get one name, and the program cannot be loaded",
                at=subject.returning(_is_tuple),
            )
        computed = [fact.tensor for fact in tensors if not fact.is_input]
        if len(computed) > len(set(computed)):
            positions = [index for index, fact in enumerate(tensors) if computed.count(fact.tensor) > 1]
            yield subject.finding(
                self,
                f"the outputs {', '.join(map(str, positions))} are the same tensor: they get one name, and the program cannot be loaded"
                if len(set(computed)) == len(computed) - len(positions) + 1
                else "several outputs are the same tensor: they get one name, and the program cannot be loaded",
                at=subject.returning(_is_tuple),
            )


def _argument(name: str) -> str:
    position = name.removeprefix("input:")
    return f"input {position}" if position.isdecimal() else f"the input `{position}`"


def _is_tuple(value: ast.expr | None) -> bool:
    return isinstance(value, (ast.Tuple, ast.List, ast.Dict))
