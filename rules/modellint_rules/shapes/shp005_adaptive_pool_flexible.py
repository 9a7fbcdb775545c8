"""SHP005: adaptive pooling of what has a flexible size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import LiveModel


class AdaptivePoolFlexible(Rule):
    """Adaptive pooling to more than one element of a tensor whose size is flexible.

    ## What it does
    Finds `adaptive_avg_pool` and `adaptive_max_pool`, and their layers, in a run with flexible inputs (`--input 1x3x{32..64}x64`),
    where what is pooled has a size that varies and the result has more than one element there.

    ## Why
    coremltools computes the windows from the sizes of the input. Where these vary it cannot, and the conversion fails.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = nn.AdaptiveAvgPool2d(2)

        def forward(self, x):
            return self.pool(x)


    inputs = (torch.randn(1, 3, 8, 8),)
    flexible = {0: {2: (8, 32), 3: (8, 32)}}
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = nn.AdaptiveAvgPool2d(1)

        def forward(self, x):
            return self.pool(x)


    inputs = (torch.randn(1, 3, 8, 8),)
    flexible = {0: {2: (8, 32), 3: (8, 32)}}
    ```

    ## Fix safety
    There is no fix: a pooling with fixed windows is another function of inputs of other sizes.

    ## Known limits
    Only a live check with flexible inputs can tell. Pooling to one element is a mean, or a maximum, and converts.

    ## References
    - <https://github.com/apple/coremltools/issues/976>
    - <https://apple.github.io/coremltools/docs-guides/source/flexible-inputs.html>
    """

    code = "SHP005"
    name = "adaptive-pool-flexible"
    severity = Severity.ERROR
    advice = "Pool to one element, or give the input one size"
    live_needs = "run"
    supersedes = ("OPS002",)

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every adaptive pooling of what has a flexible size for its result."""
        for call in subject.flexible_calls(_FUNCTIONS):
            size = call.arguments[1] if len(call.arguments) > 1 else call.keywords.get("output_size")
            if not _is_one(size):
                name = call.name.rpartition(".")[2]
                yield subject.finding(
                    self,
                    f"`{name}` of a tensor whose size is flexible does not convert, but for an output of one element",
                    at=call.place,
                    modules=[call.module],
                    operator=f"aten::{name}",
                )


_FUNCTIONS = frozenset(
    f"torch.nn.functional.adaptive_{kind}_pool{rank}d" for kind in ("avg", "max") for rank in (1, 2, 3)
)


def _is_one(size: Any) -> bool:
    parts = size if isinstance(size, (list, tuple)) else (size,)
    return all(part == 1 for part in parts)
