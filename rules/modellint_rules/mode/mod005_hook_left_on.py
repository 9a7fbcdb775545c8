"""MOD005: a hook that somebody has put on a module and not taken off."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import LiveModel


class HookLeftOn(Rule):
    """A forward or backward hook that is still on a module.

    ## What it does
    Finds forward hooks, backward hooks and pre-hooks of both kinds on the modules of the model, except those that PyTorch's own
    functions put there.

    ## Why
    Hooks run while the model is captured: what a forward hook computes becomes a part of the exported program, which is right
    if the hook belongs to the model, and surprising if it was meant for a look at activations. A module with a backward hook
    `torch.jit.trace` refuses ("Modules that have backward hooks assigned can't be compiled"): that is a warning.

    ## Bad
    ```python
    from torch import nn


    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)
            self.linear.register_forward_hook(print)

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

        def forward(self, x):
            return self.linear(x)
    ```

    ## Fix safety
    There is no fix: whether a hook belongs to the model only its author knows. The handle that its registration returned takes
    it off with `remove()`.

    ## Known limits
    Hooks on tensors, hooks for all modules at once, and hooks of `state_dict` and `load_state_dict` are not looked at.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html>
    """

    code = "MOD005"
    name = "hook-left-on"
    severity = Severity.INFO
    advice = "Remove the hook before the export, unless it is a part of the model"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every module for its hooks."""
        for entry in subject.modules:
            hooks = [hook for hook in subject.hooks(entry.module) if not hook.is_legacy]
            if not hooks:
                continue
            refused = any(hook.kind == "backward hook" for hook in hooks)
            named = " and ".join(dict.fromkeys(f"a {hook.kind} ({_name(hook.function)})" for hook in hooks))
            verb = "are" if len(hooks) > 1 else "is"
            effect = "`torch.jit.trace` refuses it" if refused else "what it does is captured with the model"
            yield subject.finding(
                self,
                f"{named} {verb} still on this module: {effect}",
                severity=Severity.WARNING if refused else Severity.INFO,
                modules=entry.paths,
                **subject.binding(entry.path).keywords(),
            )


def _name(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"`{name.rpartition('<locals>.')[2]}`"
