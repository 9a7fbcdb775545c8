"""MUT007: an argument of `forward` that is changed in place."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Applicability,
    Const,
    Diagnostic,
    Fix,
    Method,
    Rule,
    Severity,
    Tensor,
    Trigger,
    alternatives,
    of_kind,
    once,
    walk,
)
from modellint_rules.mutation.shared_memory import changes, may_be_copy

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel, Write


class InputMutated(Rule):
    """An argument of `forward` that is changed in place.

    ## What it does
    Finds in-place operations on tensors that the caller gives, or on views of them, in `forward` and in what it runs.

    ## Why
    The inputs of a Core ML model are immutable: `torch.export` records the change and coremltools refuses it ("cannot
    handle user input mutation"). In PyTorch the caller's tensor changes under its hands.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            x.clamp_(0, 1)
            return x * 2


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            x = x.clamp(0, 1)
            return x * 2


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    The fix copies the argument at the start of `forward`, or writes `x = x.clamp(0, 1)` for `x.clamp_(0, 1)`. It is unsafe: the
    caller may wait for the change. There is none for a cache or a state by its name, whose caller does wait, nor for an argument
    that may be None, a tuple or a dictionary, by its annotation, its default or what `forward` does with it.

    ## Known limits
    Of a module inside a model the argument is an intermediate result, and the change is harmless; source does not tell
    which module is the outermost. A flag called `inplace` may ask for the change. What `nn.ReLU(inplace=True)` and
    functions of other files do is not known. `x = x.float()` may be a copy, and is left alone.

    ## References
    - <https://pytorch.org/docs/stable/export.html>
    - <https://apple.github.io/coremltools/docs-guides/source/convert-pytorch-workflow.html>
    """

    code = "MUT007"
    name = "input-mutated"
    severity = Severity.WARNING
    only_for = ("coreml",)
    only_inference = True
    live_needs = "run"
    withdraws = True
    needs = ("forward", Trigger.WRITES_IN_PLACE)
    only_modules = True
    only_forward = True
    fixable = "`x = x.clone()`"
    advice = "Write to a copy, `x = x.clone()`, or assign a new tensor, `x = x.clamp(0, 1)`"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every write whether it is to an argument of ``forward``."""
        if code.is_never_exported:
            return
        forward = next((method.node for method in code.methods if getattr(method.node, "name", "") == "forward"), None)
        if not isinstance(forward, ast.FunctionDef):
            return
        arguments = frozenset([*forward.args.posonlyargs, *forward.args.args, *forward.args.kwonlyargs])
        reported: set[str] = set()
        for readings in code.writes:
            write = readings[0]
            if not _is_called_on_tensors(code, write):
                continue
            names = {_argument(reading, arguments) for reading in readings}
            name = names.pop() if len(names) == 1 else None
            if name is None or name in reported or re.fullmatch(_OUTPUTS, name) or _is_on_demand(write):
                continue
            reported.add(name)
            if _stores_items(write, name) and code.is_given_lists(name):
                continue
            yield code.finding(
                self,
                write.statement,
                f"This changes `{name}`, an argument of `forward`, in place: inputs of a Core ML model are immutable",
                severity=code.severity_at(self.severity, write.node, write.function),
                statement=write.statement,
                fix=_fix(code, forward, name, write),
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the run whether it writes to the model's own inputs."""
        run = subject.run
        for name, write in () if run is None else subject.input_writes:
            yield subject.finding(
                self,
                f"This changes `{name}`, an input of the model, in place: inputs of a Core ML model are immutable",
                at=write.operator.place,
                modules=[write.operator.module],
            )


_FUNCTIONAL = frozenset(
    {"clamp_", "clamp_min_", "clamp_max_", "clip_", "relu_", "sigmoid_", "tanh_", "abs_", "neg_", "exp_", "log_"}
    | {"sqrt_", "rsqrt_", "square_", "round_", "floor_", "ceil_", "masked_fill_"}
)
"""Methods whose results have the type of their tensor, in place or not."""
_STATES = r"(?i)cache|state|buffer|memory|(?:^|_)(?:kv|mems?|hx|cx)(?:_|$)"
"""Names of arguments in which the caller keeps what the next call needs: it waits for the change."""
_OUTPUTS = r"out|output|write_to"
"""Names of arguments that a caller gives to be written to."""


def _is_on_demand(write: Write) -> bool:
    """Whether a flag called `inplace` asks for the change."""
    function = write.function
    if function is None:
        return False
    return write.node in once(function, "_on_demand", _on_demand)


def _on_demand(function: ast.AST) -> frozenset[ast.AST]:
    choices: list[ast.If | ast.IfExp] = [*of_kind(function, ast.If), *of_kind(function, ast.IfExp)]
    return frozenset(part for node in choices if "inplace" in ast.unparse(node.test) for part in walk(node))


def _stores_items(write: Write, name: str) -> bool:
    """Whether a write is to an item of an argument: `x[i] = v` changes no tensor where `x` is a list."""
    match write.node:
        case ast.Subscript(value=ast.Name(id=owner)):
            return write.how == "item" and owner == name
    return False


def _is_called_on_tensors(code: Code, write: Write) -> bool:
    """Whether a method that writes in place is called on tensors that are known, whichever branch was taken."""
    calls = code.readings(write.node)
    return all(
        not isinstance(part, Method) or isinstance(part.receiver, (Tensor, Const))
        for call in calls
        for part in alternatives(call.callee)
    )


def _argument(write: Write, arguments: Collection[ast.AST | None]) -> str | None:
    """The argument of ``forward`` that a write certainly changes."""
    if not changes(write):
        return None
    names: set[str | None] = set()
    for part in alternatives(write.target):
        if isinstance(part, Const) and part.value is None:
            continue
        if not isinstance(part, Tensor) or not part.is_tensor or may_be_copy(part) or not part.root.is_tensor:
            return None
        names.add(part.root.name if part.root.origin == "argument" and part.root.node in arguments else None)
    return names.pop() if len(names) == 1 else None


def _is_tensor_alone(forward: ast.FunctionDef, name: str) -> bool:
    """Whether nothing says that an argument may be something else than a tensor, such as a tuple or None."""
    return name in once(forward, "_tensors_alone", _tensors_alone)


def _tensors_alone(forward: ast.AST) -> frozenset[str]:
    """The arguments of a function of which nothing says that they may be something else than a tensor."""
    if not isinstance(forward, ast.FunctionDef):
        return frozenset()
    parameters = [*forward.args.posonlyargs, *forward.args.args]
    defaults = parameters[len(parameters) - len(forward.args.defaults) :]
    defaults += [
        part for part, default in zip(forward.args.kwonlyargs, forward.args.kw_defaults, strict=True) if default
    ]
    optional = {part.arg for part in defaults}
    apart = {name for node in walk(forward) if (name := _taken_apart(node)) is not None}
    return frozenset(
        part.arg
        for part in (*parameters, *forward.args.kwonlyargs)
        if part.arg not in optional
        and (
            part.arg not in apart
            if part.annotation is None
            else re.fullmatch(r"'?(?:\w+\.)*\w*Tensor'?", ast.unparse(part.annotation)) is not None
        )
    )


def _taken_apart(node: ast.AST) -> str | None:
    """The variable of which a node asks what it is or how long it is, takes parts by a number, or that it unpacks."""
    match node:
        case (
            ast.Call(func=ast.Name(id="isinstance" | "len" | "type" | "list" | "tuple"), args=[ast.Name(id=name), *_])
            | ast.Call(func=ast.Attribute(attr="is_tensor"), args=[ast.Name(id=name)])
            | ast.Compare(left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()])
            | ast.Assign(targets=[ast.Tuple() | ast.List()], value=ast.Name(id=name))
            | ast.For(iter=ast.Name(id=name))
            | ast.comprehension(iter=ast.Name(id=name))
            | ast.Starred(value=ast.Name(id=name))
        ):
            return name
        case ast.Subscript(value=ast.Name(id=name), slice=index):
            index = index.operand if isinstance(index, ast.UnaryOp) else index
            return name if isinstance(index, ast.Constant) and isinstance(index.value, (int, str)) else None
    return None


def _fix(code: Code, forward: ast.FunctionDef, name: str, write: Write) -> Fix | None:
    if not _is_tensor_alone(forward, name) or re.search(_STATES, name):
        return None
    match write.statement:
        # `x.clamp_(0, 1)`: no copy is needed.
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=written), attr=method)) as call) if (
            call is write.node and written == name and method in _FUNCTIONAL
        ):
            front = code.rewriter.insert(code.rewriter.start(call), f"{name} = ")
            title = f"Assign the result to `{name}`; the caller's tensor stays as it was"
            return Fix(title, (front, code.rewriter.rename_method(call, method[:-1])), Applicability.UNSAFE)
    edit = code.rewriter.first_in_body(forward, f"{name} = {name}.clone()")
    title = f"Copy `{name}` first; the caller's tensor stays as it was"
    return Fix(title, (edit,), Applicability.UNSAFE) if edit is not None else None
