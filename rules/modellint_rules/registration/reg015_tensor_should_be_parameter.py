"""REG015: a tensor that is to be trained and that is a plain attribute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Fix, Rule, Severity, Trigger
from modellint_rules.registration.plain_tensors import bound_once, kept_tensors
from modellint_rules.registration.reg006_tensor_not_buffer import TENSOR_WORDS
from modellint_rules.registration.unregistered_state import tensors_in

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel
    from modellint_rules.registration.plain_tensors import Kept


class TensorShouldBeParameter(Rule):
    """A tensor that asks for gradients, kept as a plain attribute.

    ## What it does
    Finds attributes that hold a tensor made with `requires_grad=True`, by `Variable(..., requires_grad=True)` or `requires_grad_()`,
    that is no `nn.Parameter`, and that `forward` reads.

    ## Why
    `parameters()` does not list it, so no optimizer trains it; no checkpoint holds it, and `.to()` leaves it behind. Under trace the
    conversion stops with "Cannot insert a Tensor that requires grad as a constant".

    ## Bad
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.ones(8, requires_grad=True)

        def forward(self, x):
            return x * self.weight
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8, requires_grad=True))

        def forward(self, x):
            return x * self.weight
    ```

    ## Fix safety
    The fix is safe: values and gradients stay. It adds a `state_dict` key, and an optimizer now trains the parameter.

    ## Known limits
    A tensor that is computed from parameters has a graph and is no parameter itself; it is left alone.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html>
    """

    code = "REG015"
    name = "tensor-should-be-parameter"
    severity = Severity.WARNING
    withdraws = True
    needs = (TENSOR_WORDS, Trigger.MAKES_TENSORS, frozenset({"requires_grad", "requires_grad_", "Variable"}))
    fixable = "`nn.Parameter`"
    advice = "Make it an `nn.Parameter`"
    supersedes = ("REG006",)

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask the attributes that hold tensors."""
        if code.ref is None:
            return
        for kept in kept_tensors(code):
            if any(tensor.grad is True and tensor.origin == "constant" for tensor in kept.tensors):
                yield code.finding(
                    self,
                    kept.binding.statement,
                    f"`self.{kept.name}` asks for gradients and is no parameter: nothing trains it or saves it",
                    attribute=kept.name,
                    fix=_fix(code, kept),
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look at the plain tensors that ask for gradients and that forward is seen to read."""
        for group, tensors in tensors_in(subject):
            if any(tensor.requires_grad for tensor in tensors):
                yield subject.finding(
                    self,
                    f"`self.{group.attribute}` asks for gradients and is no parameter: nothing trains it or saves it",
                    at=group.place,
                    modules=group.paths,
                    class_name=group.class_name,
                    attribute=group.attribute,
                )


def _fix(code: Code, kept: Kept) -> Fix | None:
    spelling = code.rewriter.spelling("Parameter")
    if spelling is None or not bound_once(code, kept) or kept.binding.expression is None:
        return None
    edits = code.rewriter.wrap(kept.binding.expression, spelling.text)
    return Fix(f"Make it a `{spelling.text}`; adds a `state_dict` key", (*edits, *spelling.imports))
