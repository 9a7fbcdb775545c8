"""Captured program: read as it was saved, converted by coreai-torch, and copied for a conversion that changes it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

_FIELD_TYPES: dict[Any, Any] = {}
"""The types of the fields of classes that saved programs are made of."""


def loaded(file: str) -> Any:
    """A program that was saved. Its reader asks for the types of the same classes' fields again and again, most of its time."""
    import typing

    slow = typing.get_type_hints

    def remembered(asked: Any, *args: Any, **kwargs: Any) -> Any:
        if asked not in _FIELD_TYPES:
            _FIELD_TYPES[asked] = slow(asked, *args, **kwargs)
        return _FIELD_TYPES[asked]

    typing.get_type_hints = remembered  # type: ignore[assignment]
    try:
        return torch.export.load(file)
    finally:
        typing.get_type_hints = slow


def save(exported: Any, file: str) -> None:
    """Save a program, whole or not at all; without the check that a canonical form could be made, which takes half the time."""
    from torch._export.serde import serialize

    check = getattr(serialize, "canonicalize", None)
    if check is not None:
        serialize.canonicalize = lambda *_: None  # type: ignore[assignment]
    try:
        torch.export.save(exported, f"{file}.part.pt2")
        Path(f"{file}.part.pt2").replace(file)
    finally:
        Path(f"{file}.part.pt2").unlink(missing_ok=True)
        if check is not None:
            serialize.canonicalize = check


def converted(exported: Any, names: list[str]) -> Any:
    """A decomposed program converted; raises what the converter does."""
    import coreai_torch

    converter = coreai_torch.TorchConverter(mode=coreai_torch.TorchConverter.Mode.RELEASE)
    converter.add_exported_program(exported, output_names=names or None)
    return converter.to_coreai()


def copied(exported: Any) -> Any:
    """A program that may be converted: that takes out of it what leads to no output. Its weights are shared."""
    held = (*exported.state_dict.values(), *exported.constants.values())
    return deepcopy(exported, {id(each): each for each in held})
