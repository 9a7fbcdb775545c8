"""Registration fix: modules and parameters that attributes hide from PyTorch are registered."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from modellint.live.code.attribute_usage import is_reference
from modellint.live.fixes.candidate_fix import Change
from modellint.live.subject import Subject
from modellint.live.unregistered_state import Held, reachable_state

_CODES = {
    ("module", False): "REG001",
    ("module", True): "REG002",
    ("parameter", False): "REG004",
    ("parameter", True): "REG005",
}
"""Codes by the kind of the hidden value, and whether its container is a dict."""


_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


class Registered(nn.Module):
    """Modules and parameters by name, of what another attribute of their owner holds in a container of its own."""


def changes(subject: Subject) -> Iterator[Change]:
    """What can be registered: by a container of PyTorch's in the place of the plain one, or else beside it."""
    groups: dict[tuple[int, str], list[Held]] = {}
    for part in reachable_state(subject):
        if part.kind in ("module", "parameter"):
            groups.setdefault((id(part.owner), part.attribute), []).append(part)
    for group in groups.values():
        first = group[0]
        if not is_reference(first.owner, first.attribute, _value(first)):
            yield _change(group)


def _value(part: Held) -> Any:
    """What the attribute holds."""
    own = vars(part.owner)
    return own[part.attribute] if part.attribute in own else getattr(type(part.owner), part.attribute)


def _change(group: Sequence[Held]) -> Change:
    first = group[0]
    owner, name, value = first.owner, first.attribute, _value(first)
    places = tuple(place for part in group for place in part.places)
    kind = first.kind
    code = _CODES[kind, issubclass(type(value), dict)]
    what = f"{kind}s" if len(group) > 1 else kind
    note = "adds `state_dict` keys"
    if not first.container and not hasattr(type(owner), name):
        return Change(code, f"registered the {kind}", places, lambda: _bind(owner, name, value), note=note)
    beside = Change(
        code,
        f"registered the {what} beside the {first.container or 'attribute of the class'}",
        places,
        lambda: _beside(owner, name, group),
        note=note,
    )
    container = None if hasattr(type(owner), name) else _container(value, {id(part.value) for part in group})
    if container is None:
        return beside
    return Change(
        code,
        f"made a `{type(container).__name__}` of the {type(value).__name__}",
        places,
        lambda: _bind(owner, name, container),
        otherwise=beside,
        note=note,
    )


def _bind(owner: nn.Module, name: str, value: nn.Module | torch.Tensor) -> None:
    """Register under the attribute's own name."""
    del vars(owner)[name]
    if isinstance(value, nn.Module):
        for module in value.modules():
            if isinstance(module, _CONTAINERS):
                module.training = owner.training
        owner._modules[name] = value
    else:
        owner._parameters[name] = value  # type: ignore[assignment]


def _container(value: Any, hidden: set[int], around: tuple[int, ...] = ()) -> nn.Module | None:
    """The same items in containers of PyTorch's; None where one of those would not be like it, or something else is held too."""
    kind = type(value)
    if id(value) in around:
        # It holds itself.
        return None
    around = (*around, id(value))
    if kind in (list, tuple):
        if value and all(id(part) in hidden and isinstance(part, nn.Parameter) for part in value):
            return nn.ParameterList(value)
        parts = [_item(part, hidden, around) for part in value]
        if any(part is None for part in parts):
            return None
        return nn.ModuleList(parts)  # type: ignore[arg-type]
    if kind in (dict, OrderedDict):
        if not all(type(key) is str for key in value):
            return None
        try:
            if value and all(id(part) in hidden and isinstance(part, nn.Parameter) for part in value.values()):
                return nn.ParameterDict(value)
            items = {key: _item(part, hidden, around) for key, part in value.items()}
            if any(part is None for part in items.values()):
                return None
            return nn.ModuleDict(items)  # type: ignore[arg-type]
        except (KeyError, TypeError, AttributeError):
            # Names that are attributes already, or hold a dot.
            return None
    return None


def _item(value: Any, hidden: set[int], around: tuple[int, ...]) -> nn.Module | None:
    if isinstance(value, nn.Module):
        return value if id(value) in hidden else None
    return _container(value, hidden, around)


def _beside(owner: nn.Module, name: str, group: Sequence[Held]) -> None:
    """Register under names that tell where the container, which stays as it is, holds what."""
    shelf: Any = Registered()
    shelf.training = owner.training
    for part in group:
        route = part.route.removeprefix(name)
        word = "_".join(re.findall(r"\w+", route)) or "0"
        while word in shelf._modules or word in shelf._parameters or hasattr(shelf, word):
            word += "_"
        if isinstance(part.value, nn.Module):
            shelf._modules[word] = part.value
        else:
            shelf._parameters[word] = part.value
    # `get_submodule` and its like go by attribute: the name must not be that of the container.
    while hasattr(owner, name):
        name += "_"
    owner._modules[name] = shelf
