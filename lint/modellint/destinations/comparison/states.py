"""States of a stateful program: what predictions in a row leave in them, held against the buffers of the model that they are."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from modellint.destinations.comparison.reference_runs import STEPS
from modellint.destinations.comparison.stochastic_arithmetic import UNITS

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.comparison.program import Program
    from modellint.destinations.comparison.reference_runs import Reference, Row

OF_STATES = 1e-2
"""The share of the largest number in a row of a state that predictions in a row, rounded to float16 each time, may be off."""


class StateDifference(NamedTuple):
    """A state that is not what a buffer has become."""

    state: str
    buffer: str
    is_rounding: bool
    """Whether PyTorch itself leaves something else in the buffer where its results are rounded otherwise."""


def lost_writes(program: Program, written: Set[str]) -> list[str]:
    """The buffers that ``forward`` writes, also where they are the same afterwards, whose states the program does not write."""
    lost = program.buffers.keys() - program.updated
    return sorted({program.buffers[state] for state in lost} & written)


def state_differences(model: nn.Module, reference: Reference, program: Program, row: Row) -> Iterator[StateDifference]:
    """The states that predictions in a row left otherwise than the model's buffers."""
    before = dict(model.named_buffers())
    after = reference.buffers_after(row, program.buffers.values())
    for state, name in program.buffers.items():
        if name in after and not _is_kept(program.states[state], before[name], after[name]):
            is_rounding = _is_decided_by_rounding(reference, row, name, before[name], after[name])
            yield StateDifference(state, name, is_rounding)


def _is_decided_by_rounding(reference: Reference, row: Row, name: str, before: Tensor, after: Tensor) -> bool:
    others = (reference.buffers_after(row, [name], seed).get(name) for seed in range(1, STEPS + 1))
    return any(value is not None and not _is_kept(value, before, after) for value in others)


def _is_kept(state: Tensor, before: Tensor, after: Tensor) -> bool:
    """Whether a state, kept in float16, is what a buffer has become: by rounding, and within a share of its row."""
    if state.numel() != after.numel() or after.is_complex():
        return True
    value, right, start = (tensor.detach().to(torch.float64).reshape(after.shape) for tensor in (state, after, before))
    # What float16 does not hold is infinite there.
    kept = right.abs() < torch.finfo(torch.float16).max
    if bool((kept & ~value.isfinite() | (right.isnan() & ~value.isnan())).any()):
        return False
    size = torch.maximum(right.abs(), start.abs()).where(kept & start.isfinite(), 0.0)
    row = size.amax(-1, keepdim=True) if size.dim() and size.shape[-1] else size
    allowed = torch.maximum(size * 4 * UNITS[torch.float16], row * OF_STATES)
    return not bool((kept & ((value - right).abs() > allowed)).any())
