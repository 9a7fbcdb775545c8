"""Data movement on tensors of more than five dimensions, done on fewer: transpose, concat, slice, gather, tile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.private.operator_tables import mb
from modellint.destinations.coreml.supplied_converters.shapes.rank_folding import (
    LIMIT,
    Narrow,
    Stays,
    joined,
    rebuilt,
    sizes_of,
    sizes_together,
)


def transposed(operation: Any, state: Narrow) -> Any:
    """Transposition: at once where neighbours that stay together leave five axes, and one axis at a time otherwise."""
    sizes = sizes_of(operation.x)
    perm = [int(axis) % len(sizes) for axis in operation.perm.val]
    # Axes of size one move nothing.
    perm = [axis for axis in perm if sizes[axis] != 1]
    groups: list[list[int]] = []
    for axis in perm:
        last = groups[-1][-1] if groups else axis
        if axis > last and all(sizes[between] == 1 for between in range(last + 1, axis)):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    order = sorted(range(len(groups)), key=lambda at: groups[at][0])
    shape = [math.prod(sizes[axis] for axis in groups[at]) for at in order]
    perm = [order.index(at) for at in range(len(groups))]
    if len(shape) <= LIMIT:
        x = state.shaped(operation.x, shape or [1])
        return mb.transpose(x=x, perm=perm, before_op=operation) if len(shape) > 1 else x
    x = operation.x
    done: list[int] = []
    for axis in perm:
        lead = math.prod(shape[at] for at in done)
        before = math.prod(size for at, size in enumerate(shape) if at < axis and at not in done)
        after = math.prod(size for at, size in enumerate(shape) if at > axis and at not in done)
        x = state.shaped(x, [lead, before, shape[axis], after])
        if before != 1:
            x = mb.transpose(x=x, perm=[0, 2, 1, 3], before_op=operation)
        done.append(axis)
    return x


def concatenated(operation: Any, state: Narrow) -> Any:
    """Concatenation along an axis."""
    rank = len(operation.outputs[0].shape)
    axis = int(operation.axis.val) % rank
    parts = []
    for variable in operation.values:
        sizes = sizes_of(variable)
        parts.append(state.shaped(variable, [math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])]))
    return mb.concat(values=parts, axis=1, before_op=operation)


def stacked(operation: Any, state: Narrow) -> Any:
    """Stack along a new axis."""
    axis = int(operation.axis.val) % len(operation.outputs[0].shape)
    parts = []
    for variable in operation.values:
        sizes = sizes_of(variable)
        parts.append(state.shaped(variable, [math.prod(sizes[:axis]), 1, math.prod(sizes[axis:])]))
    return mb.concat(values=parts, axis=1, before_op=operation)


def along(operation: Any, state: Narrow) -> Any:
    """Operation along one axis: it gives the same shape, or the parts along that axis."""
    sizes = sizes_of(operation.x)
    axis = int(operation.axis.val) % len(sizes)
    inputs = operator_tables.inputs_of(operation)
    inputs["x"] = state.shaped(operation.x, [math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])])
    inputs["axis"] = 1
    return rebuilt(operation, inputs)


def sliced(operation: Any, state: Narrow) -> Any:
    """Slice; axes that are kept whole are joined."""
    sizes = sizes_of(operation.x)
    parts = [_whole(size) for size in sizes]
    for axis, part in enumerate(_slices(operation, sizes)):
        parts[axis] = part
    groups = joined([None if parts[axis] == _whole(size) else axis for axis, size in enumerate(sizes)], sizes)
    # An axis of size one may be cut as well, and then stands for itself.
    groups = [list(run) for group in groups for run in _apart(group, parts, sizes)]
    shape = sizes_together(groups, sizes)
    cut = [parts[next((axis for axis in group if parts[axis] != _whole(sizes[axis])), group[0])] for group in groups]
    cut = [
        _whole(size) if _is_whole(group, parts, sizes) else part
        for part, group, size in zip(cut, groups, shape, strict=True)
    ]
    x = state.shaped(operation.x, shape)
    return mb.slice_by_index(
        x=x,
        begin=[begin for begin, _, _ in cut],
        end=[max(end, 0) for _, end, _ in cut],
        stride=[step for _, _, step in cut],
        end_mask=[
            (step > 0 and end >= size) or (step < 0 and end < 0)
            for (_, end, step), size in zip(cut, shape, strict=True)
        ],
        before_op=operation,
    )


def _whole(size: int) -> tuple[int, int, int]:
    return (0, size, 1)


def _is_whole(group: Sequence[int], parts: Sequence[tuple[int, int, int]], sizes: Sequence[int]) -> bool:
    return all(parts[axis] == _whole(sizes[axis]) for axis in group)


def _apart(
    group: Sequence[int], parts: Sequence[tuple[int, int, int]], sizes: Sequence[int]
) -> Iterator[Sequence[int]]:
    cut = [axis for axis in group if parts[axis] != _whole(sizes[axis])]
    if (len(cut) <= 1 and all(sizes[axis] == 1 or axis in cut for axis in group)) or not cut:
        yield group
    else:
        for axis in group:
            yield [axis]


def _slices(operation: Any, sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Begin, end and step of each axis, as numbers that need no mask."""
    if operation.begin.val is None:
        raise Stays("a part that is not known before a run")
    begins = [int(number) for number in operation.begin.val]
    count = len(sizes)
    if operation.op_type == "slice_by_size":
        if operation.size.val is None:
            raise Stays("a part that is not known before a run")
        lengths = [int(number) for number in operation.size.val]
        starts = [begin % size if size else 0 for begin, size in zip(begins, sizes, strict=True)]
        return [
            (start, size if length == -1 else start + length, 1)
            for start, length, size in zip(starts, lengths, sizes, strict=True)
        ]
    if operation.end.val is None:
        raise Stays("a part that is not known before a run")
    ends = [int(number) for number in operation.end.val]

    def values_of(name: str, default: Any) -> list[Any]:
        argument = getattr(operation, name)
        return [default] * count if argument is None or argument.val is None else list(argument.val)

    slices = []
    steps, begin_mask, end_mask = values_of("stride", 1), values_of("begin_mask", False), values_of("end_mask", False)
    zipped = zip(begins, ends, steps, begin_mask, end_mask, sizes, strict=True)
    for axis, (begin, end, step, from_start, to_end, size) in enumerate(zipped):
        if bool(values_of("squeeze_mask", False)[axis]):
            start = begin % size
            slices.append((start, start + 1, 1))
            continue
        start, stop, step = slice(None if from_start else begin, None if to_end else end, int(step)).indices(size)
        slices.append((start, stop, step))
    return slices


