"""Model inputs: the arguments that a model is called with, and which of their sizes and values may vary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Inputs(NamedTuple):
    """What the model is called with."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    flexible: Mapping[str | int, Mapping[int, tuple[int, int]]] = {}
    """For arguments by position or name, the dimensions whose size may vary, each with its bounds; both count."""
    ranges: Mapping[str | int, tuple[float, float]] = {}
    """For arguments by position or name, the values that they take, from the first up to the second, which is not among them."""

    @classmethod
    def of(cls, example: Any) -> Inputs:
        """A tuple is positional, a dict keyword arguments; anything else is the one argument."""
        match example:
            case tuple() | list():
                return cls(tuple(example))
            case dict():
                return cls((), dict(example))
            case _:
                return cls((example,))
