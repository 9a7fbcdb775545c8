"""OPS009: a `torch.autograd.Function` in a trace."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    ClassRef,
    ClassValue,
    Diagnostic,
    External,
    Method,
    Rule,
    Severity,
    alternatives,
    dotted_name,
    of_kind,
)
from modellint_rules.operators.converter_lookup import PYTHON

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel


class AutogradFunction(Rule):
    """A `torch.autograd.Function` of which a trace keeps only that it was called.

    ## What it does
    Finds `prim::PythonOp` in what `torch.jit.trace` captures: what `Function.apply` leaves there. In source it finds `apply` of
    classes that derive from `torch.autograd.Function`, where `forward` runs it; that is a warning, since `torch.export` may lead to a
    program, but an error with `--frontend trace`, and nothing with `--frontend export`. Where the function's own `forward` calls
    what is neither PyTorch's nor Python of the project, the message names it.

    ## Why
    The trace does not look into the function, so that coremltools gets a call of Python that it cannot convert.
    `torch.export` looks into it, and fails where that runs kernels of its own; of compiled code that calls PyTorch's operators it
    takes these.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient


    class Net(nn.Module):
        def forward(self, x):
            return Double.apply(x) + 1


    inputs = (torch.randn(2, 3),)
    frontend = "trace"
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            return 2 * x + 1


    inputs = (torch.randn(2, 3),)
    frontend = "trace"
    ```

    ## Fix safety
    There is no fix: write the forward pass of the function where it is exported, or use `--frontend export`.

    ## Known limits
    A function that has devices or processes exchange tensors, with `torch.distributed` or `torch.cuda.comm`, is information in source.
    There, what a condition about devices or kernels decides is left alone, and so is a function that an attribute holds.
    With `--frontend auto` nothing is said live where `torch.export` leads to a program that converts.

    ## References
    - <https://github.com/apple/coremltools/issues/1135>
    - <https://github.com/apple/coremltools/issues/1520>
    """

    code = "OPS009"
    name = "autograd-function"
    severity = Severity.ERROR
    only_for = ("coreml",)
    only_inference = True
    live_needs = "conversion"
    needs = ("forward", "apply")
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every `apply` that `forward` runs what it is of."""
        route = code.destination.frontend
        if route == "export" or code.is_never_exported or re.search(_ELSEWHERE, code.name or ""):
            return
        usual = Severity.ERROR if route == "trace" else Severity.WARNING
        for readings in code.calls:
            call = readings[0]
            if call.function is None or call.function not in code.in_forward or not all(map(_runs, readings)):
                continue
            tests = map(ast.unparse, code.conditions(call.node, call.function))
            if any(re.search(_KERNELS, test) for test in tests) or not _is_named(code, call.node.func, call.function):
                continue
            refs = [_function_of(code, reading) for reading in readings]
            ref = refs[0] if len({part and part.node for part in refs}) == 1 else None
            if ref is None or not all(_fits(code, ref, reading) for reading in readings):
                # What is given other arguments than `forward` takes raises, and a stub gives None, before anything is captured.
                continue
            if not code.is_for_loss_only(call.node, call.function):
                opaque = code.opaque_call(ref, "forward")
                yield code.finding(
                    self,
                    call.node,
                    f"`torch.jit.trace` does not look into the autograd function `{ref.node.name}`, so that it does not convert; "
                    f"{_EXPORTED if opaque is None else _OPAQUE.format(opaque)}",
                    severity=Severity.INFO if any(_communicates(code, reading) for reading in readings) else usual,
                    statement=call.statement,
                    advice=_DIRECTLY if opaque is None else _IN_TORCH,
                    operator=PYTHON,
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Look for calls of Python."""
        for blocker, capture in subject.blockers("missing"):
            if blocker.operator == PYTHON:
                yield subject.finding(
                    self,
                    f"`{capture}` does not look into the autograd function `{blocker.detail}`, and coremltools cannot convert it",
                    at=blocker.place,
                    modules=blocker.modules,
                    operator=blocker.operator,
                    advice="call its operations directly where the model is exported",
                )


_EXPORTED = "`torch.export` does, and takes what PyTorch itself computes there"
_OPAQUE = (
    "it calls `{}`, which is not PyTorch's, and of compiled code `torch.export` sees only what it calls of PyTorch"
)
_DIRECTLY = "Call its operations directly where the model is exported, or use `--frontend export`"
_IN_TORCH = "Compute the same with operators of PyTorch where the model is exported"


def _runs(call: Call) -> bool:
    return not call.training and call.exported and not call.building


def _function_of(code: Code, call: Call) -> ClassRef | None:
    """The autograd function that a call certainly runs."""
    refs: dict[ast.ClassDef, ClassRef] = {}
    for part in alternatives(call.callee):
        match part:
            case Method(receiver=ClassValue(ref=ref), name="apply") if _is_function(code, ref):
                refs[ref.node] = ref
            case _:
                return None
    return next(iter(refs.values())) if len(refs) == 1 else None


def _is_function(code: Code, ref: ClassRef) -> bool:
    for cls in code.project.lineage(ref):
        for base in cls.node.bases:
            dotted = dotted_name(base)
            symbol = code.project.resolve(cls.file, dotted) if dotted is not None else None
            if isinstance(symbol, External) and symbol.name.startswith("torch.") and symbol.name.endswith(".Function"):
                return True
    return False


def _fits(code: Code, ref: ClassRef, call: Call) -> bool:
    """Whether `apply` is given as many arguments as `forward` takes, and gives a tensor back, as far as that can be told."""
    members = [cls.file.members(cls.node) for cls in code.project.lineage(ref)]
    forward = next((part["forward"] for part in members if "forward" in part), None)
    if isinstance(forward, ast.FunctionDef) and not forward.decorator_list[1:]:
        returns = of_kind(forward, ast.Return)
        if all(part.value is None or _is_none(part.value) for part in returns) and not of_kind(forward, ast.Yield):
            return False
    if not isinstance(forward, ast.FunctionDef) or call.arguments.spread or call.arguments.keywords:
        return True
    taken = forward.args
    if taken.vararg is not None or any(not _is_static(part) for part in forward.decorator_list):
        return True
    # With a `setup_context` of its own there is no context in front.
    most = len(taken.posonlyargs) + len(taken.args) - (not any("setup_context" in part for part in members))
    return most - len(taken.defaults) <= len(call.arguments.positional) <= most


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _is_static(decorator: ast.expr) -> bool:
    """Whether a decorator leaves the arguments of a function alone."""
    return getattr(decorator, "id", getattr(decorator, "attr", "")) in ("staticmethod", "once_differentiable")


def _communicates(code: Code, call: Call) -> bool:
    """Whether an autograd function, forwards or backwards, has devices or processes exchange tensors: nobody exports one of these."""
    return any(
        isinstance(part, Method) and isinstance(part.receiver, ClassValue) and _exchanges(code, part.receiver.ref)
        for part in alternatives(call.callee)
    )


def _exchanges(code: Code, ref: ClassRef) -> bool:
    names = (dotted_name(part.func) for part in of_kind(ref.node, ast.Call))
    symbols = (code.project.resolve(ref.file, name) for name in names if name is not None)
    return any(isinstance(symbol, External) and _EXCHANGES.match(symbol.name) for symbol in symbols)


_EXCHANGES = re.compile(
    r"torch\.(?:cuda\.comm\.|(?:_C\._|distributed\.(?:\w+\.)*)"
    r"_?(?:all_(?:gather|reduce|to_all)|broadcast|reduce|gather|scatter|send|recv|isend|irecv))"
)
_KERNELS = r"cuda|device|kernel"
_ELSEWHERE = "ONNX|Onnx|ORT|TRT"
"""Classes for other ways of exporting."""


def _is_named(code: Code, called: ast.expr, function: ast.AST) -> bool:
    """Whether a call says `apply` itself, or by a name that the file or the function binds to that."""
    match called:
        case ast.Attribute(attr="apply"):
            return True
        case ast.Name(id=name):
            own = any(isinstance(bound, ast.Attribute) for bound in code.file.names.get(name, ()))
            return own or any(node.attr == "apply" for node in of_kind(function, ast.Attribute))
    return False
