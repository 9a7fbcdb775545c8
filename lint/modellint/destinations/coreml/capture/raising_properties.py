"""Properties that raise: `torch.jit.trace` asks each module for every property of its class, and ends with what one of them raises.

It passes over those that raise `AttributeError`, as of a module that has no such thing. Lightning's `trainer` raises `RuntimeError`
before a trainer is attached, others `KeyError` of metadata that only a loaded file has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.jit import _recursive


def are_any(model: nn.Module) -> bool:
    """Whether a property of a module raises, so that a trace would end with that."""
    return any(_raises(layer, name) for layer in model.modules() for name in _properties(type(layer)))


@contextmanager
def left_out() -> Iterator[None]:
    """Let a trace pass over properties that raise, whatever they raise."""
    asks: Any = _recursive
    internal: Any = torch._jit_internal
    ignored, has_exports = asks.jit_ignored_properties, internal.module_has_exports

    def with_raising(module: nn.Module) -> set[str]:
        return {*ignored(module), *(name for name in _properties(type(module)) if _raises(module, name))}

    def has_exports_beside(module: nn.Module) -> bool:
        try:
            return bool(has_exports(module))
        except (Exception, SystemExit):
            # Only methods that `torch.jit.export` marks are meant.
            marks = (
                internal.get_torchscript_modifier(value)
                for base in type(module).__mro__
                for value in vars(base).values()
            )
            return internal.FunctionModifiers.EXPORT in marks

    asks.jit_ignored_properties, internal.module_has_exports = with_raising, has_exports_beside
    try:
        yield
    finally:
        asks.jit_ignored_properties, internal.module_has_exports = ignored, has_exports


def _properties(kind: type) -> Iterator[str]:
    # Those of scripted modules write out their whole code.
    for base in (base for base in kind.__mro__ if base.__module__.partition(".")[0] != torch.__name__):
        yield from (name for name, value in vars(base).items() if isinstance(value, property))


def _raises(module: nn.Module, name: str) -> bool:
    try:
        getattr(module, name, None)
    except (Exception, SystemExit):
        return True
    return False
