"""Memory layout of state: which tensors are not contiguous, and which have elements in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from modellint.live.subject import State

_MOST = 1 << 26
"""Elements of a storage up to which overlaps are counted out one by one."""


def disorder(tensor: torch.Tensor) -> str | None:
    """What is wrong with a tensor's strides: ``expanded`` or ``strided``; None where it lies in order."""
    if torch.nn.parameter.is_lazy(tensor) or tensor.layout is not torch.strided:
        return None
    if tensor.numel() < 2 or tensor.is_contiguous():
        return None
    if any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
        return "expanded"
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if tensor.dim() in formats and tensor.is_contiguous(memory_format=formats[tensor.dim()]):
        return None
    return "strided"


def overlaps(states: Iterable[State]) -> Iterator[tuple[State, State]]:
    """Each piece of state that has elements in common with one before it, with that one."""
    storages: dict[int, list[State]] = {}
    for state in states:
        if (storage := _storage_of(state)) is not None:
            storages.setdefault(storage, []).append(state)
    for sharing in storages.values():
        if len(sharing) > 1:
            yield from _overlapping(sharing)


def _storage_of(state: State) -> int | None:
    tensor = state.tensor
    if torch.nn.parameter.is_lazy(tensor) or tensor.layout is not torch.strided or tensor.numel() == 0:
        return None
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, ValueError):
        return None


def _overlapping(states: Sequence[State]) -> Iterator[tuple[State, State]]:
    """Each tensor that has bytes in common with one before it, with that one."""
    for index, second in enumerate(states):
        for first in states[:index]:
            if _share(first, second):
                yield first, second
                break


def _share(first: State, second: State) -> bool:
    (start, end), (other_start, other_end) = _extent(first), _extent(second)
    if end <= other_start or other_end <= start:
        return False
    first_tensor, second_tensor = first.tensor, second.tensor
    if first_tensor.is_contiguous() and second_tensor.is_contiguous():
        return True
    if first_tensor.dtype != second_tensor.dtype or end - start > _MOST or other_end - other_start > _MOST:
        return False
    return not _elements(first).isdisjoint(_elements(second))


def _extent(state: State) -> tuple[int, int]:
    """The first byte of a tensor in its storage, and the one behind its last."""
    tensor = state.tensor
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = int(tensor.storage_offset())
    return start * tensor.element_size(), (start + last + 1) * tensor.element_size()


def _elements(state: State) -> set[int]:
    positions = {int(state.tensor.storage_offset())}
    for size, stride in zip(state.tensor.shape, state.tensor.stride(), strict=True):
        if stride:
            positions = {position + step * stride for position in positions for step in range(size)}
    return positions
