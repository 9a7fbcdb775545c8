"""OPS006: `argmax` or `argmin` over all dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule

if TYPE_CHECKING:
    from modellint.live.capture import Call
    from modellint.live.subject import Subject


class ArgmaxFlattened(Rule):
    """`argmax` or `argmin` without `dim`, of a tensor that has more than one dimension.

    ## What it does
    Finds calls of `argmax` and `argmin` in the run that have no `dim`, or `dim=None`, and are given a tensor of rank 2 or more.

    ## Why
    PyTorch gives the index into the flattened tensor. coremltools converts the call without a word into one over the last
    dimension, so that another shape and other numbers come out.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Peak(nn.Module):
        def forward(self, x):
            return torch.argmax(x)


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Peak(nn.Module):
        def forward(self, x):
            return x.reshape(-1).argmax(0)


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    There is no fix yet: the help says what to write. With `keepdim=True` the result has to be reshaped as well.

    ## Known limits
    Only what the run calls is seen. `torch.max(x)` and `x.flatten().argmax()` convert as they should.

    ## References
    - <https://github.com/pytorch/executorch/issues/11715>
    - <https://pytorch.org/docs/stable/generated/torch.argmax.html>
    """

    code = "OPS006"
    name = "argmax-flattened"
    severity = Severity.ERROR
    live_needs = "run"

    def live(self, subject: Subject) -> Iterator[Diagnostic]:
        """Ask every `argmax` for its dimension."""
        for call in () if subject.run is None else subject.run.calls:
            name = call.name.rpartition(".")[2]
            if call.name in _NAMES and _is_over_all(call):
                yield subject.finding(
                    self,
                    f"`{name}` without `dim`: the converted program takes it over the last dimension only",
                    at=call.place,
                    modules=[call.module],
                    operator=f"aten::{name}",
                    advice=f"Write `x.reshape(-1).{name}(0)`",
                )


_NAMES = frozenset(f"torch.{owner}{name}" for owner in ("", "Tensor.") for name in ("argmax", "argmin"))


def _is_over_all(call: Call) -> bool:
    given = call.arguments[0] if call.arguments else call.keywords.get("input")
    dim = call.arguments[1] if len(call.arguments) > 1 else call.keywords.get("dim")
    return dim is None and getattr(given, "rank", 0) > 1
