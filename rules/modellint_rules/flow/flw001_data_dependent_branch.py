"""FLW001: a branch that depends on the values of a tensor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    Const,
    Diagnostic,
    Drawn,
    Rule,
    Severity,
    Tensor,
    Trigger,
    alternatives,
    called_name,
    walk,
)

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel, Question


class DataDependentBranch(Rule):
    """A branch in `forward` that depends on the values of a tensor.

    ## What it does
    Finds `if`, `while`, conditional expressions, `and`, `or` and `not` that ask a tensor for its truth where that depends
    on what the caller gives, or for the size of one whose length values decide (`if x[x > 0].numel() == 0:`), `min` and `max` of
    Python on such tensors, and `torch.equal` and `torch.allclose` in a condition.

    ## Why
    Tracing runs one of the branches, the one that the sample input takes, and records nothing of the other: the converted
    model takes it whatever its input is, and nobody says so. `torch.export` refuses ("Could not guard on data-dependent
    expression"); so it does where a branch only raises or warns, which a trace leaves out. What TorchScript compiles
    (`torch.jit.script`, `torch.jit.script_if_tracing`) a trace keeps: coremltools converts the branch, but refuses one that raises,
    warns or prints.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x * 2
            return x - 1


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def forward(self, x):
            return torch.where(x.sum() > 0, x * 2, x - 1)


    inputs = (torch.randn(2, 4),)
    ```

    ## Fix safety
    There is no fix. `torch.where` computes both sides and chooses between them; a mask or a clamp often says the same.

    ## Known limits
    Conditions on other shapes, types, flags, `None` and `self.training` are none of this. A branch that only raises or warns is a
    warning, as tracing drops the check, not the result, and `torch.export` refuses it; an `assert` is left alone. So are branches in
    functions that TorchScript compiles (but for `--frontend export`), what runs in training only, `torch.jit.is_tracing()` and its
    like, and losses. What stands behind a test for half precision, and in what is trained or searched with as a rule, is for
    information. What functions of other files give is taken for a tensor only where a method of tensors is called of it. An argument of
    `forward` that is said to be a tensor is none where all calls in the project give numbers for it.

    ## References
    - <https://github.com/apple/coremltools/issues/2005>
    - <https://github.com/apple/coremltools/issues/2008>
    - <https://pytorch.org/docs/stable/generated/torch.jit.trace.html>
    """

    code = "FLW001"
    name = "data-dependent-branch"
    severity = Severity.ERROR
    only_inference = True
    silent = ("trace",)
    live_needs = "run"
    needs = ("forward", Trigger.BRANCHES_ON_DATA)
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask everything whose truth is asked whether it is a tensor's."""
        if code.is_never_exported:
            return
        reported: set[ast.AST] = set()
        for readings in code.questions:
            question = readings[0]
            if question.site not in reported and all(_depends(reading) for reading in readings):
                if _is_settled(code, question) or _asks_numbers(code, question):
                    continue
                reported.add(question.site)
                yield from self._asked(code, question, code.is_compiled(readings))
        for calls in code.calls:
            call = calls[0]
            if call.name in _CHOOSING and all(map(_chooses, calls)) and not code.is_compiled(calls):
                yield code.finding(
                    self,
                    call.node,
                    f"Python's `{call.method}` compares the values of a tensor: tracing keeps what the sample input gives",
                    severity=code.severity_at(self.severity, call.node, call.function),
                    statement=call.statement,
                    advice=f"Write `torch.{call.method}imum`, or `clamp`",
                )

    def _asked(self, code: Code, question: Question, compiled: bool) -> Iterator[Diagnostic]:
        if _only_checks(code, question.site):
            yield from self._checked(code, question, compiled)
            return
        if compiled and code.destination.frontend != "export":
            return
        usual = Severity.INFO if _is_for_half(question) else self.severity
        yield code.finding(
            self,
            question.test,
            _COMPILED if compiled else _BRANCHES,
            severity=code.severity_at(usual, question.test, question.function),
            statement=question.statement,
            advice="Compute both sides and choose with `torch.where`",
        )

    def _checked(self, code: Code, question: Question, compiled: bool) -> Iterator[Diagnostic]:
        route, function = code.destination.frontend, question.function
        if function is None or code.is_for_loss_only(question.test, function) or (route == "trace" and not compiled):
            return
        usual = Severity.ERROR if route == "export" else Severity.WARNING
        yield code.finding(
            self,
            question.test,
            _COMPILED_CHECK
            if compiled
            else "`torch.export` refuses a check of the values of a tensor; a trace leaves it out",
            severity=code.severity_at(usual, question.test, function),
            statement=question.statement,
            advice="Check what the model is given before it runs, or add `not torch.compiler.is_compiling()` to the condition",
        )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask the run, and a trace, what Python takes out of tensors."""
        for concretization in subject.concretizations:
            if concretization.kind == "branch":
                yield subject.finding(
                    self,
                    _BRANCHES,
                    at=concretization.call.place,
                    modules=[concretization.call.module],
                    advice="Compute both sides and choose with `torch.where`",
                )


_BRANCHES = "This branch depends on the values of a tensor: tracing keeps the one that the sample input takes"
_COMPILED = "`torch.export` refuses a branch that depends on the values of a tensor"
_COMPILED_CHECK = (
    "`torch.export` refuses a check of the values of a tensor, and coremltools what TorchScript compiles of one"
)
_CHOOSING = ("builtins.min", "builtins.max")


def _depends(question: Question) -> bool:
    if question.aside or isinstance(question.site, ast.Assert) or isinstance(question.statement, ast.Assert):
        return False
    parts = [part for part in alternatives(question.value) if not isinstance(part, Const)]
    return bool(parts) and all(_is_asked(part, question) for part in parts)


def _is_settled(code: Code, question: Question) -> bool:
    """Whether values are compared only of what may be one object, and is: `x is y or torch.equal(x, y)` of a call `self.attend(z, z)`."""
    equals = [
        part
        for part in walk(question.test)
        if isinstance(part, ast.Call) and called_name(part) in ("equal", "allclose")
    ]
    whole = question.site.test if isinstance(question.site, (ast.If, ast.IfExp, ast.While)) else question.test
    settled: set[ast.AST] = set()
    for part in walk(whole) if equals else ():
        match part:
            case ast.BoolOp(
                op=ast.Or(),
                values=[
                    ast.Compare(left=ast.Name(id=left), ops=[ast.Is()], comparators=[ast.Name(id=right)]),
                    ast.Call() as call,
                ],
            ) if code.is_given_one_for((left, right), call.lineno):
                settled.add(call)
    return bool(equals) and settled.issuperset(equals) and len(_drawn_in(question)) == len(equals)


def _asks_numbers(code: Code, question: Question) -> bool:
    """Whether a condition compares nothing but arguments for which all calls in the project give numbers, whatever is said of them."""
    parts = walk(question.test)
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    if not names or not all(isinstance(part, _COMPARED) for part in parts):
        return False
    return all(code.is_given_scalars(name, question.function) for name in names)


_COMPARED = (ast.Name, ast.Constant, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.unaryop)


def _drawn_in(question: Question) -> set[ast.AST]:
    return {part.node for part in alternatives(question.value) if isinstance(part, Drawn)}


def _is_asked(part: object, question: Question) -> bool:
    match part:
        case Drawn(is_length=True):
            # A loop up to a size is another rule's.
            return not isinstance(question.site, ast.While)
        case Drawn():
            # What was taken out in another statement is reported there.
            return any(node is part.node for node in walk(question.test))
        case Tensor():
            # Nobody asks all of an argument for its truth: it is a flag.
            return part.is_data and part.origin != "argument" and not _may_be_anything(part, question)
    return False


def _may_be_anything(tensor: Tensor, question: Question) -> bool:
    """Whether all of a value is asked that was unpacked of what a call gave which may give no tensors: `x, options = self.pick(x)`."""
    is_whole = isinstance(question.test, (ast.Name, ast.Attribute, ast.Subscript))
    is_unpacked = tensor.made_by == "select" and not isinstance(tensor.node, ast.Subscript)
    return is_whole and is_unpacked and not tensor.certain


def _only_checks(code: Code, site: ast.AST) -> bool:
    """Whether a branch does nothing but raise, warn or print."""
    return isinstance(site, ast.If) and not site.orelse and code.only_reports(site.body)


def _is_for_half(question: Question) -> bool:
    """Whether a type is asked first that a model has in half precision only: `if x.dtype == torch.float16 and x.isinf().any():`."""
    match question.site:
        case ast.If(test=ast.BoolOp(op=ast.And(), values=[first, *_])):
            return re.search(_HALF, ast.unparse(first)) is not None
    return False


_HALF = r"dtype (?:==|is|in) .*(?:float16|half)"


def _chooses(call: Call) -> bool:
    are_data = [all(part.is_data for part in alternatives(value)) for value in call.arguments.positional]
    return call.exported and not call.training and len(are_data) > 1 and any(are_data)
