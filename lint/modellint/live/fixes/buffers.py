"""Buffer fix: plain tensors that ``forward`` reads become buffers; those that require gradients, parameters."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from modellint.live.capture.fake_tensor_run import tensors_read
from modellint.live.code.attribute_usage import reading_of
from modellint.live.fixes.candidate_fix import Change
from modellint.live.subject import Subject
from modellint.live.unregistered_state import Held, reachable_state
from modellint.nn.tensor_containers import BufferDict, BufferList


def changes(subject: Subject) -> Iterator[Change]:
    """The tensors that the run on the sample computes with, in attributes themselves or in plain lists and dicts there."""
    groups: dict[tuple[int, str], list[Held]] = {}
    for tensor in reachable_state(subject):
        if tensor.kind == "tensor" and not hasattr(type(tensor.owner), tensor.attribute):
            groups.setdefault((id(tensor.owner), tensor.attribute), []).append(tensor)
    read = tensors_read(subject) if groups else None
    for group in groups.values():
        if read is None or read.isdisjoint(f"hidden:{place}" for tensor in group for place in tensor.places):
            continue
        first = group[0]
        if isinstance(first.value, torch.Tensor) and not first.container:
            yield _change(first, first.value)
        elif first.container:
            yield from _contained(group)


def _contained(group: Sequence[Held]) -> Iterator[Change]:
    """The changes for a list, tuple or dict that holds such tensors alone."""
    owner, name = group[0].owner, group[0].attribute
    value = vars(owner)[name]
    kind = type(value)
    if kind not in (list, tuple, dict):
        return
    parts = list(value.values() if kind is dict else value)
    known = {id(tensor.value) for tensor in group}
    if not all(isinstance(part, torch.Tensor) and id(part) in known and not part.requires_grad for part in parts):
        return
    kept = BufferDict if kind is dict else BufferList
    title = f"made a `{kept.__name__}`, which is not saved, of the {kind.__name__} of tensors"
    yield Change(
        "REG006",
        title,
        tuple(place for tensor in group for place in tensor.places),
        functools.partial(_bound, owner, name, kept, value),
    )


def _bound(owner: nn.Module, name: str, make: Any, value: Any) -> None:
    module: nn.Module = make(value)
    module.training = owner.training
    del vars(owner)[name]
    owner._modules[name] = module


def _change(hidden: Held, tensor: torch.Tensor) -> Change:
    owner, name = hidden.owner, hidden.attribute
    if tensor.requires_grad:
        title, note = "made a parameter of the tensor", "adds a `state_dict` key"
        return Change("REG015", title, hidden.places, lambda: _as_parameter(owner, name, tensor), note=note)
    saved = name in reading_of(type(owner)).forward.stores
    title = "made a buffer of the tensor" if saved else "made a buffer of the tensor, which is not saved"
    note = "adds a `state_dict` key" if saved else ""
    return Change("REG006", title, hidden.places, lambda: _as_buffer(owner, name, tensor, saved), note=note)


def _as_buffer(owner: Any, name: str, tensor: torch.Tensor, saved: bool) -> None:
    del vars(owner)[name]
    owner.register_buffer(name, tensor, persistent=saved)


def _as_parameter(owner: Any, name: str, tensor: torch.Tensor) -> None:
    del vars(owner)[name]
    owner.register_parameter(name, nn.Parameter(tensor.detach()))
