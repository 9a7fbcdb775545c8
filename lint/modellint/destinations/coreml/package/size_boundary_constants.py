"""Boundary values of sizes in a converted program: constants that integers are compared with, and divided by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from modellint.live.inputs.branch_boundary_sizes import Thresholds

_COMPARED = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "minimum", "maximum"})
_DIVIDED = frozenset({"mod", "floor_div"})


def in_program(program: Any) -> Thresholds:
    """Numbers that a MIL program compares sizes with or divides them by."""
    compared: dict[int, None] = {}
    divisors: dict[int, None] = {}
    for function in program.functions.values():
        for operation in function.operations:
            if operation.op_type in _COMPARED:
                compared.update(dict.fromkeys(_constants(operation)))
            elif operation.op_type in _DIVIDED:
                divisors.update(dict.fromkeys(_constants(operation)))
    return Thresholds(tuple(compared), tuple(divisor for divisor in divisors if divisor > 1))


def _constants(operation: Any) -> Iterator[int]:
    for variable in operation.inputs.values():
        value = getattr(variable, "val", None)
        if (
            value is not None
            and np.ndim(value) == 0
            and np.issubdtype(np.asarray(value).dtype, np.integer)
            and value > 0
        ):
            yield int(value)
