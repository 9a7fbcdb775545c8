"""Plain tensors that ``forward`` reads become buffers; those that require gradients, parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from modellint.live.fixes.applied import Change
from modellint.live.hidden import Held
from modellint.live.reading import reading_of
from modellint.live.subject import Subject


def changes(subject: Subject) -> Iterator[Change]:
    """The tensors that are attributes themselves, and that the run on the sample computes with."""
    taken = subject.taken
    if taken is None:
        return
    for held in subject.reached:
        tensor = held.value
        if held.kind != "tensor" or held.container or hasattr(type(held.owner), held.attribute):
            continue
        if isinstance(tensor, torch.Tensor) and not taken.isdisjoint(f"hidden:{place}" for place in held.places):
            yield _change(held, tensor)


def _change(held: Held, tensor: torch.Tensor) -> Change:
    owner, name = held.owner, held.attribute
    if tensor.requires_grad:
        title, note = "made a parameter of the tensor", "adds a `state_dict` key"
        return Change("REG015", title, held.places, lambda: _as_parameter(owner, name, tensor), note=note)
    saved = name in reading_of(type(owner)).forward.stores
    title = "made a buffer of the tensor" if saved else "made a buffer of the tensor, which is not saved"
    note = "adds a `state_dict` key" if saved else ""
    return Change("REG006", title, held.places, lambda: _as_buffer(owner, name, tensor, saved), note=note)


def _as_buffer(owner: Any, name: str, tensor: torch.Tensor, saved: bool) -> None:
    del vars(owner)[name]
    owner.register_buffer(name, tensor, persistent=saved)


def _as_parameter(owner: Any, name: str, tensor: torch.Tensor) -> None:
    del vars(owner)[name]
    owner.register_parameter(name, nn.Parameter(tensor.detach()))
