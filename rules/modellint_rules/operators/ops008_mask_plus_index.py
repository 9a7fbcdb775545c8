"""OPS008: a mask and a tensor of indices in one pair of brackets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule

if TYPE_CHECKING:
    from modellint.live.capture import Operator
    from modellint.live.subject import Subject


class MaskPlusIndex(Rule):
    """Indexing with a Boolean mask and a tensor of indices at once, `x[mask, j]`.

    ## What it does
    Finds indexing in the run in which one index is a Boolean (or uint8) tensor and another a tensor or list of integers.

    ## Why
    coremltools converts a traced `x[mask, j]` without a word into `x[mask]`. `torch.export` cannot capture it.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Pick(nn.Module):
        def forward(self, x, j):
            return x[x[:, 0] > 0, j]


    inputs = (torch.ones(2, 4), torch.tensor([0, 3]))
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Pick(nn.Module):
        def forward(self, x, j):
            return x[(x[:, 0] > 0).nonzero()[:, 0], j]


    inputs = (torch.ones(2, 4), torch.tensor([0, 3]))
    ```

    ## Fix safety
    There is no fix.

    ## Known limits
    Only what the run does is seen. A mask with numbers and slices (`x[mask, 0]`, `x[mask, 1:]`) and several masks convert as they
    should; assignment to `x[mask, j]` is refused, which is another rule's business.

    ## References
    - <https://github.com/apple/coremltools/issues/2141>
    - <https://pytorch.org/docs/stable/tensor_view.html>
    """

    code = "OPS008"
    name = "mask-plus-index"
    severity = Severity.ERROR
    live_needs = "run"

    def live(self, subject: Subject) -> Iterator[Diagnostic]:
        """Ask everything that is indexed for the types of its indices."""
        for operator in () if subject.run is None else subject.run.operators:
            if operator.name == "aten::index" and _is_mixed(operator):
                yield subject.finding(
                    self,
                    "a mask and a tensor of indices at once: the converted program leaves the indices out",
                    at=operator.place,
                    modules=[operator.module],
                    operator=operator.name,
                    advice="Write `x[mask.nonzero()[:, 0], j]`",
                )


def _is_mixed(operator: Operator) -> bool:
    indices = [index for index in operator.arguments[1] if index is not None]
    masks = [index for index in indices if index.dtype in ("bool", "uint8")]
    return bool(masks) and any(index.rank for index in indices if index not in masks)
