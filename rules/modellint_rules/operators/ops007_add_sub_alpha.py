"""OPS007: `torch.add` or `torch.sub` with `alpha`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from modellint.authoring import Applicability, Diagnostic, Fix, Rule, Severity, alternatives, coreml, parents_in

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveCall, LiveModel


class AddSubAlpha(Rule):
    """`torch.add`, `torch.sub` or `torch.rsub` with an `alpha` that is not 1.

    ## What it does
    Finds calls of `add`, `sub`, `subtract` and `rsub`, as functions, methods or in place, with another `alpha` than 1: in the run,
    and in source where `alpha` is a number that is known.

    ## Why
    What `torch.export` captured is converted without a word, and without `alpha`: `x + y` in the place of `x + 3 * y`. What
    was traced is refused: "ADD does not support scale factor param". So it is up to coremltools 9.0; from 9.1.dev1 on both routes
    scale, and there is no finding for it (`coreml-version`; live checks ask the installed one).

    ## Bad
    ```python
    import torch
    from torch import nn


    class Mix(nn.Module):
        def forward(self, x, y):
            return torch.add(x, y, alpha=3.0)


    inputs = (torch.randn(2, 4), torch.randn(2, 4))
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Mix(nn.Module):
        def forward(self, x, y):
            return x + 3.0 * y


    inputs = (torch.randn(2, 4), torch.randn(2, 4))
    ```

    ## Fix safety
    The fix writes the sum out. It is unsafe, as `torch.add` rounds once and the expression twice, but where `alpha` is -1 and
    nothing is rounded. For an operation in place there is none.

    ## Known limits
    `alpha` and `beta` of `addmm` and `baddbmm` convert as they should.

    ## References
    - <https://github.com/apple/coremltools/issues/2573>
    - <https://pytorch.org/docs/stable/generated/torch.add.html>
    """

    code = "OPS007"
    name = "add-sub-alpha"
    severity = Severity.ERROR
    only_inference = True
    silent = ("export",)
    supersedes = ("OPS001", "OPS002")
    live_needs = "run"
    needs = ("forward", "alpha")
    only_modules = True
    only_forward = True
    fixable = "`x + a * y`"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every addition and subtraction that `forward` runs for its factor."""
        if code.is_never_exported or not coreml.has_fault(_FAULT, code.destination.coremltools):
            return
        for readings in code.calls:
            call = readings[0]
            rewrite = _REWRITES.get(call.method.removesuffix("_"))
            function = call.function
            if rewrite is None or function is None or function not in code.in_forward:
                continue
            if not all(map(_scales, readings)) or code.ends_in_python(call.node, function):
                continue
            if not code.is_for_loss_only(call.node, function):
                yield code.finding(
                    self,
                    call.node,
                    _MESSAGE.format(call.method),
                    statement=call.statement,
                    fix=_fix(code, call),
                    advice=f"Write `{rewrite}`",
                    operator=f"aten::{call.method}",
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every addition and subtraction for its factor."""
        run = subject.run
        scaled = () if run is None else [call for call in run.calls if _rewritten(call) and _alpha(call) != 1]
        if not scaled or not coreml.has_fault(_FAULT, coreml.here()):
            return
        for call in scaled:
            name = call.name.rpartition(".")[2]
            yield subject.finding(
                self,
                _MESSAGE.format(name),
                at=call.place,
                modules=[call.module],
                operator=f"aten::{name}",
                advice=f"Write `{_rewritten(call)}`",
            )


_FAULT = "add-alpha"
_MESSAGE = "`{}` with `alpha`: conversion from `torch.export` leaves the factor out, from a trace it is refused"
_REWRITES = {
    "add": "x + alpha * y",
    "sub": "x - alpha * y",
    "subtract": "x - alpha * y",
    "rsub": "y - alpha * x",
}


def _rewritten(call: LiveCall) -> str | None:
    """What to write in the place of a call of one of these functions."""
    name = call.name.rpartition(".")[2]
    return _REWRITES.get(name.removesuffix("_")) if call.name in (f"torch.{name}", f"torch.Tensor.{name}") else None


def _alpha(call: LiveCall) -> Any:
    # `torch.add(x, alpha, y)` is an old form of it.
    return call.arguments[1] if len(call.arguments) == 3 else call.keywords.get("alpha", 1)


def _scales(call: Call) -> bool:
    if call.training or not call.exported or call.building or not call.name.startswith("torch."):
        return False
    alpha = call.arguments.keywords.get("alpha")
    numbers = [part.number for part in alternatives(alpha)] if alpha is not None else []
    return bool(numbers) and None not in numbers and 1 not in numbers


def _fix(code: Code, call: Call) -> Fix | None:
    """The sum, where both of its sides are plain expressions."""
    node = call.node
    operands = list(node.args)
    if isinstance(node.func, ast.Attribute) and call.receiver is not None:
        operands.insert(0, node.func.value)
    alpha = next((word.value for word in node.keywords if word.arg == "alpha"), None)
    if len(operands) != 2 or alpha is None or len(node.keywords) > 1 or call.method.endswith("_"):
        return None
    if any(isinstance(part, ast.Starred) for part in operands):
        return None
    if call.method == "rsub":
        operands.reverse()
    adds = call.method == "add"
    exact = isinstance(alpha, ast.UnaryOp) and ast.unparse(alpha) in ("-1", "-1.0")
    factor = "" if exact else f"{_closed(code, alpha)} * "
    # A product needs no brackets in a sum, and needs them behind a factor.
    left = _closed(code, operands[0], _PRODUCTS)
    right = _closed(code, operands[1], _PRODUCTS if exact else ())
    text = f"{left} {'+' if adds is not exact else '-'} {factor}{right}"
    around = call.statement
    parent = parents_in(call.function or around).get(node)
    alone = not isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Starred, ast.Await)) and not (
        isinstance(parent, (ast.Subscript, ast.Call))
        and node in (getattr(parent, "value", None), getattr(parent, "func", None))
    )
    edit = code.rewriter.replace(node, text if alone else f"({text})")
    if exact:
        return Fix("Write the sum out", (edit,))
    return Fix(
        "Write the sum out; outputs change in their last digit, as it rounds twice", (edit,), Applicability.UNSAFE
    )


_PRODUCTS = (ast.Mult, ast.Div, ast.MatMult, ast.FloorDiv, ast.Mod, ast.Pow)


def _closed(code: Code, node: ast.expr, operators: tuple[type[ast.operator], ...] = ()) -> str:
    """The text of an expression that may stand beside any operator; one of these needs no brackets."""
    text = code.rewriter.of(node)
    plain = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant))
    plain = plain or (isinstance(node, ast.BinOp) and isinstance(node.op, operators) and "\n" not in text)
    return text if plain else f"({text})"
