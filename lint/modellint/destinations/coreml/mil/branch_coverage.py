"""Branch coverage of a program: which sides of its bounds, comparisons and choices the inputs so far have reached.

A fault on a side that nothing reached cannot have been seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Arguments = Mapping[str, Any]
Sides = tuple[bool, ...]


def _of_comparison(arguments: Arguments) -> Sides:
    """Sides of a comparison: less, equal, greater; none for integers, as most are sizes and places."""
    x, y = arguments["x"], arguments["y"]
    if not (_is_float(x) or _is_float(y)):
        return ()
    return _any(torch.lt(x, y)), _any(torch.eq(x, y)), _any(torch.gt(x, y))


def _of_extreme(arguments: Arguments) -> Sides:
    x, y = arguments["x"], arguments["y"]
    return _any(torch.lt(x, y)), _any(torch.gt(x, y))


def _of_choice(arguments: Arguments) -> Sides:
    chosen = torch.as_tensor(arguments["cond"]).bool()
    return _any(chosen), _any(~chosen)


def _of_bounds(arguments: Arguments) -> Sides:
    return _outside(arguments["x"], arguments["alpha"], arguments["beta"])


def _outside(x: Tensor, low: Any, high: Any) -> Sides:
    """Sides of two bounds: within, below, above; a bound that no number passes has no side."""
    below, above = x < low, x > high
    beyond = -_LARGEST if x.is_floating_point() else -math.inf
    sides = [_any(~(below | above))]
    sides += [_any(below)] if float(low) > beyond else []
    sides += [_any(above)] if float(high) < -beyond else []
    return tuple(sides)


def _any(where: Tensor) -> bool:
    return bool(where.any())


def _is_float(value: Any) -> bool:
    return value.is_floating_point() if isinstance(value, Tensor) else isinstance(value, float)


_LARGEST = 3e38
_SIDES: Mapping[str, Callable[[Arguments], Sides]] = {
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"), _of_comparison),
    **dict.fromkeys(("maximum", "minimum"), _of_extreme),
    "select": _of_choice,
    "clip": _of_bounds,
    "relu6": lambda arguments: _outside(arguments["x"], 0.0, 6.0),
}


_COUNTED = frozenset(_SIDES) - {"select"}


def _counts(operation: Any, arguments: Arguments) -> tuple[int, ...]:
    """How many elements are below and above an operation's bounds, or its other operand."""
    if operation.op_type == "clip":
        low, high = arguments["alpha"], arguments["beta"]
    elif operation.op_type == "relu6":
        low, high = 0.0, 6.0
    else:
        low = high = arguments["y"]
        if not (_is_float(arguments["x"]) or _is_float(high)):
            return ()
    x = torch.as_tensor(arguments["x"])
    return int((x < low).sum()), int((x > high).sum())


class BranchCoverage:
    """The sides that were reached, by operation."""

    def __init__(self) -> None:
        self._reached: dict[Any, Sides] = {}
        self.counted: dict[Any, tuple[int, ...]] | None = None
        """Where it is a dict, how many elements were on the sides of each bound and comparison of numbers in the last run."""

    @property
    def sides(self) -> int:
        """How many sides there are, of the operations that ran."""
        return sum(map(len, self._reached.values()))

    @property
    def unreached(self) -> int:
        """How many sides nothing has reached, of the operations that ran."""
        return sum(not side for sides in self._reached.values() for side in sides)

    def add(self, operation: Any, arguments: Arguments) -> None:
        """Note the sides that an operation's arguments reach."""
        if self.counted is not None and operation.op_type in _COUNTED and (counts := _counts(operation, arguments)):
            self.counted[operation] = counts
        known = self._reached.get(operation)
        if operation.op_type not in _SIDES or (known is not None and all(known)):
            return
        sides = _SIDES[operation.op_type](arguments)
        if known is None or len(known) != len(sides):
            self._reached[operation] = sides
        else:
            self._reached[operation] = tuple(earlier or now for earlier, now in zip(known, sides, strict=True))
