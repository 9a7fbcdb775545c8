"""REG006: a tensor that forward reads and that is a plain attribute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Applicability, Diagnostic, Fix, Rule, Severity, Trigger
from modellint_rules.registration.plain_tensors import (
    bound_once,
    follows_tensors,
    is_complex,
    is_moved_by_own_methods,
    kept_tensors,
    later_values_are_tensors,
    rewrites,
)
from modellint_rules.registration.unregistered_state import tensors_in

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel
    from modellint_rules.registration.plain_tensors import Kept

_MAKERS = (
    "zeros ones empty full rand randn randint arange linspace logspace eye tensor as_tensor "
    "from_numpy tril triu stack cat meshgrid Variable randperm complex polar"
)
TENSOR_WORDS = frozenset({"~torch", "torch", *("~" + name for name in _MAKERS.split())})


class TensorNotBuffer(Rule):
    """A tensor that `forward` reads, kept as a plain attribute.

    ## What it does
    Finds attributes that hold a tensor, or a list or dict of tensors, that is no parameter and no buffer, and that `forward` reads.
    Names that `setattr` and `getattr` compute are the same where they are spelt alike (`f"scale{i}"`), or differ in numbers (`scale0`).
    In other methods, such as `encode` or `sample`, and in functions of the file that are given the module, the tensor must take part
    in an operation with an argument that is a tensor, or with a parameter, a buffer or the output of a submodule.

    ## Why
    `.to()`, `.cuda()` and `.half()` leave such a tensor behind, so that the model fails on another device; running statistics kept
    so are lost from every checkpoint. `torch.export` bakes it in as a constant, or refuses to see it change.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.arange(8.0)

        def forward(self, x):
            return x + self.table
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(8.0), persistent=False)

        def forward(self, x):
            return x + self.table
    ```

    ## Fix safety
    The fix is safe. A constant becomes a buffer with `persistent=False`, so that the keys of `state_dict` stay as they were; a tensor
    that a method updates from its old value becomes a persistent one, which adds a key. There is no fix for containers, nor for
    an attribute that more than one statement of `__init__` binds. It is held back as unsafe where a method assigns what may be no
    tensor, which a buffer refuses, and in a class that computes with complex numbers, whose imaginary part `.half()` drops from
    a buffer.

    ## Known limits
    Only values that are certainly tensors count; of what `__init__` is given, what its annotation calls a tensor and a method puts,
    moved, in its own place, as no parameter can be. A tensor that `forward` does not read is left alone where it is moved before it
    is used, where a method binds it anew, in methods that build, save, move or show the module, and where only other files read it.
    A constant that every method takes to where another tensor is, and to its type (`self.kernel.type_as(x)`), is for information, also
    where `forward` moves it first of all (`self.kernel = self.kernel.to(x)`); `.to(x.device)` alone leaves its type behind.
    A class that nothing in the project uses is for information, unless the project can be installed. So is a constant that the
    constructor takes to a device it is given, where all that the project does with the objects is to call them in the function
    that builds them: nobody moves or saves one.
    A live check also sees what a run reads from elsewhere; it leaves containers alone that `forward` fills anew, and tensors with a
    graph.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html>
    - <https://github.com/pytorch/pytorch/issues/29807>
    - <https://github.com/pytorch/pytorch/issues/43815>
    """

    code = "REG006"
    name = "tensor-not-buffer"
    severity = Severity.WARNING
    withdraws = True
    needs = (TENSOR_WORDS, Trigger.MAKES_TENSORS)
    only_modules = True
    fixable = "`register_buffer`"
    advice = "Register it: `self.register_buffer(name, tensor)`"
    twin = "register_buffer"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask the attributes that hold tensors."""
        if code.ref is None:
            return
        for kept in kept_tensors(code):
            if any(tensor.grad is not False for tensor in kept.tensors):
                continue
            yield code.finding(
                self,
                kept.binding.statement,
                _message(kept.name, kept.container is not None, is_moved_by_own_methods(code, kept.name)),
                attribute=kept.name,
                severity=Severity.INFO if follows_tensors(code, kept) else None,
                fix=_fix(code, kept),
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look at the plain tensors that forward is seen to read."""
        for group, tensors in tensors_in(subject):
            if not any(tensor.requires_grad for tensor in tensors):
                yield subject.finding(
                    self,
                    _message(group.attribute, bool(group.kind)),
                    at=group.place,
                    modules=group.paths,
                    class_name=group.class_name,
                    attribute=group.attribute,
                )


def _message(attribute: str, holds: bool, is_moved: bool = False) -> str:
    what = "holds tensors that are no buffers" if holds else "is a tensor and no buffer"
    they = "them" if holds else "it"
    if is_moved:
        return (
            f"`self.{attribute}` {what}: `state_dict()`, and `.to()` of a module that holds this one, do not see {they}"
        )
    return f"`self.{attribute}` {what}: `.to()` and `state_dict()` do not see {they}"


def _fix(code: Code, kept: Kept) -> Fix | None:
    if not bound_once(code, kept) or kept.binding.expression is None:
        return None
    rewriter = code.rewriter
    persistent = rewrites(code, kept.name) == "update"
    ending = "" if persistent else ", persistent=False"
    edits = rewriter.call_with(
        kept.binding.statement, kept.binding.expression, f'self.register_buffer("{kept.name}", ', ending + ")"
    )
    title = "Register a buffer; adds a `state_dict` key" if persistent else "Register a buffer that is not saved"
    safe = later_values_are_tensors(code, kept.name) and not is_complex(code)
    return Fix(title, edits, Applicability.SAFE if safe else Applicability.UNSAFE)
