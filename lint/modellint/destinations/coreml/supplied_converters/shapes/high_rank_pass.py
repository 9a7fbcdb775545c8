"""Graph pass for tensors of more than five dimensions, which Core ML does not have: computed with as ones of five and fewer.

A wide tensor is held as any tensor of the same elements in the same order. An operation on wide tensors joins neighbouring axes
that it treats alike, is done on what is left, and gives the same numbers: these are the same operations on the same elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from modellint.destinations.coreml.private import operator_tables
from modellint.destinations.coreml.supplied_converters.shapes import high_rank_moves
from modellint.destinations.coreml.supplied_converters.shapes.rank_folding import (
    LIMIT,
    Narrow,
    Stays,
    is_wide,
    joined,
    rebuilt,
    sizes_of,
    sizes_together,
)

NAME = "modellint::narrow_wide_tensors"
AFTER = "common::expand_high_rank_reshape_and_transpose"
"""The pass that has folded, before ours, the chains that coremltools folds itself."""


def narrow_block(block: Any) -> bool:
    """Replace the operations on wide tensors in a block; gives whether there was one."""
    state = Narrow()
    replaced: list[Any] = []
    for operation in list(block.operations):
        if operation.op_type == "const" or all(output.val is not None for output in operation.outputs):
            continue
        wide = [variable for variable in operation.get_flattened_inputs() if state.holds(variable)]
        if not wide and not any(is_wide(output) for output in operation.outputs):
            continue
        make = OPERATIONS.get(operation.op_type)
        if make is None:
            raise Stays(f"{operation.op_type} of more than five axes")
        state.before = operation
        results = make(operation, state)
        for old, new in zip(
            operation.outputs, results if isinstance(results, (list, tuple)) else [results], strict=True
        ):
            if is_wide(old):
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


def _reshaped(operation: Any, state: Narrow) -> Any:
    """Reshape and its kin: the elements stay in order."""
    out = operation.outputs[0]
    if is_wide(out):
        source = operation.x
        return (
            state.shaped(source, [math.prod(sizes_of(source))])
            if is_wide(source) and not state.holds(source)
            else state.held_as(source)
        )
    return state.shaped(operation.x, sizes_of(out))


def _unary(operation: Any, state: Narrow) -> Any:
    """Element-wise operation on one tensor."""
    sizes = sizes_of(operation.x)
    inputs = operator_tables.inputs_of(operation)
    narrow = state.held_as(operation.x)
    inputs["x"] = narrow if operator_tables.rank_of(narrow) <= LIMIT else state.shaped(operation.x, [math.prod(sizes)])
    return rebuilt(operation, inputs)


def _elementwise(*names: str) -> Callable[[Any, Narrow], Any]:
    def make(operation: Any, state: Narrow) -> Any:
        """Element-wise operation on tensors that are broadcast."""
        out = sizes_of(operation.outputs[0])
        inputs = operator_tables.inputs_of(operation)
        shapes = {name: [1] * (len(out) - len(inputs[name].shape)) + sizes_of(inputs[name]) for name in names}
        keys = [tuple(shapes[name][axis] == 1 for name in names) for axis in range(len(out))]
        groups = joined(keys, out)
        sizes_together(groups, out)
        for name in names:
            inputs[name] = state.shaped(inputs[name], sizes_together(groups, shapes[name]))
        return rebuilt(operation, inputs)

    return make


def _reduced(operation: Any, state: Narrow) -> Any:
    """Reduction over some axes."""
    sizes = sizes_of(operation.x)
    inputs = operator_tables.inputs_of(operation)
    many = "axes" in operation.input_spec.input_types
    named = inputs.get("axes" if many else "axis")
    axes = range(len(sizes)) if named is None else np.atleast_1d(named.val).tolist()
    over = {int(axis) % len(sizes) for axis in axes}
    groups = joined([axis in over for axis in range(len(sizes))], sizes)
    left = [at for at, group in enumerate(groups) if any(axis in over and sizes[axis] != 1 for axis in group)]
    if not left and over:
        # Only axes of size one: the reduction may still do something to each element.
        groups, left = [[], list(range(len(sizes)))], [0]
    if not many and len(left) != 1:
        raise Stays("more than one axis")
    inputs["x"] = state.shaped(operation.x, sizes_together(groups, sizes))
    inputs["axes" if many else "axis"] = left if many else left[0]
    inputs["keep_dims"] = True
    return rebuilt(operation, inputs)


def _multiplied(operation: Any, state: Narrow) -> Any:
    """Matrix product; the batch axes are joined."""
    inputs = operator_tables.inputs_of(operation)
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
        inputs[name] = state.shaped(inputs[name], [*sizes_together(groups, batch), *shape[-2:]])
    return rebuilt(operation, inputs)


def _linear(operation: Any, state: Narrow) -> Any:
    """Linear layer; the axes before the last one are joined."""
    sizes = sizes_of(operation.x)
    inputs = operator_tables.inputs_of(operation)
    inputs["x"] = state.shaped(operation.x, [math.prod(sizes[:-1]), sizes[-1]])
    return rebuilt(operation, inputs)


def _normalized(operation: Any, state: Narrow) -> Any:
    """Layer normalization over the last axes."""
    sizes = sizes_of(operation.x)
    inputs = operator_tables.inputs_of(operation)
    axes = sorted(int(axis) % len(sizes) for axis in operation.axes.val)
    if axes != list(range(len(sizes) - len(axes), len(sizes))) or len(axes) >= LIMIT:
        raise Stays("a normalization of axes that are not the last")
    inputs["x"] = state.shaped(operation.x, [math.prod(sizes[: axes[0]]), *sizes[axes[0] :]])
    inputs["axes"] = list(range(1, len(axes) + 1))
    return rebuilt(operation, inputs)


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
    **_all(high_rank_moves.along, "softmax cumsum split"),
    **_all(high_rank_moves.sliced, "slice_by_index slice_by_size"),
    "transpose": high_rank_moves.transposed,
    "concat": high_rank_moves.concatenated,
    "stack": high_rank_moves.stacked,
    "gather": high_rank_moves.gathered,
    "tile": high_rank_moves.tiled,
    "matmul": _multiplied,
    "linear": _linear,
    "layer_norm": _normalized,
    "reverse": high_rank_moves.turned,
    "fill": high_rank_moves.repeated,
}
"""What is done instead of an operation on wide tensors, by its kind."""


def pipeline(note: Callable[[], None], first: str) -> Any:
    """Register our pass, and give coremltools' passes with it and another, the first; ``note`` is called where it replaces something."""

    class NarrowWideTensors(operator_tables.AbstractGraphPass):  # type: ignore[misc]
        def apply(self, program: Any) -> None:
            for function in program.functions.values():
                if operator_tables.wide_in(function):
                    try:
                        done = operator_tables.in_block(function, narrow_block)
                    except Stays:
                        # coremltools says at the end which tensor is too wide.
                        continue
                    if done:
                        note()

    namespace, _, name = NAME.partition("::")
    operator_tables.register_pass(namespace=namespace, name=name)(NarrowWideTensors)
    return operator_tables.pipeline_with(
        NAME, AFTER, ("common::merge_consecutive_reshapes", "common::dead_code_elimination"), first
    )
