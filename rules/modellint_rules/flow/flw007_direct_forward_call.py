"""FLW007: `layer.forward(x)` in the place of `layer(x)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import (
    UNKNOWN,
    Applicability,
    Argument,
    Diagnostic,
    Fix,
    Instance,
    Method,
    Rule,
    Severity,
    Value,
    alternatives,
)

if TYPE_CHECKING:
    from modellint.authoring import Call, Code


class DirectForwardCall(Rule):
    """A submodule whose `forward` is called by name.

    ## What it does
    Finds `self.layer.forward(x)` on a submodule. `super().forward(x)`, `Base.forward(self, x)` and `self.forward(x)` are left
    alone.

    ## Why
    Hooks, parametrisations of the old kind (`weight_norm`, `spectral_norm`) and compiled modules work in `__call__`: they are
    skipped. Tracing loses the module's scope, by which coremltools names what it cannot convert.

    ## Bad
    ```python
    from torch import nn


    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x):
            return self.layer.forward(x)
    ```

    ## Good
    ```python
    from torch import nn


    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)

        def forward(self, x):
            return self.layer(x)
    ```

    ## Fix safety
    The fix is unsafe: hooks that never ran will run, and may change outputs.

    ## Known limits
    Only objects that are known to be modules, that the constructor was given, or whose `parameters()` or `state_dict()` the class
    asks for, and only in the methods of modules. Information in an application none of whose files sets a hook, or what works as one
    does: nothing is skipped there.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html>
    """

    code = "FLW007"
    name = "direct-forward-call"
    severity = Severity.WARNING
    needs = (".forward",)
    only_modules = True
    only_inference = True
    fixable = "call the module"
    advice = "Call the module itself"

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every call of a method named `forward`."""
        if code.ref is None:
            return
        for readings in code.calls:
            call = readings[0]
            if call.method != "forward" or not all(_of_a_module(code, reading) for reading in readings):
                continue
            function = call.node.func
            # A bound method under another name, `self.encode = Encoder().forward`, is no call by name.
            if isinstance(function, ast.Attribute) and function.attr == "forward":
                edit = code.rewriter.cut_attribute(function)
                yield code.finding(
                    self,
                    call.node,
                    "`forward` is called by name: hooks do not run, those of the old `weight_norm` and `spectral_norm` among them",
                    severity=Severity.INFO if call.training or code.is_never_exported else self.severity,
                    fix=Fix("Call the module; outputs change where a hook changes them", (edit,), Applicability.UNSAFE),
                    statement=call.statement,
                )


def _of_a_module(code: Code, call: Call) -> bool:
    parts = alternatives(call.receiver) if call.receiver is not None else ()
    function = call.node.func
    return bool(parts) and all(_is_module(part, function) or _is_used_as_one(code, part, function) for part in parts)


def _is_module(value: Value, function: ast.expr) -> bool:
    if isinstance(value, Argument):
        # What the constructor was given, kept by a module, and has a `forward`.
        return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Attribute)
    return isinstance(value, Instance) and value.kind == "module"


def _is_used_as_one(code: Code, value: Value, function: ast.expr) -> bool:
    """Whether what is not known of an attribute is shown by the class, which asks it for what only modules have."""
    match function:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name)) if code.ref is not None:
            unseen = value is UNKNOWN or isinstance(value, Method) or getattr(value, "kind", "") == "unresolved"
            uses = code.file.uses(code.ref.node).get(name)
            return unseen and uses is not None and not uses.methods.isdisjoint(_OF_MODULES)
    return False


_OF_MODULES = frozenset(
    {"parameters", "named_parameters", "state_dict", "load_state_dict", "children", "named_modules"}
)
