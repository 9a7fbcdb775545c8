"""Incomplete attributes: those that hold nothing yet, or too little to tell what the code makes of them."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from modellint.live.code.attribute_usage import reading_of
from modellint.live.code.class_source import binding_of
from modellint.live.unregistered_state import BOOKKEEPING, unregistered_state

if TYPE_CHECKING:
    from modellint.live.subject import Subject

_CONTAINERS = (list, tuple, dict, set, frozenset, deque)


def undecided(subject: Subject) -> dict[str, frozenset[str]]:
    """For each class that has an instance the attributes of which none shows whether a guess about what they hold is right.

    That is so for `None`, for an empty container or tensor, for a container that a loop or a condition fills and that has
    one item here, and for a plain tensor that `forward` is not seen to touch. An object is an instance of
    each of the user's classes that it inherits from.
    """
    hidden = (
        module
        for part in unregistered_state(subject)
        if isinstance(part.value, nn.Module)
        for module in part.value.modules()
    )
    by_class: dict[str, dict[str, bool]] = {}
    for module in (*(entry.module for entry in subject.modules), *hidden):
        kind = type(module)
        if kind.__module__.partition(".")[0] == "torch":
            continue
        classes = [
            base.__name__ for base in kind.__mro__ if base.__module__.partition(".")[0] not in ("torch", "builtins")
        ]
        for name, value in _attributes(module):
            tells_nothing = _tells_nothing(module, name, value)
            for cls in classes:
                by_class.setdefault(cls, {})[name] = tells_nothing and by_class.get(cls, {}).get(name, True)
    return {cls: frozenset(name for name, is_silent in names.items() if is_silent) for cls, names in by_class.items()}


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if name not in BOOKKEEPING:
            yield name, value
    for kept in ("_parameters", "_buffers", "_modules"):
        yield from vars(module).get(kept, {}).items()


def _tells_nothing(module: nn.Module, name: str, value: Any) -> bool:
    if value is None:
        return name in vars(module)
    # By its type: `isinstance` asks a proxy for the class it stands for.
    kind = type(value)
    if kind in _CONTAINERS:
        return not value or (len(value) == 1 and not _is_written_out(module, name, value))
    if not issubclass(kind, torch.Tensor) or name not in vars(module):
        return False
    forward = reading_of(type(module)).forward
    return 0 in value.shape or (value.grad_fn is None and name not in forward.stores | forward.reads)


def _is_written_out(module: nn.Module, name: str, value: Any) -> bool:
    """Whether the one item stands in the code as such, so that there is one in every instance."""
    bound = binding_of(type(module), name, value)
    match None if bound is None else bound.value:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
            return bool(parts) and not any(isinstance(part, ast.Starred) for part in parts)
    return False
