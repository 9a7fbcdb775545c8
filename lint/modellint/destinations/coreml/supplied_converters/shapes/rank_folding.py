"""Folded rank: a tensor of more than five dimensions held as one of fewer, with the same elements in the same order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.private.operator_tables import mb

LIMIT = 5


class Stays(Exception):
    """Folding is not possible: the operation cannot be done on fewer axes."""


def joined(keys: Sequence[Any], sizes: Sequence[int]) -> list[list[int]]:
    """Neighbouring axes with the same key merged; axes of size one go with any."""
    groups: list[list[int]] = []
    last: Any = None
    for axis, key in enumerate(keys):
        if groups and (key == last or sizes[axis] == 1):
            groups[-1].append(axis)
        elif groups and all(sizes[axis_before] == 1 for axis_before in groups[-1]):
            groups[-1].append(axis)
            last = key
        else:
            groups.append([axis])
            last = key
    return groups


def sizes_together(groups: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int]:
    """The sizes of axes that are joined. Raises ``Stays`` where too many are left."""
    merged = [math.prod(sizes[axis] for axis in group) for group in groups]
    if len(merged) > LIMIT:
        raise Stays(f"{len(merged)} axes are left")
    return merged


class Narrow:
    """Folded tensors of one block: each wide variable with the narrow variable that holds its elements."""

    def __init__(self) -> None:
        self._held: dict[Any, Any] = {}
        self.before: Any = None
        """The operation that is being replaced."""

    def holds(self, variable: Any) -> bool:
        """Whether a wide variable has a narrow counterpart."""
        return variable in self._held

    def held_as(self, variable: Any) -> Any:
        """The narrow counterpart of a variable, or itself."""
        return self._held.get(variable, variable)

    def hold(self, variable: Any, narrow: Any) -> None:
        """Set the narrow counterpart of a wide variable."""
        self._held[variable] = narrow

    def shaped(self, variable: Any, shape: Sequence[int]) -> Any:
        """A variable's elements in another shape."""
        if variable.val is not None:
            return mb.const(val=np.asarray(variable.val).reshape(list(shape)), before_op=self.before)
        narrow = self.held_as(variable)
        if tuple(narrow.shape) == tuple(shape):
            return narrow
        return mb.reshape(x=narrow, shape=list(shape), before_op=self.before)


def sizes_of(variable: Any) -> list[int]:
    """The sizes of a variable's axes. Raises ``Stays`` where one is not known."""
    if any(operator_tables.is_symbolic(size) for size in variable.shape):
        raise Stays("a size is not known before a run")
    return [int(size) for size in variable.shape]


def is_wide(variable: Any) -> bool:
    """Whether a variable has more axes than Core ML has."""
    return operator_tables.rank_of(variable) > LIMIT


def rebuilt(operation: Any, inputs: dict[str, Any]) -> Any:
    """The same operation on other inputs, before it."""
    return getattr(mb, operation.op_type)(**inputs, before_op=operation)
