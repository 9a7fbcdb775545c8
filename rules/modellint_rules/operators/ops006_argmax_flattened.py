"""OPS006: `argmax` or `argmin` over all dimensions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Const, Diagnostic, Fix, Rule, Severity, Tensor, Value, alternatives

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveCall, LiveModel


class ArgmaxFlattened(Rule):
    """`argmax` or `argmin` without `dim`, of a tensor that has more than one dimension.

    ## What it does
    Finds calls of `argmax` and `argmin` that have no `dim`, or `dim=None`, and are given a tensor of rank 2 or more: in the run, and
    in source where the tensor may still have its batch.

    ## Why
    PyTorch gives the index into the flattened tensor. coremltools converts the call without a word into one over the last
    dimension, so that another shape and other numbers come out.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Peak(nn.Module):
        def forward(self, x):
            return x.sum() + torch.argmax(x)


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Peak(nn.Module):
        def forward(self, x):
            return x.sum() + x.reshape(-1).argmax(0)


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    The fix is safe: it asks the flattened tensor. With `keepdim` there is none, as the result has to be reshaped too.

    ## Known limits
    In source a tensor that was indexed or reduced before is left alone, and so is an index that only becomes a number of
    Python. `torch.max(x)` and `x.flatten().argmax()` convert as they should.

    ## References
    - <https://github.com/pytorch/executorch/issues/11715>
    - <https://pytorch.org/docs/stable/generated/torch.argmax.html>
    """

    code = "OPS006"
    name = "argmax-flattened"
    severity = Severity.ERROR
    only_for = ("coreml",)
    only_inference = True
    silent = ("trace", "export")
    live_needs = "run"
    needs = ("forward", frozenset({"argmax", "argmin"}))
    only_modules = True
    only_forward = True
    fixable = "`.reshape(-1)`"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every `argmax` that `forward` runs for its dimension."""
        if code.is_never_exported:
            return
        for readings in code.calls:
            call = readings[0]
            function = call.function
            if call.name not in _NAMES or function is None or function not in code.in_forward:
                continue
            if not all(map(_flattens, readings)) or code.ends_in_python(call.node, function):
                continue
            if code.is_for_loss_only(call.node, function):
                continue
            name = call.method
            yield code.finding(
                self,
                call.node,
                f"`{name}` without `dim`: the converted program takes it over the last dimension only",
                statement=call.statement,
                fix=_fix(code, call),
                advice=f"Write `x.reshape(-1).{name}(0)`",
                operator=f"aten::{name}",
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every `argmax` for its dimension."""
        run = subject.run
        for call in () if run is None else run.calls:
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


def _is_over_all(call: LiveCall) -> bool:
    tensor = call.arguments[0] if call.arguments else call.keywords.get("input")
    dim = call.arguments[1] if len(call.arguments) > 1 else call.keywords.get("dim")
    return dim is None and getattr(tensor, "rank", 0) > 1


def _flattens(call: Call) -> bool:
    at = 0 if call.receiver is not None else 1
    if call.training or not call.exported or call.building or call.arguments.spread or None in call.arguments.keywords:
        return False
    dim = call.arguments.get(at, "dim") or call.arguments.keywords.get("axis")
    if dim is not None and not (isinstance(dim, Const) and dim.value is None):
        return False
    tensor = call.receiver if call.receiver is not None else call.arguments.get(0, "input")
    return tensor is not None and all(map(_has_batch, alternatives(tensor)))


def _has_batch(value: Value) -> bool:
    """Whether something certainly is a tensor of more than one dimension: what is given, and what layers make of it, has a batch."""
    if not isinstance(value, Tensor) or not (value.certain or value.shown or value.origin == "argument"):
        return False
    if value.rank is not None:
        return value.rank > 1
    layered = value.made_by[:1].isupper() or value.made_by in _OF_MATRICES or value.made_by.startswith("conv")
    return value.batch is True and (value.origin == "argument" or layered)


_OF_MATRICES = frozenset({"linear", "softmax", "log_softmax", "matmul", "bmm"})
"""Operators whose results have as many dimensions as what they are given."""


def _fix(code: Code, call: Call) -> Fix | None:
    node = call.node
    if "keepdim" in call.arguments.keywords or len(node.args) > (1 if call.receiver is not None else 2):
        return None
    text = code.rewriter.of
    if isinstance(node.func, ast.Attribute) and call.receiver is not None:
        owner = text(node.func.value)
    elif node.args and isinstance(node.args[0], (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        owner = text(node.args[0])
    elif node.args:
        owner = f"({text(node.args[0])})"
    else:
        return None
    return Fix("Flatten it first", (code.rewriter.replace(node, f"{owner}.reshape(-1).{call.method}(0)"),))
