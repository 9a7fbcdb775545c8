"""REG015: a tensor that is to be trained and that is a plain attribute."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Fix, Rule, Severity, Trigger, alternatives
from modellint_rules.registration.plain_tensors import MOVES, bound_once, kept_tensors
from modellint_rules.registration.reg006_tensor_not_buffer import TENSOR_WORDS
from modellint_rules.registration.unregistered_state import tensors_in

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel, Tensor
    from modellint_rules.registration.plain_tensors import Kept


class TensorShouldBeParameter(Rule):
    """A tensor that asks for gradients, kept as a plain attribute.

    ## What it does
    Finds attributes that hold a tensor made with `requires_grad=True`, by `Variable(..., requires_grad=True)` or `requires_grad_()`,
    moved or cast afterwards or not, that is no `nn.Parameter`, and that `forward` reads.

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
            if any(tensor.grad is True and _is_leaf(code, tensor) for tensor in kept.tensors):
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


def _is_leaf(code: Code, tensor: Tensor) -> bool:
    """Whether a tensor is made from nothing that requires gradients: a factory's, or one of that which is moved or cast."""
    while tensor.origin == "computed" and tensor.made_by in MOVES and isinstance(tensor.node, ast.Call):
        from modellint.authoring import Tensor

        receivers = [reading.receiver for reading in code.readings(tensor.node)]
        sources = [part for value in receivers if value is not None for part in alternatives(value)]
        if len(sources) != 1 or not isinstance(sources[0], Tensor):
            return False
        tensor = sources[0]
    return tensor.origin == "constant" and tensor.grad is True


def _fix(code: Code, kept: Kept) -> Fix | None:
    spelling = code.rewriter.spelling("Parameter")
    if spelling is None or not bound_once(code, kept) or kept.binding.expression is None:
        return None
    edits = code.rewriter.wrap(kept.binding.expression, spelling.text)
    return Fix(f"Make it a `{spelling.text}`; adds a `state_dict` key", (*edits, *spelling.imports))
