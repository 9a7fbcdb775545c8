"""DEV001: tensors on a device that neither the inputs nor the model are on."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Applicability, Diagnostic, Fix, Instance, Rule, Severity, alternatives

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel, Run

_ABSENT = (
    r"not compiled with CUDA|not linked with support for (?:cuda|mps|xpu)|No CUDA GPUs|no NVIDIA driver|"
    r"Found no NVIDIA|not compiled with XPU|MPS backend|Cannot access accelerator device"
)


class HardCodedDevice(Rule):
    """A tensor that `forward` puts on a device that it names itself, or a model spread over several devices.

    ## What it does
    Finds calls in the run, such as `.cuda()`, `.to("cuda")` and `torch.zeros(3, device="cuda")`, whose result is on a kind of
    device that neither the inputs nor the model are on, and such calls in source where `forward` runs them, or `__init__`; and
    parameters and buffers that are not on the device of most others.

    ## Why
    A model is captured for Core ML on the CPU. A device that is written down fails there, or on the next machine, and a traced
    program keeps it for good.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Shift(nn.Module):
        def forward(self, x):
            offset = torch.ones(4, device="cuda")
            return x + offset


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Shift(nn.Module):
        def forward(self, x):
            offset = torch.ones(4, device=x.device)
            return x + offset


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    The fix takes the device of an argument of the function. It is unsafe: that may be on another device than the one that is
    named. Constants are better registered as buffers, which go where the model goes.

    ## Known limits
    In source a device counts that is written down in the call, and is no CPU; what a condition about devices decides is left
    alone, and so are modules that `forward` moves. A device that happens to be the inputs' is not seen in a run. Where the device is
    missing and the run ends at that statement, the finding is an error.

    ## References
    - <https://github.com/apple/coremltools/issues/804>
    - <https://github.com/apple/coremltools/issues/1185>
    """

    code = "DEV001"
    name = "hard-coded-device"
    severity = Severity.WARNING
    only_inference = True
    supersedes = ("LNT003", "SHP008")
    needs = ("forward", frozenset({"cuda", "mps", "xpu"}))
    only_modules = True
    fixable = "the device of an input"
    advice = "Take the device of an input, or register constants as buffers"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every call that `forward` runs for a device that is written down."""
        if code.is_training_only:
            return
        for readings in code.calls:
            call = readings[0]
            function = call.function
            builds = all(reading.building for reading in readings)
            built = function is not None and builds and _is_own_init(code, function)
            if function is None or not (built or function in code.in_forward):
                continue
            if any(each.training or not each.exported or (each.building and not built) for each in readings):
                continue
            device = _device(call)
            if device is None or code.is_for_loss_only(call.node, function):
                continue
            if not built and any(map(_is_module, readings)):
                continue
            tests = [ast.unparse(test) for test in code.conditions(call.node, function)]
            if any(re.search(_ABOUT_DEVICES, test) for test in tests) or (built and tests):
                continue
            if built:
                yield code.finding(
                    self,
                    call.node,
                    f"`{call.method}` puts a part of the model on {device}: it cannot be built where there is none",
                    statement=call.statement,
                    advice="Move the whole model, where it is used",
                )
                continue
            yield code.finding(
                self,
                call.node,
                f"`{call.method}` puts a tensor on {device}, wherever inputs and model are: it cannot be captured where there is none",
                statement=call.statement,
                fix=_fix(code, call, function),
                advice="Take the device of an input, or register constants as buffers",
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the state where it is, and the run where it put tensors."""
        yield from self._spread(subject)
        run = subject.run
        if run is not None:
            yield from self._moved(subject, run)

    def _spread(self, subject: LiveModel) -> Iterator[Diagnostic]:
        devices = Counter(str(state.tensor.device) for state in subject.state if not state.tensor.is_meta)
        if len(devices) < 2:
            return
        most = devices.most_common(1)[0][0]
        for state in subject.state:
            device = str(state.tensor.device)
            if device != most and not state.tensor.is_meta:
                yield subject.finding(
                    self,
                    f"the {state.kind} `{state.attribute}` is on {device}, most of the model on {most}",
                    modules=[name.rpartition(".")[0] for name in state.names],
                    **subject.binding(state.name).keywords(),
                )

    def _moved(self, subject: LiveModel, run: Run) -> Iterator[Diagnostic]:
        from modellint.authoring import facts_in

        usual = {_kind(fact.device) for fact in subject.input_facts} | {
            state.tensor.device.type for state in subject.state
        }
        usual |= {"meta", *({"cpu"} if usual <= {"meta"} else ())}
        for call in run.calls:
            known = usual | {_kind(fact.device) for fact in facts_in((call.arguments, call.keywords))}
            foreign = [fact.device for fact in call.outputs if _kind(fact.device) not in known]
            if foreign and (_kind(foreign[0]) != "cpu" or "device" in call.keywords or call.name == "torch.Tensor.cpu"):
                yield subject.finding(
                    self,
                    f"`{call.name.rpartition('.')[2]}` gives a tensor on {foreign[0]}, where neither inputs nor model are",
                    at=call.place,
                    modules=[call.module],
                )
        failure = run.failure
        if failure is not None and re.search(_ABSENT, failure.message):
            yield subject.finding(
                self,
                f"the forward pass wants a device that is not here: {failure.message.splitlines()[0].rstrip('.')}",
                at=failure.place,
                severity=Severity.ERROR,
                modules=[failure.module],
            )


def _is_own_init(code: Code, function: ast.AST) -> bool:
    return (
        code.ref is not None
        and any(part is function for part in code.ref.node.body)
        and getattr(function, "name", "") == "__init__"
    )


def _kind(device: str) -> str:
    return device.partition(":")[0]


_ABOUT_DEVICES = r"(?i)cuda|gpu|device|mps|xpu"
_NAMED = r"(?:cuda|mps|xpu)(?::\d+)?"


def _device(call: Call) -> str | None:
    """The device that a call names itself."""
    node = call.node
    method = call.method if isinstance(node.func, ast.Attribute) else ""
    if method in ("cuda", "xpu") and not call.name.startswith(("torch.cuda", "torch.xpu")):
        arguments = [*node.args, *(word.value for word in node.keywords if word.arg == "device")]
        return method if all(isinstance(argument, ast.Constant) for argument in arguments) else None
    if call.name.startswith("torch.cuda.") and method.endswith("Tensor"):
        return "cuda"
    for word in node.keywords:
        if word.arg == "device" and (call.name.startswith("torch.") or method == "to" or method.startswith("new_")):
            return _named(word.value)
    return _named(node.args[0]) if method == "to" and node.args else None


def _named(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str() as name) if re.fullmatch(_NAMED, name):
            return name
        case ast.Call(func=ast.Attribute(attr="device"), args=[inner, *_]):
            return _named(inner)
    return None


def _is_module(call: Call) -> bool:
    """Whether what is moved may be a module."""
    parts = alternatives(call.receiver) if call.receiver is not None else ()
    return any(isinstance(part, Instance) and part.kind == "module" for part in parts) or (
        isinstance(call.node.func, ast.Attribute) and ast.unparse(call.node.func.value) == "self"
    )


def _fix(code: Code, call: Call, function: ast.AST) -> Fix | None:
    """The device of the first argument that is a tensor in the place of the one that is named."""
    source = code.tensor_argument(function)
    node = call.node
    if source is None or not isinstance(node.func, ast.Attribute) or _does_nothing_else(function):
        return None
    rewriter = code.rewriter
    if call.method in ("cuda", "xpu"):
        start, end = rewriter.dot(node.func), rewriter.end(node)
        own = isinstance(node.func.value, ast.Name) and node.func.value.id == source
        if own and _rebinds(call.statement, source, node):
            # `x = x.cuda()`
            lines = rewriter.alone_on_its_lines(call.statement)
            body: list[ast.stmt] = getattr(function, "body", [])
            if lines is None or call.statement not in body or len(body) < 2:
                return None
            return Fix(f"Leave `{source}` where it is", (rewriter.remove(*lines),), Applicability.UNSAFE)
        edit = rewriter.source.replace(start, end, "" if own else f".to({source}.device)")
    else:
        named = next((word.value for word in node.keywords if word.arg == "device"), None)
        named = named if named is not None else node.args[0] if call.method == "to" and node.args else None
        if named is None or any(part.arg is None for part in node.keywords):
            return None
        edit = rewriter.replace(named, f"{source}.device")
    return Fix(f"Use the device of `{source}`", (edit,), Applicability.UNSAFE)


def _does_nothing_else(function: ast.AST) -> bool:
    """Whether a function hands its arguments to another module at once: to move them is what it is for."""
    match getattr(function, "body", []):
        case [ast.Return(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"))))]:
            return True
    return False


def _rebinds(statement: ast.stmt, name: str, value: ast.expr) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=bound):
            return target == name and bound is value
    return False
