"""Progress of a call that takes long: the stage that it is in."""

from __future__ import annotations

from typing import NamedTuple


class Progress(NamedTuple):
    """What a call does now."""

    stage: str
    """In words, as in ``checking``, ``capturing (trace)``, ``converting (trace, fp16)``, ``comparing (fp16)``."""
    model: str
    """The class of the model."""
    seconds: float
    """Since the call began."""

    def __str__(self) -> str:
        return f"{self.stage} {self.model}"
