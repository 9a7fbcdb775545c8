"""Tensors of more than five dimensions, which Core ML does not have, computed with as ones of five and fewer.

A wide tensor is held as any tensor of the same elements in the same order. An operation on wide tensors joins neighbouring axes
that it treats alike, is done on what is left, and gives the same numbers: these are the same operations on the same elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from modellint.coreml import private_converters as private
from modellint.coreml.private_converters import mb

LIMIT = 5
NAME = "modellint::narrow_wide_tensors"
AFTER = "common::expand_high_rank_reshape_and_transpose"
"""The pass that has folded, before ours, the chains that coremltools folds itself."""


class Stays(Exception):
    """An operation that cannot be done on fewer axes."""


def joined(keys: Sequence[Any], sizes: Sequence[int]) -> list[list[int]]:
    """Neighbouring axes with the same key, together; axes of size one go with any."""
    groups: list[list[int]] = []
    last: Any = None
    for axis, key in enumerate(keys):
        if groups and (key == last or sizes[axis] == 1):
            groups[-1].append(axis)
        elif groups and all(sizes[one] == 1 for one in groups[-1]):
            groups[-1].append(axis)
            last = key
        else:
            groups.append([axis])
            last = key
    return groups


def _sizes_of(groups: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[int]:
    found = [math.prod(sizes[axis] for axis in group) for group in groups]
    if len(found) > LIMIT:
        raise Stays(f"{len(found)} axes are left")
    return found


class Narrow:
    """The wide tensors of one block, and what they are held as."""

    def __init__(self) -> None:
        self._held: dict[Any, Any] = {}
        self.before: Any = None
        """The operation that is being replaced."""

    def holds(self, variable: Any) -> bool:
        """Whether a variable is wide, and held as a narrow one."""
        return variable in self._held

    def hold(self, variable: Any, narrow: Any) -> None:
        """Hold a wide variable as a narrow one."""
        self._held[variable] = narrow

    def shaped(self, variable: Any, shape: Sequence[int]) -> Any:
        """A variable's elements in another shape."""
        if variable.val is not None:
            return mb.const(val=np.asarray(variable.val).reshape(list(shape)), before_op=self.before)
        found = self._held.get(variable, variable)
        if tuple(found.shape) == tuple(shape):
            return found
        return mb.reshape(x=found, shape=list(shape), before_op=self.before)


def sizes_of(variable: Any) -> list[int]:
    """The sizes of a variable's axes. Raises ``Stays`` where one is not known."""
    if any(private.is_symbolic(size) for size in variable.shape):
        raise Stays("a size is not known before a run")
    return [int(size) for size in variable.shape]


def narrow_block(block: Any) -> bool:
    """Replace the operations on wide tensors in a block; gives whether there was one."""
    state = Narrow()
    replaced: list[Any] = []
    for operation in list(block.operations):
        if operation.op_type == "const" or all(one.val is not None for one in operation.outputs):
            continue
        given = [one for one in operation.get_flattened_inputs() if state.holds(one)]
        if not given and not any(_is_wide(one) for one in operation.outputs):
            continue
        make = OPERATIONS.get(operation.op_type)
        if make is None:
            raise Stays(f"{operation.op_type} of more than five axes")
        state.before = operation
        results = make(operation, state)
        for old, new in zip(
            operation.outputs, results if isinstance(results, (list, tuple)) else [results], strict=True
        ):
            if _is_wide(old):
                if old in block.outputs:
                    raise Stays("an output has more than five axes")
                state.hold(old, new)
            else:
                if tuple(new.shape) != tuple(old.shape):
                    new = state.shaped(new, sizes_of(old))
                if not block.try_replace_uses_of_var_after_op(anchor_op=operation, old_var=old, new_var=new):
                    raise Stays("a result cannot be replaced")
        replaced.append(operation)
    for operation in reversed(replaced):
        block.remove_ops([operation])
    return bool(replaced)


def _is_wide(variable: Any) -> bool:
    return private.rank_of(variable) > LIMIT


def _reshaped(operation: Any, state: Narrow) -> Any:
    """Reshape, and its kin: the elements stay in order."""
    out = operation.outputs[0]
    if _is_wide(out):
        held = operation.x
        return (
            state.shaped(held, [math.prod(sizes_of(held))])
            if _is_wide(held) and not state.holds(held)
            else _root(held, state)
        )
    return state.shaped(operation.x, sizes_of(out))


def _root(variable: Any, state: Narrow) -> Any:
    return state._held.get(variable, variable)


