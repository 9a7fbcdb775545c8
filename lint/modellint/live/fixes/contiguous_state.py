"""Contiguity fix: state that is not contiguous, or shares memory with other state, gets memory of its own."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from modellint.live.fixes.candidate_fix import Change
from modellint.live.state_memory_layout import disorder, overlaps
from modellint.live.subject import State, Subject


def changes(subject: Subject) -> Iterator[Change]:
    """What is expanded, strided, or overlaps with other state; tied parameters are one tensor, and stay so."""
    saved = [state for state in subject.state if state.persistent]
    moved = set()
    for state in saved:
        how = disorder(state.tensor)
        if how is not None:
            moved.add(id(state.tensor))
            yield _change(state, "REG011", f"made the {how} {state.kind} contiguous")
    for _, second in overlaps(saved):
        if id(second.tensor) not in moved:
            yield _change(second, "REG012", f"gave the {second.kind} memory of its own")


def _change(state: State, code: str, title: str) -> Change:
    tensor = state.tensor

    def apply() -> None:
        with torch.no_grad():
            # In the tensor itself, so that all who hold it see it.
            tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)

    return Change(code, title, state.names, apply, rounds=code == "REG011")
