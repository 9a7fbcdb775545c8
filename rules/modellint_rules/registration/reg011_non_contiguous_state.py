"""REG011: parameters and buffers that do not lie in order in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import LiveModel


class NonContiguousState(Rule):
    """A parameter or buffer that does not lie in order in memory.

    ## What it does
    Finds parameters and saved buffers whose memory is expanded (one element stands for many) or strided (a transposed tensor, or
    a part of a larger one).

    ## Why
    Writing into an expanded tensor raises, or changes all that its elements stand for: `load_state_dict` and optimizers do
    write. `safetensors` refuses to save a tensor that is not contiguous, `view` refuses to reshape it, and a part of a larger
    tensor drags all of that into a checkpoint.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8, 1).expand(8, 4))

        def forward(self, x):
            return x @ self.scale


    inputs = (torch.ones(2, 8),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8, 1).expand(8, 4).contiguous())

        def forward(self, x):
            return x @ self.scale


    inputs = (torch.ones(2, 8),)
    ```

    ## Fix safety
    There is no fix in source: put `.contiguous()` behind what makes the tensor.

    ## Known limits
    The dense layouts that `.to(memory_format=torch.channels_last)` and its 3-D kin give are clean, and so are buffers with
    `persistent=False`, and parts of a larger tensor that are themselves in order.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.Tensor.contiguous.html>
    - <https://pytorch.org/docs/stable/generated/torch.Tensor.expand.html>
    - <https://huggingface.co/docs/safetensors/api/torch>
    """

    code = "REG011"
    name = "non-contiguous-state"
    severity = Severity.WARNING
    only_for = ("coreml",)
    advice = "Make it anew with `.contiguous()`"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look at the strides of everything that is saved."""
        for state in subject.state:
            how = subject.disorder(state.tensor) if state.persistent else None
            if how is None:
                continue
            owner, attribute = subject.holder(state.name)
            class_name, place = subject.attribute_place(owner, attribute)
            yield subject.finding(
                self,
                f"`self.{attribute}` {'is' if owner is state.owner else 'has'} a {state.kind} whose memory is {how}: "
                f"{'in-place writes' if how == 'expanded' else '`view`'} and `safetensors` refuse it",
                at=place,
                modules=[name.rpartition(".")[0] for name in state.names],
                class_name=class_name,
                attribute=attribute,
            )
