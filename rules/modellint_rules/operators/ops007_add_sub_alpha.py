"""OPS007: `torch.add` or `torch.sub` with `alpha`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule

if TYPE_CHECKING:
    from modellint.live.capture import Call
    from modellint.live.subject import Subject


class AddSubAlpha(Rule):
    """`torch.add`, `torch.sub` or `torch.rsub` with an `alpha` that is not 1.

    ## What it does
    Finds calls of `add`, `sub`, `subtract` and `rsub` in the run, as functions, methods or in place, with another `alpha` than 1.

    ## Why
    What `torch.export` captured is converted without a word, and without `alpha`: `x + y` in the place of `x + 3 * y`. What
    was traced is refused: "ADD does not support scale factor param".

    ## Bad
    ```python
    import torch
    from torch import nn


    class Mix(nn.Module):
        def forward(self, x, y):
            return torch.add(x, y, alpha=3.0)


    inputs = (torch.randn(2, 4), torch.randn(2, 4))
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Mix(nn.Module):
        def forward(self, x, y):
            return x + 3.0 * y


    inputs = (torch.randn(2, 4), torch.randn(2, 4))
    ```

    ## Fix safety
    There is no fix yet: the help says what to write. `torch.add` rounds once and the expression twice, unless the numbers are
    integers or `alpha` is -1.

    ## Known limits
    Only what the run calls is seen. `alpha` and `beta` of `addmm` and `baddbmm` convert as they should.

    ## References
    - <https://github.com/apple/coremltools/issues/2573>
    - <https://pytorch.org/docs/stable/generated/torch.add.html>
    """

    code = "OPS007"
    name = "add-sub-alpha"
    severity = Severity.ERROR
    supersedes = ("OPS001", "OPS002")
    live_needs = "run"

    def live(self, subject: Subject) -> Iterator[Diagnostic]:
        """Ask every addition and subtraction for its factor."""
        for call in () if subject.run is None else subject.run.calls:
            name = call.name.rpartition(".")[2]
            rewrite = _REWRITES.get(name.removesuffix("_"))
            if rewrite is not None and call.name in (f"torch.{name}", f"torch.Tensor.{name}") and _alpha(call) != 1:
                yield subject.finding(
                    self,
                    f"`{name}` with `alpha`: conversion from `torch.export` leaves the factor out, from a trace it is refused",
                    at=call.place,
                    modules=[call.module],
                    operator=f"aten::{name}",
                    advice=f"Write `{rewrite}`",
                )


_REWRITES = {
    "add": "x + alpha * y",
    "sub": "x - alpha * y",
    "subtract": "x - alpha * y",
    "rsub": "y - alpha * x",
}


def _alpha(call: Call) -> Any:
    # `torch.add(x, alpha, y)` is an old form of it.
    return call.arguments[1] if len(call.arguments) == 3 else call.keywords.get("alpha", 1)
