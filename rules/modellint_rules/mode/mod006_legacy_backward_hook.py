"""MOD006: `register_backward_hook`, which sees the gradients of one operation only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Fix, Rule, Severity, of_kind, walk

if TYPE_CHECKING:
    from modellint.authoring import Code, LiveModel


class LegacyBackwardHook(Rule):
    """A backward hook of the old kind, which sees the gradients of a module's last operation only.

    ## What it does
    Finds calls of `register_backward_hook` on a module; on a live model, modules that still have such a hook.

    ## Why
    Where `forward` runs more than one operation, such a hook is given the inputs' gradients of the last one, not of the module;
    PyTorch keeps it for old code only. `register_full_backward_hook` gives what one expects. A hook that is left on is traced, and
    some of them raise then. A hook that reads the outputs' gradients alone is given the same by both, and is information.

    ## Bad
    ```python
    from torch import nn


    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)
            self.linear.register_backward_hook(print)

        def forward(self, x):
            return self.linear(x)
    ```

    ## Good
    ```python
    from torch import nn


    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)
            self.linear.register_full_backward_hook(print)

        def forward(self, x):
            return self.linear(x)
    ```

    ## Fix safety
    The fix is safe: outputs and gradients stay; the hook is called with the module's gradients, which is what is reported.

    ## Known limits
    None known.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html>
    """

    code = "MOD006"
    name = "legacy-backward-hook"
    severity = Severity.WARNING
    only_inference = True
    needs = ("register_backward_hook",)
    fixable = "`register_full_backward_hook`"
    advice = "Register it with `register_full_backward_hook`"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every call for that name."""
        for readings in code.calls:
            call = readings[0]
            if call.method == "register_backward_hook" and not code.defines("register_backward_hook"):
                edit = code.rewriter.rename_method(call.node, "register_full_backward_hook")
                yield code.finding(
                    self,
                    call.node,
                    "`register_backward_hook` gets the gradients of the last operation in `forward`, not of the module",
                    severity=Severity.INFO if _looks_at_outputs_only(code, call.node) else self.severity,
                    fix=Fix("Use `register_full_backward_hook`", (edit,)),
                    statement=call.statement,
                )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every module for hooks of that kind."""
        for entry in subject.modules:
            if not any(hook.is_legacy for hook in subject.hooks(entry.module)):
                continue
            message = (
                "`register_backward_hook` gets the gradients of the last operation in `forward`, not of the module"
            )
            at = subject.calling(entry.path, "register_backward_hook")
            if at is not None:
                yield subject.finding(self, message, at=at, modules=entry.paths)
            else:
                binding = subject.binding(entry.path).keywords()
                yield subject.finding(self, message, modules=entry.paths, **binding)


def _looks_at_outputs_only(code: Code, call: ast.Call) -> bool:
    """Whether a hook reads the gradients of outputs alone, which are the same from both, and gives none back."""
    match call.args:
        case [ast.Name() | ast.Attribute()]:
            function = _function_of(code, call.args[0])
        case [ast.Call(func=maker)]:
            function = _made_by(_function_of(code, maker))
        case _:
            return False
    if function is None:
        return False
    parameters = [*function.args.posonlyargs, *function.args.args]
    is_method = isinstance(call.args[0], ast.Attribute) and not function.decorator_list
    if len(parameters) != 3 + is_method:
        return False
    inputs = parameters[-2].arg
    return not any(
        (isinstance(part, ast.Name) and part.id == inputs) or (isinstance(part, ast.Return) and part.value is not None)
        for part in walk(function)
    )


def _function_of(code: Code, node: ast.expr) -> ast.FunctionDef | None:
    """The only function of a file that a name, or an attribute of `self`, may be."""
    match node:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            found = [function for function in of_kind(code.file.tree, ast.FunctionDef) if function.name == name]
            return found[0] if len(found) == 1 else None
    return None


def _made_by(maker: ast.FunctionDef | None) -> ast.FunctionDef | None:
    """The function that another defines, and gives back by its last statement, and in no other way."""
    match maker:
        case ast.FunctionDef(body=[*_, ast.Return(value=ast.Name(id=name))], decorator_list=[]):
            own = [part for part in maker.body if isinstance(part, ast.FunctionDef) and part.name == name]
            named = sum(part.id == name for part in of_kind(maker, ast.Name))
            if len(own) == named == 1 and len(of_kind(maker, ast.Return)) == len(of_kind(own[0], ast.Return)) + 1:
                return own[0]
    return None