def _unary(operation: Any, state: Narrow) -> Any:
    """An operation on each element by itself."""
    sizes = sizes_of(operation.x)
    inputs = private.inputs_of(operation)
    held = _root(operation.x, state)
    inputs["x"] = held if private.rank_of(held) <= LIMIT else state.shaped(operation.x, [math.prod(sizes)])
    return _made(operation, inputs)


def _made(operation: Any, inputs: dict[str, Any]) -> Any:
    return getattr(mb, operation.op_type)(**inputs, before_op=operation)


def _elementwise(*names: str) -> Callable[[Any, Narrow], Any]:
    def make(operation: Any, state: Narrow) -> Any:
        """An operation on elements at the same places of tensors that are broadcast."""
        out = sizes_of(operation.outputs[0])
        inputs = private.inputs_of(operation)
        shapes = {name: [1] * (len(out) - len(inputs[name].shape)) + sizes_of(inputs[name]) for name in names}
        keys = [tuple(shapes[name][axis] == 1 for name in names) for axis in range(len(out))]
        groups = joined(keys, out)
        _sizes_of(groups, out)
        for name in names:
            inputs[name] = state.shaped(inputs[name], _sizes_of(groups, shapes[name]))
        return _made(operation, inputs)

    return make


def _along(operation: Any, state: Narrow) -> Any:
    """An operation along one axis, that gives the same shape."""
    sizes = sizes_of(operation.x)
    axis = int(operation.axis.val) % len(sizes)
    inputs = private.inputs_of(operation)
    inputs["x"] = state.shaped(operation.x, [math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])])
    inputs["axis"] = 1
    return _made(operation, inputs)


def _reduced(operation: Any, state: Narrow) -> Any:
    """A reduction over some axes."""
    sizes = sizes_of(operation.x)
    inputs = private.inputs_of(operation)
    many = "axes" in operation.input_spec.input_types
    given = inputs.get("axes" if many else "axis")
    axes = range(len(sizes)) if given is None else np.atleast_1d(given.val).tolist()
    over = {int(axis) % len(sizes) for axis in axes}
    groups = joined([axis in over for axis in range(len(sizes))], sizes)
    left = [at for at, group in enumerate(groups) if any(axis in over and sizes[axis] != 1 for axis in group)]
    if not left and over:
        # Only axes of size one: the reduction may still do something to each element.
        groups, left = [[], list(range(len(sizes)))], [0]
    if not many and len(left) != 1:
        raise Stays("more than one axis")
    inputs["x"] = state.shaped(operation.x, _sizes_of(groups, sizes))
    inputs["axes" if many else "axis"] = left if many else left[0]
    inputs["keep_dims"] = True
    return _made(operation, inputs)


def _transposed(operation: Any, state: Narrow) -> Any:
    """A permutation: at once where neighbours that stay together leave five axes, and one axis at a time otherwise."""
    sizes = sizes_of(operation.x)
    perm = [int(axis) % len(sizes) for axis in operation.perm.val]
    # Axes of size one move nothing.
    perm = [axis for axis in perm if sizes[axis] != 1]
    groups: list[list[int]] = []
    for axis in perm:
        if groups and not [one for one in range(groups[-1][-1] + 1, axis) if sizes[one] != 1] and axis > groups[-1][-1]:
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
        lead = math.prod(shape[one] for one in done)
        before = math.prod(size for one, size in enumerate(shape) if one < axis and one not in done)
        after = math.prod(size for one, size in enumerate(shape) if one > axis and one not in done)
        x = state.shaped(x, [lead, before, shape[axis], after])
        if before != 1:
            x = mb.transpose(x=x, perm=[0, 2, 1, 3], before_op=operation)
        done.append(axis)
    return x


def _concatenated(operation: Any, state: Narrow) -> Any:
    """Tensors one after another along an axis."""
    rank = len(operation.outputs[0].shape)
    axis = int(operation.axis.val) % rank
    parts = []
    for one in operation.values:
        sizes = sizes_of(one)
        parts.append(state.shaped(one, [math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])]))
    return mb.concat(values=parts, axis=1, before_op=operation)


def _stacked(operation: Any, state: Narrow) -> Any:
    """Tensors one after another along a new axis."""
    axis = int(operation.axis.val) % len(operation.outputs[0].shape)
    parts = []
    for one in operation.values:
        sizes = sizes_of(one)
        parts.append(state.shaped(one, [math.prod(sizes[:axis]), 1, math.prod(sizes[axis:])]))
    return mb.concat(values=parts, axis=1, before_op=operation)


