"""FLW002: a number that Python takes out of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Drawn, Rule, Severity, Trigger, Value, alternatives, of_kind, walk
from modellint_rules.flow.unread_numbers import is_unread

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel


class TensorToPython(Rule):
    """A number that Python takes out of a tensor in `forward`.

    ## What it does
    Finds `.item()`, `.tolist()`, `.numpy()`, `int(t)`, `float(t)` and `bool(t)` on tensors that depend on what the caller
    gives, where `forward` runs them, and `len(t)` of a tensor whose length depends on values: what `nonzero()`, `masked_select`,
    `unique` or an index of truths gives, `x[x > 0]`, and what is computed of it. `t.shape[0]` stays a symbol in a trace.

    A number that nothing reads, or that goes into an attribute which nothing that `forward` runs reads, as a statistic for who
    trains, is for information: the trace leaves it out. So is one that goes as it is into a dict that is given back, after
    all that is computed.

    ## Why
    Tracing records no Python numbers and no arrays: that of the sample input becomes a constant of the converted model, and
    nobody says so. `torch.export` gives it a symbol, which coremltools refuses in most places. In what TorchScript compiles
    (`torch.jit.script`, `torch.jit.script_if_tracing`) a trace keeps the call: that is found with `--frontend export` only.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            scale = x.abs().max().item()
            return x / scale


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            scale = x.abs().max()
            return x / scale


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    There is no fix: where the number only meets tensors, leave the call out; where Python needs it, for a size or an index,
    the model has to be written in another way.

    ## Known limits
    Other sizes are no data: `int(x.shape[0])` is left alone, as are numbers of parameters, what runs in training only, losses,
    and numbers that are only printed. An array in a variable that is only written to a file (`rows.tofile("rows.raw")`) is
    information. A number that decides a branch at once is FLW001's; functions of NumPy on tensors are FLW003's.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.Tensor.item.html>
    - <https://pytorch.org/docs/stable/generated/torch.jit.trace.html>
    """

    code = "FLW002"
    name = "tensor-to-python"
    severity = Severity.ERROR
    only_inference = True
    silent = ("trace",)
    live_needs = "run"
    withdraws = True
    needs = ("forward", Trigger.TENSOR_TO_NUMBER)
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every call whether it takes a number out of a tensor."""
        if code.is_never_exported:
            return
        deciding, looped = _deciding(code), _looped(code)
        for calls in code.calls:
            call = calls[0]
            if (
                call.node in deciding
                or (call.name == "builtins.len" and call.node in looped)
                or call.is_message
                or _is_of_loss(call)
                or not all(map(_takes_out, calls))
            ):
                continue
            compiled = code.is_compiled(calls)
            if compiled and code.destination.frontend != "export":
                continue
            if call.name == "builtins.len":
                yield from self._length(code, call)
                continue
            spelled = f".{call.method}()" if call.receiver is not None else f"{call.method}(…)"
            yield code.finding(
                self,
                call.node,
                f"`{spelled}` takes numbers out of a tensor: {_SYMBOLS if compiled else 'tracing keeps those of the sample input'}",
                severity=Severity.INFO
                if is_unread(call, code) or _is_packed(call)
                else code.severity_at(self.severity, call.node, call.function),
                statement=call.statement,
                advice=_ADVICE,
            )

    def _length(self, code: Code, call: Call) -> Iterator[Diagnostic]:
        yield code.finding(
            self,
            call.node,
            _LENGTH,
            severity=Severity.INFO
            if is_unread(call, code)
            else code.severity_at(self.severity, call.node, call.function),
            statement=call.statement,
            advice=_OF_SHAPE,
        )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the run, and a trace, what Python takes out of tensors."""
        for concretization in subject.concretizations:
            if concretization.kind == "length":
                yield subject.finding(
                    self,
                    _LENGTH,
                    at=concretization.call.place,
                    modules=[concretization.call.module],
                    advice=_OF_SHAPE,
                )
            if concretization.kind == "number":
                method = concretization.method
                spelled = f"{method.strip('_')}(…)" if method.startswith("__") else f".{method}()"
                yield subject.finding(
                    self,
                    f"`{spelled}` takes numbers out of a tensor: tracing keeps those of the sample input",
                    at=concretization.call.place,
                    modules=[concretization.call.module],
                    advice=_ADVICE,
                )


_LENGTH = "`len(…)` of a tensor whose length depends on values: tracing keeps that of the sample input"
_OF_SHAPE = "`x.shape[0]` stays a symbol"
_SYMBOLS = "`torch.export` gives symbols, which coremltools refuses in most places"
_ADVICE = "Where the number only meets tensors, leave the call out; a size or an index has to come from shapes, or from an input"


def _deciding(code: Code) -> set[ast.AST]:
    """The calls whose number is at once asked for its truth."""
    deciding: set[ast.AST] = set()
    for readings in code.questions:
        parts = [part for reading in readings for part in alternatives(reading.value) if isinstance(part, Drawn)]
        if parts:
            inside = set(walk(readings[0].test))
            deciding |= {part.node for part in parts if part.node in inside}
            # `int(x.item())`
            deciding |= {node for node in inside if isinstance(node, ast.Call) and inside & deciding}
    return deciding


def _looped(code: Code) -> set[ast.AST]:
    """What stands in what a loop goes through or asks for: how often it turns is another rule's."""
    looped = {node for readings in code.loops for node in walk(readings[0].node)}
    loops = [readings[0] for readings in code.questions if isinstance(readings[0].site, ast.While)]
    return looped.union(*(walk(question.test) for question in loops))


def _is_packed(call: Call) -> bool:
    """Whether the number goes, as it is, under a name into what is given back: `result["boxes"] = boxes.numpy()`."""
    if call.method not in ("numpy", "tolist", "item"):
        return False
    match call.statement:
        case ast.Assign(
            targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str()))], value=value
        ) if value is call.node:
            returned = [part.value for part in of_kind(call.function, ast.Return)] if call.function is not None else []
            return any(isinstance(value, ast.Name) and value.id == name for value in returned)
        case ast.Return(value=ast.Dict(values=values)):
            return call.node in values
    return False


def _is_of_loss(call: Call) -> bool:
    """Whether what is taken out is a loss or a statistic, by its name: it goes into a log."""
    names = {getattr(node, "id", getattr(node, "attr", "")).lower() for node in walk(call.node)}
    return any("loss" in name or name.startswith(("acc", "stat", "cer", "wer")) for name in names)


def _takes_out(call: Call) -> bool:
    if call.training or not call.exported or call.building:
        return False
    if call.name in ("builtins.int", "builtins.float", "builtins.bool"):
        source: Value | None = call.arguments.get(0)
    elif call.name == "builtins.len":
        return all(isinstance(part, Drawn) for part in alternatives(call.result))
    elif call.method in ("item", "tolist", "numpy") and call.receiver is not None:
        source = call.receiver
    else:
        return False
    return source is not None and all(part.is_data for part in alternatives(source))
