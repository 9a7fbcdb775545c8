"""OPS005: torch's fused kernels for attention in a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity
from modellint_rules.operators.converter_lookup import FAST_PATH

if TYPE_CHECKING:
    from modellint.authoring import LiveModel


class TransformerFastPath(Rule):
    """A fused kernel of `nn.TransformerEncoder` or `nn.MultiheadAttention` in a traced model.

    ## What it does
    Finds `aten::_transformer_encoder_layer_fwd` and `aten::_native_multi_head_attention` in what `torch.jit.trace` captures.

    ## Why
    In evaluation mode and without gradients these layers take a fast path through one fused kernel, which coremltools has no
    converter for. The slow path computes the same from operators that convert.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def forward(self, x):
            return self.layer(x)


    inputs = (torch.randn(1, 4, 8),)
    frontend = "trace"
    ```

    ## Good
    ```python
    import torch
    from torch import nn

    torch.backends.mha.set_fastpath_enabled(False)


    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def forward(self, x):
            return self.layer(x)


    inputs = (torch.randn(1, 4, 8),)
    frontend = "trace"
    ```

    ## Fix safety
    There is no fix in source yet: the switch is one of the process that captures the model.

    ## Known limits
    Only what the run takes is seen; whether the fast path is taken depends on mode, gradients, masks and sizes. With
    `--frontend auto` nothing is said where `torch.export`, which does not take it, leads to a program that converts.

    ## References
    - <https://github.com/apple/coremltools/issues/2311>
    - <https://github.com/apple/coremltools/issues/2155>
    """

    code = "OPS005"
    name = "transformer-fast-path"
    severity = Severity.ERROR
    only_for = ("coreml",)
    live_needs = "conversion"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look for the two kernels."""
        for blocker, capture in subject.blockers("missing"):
            if blocker.operator in FAST_PATH:
                yield subject.finding(
                    self,
                    f"`{capture}` captures the attention fast path, `{blocker.operator}`, which coremltools cannot convert",
                    at=blocker.place,
                    modules=blocker.modules,
                    operator=blocker.operator,
                    advice="call `torch.backends.mha.set_fastpath_enabled(False)` before the capture",
                )