def _split(operation: Any, state: Narrow) -> Any:
    """A tensor's parts along an axis."""
    sizes = sizes_of(operation.x)
    axis = int(operation.axis.val) % len(sizes)
    inputs = private.inputs_of(operation)
    inputs["x"] = state.shaped(operation.x, [math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])])
    inputs["axis"] = 1
    return _made(operation, inputs)


def _sliced(operation: Any, state: Narrow) -> Any:
    """A part of a tensor; axes that are kept whole are joined."""
    sizes = sizes_of(operation.x)
    parts = [_whole(size) for size in sizes]
    for axis, part in enumerate(_slices(operation, sizes)):
        parts[axis] = part
    groups = joined([None if parts[axis] == _whole(size) else axis for axis, size in enumerate(sizes)], sizes)
    # An axis of size one may be cut as well, and then stands for itself.
    groups = [list(one) for group in groups for one in _apart(group, parts, sizes)]
    shape = _sizes_of(groups, sizes)
    cut = [parts[next((axis for axis in group if parts[axis] != _whole(sizes[axis])), group[0])] for group in groups]
    cut = [
        _whole(size) if _is_whole(group, parts, sizes) else one
        for one, group, size in zip(cut, groups, shape, strict=True)
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
    begins = [int(one) for one in operation.begin.val]
    count = len(sizes)
    if operation.op_type == "slice_by_size":
        if operation.size.val is None:
            raise Stays("a part that is not known before a run")
        lengths = [int(one) for one in operation.size.val]
        starts = [begin % size if size else 0 for begin, size in zip(begins, sizes, strict=True)]
        return [
            (start, size if length == -1 else start + length, 1)
            for start, length, size in zip(starts, lengths, sizes, strict=True)
        ]
    if operation.end.val is None:
        raise Stays("a part that is not known before a run")
    ends = [int(one) for one in operation.end.val]

    def held(name: str, default: Any) -> list[Any]:
        found = getattr(operation, name)
        return [default] * count if found is None or found.val is None else list(found.val)

    found = []
    zipped = zip(
        begins, ends, held("stride", 1), held("begin_mask", False), held("end_mask", False), sizes, strict=True
    )
    for axis, (begin, end, step, from_start, to_end, size) in enumerate(zipped):
        if bool(held("squeeze_mask", False)[axis]):
            start = begin % size
            found.append((start, start + 1, 1))
            continue
        start, stop, step = slice(None if from_start else begin, None if to_end else end, int(step)).indices(size)
        found.append((start, stop, step))
    return found


def _gathered(operation: Any, state: Narrow) -> Any:
    """Elements at places along one axis."""
    batch = private.inputs_of(operation).get("batch_dims")
    if batch is not None and int(batch.val):
        raise Stays("gather in batches")
    sizes = sizes_of(operation.x)
    axis = int(operation.axis.val) % len(sizes)
    inputs = private.inputs_of(operation)
    inputs["x"] = state.shaped(operation.x, [math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])])
    inputs["indices"] = state.shaped(operation.indices, [math.prod(sizes_of(operation.indices))])
    inputs["axis"] = 1
    return _made(operation, inputs)


def _tiled(operation: Any, state: Narrow) -> Any:
    """A tensor repeated along axes."""
    sizes = sizes_of(operation.x)
    if operation.reps.val is None:
        raise Stays("a number of repetitions that is not known before a run")
    times = [int(one) for one in operation.reps.val]
    groups: list[list[int]] = []
    for axis in range(len(sizes)):
        # A repeated axis of size one joins what it repeats from the left: its copies follow each other.
        if groups and times[axis] == 1 and all(times[one] == 1 for one in groups[-1]):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    shape = _sizes_of(groups, sizes)
    x = state.shaped(operation.x, shape)
    return mb.tile(x=x, reps=[math.prod(times[axis] for axis in group) for group in groups], before_op=operation)


def _multiplied(operation: Any, state: Narrow) -> Any:
    """A product of matrices; the axes before them are joined."""
    inputs = private.inputs_of(operation)
    shapes = [sizes_of(operation.x), sizes_of(operation.y)]
    if min(map(len, shapes)) < 2:
        raise Stays("a product with a vector")
    rank = max(map(len, shapes))
    batches = [[1] * (rank - len(shape)) + shape[:-2] for shape in shapes]
    out = [max(pair) for pair in zip(*batches, strict=True)]
    groups = joined([(left == 1, right == 1) for left, right in zip(*batches, strict=True)], out)
    if len(groups) > LIMIT - 2:
        raise Stays(f"{len(groups) + 2} axes are left")
    for name, batch, shape in zip("xy", batches, shapes, strict=True):
        inputs[name] = state.shaped(inputs[name], [*_sizes_of(groups, batch), *shape[-2:]])
    return _made(operation, inputs)


