"""Failing fusion: a stack whose parts are split off again, which coremltools' pass `fuse_stack_split` falls over.

The pass takes the first operation that reads a part for a squeeze of the axis, and does not look whether it is one (coremltools 8.3
and 9.0; mended in 9.1.dev1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modellint.destinations.coreml.dry_run.rank_limit import live_operations


def failing_splits(program: Any) -> Iterator[tuple[Any, str]]:
    """Each split that the pass fails at, and how."""
    for function in program.functions.values():
        live, outputs = live_operations(function), set(function.outputs)
        for stack in function.operations:
            if stack.op_type == "stack" and stack in live and stack.outputs[0] not in outputs:
                for split in stack.outputs[0].child_ops:
                    if split in live and _undoes(split, stack) and not outputs & set(split.outputs):
                        reason = _failure(split, _positive(stack.axis.val, stack.values[0].rank), live)
                        if reason:
                            yield split, reason


def _undoes(split: Any, stack: Any) -> bool:
    """Whether a split takes apart along the same axis what was stacked, one by one."""
    count, rank = len(stack.values), stack.values[0].rank
    if split.op_type != "split" or _positive(split.axis.val, rank) != _positive(stack.axis.val, rank):
        return False
    if split.split_sizes is not None:
        return bool(split.split_sizes.val is not None and split.split_sizes.val.tolist() == [1] * count)
    return split.num_splits is not None and split.num_splits.val == count


def _failure(split: Any, axis: int, live: set[Any]) -> str:
    """What the pass fails with, empty where it does not."""
    reads = [[user for user in part.child_ops if user in live] for part in split.outputs]
    rank = split.outputs[0].rank - 1
    for users in reads:
        if not users:
            return "a part is not used"
        axes = users[0].inputs.get("axes")
        if axes is None or axes.val is None:
            return f"`{users[0].op_type}` reads a part"
        if [_positive(each, rank) for each in axes.val.tolist()] != [axis]:
            # The pass leaves it as it is.
            return ""
    if any(len(users) > 1 for users in reads):
        return "a part is read twice"
    if any(users[0].outputs[0].rank != rank for users in reads):
        return f"`{next(users[0].op_type for users in reads if users[0].outputs[0].rank != rank)}` reads a part"
    return ""


def _positive(axis: Any, rank: int) -> int:
    return int(axis) + rank + 1 if axis < 0 else int(axis)
