"""SIG002: a model that returns something that is no tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule

if TYPE_CHECKING:
    from modellint.live.subject import Subject


class NonTensorOutput(Rule):
    """A model that returns None, a number, a string or another object that is no tensor, by itself or among tensors.

    ## What it does
    Looks at what the model returned in the run, inside tuples, lists and dicts too.

    ## Why
    `torch.jit.trace` refuses it. `torch.export` captures None and numbers, but coremltools then fails on the output that is no
    tensor.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x, target=None):
            return self.linear(x), target


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

        def forward(self, x, target=None):
            return self.linear(x)


    inputs = (torch.randn(2, 8),)
    ```

    ## Fix safety
    There is no fix: callers may read what is returned. For the export, wrap the model in a module that returns the tensors alone.

    ## Known limits
    Only what is returned for the example inputs is seen. Objects that PyTorch's own `pytree` takes apart count as what they hold.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.jit.trace.html>
    - <https://apple.github.io/coremltools/docs-guides/source/convert-pytorch.html>
    """

    code = "SIG002"
    name = "non-tensor-output"
    severity = Severity.ERROR
    live_needs = "run"

    def live(self, subject: Subject) -> Iterator[Diagnostic]:
        """Ask the output what it is made of."""
        from modellint.live.returned import parts_of
        from modellint.live.statements import returning

        run = subject.run
        if run is None or run.failure is not None:
            return
        parts = list(parts_of(run.output))
        kinds = list(dict.fromkeys(part.type for part in parts if part.kind == "other"))
        if kinds:
            named = ", ".join(kind if kind == "None" else f"a `{kind}`" for kind in kinds)
            beside = " beside tensors" if any(part.kind == "tensor" for part in parts) else ""
            yield subject.finding(
                self,
                f"the model returns {named}{beside}; only tensors can be outputs",
                at=returning(subject, _is_constant),
            )
        elif not parts:
            yield subject.finding(self, "the model returns no tensor", at=returning(subject, _is_constant))


def _is_constant(value: ast.expr | None) -> bool:
    """Whether something that is written in a `return` is no tensor for sure."""
    if isinstance(value, (ast.Tuple, ast.List)):
        return any(_is_constant(part) for part in value.elts)
    return value is None or isinstance(value, (ast.Constant, ast.JoinedStr))
