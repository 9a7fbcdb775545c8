"""Module hooks that somebody other than torch has registered."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import nn

STORES = {
    "forward pre-hook": "_forward_pre_hooks",
    "forward hook": "_forward_hooks",
    "backward pre-hook": "_backward_pre_hooks",
    "backward hook": "_backward_hooks",
}
"""Kinds of hooks to the tables of a module that hold them."""


class Hook(NamedTuple):
    """One function that runs with a module."""

    function: Any
    kind: str
    """As in ``forward pre-hook``."""
    is_legacy: bool
    """Whether it was put there by ``register_backward_hook``."""


def hooks_of(module: nn.Module) -> Iterator[Hook]:
    """The hooks that run when the module does; not those of ``state_dict``, nor those by which torch computes a weight."""
    for kind, store in STORES.items():
        legacy = store == "_backward_hooks" and module._is_full_backward_hook is False
        for function in getattr(module, store).values():
            if not _is_torchs(function):
                yield Hook(function, kind, legacy)


def _is_torchs(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__module__", "")).partition(".")[0] == "torch"
