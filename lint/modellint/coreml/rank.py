"""Which tensors of more than five dimensions coremltools' passes leave in a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

LIMIT = 5
_SHAPES = ("reshape", "expand_dims")


class Wide(NamedTuple):
    """One tensor that is left."""

    operation: Any
    """What makes it; None for an input."""
    name: str
    rank: int


def wide_tensors(program: Any, half: bool) -> Iterator[Wide]:
    """The tensors above the limit that are left when all passes have run; ``half`` says whether values become fp16.

    A reshape, a transpose of its result and a reshape of that, each with one consumer, are folded into tensors of fewer
    dimensions. What has a value already is folded away.
    """
    for function in program.functions.values():
        live = _live(function)
        for name, variable in function.inputs.items():
            # The cast of a wide input is an operation with a wide result.
            if half and _rank(variable) > LIMIT and _name_of(variable.dtype) == "fp32":
                yield Wide(None, name, _rank(variable))
        outputs = set(function.outputs)
        for operation in function.operations:
            if operation not in live:
                continue
            for variable in operation.outputs:
                if _rank(variable) > LIMIT and variable.val is None and not _is_folded(variable, live, outputs):
                    yield Wide(operation, variable.name, _rank(variable))


def _live(function: Any) -> set[Any]:
    found: set[Any] = set()
    waiting = [variable.op for variable in function.outputs]
    while waiting:
        operation = waiting.pop()
        if operation is None or operation in found:
            continue
        found.add(operation)
        waiting.extend(variable.op for variable in operation.get_flattened_inputs())
        for block in operation.blocks:
            waiting.extend(variable.op for variable in block.outputs)
    return found


def _is_folded(variable: Any, live: set[Any], outputs: set[Any]) -> bool:
    if variable in outputs:
        return False
    users = [one for one in variable.child_ops if one in live and any(part.val is None for part in one.outputs)]
    if len(users) != 1 or users[0].op_type not in ("transpose", "reshape"):
        return False
    operation = variable.op
    if operation.op_type in _SHAPES:
        return True
    source = operation.x.op if operation.op_type == "transpose" else None
    return source is not None and source.op_type == "reshape"


def _rank(variable: Any) -> int:
    rank = getattr(variable, "rank", 0)
    return rank if isinstance(rank, int) else 0


def _name_of(dtype: Any) -> str:
    return str(getattr(dtype, "__name__", dtype))
