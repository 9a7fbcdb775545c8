"""SHP002: a view that merges dimensions which do not lie behind each other in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Fix, Severity
from modellint.rule import Rule
from modellint.source.signs import MOVES
from modellint.source.signs.strides import PERMUTING
from modellint.source.words import PARTIAL, STEP

if TYPE_CHECKING:
    from modellint.source.code import Code

_MOVING_ATTRIBUTES = (".T", ".mT", ".H", ".mH")


class ViewAfterPermute(Rule):
    """A `view` of a permuted or expanded tensor that merges dimensions which do not lie behind each other in memory.

    ## What it does
    Finds `.view(...)` on the result of `transpose`, `permute`, `t`, `T`, `mT`, `swapaxes`, `movedim`, `expand`,
    `Tensor.unfold`, `einsum`, an index or a slice, through local variables too, where the new shape merges dimensions whose
    strides do not nest.

    ## Why
    Such a view raises "view size is not compatible with input tensor's size and stride", or does so as soon as a dimension that
    happened to be 1 has another size. A view that only splits a dimension, or merges dimensions that are still adjacent, is legal
    and is not reported.

    ## Bad
    ```python
    from torch import nn


    class Heads(nn.Module):
        def forward(self, x):
            batch, heads, length, width = x.shape
            return x.transpose(1, 2).view(batch, length, heads * width)
    ```

    ## Good
    ```python
    from torch import nn


    class Heads(nn.Module):
        def forward(self, x):
            batch, heads, length, width = x.shape
            return x.transpose(1, 2).reshape(batch, length, heads * width)
    ```

    ## Fix safety
    The fix is safe: `reshape` gives what `view` gives wherever `view` does not raise.

    ## Known limits
    Arguments, and what a call returns that is not followed, are taken to be contiguous. What operators of unknown layout return is
    not judged.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.Tensor.view.html>
    """

    code = "SHP002"
    name = "view-after-permute"
    severity = Severity.WARNING
    needs = (
        frozenset({".view", ".view_as"}),
        frozenset(
            {
                *("." + name for name in PERMUTING),
                *("~" + name for name in PERMUTING),
                *_MOVING_ATTRIBUTES,
                STEP,
                PARTIAL,
            }
        ),
        frozenset({MOVES}),
    )
    fixable = "`reshape`"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every view whether it raises."""
        for readings in code.calls:
            call = readings[0]
            if call.method not in ("view", "view_as") or call.receiver is None:
                continue
            if all(reading.refused for reading in readings):
                edit = code.rewriter.rename_method(call.node, {"view": "reshape", "view_as": "reshape_as"}[call.method])
                yield code.finding(
                    self,
                    call.node,
                    "the view merges dimensions that a permutation has taken apart in memory: it raises",
                    fix=Fix("Use `reshape`, which copies where it has to", (edit,)),
                    statement=call.statement,
                )
