"""Autograd functions written in Python: a trace holds each as one call, which no destination converts.

What their `forward` computes is captured in their place; what they do for gradients has no part in a package.
"""

from __future__ import annotations

import sys
import types
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.function import FunctionCtx


@contextmanager
def forward_alone(model: nn.Module) -> Iterator[array[int]]:
    """Scope in which an autograd function of a model runs its ``forward``, on operators that are seen.

    Yields a number for each that was met so far. ``apply`` is looked for on its class, in the modules of Python that the model's classes
    are of, and in attributes of layers: a name that is bound to it (``scan = Scan.apply``) holds the function itself.
    """
    # A list that the model leads to would be as it was after each run.
    met = array("b")

    def applied(function: Any, *args: Any, **kwargs: Any) -> Any:
        met.append(1)
        if function.setup_context is not torch.autograd.Function.setup_context:
            return function.forward(*args, **kwargs)
        context: Any = FunctionCtx()
        context.needs_input_grad = (False,) * len(args)
        return function.forward(context, *args, **kwargs)

    owner: Any = torch.autograd.Function
    own = vars(owner).get("apply")
    bound = [
        (names, name, value)
        for names in {id(names): names for names in _namespaces(model)}.values()
        for name, value in list(names.items())
        # By the type alone: other objects may do anything when they are asked for a name.
        if type(value) in _BOUND and value.__name__ == "apply" and _is_function(value.__self__)
    ]
    owner.apply = classmethod(applied)
    for names, name, value in bound:
        names[name] = partial(applied, value.__self__)
    try:
        yield met
    finally:
        for names, name, value in bound:
            names[name] = value
        if own is None:
            del owner.apply
        else:
            owner.apply = own


_BOUND = (types.MethodType, types.BuiltinMethodType)


def _namespaces(model: nn.Module) -> Iterator[dict[str, Any]]:
    packages = {type(layer).__module__.partition(".")[0] for layer in model.modules()} - {"torch", "builtins"}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages:
            yield vars(module)
    for layer in model.modules():
        yield vars(layer)
        # A file that was run is in no table of modules.
        yield getattr(type(layer).forward, "__globals__", {})


def _is_function(owner: Any) -> bool:
    return isinstance(owner, type) and issubclass(owner, torch.autograd.Function)