def _linear(operation: Any, state: Narrow) -> Any:
    """A linear layer: the axes before the last one are joined."""
    sizes = sizes_of(operation.x)
    inputs = private.inputs_of(operation)
    inputs["x"] = state.shaped(operation.x, [math.prod(sizes[:-1]), sizes[-1]])
    return _made(operation, inputs)


def _normalized(operation: Any, state: Narrow) -> Any:
    """A layer's normalization over the last axes."""
    sizes = sizes_of(operation.x)
    inputs = private.inputs_of(operation)
    axes = sorted(int(axis) % len(sizes) for axis in operation.axes.val)
    if axes != list(range(len(sizes) - len(axes), len(sizes))) or len(axes) >= LIMIT:
        raise Stays("a normalization of axes that are not the last")
    inputs["x"] = state.shaped(operation.x, [math.prod(sizes[: axes[0]]), *sizes[axes[0] :]])
    inputs["axes"] = list(range(1, len(axes) + 1))
    return _made(operation, inputs)


def _reversed(operation: Any, state: Narrow) -> Any:
    """A tensor with the elements along axes in the other order."""
    sizes = sizes_of(operation.x)
    axes = range(len(sizes)) if operation.axes is None else operation.axes.val
    over = {int(axis) % len(sizes) for axis in axes}
    groups = joined([axis in over for axis in range(len(sizes))], sizes)
    shape = _sizes_of(groups, sizes)
    turned = [at for at, group in enumerate(groups) if any(axis in over and sizes[axis] != 1 for axis in group)]
    x = state.shaped(operation.x, shape)
    return mb.reverse(x=x, axes=turned, before_op=operation) if turned else x


def _repeated(operation: Any, state: Narrow) -> Any:
    """A tensor of one number."""
    return mb.fill(shape=[math.prod(sizes_of(operation.outputs[0]))], value=operation.value, before_op=operation)


def _all(make: Callable[[Any, Narrow], Any], kinds: str) -> dict[str, Callable[[Any, Narrow], Any]]:
    return dict.fromkeys(kinds.split(), make)


OPERATIONS: dict[str, Callable[[Any, Narrow], Any]] = {
    **_all(_reshaped, "reshape expand_dims squeeze"),
    **_all(
        _unary, "abs acos asin atan atanh cast ceil clamped_relu clip cos cosh elu erf exp exp2 floor gelu identity"
    ),
    **_all(_unary, "inverse leaky_relu linear_activation log logical_not relu relu6 round rsqrt scaled_tanh sigmoid"),
    **_all(_unary, "sigmoid_hard sign silu sin sinh softplus softsign sqrt square tan tanh threshold thresholded_relu"),
    **_all(_elementwise("x", "y"), "add sub mul real_div floor_div mod pow maximum minimum"),
    **_all(_elementwise("x", "y"), "equal not_equal less less_equal greater greater_equal"),
    **_all(_elementwise("x", "y"), "logical_and logical_or logical_xor"),
    **_all(_elementwise("cond", "a", "b"), "select"),
    **_all(_reduced, "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_l1_norm reduce_l2_norm"),
    **_all(_reduced, "reduce_log_sum reduce_log_sum_exp reduce_sum_square reduce_argmax reduce_argmin"),
    **_all(_along, "softmax cumsum"),
    **_all(_sliced, "slice_by_index slice_by_size"),
    "transpose": _transposed,
    "concat": _concatenated,
    "stack": _stacked,
    "split": _split,
    "gather": _gathered,
    "tile": _tiled,
    "matmul": _multiplied,
    "linear": _linear,
    "layer_norm": _normalized,
    "reverse": _reversed,
    "fill": _repeated,
}
"""What is done instead of an operation on wide tensors, by its kind."""


def pipeline(note: Callable[[], None]) -> Any:
    """Register our pass, and give coremltools' passes with it; ``note`` is called where it replaces something."""

    class NarrowWideTensors(private.AbstractGraphPass):  # type: ignore[misc]
        def apply(self, program: Any) -> None:
            for function in program.functions.values():
                if private.wide_in(function):
                    try:
                        done = private.in_block(function, narrow_block)
                    except Stays:
                        # coremltools says at the end which tensor is too wide.
                        continue
                    if done:
                        note()

    namespace, _, name = NAME.partition("::")
    private.register_pass(namespace=namespace, name=name)(NarrowWideTensors)
    return private.pipeline_with(NAME, AFTER, ("common::merge_consecutive_reshapes", "common::dead_code_elimination"))
