"""MOD007: a `train` or `eval` of a module's own that does not stand in for PyTorch's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import ClassRef, Diagnostic, External, Rule, Severity, Trigger, of_kind, walk

if TYPE_CHECKING:
    from modellint.authoring import Code

_HARMLESS = frozenset({"no_grad", "inference_mode", "override", "enable_grad"})
"""Decorators that leave arguments and result as they are."""


class ModeOverride(Rule):
    """A `train` or `eval` that a module overrides, and that does not take or give what PyTorch's does.

    ## What it does
    Finds a `train` that does not take `mode`, and a `train` or `eval` that gives back nothing, in module classes.

    ## Why
    `module.eval()` is `module.train(False)`, and a module that holds others calls `train(mode)` of each. A `train(self)` raises
    `TypeError` then, in the first line of every export. Both methods give back the module: behind `model = model.eval()`, or in
    `torch.jit.trace(model.eval(), …)`, there is None in its place where they do not.

    ## Bad
    ```python
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def train(self):
            return super().train(True)

        def forward(self, x):
            return self.linear(x)
    ```

    ## Good
    ```python
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def train(self, mode=True):
            return super().train(mode)

        def forward(self, x):
            return self.linear(x)
    ```

    ## Fix safety
    There is no fix.

    ## Known limits
    A method under a decorator that is not known is left alone, and so is one that always raises, and a `train` that takes something
    else than `mode` and calls no other `train`, such as a loop over epochs, unless a call with one argument raises. All is
    information in a class without `forward`, and so is a `train` that gives back nothing: a module that holds others calls it and
    does not read what it gives.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html>
    """

    code = "MOD007"
    name = "mode-override"
    severity = Severity.ERROR
    needs = (Trigger.OVERRIDES_MODE,)
    only_modules = True
    advice = "Write `def train(self, mode=True)`, and `return self` at its end; `eval` then needs no method of its own"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask the class's own `train` and `eval` what they take and give back."""
        if code.ref is None:
            return
        members = code.ref.file.members(code.ref.node)
        train, own_eval = members.get("train"), members.get("eval")
        runs = code.defines("forward") or not _is_known(code)
        for method in (train, own_eval):
            if not isinstance(method, ast.FunctionDef) or not _is_plain(method):
                continue
            name = f"`{code.name}.{method.name}`"
            if method is train and not _takes_one(method):
                by = "a module that holds this one calls" if code.defines("eval") else "`eval()` calls"
                yield code.finding(
                    self,
                    method,
                    f"{name} cannot be called with `mode` alone: {by} `train(False)`, which raises `TypeError`",
                    severity=self.severity if runs else Severity.INFO,
                )
            elif _gives_nothing(method) and (method is own_eval or _sets_mode(method)):
                other = "train" if method is train and code.defines("eval") else "eval"
                also = "" if other == method.name else f": so does `{other}()`"
                # Who holds the module calls its `train`, and does not read what that gives.
                yield code.finding(
                    self,
                    method,
                    f"{name} gives back None, not the module{also}, as in `model = model.{other}()`",
                    severity=Severity.WARNING if runs and method is own_eval else Severity.INFO,
                )


def _is_known(code: Code) -> bool:
    """Whether all bases are the project's, or `nn.Module` itself, so that nothing unseen defines `forward`."""
    return all(
        isinstance(base, ClassRef) or (isinstance(base, External) and base.name.endswith((".Module", "object", ".ABC")))
        for ref in code.lineage
        for base in code.project.bases(ref)
    )


def _is_plain(method: ast.FunctionDef) -> bool:
    """Whether a method is called as it is written, and comes to an end."""
    for decorator in method.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if getattr(called, "attr", getattr(called, "id", "")) not in _HARMLESS:
            return False
    return not isinstance(method.body[-1], ast.Raise) and bool(method.args.posonlyargs or method.args.args)


def _takes_one(method: ast.FunctionDef) -> bool:
    """Whether a call with one argument by position raises no `TypeError`."""
    arguments = method.args
    placed = [*arguments.posonlyargs, *arguments.args][1:]
    required = len(placed) - min(len(arguments.defaults), len(placed))
    named = sum(default is None for default in arguments.kw_defaults)
    return required <= 1 and not named and (bool(placed) or arguments.vararg is not None)


def _gives_nothing(method: ast.FunctionDef) -> bool:
    """Whether a method certainly gives back None."""
    inner = {
        part
        for kind in (ast.FunctionDef, ast.Lambda, ast.AsyncFunctionDef)
        for f in of_kind(method, kind)
        for part in walk(f)
    }
    for node in walk(method):
        match node:
            case ast.Return(value=value) if node not in inner:
                if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
                    return False
            case ast.Yield() | ast.YieldFrom():
                return False
            case _:
                pass
    return True


def _sets_mode(method: ast.FunctionDef) -> bool:
    """Whether a `train` sets the mode: it takes one by that name, or calls another `train`."""
    names = [part.arg for part in (*method.args.posonlyargs, *method.args.args)][1:]
    return "mode" in names or any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "train"
        and (
            isinstance(call.func.value, ast.Call)
            or any(isinstance(part, ast.Name) and part.id == "self" for part in call.args)
        )
        for call in of_kind(method, ast.Call)
    )