def gathered(operation: Any, state: Narrow) -> Any:
    """Gather along one axis."""
    batch = operator_tables.inputs_of(operation).get("batch_dims")
    if batch is not None and int(batch.val):
        raise Stays("gather in batches")
    sizes = sizes_of(operation.x)
    axis = int(operation.axis.val) % len(sizes)
    inputs = operator_tables.inputs_of(operation)
    inputs["x"] = state.shaped(operation.x, [math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])])
    inputs["indices"] = state.shaped(operation.indices, [math.prod(sizes_of(operation.indices))])
    inputs["axis"] = 1
    return rebuilt(operation, inputs)


def tiled(operation: Any, state: Narrow) -> Any:
    """Tensor tiled along axes."""
    sizes = sizes_of(operation.x)
    if operation.reps.val is None:
        raise Stays("a number of repetitions that is not known before a run")
    times = [int(count) for count in operation.reps.val]
    groups: list[list[int]] = []
    for axis in range(len(sizes)):
        # A repeated axis of size one joins what it repeats from the left: its copies follow each other.
        if groups and times[axis] == 1 and all(times[member] == 1 for member in groups[-1]):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    shape = sizes_together(groups, sizes)
    x = state.shaped(operation.x, shape)
    return mb.tile(x=x, reps=[math.prod(times[axis] for axis in group) for group in groups], before_op=operation)


def turned(operation: Any, state: Narrow) -> Any:
    """Tensor reversed along axes."""
    sizes = sizes_of(operation.x)
    axes = range(len(sizes)) if operation.axes is None else operation.axes.val
    over = {int(axis) % len(sizes) for axis in axes}
    groups = joined([axis in over for axis in range(len(sizes))], sizes)
    shape = sizes_together(groups, sizes)
    turned = [at for at, group in enumerate(groups) if any(axis in over and sizes[axis] != 1 for axis in group)]
    x = state.shaped(operation.x, shape)
    return mb.reverse(x=x, axes=turned, before_op=operation) if turned else x


def repeated(operation: Any, state: Narrow) -> Any:
    """Constant tensor."""
    return mb.fill(shape=[math.prod(sizes_of(operation.outputs[0]))], value=operation.value, before_op=operation)
