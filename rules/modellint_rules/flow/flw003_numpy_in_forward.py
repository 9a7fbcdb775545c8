"""FLW003: NumPy at work on tensors in `forward`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Const, Diagnostic, Rule, Severity, Trigger, alternatives, called_name, tensors_in, walk

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel, Value


class NumpyInForward(Rule):
    """NumPy at work on tensors, or drawing numbers, in `forward`.

    ## What it does
    Finds functions of NumPy on tensors that depend on what the caller gives, and `numpy.random`, where `forward` runs them.

    ## Why
    Neither tracing nor `torch.export` sees what NumPy does. Tracing makes the result for the sample input a constant of the
    converted model, and nobody says so; `torch.export` refuses. A random number of NumPy is drawn once, when the model is
    captured.

    ## Bad
    ```python
    import torch
    import numpy as np
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            return x * float(np.abs(x.detach()).max())


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            return x * x.abs().max()


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    There is no fix. Most functions of NumPy have one of the same name in `torch`.

    ## Known limits
    A call of `.numpy()` is FLW002's. A random number that is compared or put by is left alone: as a rule it decides which layers are
    dropped in training. NumPy on sizes and on constants is left alone, and so is what runs in training only,
    in losses, and in a `forward` that gives back images of PIL, which nothing takes for outputs.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.jit.trace.html>
    """

    code = "FLW003"
    name = "numpy-in-forward"
    severity = Severity.WARNING
    advice = "Write it with functions of torch"
    only_inference = True
    live_needs = "run"
    needs = ("forward", Trigger.USES_NUMPY)
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every call whether it is NumPy's."""
        if code.is_never_exported:
            return
        for calls in code.calls:
            call = calls[0]
            if call.is_message:
                continue
            if all(map(_leaves_torch, calls)):
                message = "NumPy computes this, which tracing does not see: the converted model keeps the result for the sample input"
            elif all(map(_draws, calls)):
                message = "NumPy draws this once, when the model is captured: the converted model keeps the number"
            else:
                continue
            severity = code.severity_at(self.severity, call.node, call.function)
            yield code.finding(self, call.node, message, severity=severity, statement=call.statement)

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the run, and a trace, what Python takes out of tensors."""
        for concretization in subject.concretizations:
            if concretization.kind == "array":
                yield subject.finding(
                    self,
                    "NumPy computes this, which tracing does not see: the converted model keeps the result for the sample input",
                    at=concretization.call.place,
                    modules=[concretization.call.module],
                )


def _runs(call: Call) -> bool:
    return not call.training and call.exported and not call.building


def _leaves_torch(call: Call) -> bool:
    if not _runs(call):
        return False
    return call.name.startswith("numpy.") and any(map(_holds_data, call.arguments.everything()))


def _holds_data(value: Value) -> bool:
    """Whether a value is, or holds, a tensor of what the caller gives, whichever of its alternatives it is: `is_tensor(n)` may be false."""
    parts = [part for part in alternatives(value) if not (isinstance(part, Const) and part.value is None)]
    return bool(parts) and all(any(tensor.is_data for tensor in tensors_in([part])) for part in parts)


def _draws(call: Call) -> bool:
    return (
        _runs(call)
        and call.name.startswith("numpy.random.")
        and not call.name.endswith("seed")
        and not _is_kept_for_python(call)
    )


def _is_kept_for_python(call: Call) -> bool:
    """Whether a number is compared or put by: as a rule it decides which layers are dropped in training."""
    compared = any(call.node in walk(node) for node in walk(call.statement) if isinstance(node, ast.Compare))
    value = getattr(call.statement, "value", None)
    while isinstance(value, ast.Call) and called_name(value) in ("int", "float", "bool") and value.args:
        value = value.args[0]
    return compared or value is call.node
