"""Rank limit: tensors of more than five dimensions that coremltools' passes leave in a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

LIMIT = 5
_SHAPES = ("reshape", "expand_dims")


class Wide(NamedTuple):
    """A tensor above the rank limit that is computed from narrower ones, or is an input."""

    operation: Any
    """The operation that computes it; None for an input."""
    name: str
    rank: int


def wide_tensors(program: Any, half: bool) -> Iterator[Wide]:
    """Where tensors above the limit begin that are left when all passes have run; ``half`` says whether values become fp16.

    A reshape, a transpose of its result and a reshape of that, each with one consumer, are folded into tensors of fewer
    dimensions. What has a value already is folded away.
    """
    for function in program.functions.values():
        live = live_operations(function)
        inputs = {variable: name for name, variable in function.inputs.items()}
        # The cast of a wide input is an operation with a wide result.
        left = [head for head in inputs if half and _rank(head) > LIMIT and _name_of(head.dtype) == "fp32"]
        outputs = set(function.outputs)
        for operation in function.operations:
            if operation in live:
                wide = (variable for variable in operation.outputs if _rank(variable) > LIMIT and variable.val is None)
                left.extend(variable for variable in wide if not _is_folded(variable, live, outputs))
        heads = dict.fromkeys(head for variable in left for head in _heads(variable))
        for head in heads:
            yield Wide(head.op, inputs.get(head, head.name), _rank(head))


def _heads(variable: Any) -> Iterator[Any]:
    """The first wide tensors on the ways that lead to a wide tensor."""
    waiting, seen = [variable], {variable}
    while waiting:
        current = waiting.pop()
        operands = () if current.op is None else current.op.get_flattened_inputs()
        wide = [each for each in operands if _rank(each) > LIMIT and each.val is None]
        if not wide:
            yield current
        waiting.extend(each for each in wide if each not in seen)
        seen.update(wide)


def live_operations(function: Any) -> set[Any]:
    """The operations that outputs or states are made of; coremltools' passes drop the others first of all."""
    live: set[Any] = set()
    waiting = [variable.op for variable in function.outputs]
    waiting += [operation for operation in function.operations if operation.op_type == "coreml_update_state"]
    while waiting:
        operation = waiting.pop()
        if operation is None or operation in live:
            continue
        live.add(operation)
        waiting.extend(variable.op for variable in operation.get_flattened_inputs())
        for block in operation.blocks:
            waiting.extend(variable.op for variable in block.outputs)
    return live


def _is_folded(variable: Any, live: set[Any], outputs: set[Any]) -> bool:
    if variable in outputs:
        return False
    users = [user for user in variable.child_ops if user in live and any(part.val is None for part in user.outputs)]
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
