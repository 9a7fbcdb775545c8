"""MOD006: `register_backward_hook`, which sees the gradients of one operation only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from modellint.authoring import Diagnostic, Fix, Rule, Severity, called_name, of_kind, walk

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel


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
    What a hook reads is known of a lambda, a method and a function of the file, and of what such a function returns; a hook that
    another file defines is taken to read the gradients of the inputs.

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
                    severity=Severity.INFO if _looks_at_outputs_only(code, call) else self.severity,
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


_Function: TypeAlias = ast.FunctionDef | ast.Lambda
_GIVES_NONE = frozenset({"append", "extend", "insert", "update", "setattr", "print", "__setitem__"})
"""What a lambda calls in the place of a statement."""


def _looks_at_outputs_only(code: Code, call: Call) -> bool:
    """Whether a hook reads the gradients of outputs alone, which are the same from both, and gives none back."""
    hooks = [_hook(part, call.function, code) for part in call.node.args[:1]]
    return bool(hooks) and hooks[0] is not None and not _reads_inputs(*hooks[0])


def _hook(node: ast.expr, scope: ast.AST | None, code: Code) -> tuple[_Function, bool] | None:
    """The function that an expression is in a scope, and whether it is a method that is bound to its object."""
    match node:
        case ast.Lambda():
            return node, False
        case ast.Name(id=name):
            found = _defined(name, scope, code)
            return (found, False) if found is not None else None
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            found = _defined(name, None, code)
            return (found, not found.decorator_list) if found is not None else None
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            maker = _defined(name, scope if isinstance(node.func, ast.Name) else None, code)
            if maker is not None and not maker.decorator_list:
                inner = {part for function in _functions_in(maker) for part in walk(function)}
                match [part.value for part in of_kind(maker, ast.Return) if part not in inner]:
                    case [ast.Name(id=name)] if _within(name, maker) is not None:
                        return _hook(ast.Name(id=name), maker, code)
                    case [ast.Lambda() as made]:
                        return made, False
    return None


def _functions_in(function: ast.FunctionDef) -> list[_Function]:
    """The functions that stand in another."""
    named = [part for part in of_kind(function, ast.FunctionDef) if part is not function]
    return [*named, *of_kind(function, ast.Lambda)]


def _defined(name: str, scope: ast.AST | None, code: Code) -> ast.FunctionDef | None:
    """The one function of a name in a scope, or else in the file."""
    return (scope is not None and _within(name, scope)) or _within(name, code.file.tree)


def _within(name: str, place: ast.AST) -> ast.FunctionDef | None:
    found = [part for part in of_kind(place, ast.FunctionDef) if part.name == name and part is not place]
    is_bound_again = any(part.id == name and isinstance(part.ctx, ast.Store) for part in of_kind(place, ast.Name))
    return found[0] if len(found) == 1 and not is_bound_again else None


def _reads_inputs(hook: _Function, is_bound: bool) -> bool:
    """Whether a hook may read the gradients of the inputs, or give others back."""
    parameters = [*hook.args.posonlyargs, *hook.args.args][is_bound:]
    if not len(parameters) - len(hook.args.defaults) <= 3 <= len(parameters):
        return True
    if isinstance(hook, ast.Lambda):
        gives = not (isinstance(hook.body, ast.Call) and called_name(hook.body) in _GIVES_NONE)
    else:
        values = (part.value for part in of_kind(hook, ast.Return))
        gives = any(value is not None and not _is_none(value) for value in values)
    return gives or any(part.id == parameters[1].arg for part in of_kind(hook, ast.Name))


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
