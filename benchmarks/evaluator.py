"""What an ML Program computes, by NumPy and by coremltools' own folding of constants; modellint's executor takes no part.

One function for each operation, written from the texts that document them. What has none is folded by the operation's own
``value_inference``; what has neither is `Unjudged`. Floats are computed in double precision inside an operation and rounded to
the type that the program declares for its result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from coremltools.converters.mil.mil import Operation, types

Values = dict[str, Any]
Meaning = Callable[[Values], Any]


class Unjudged(Exception):
    """A program has an operation whose meaning is not known here; ``operation`` names it."""

    def __init__(self, operation: str, why: str = "") -> None:
        super().__init__(f"{operation}: {why}" if why else operation)
        self.operation = operation


class Fault(Exception):
    """A program cannot be run with these inputs: an operation fails, or reads outside of its tensor."""


OWN: dict[str, Meaning] = {}
UNDEFINED: set[str] = set()
"""What the present run has done that nothing says the result of."""


def meaning(*names: str) -> Callable[[Meaning], Meaning]:
    """Declare a function to be the meaning of operations."""

    def declared(function: Meaning) -> Meaning:
        for name in names:
            OWN[name] = function
        return function

    return declared


def wide(value: Any) -> Any:
    """Floats in double precision, the rest as it is."""
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def whole(value: Any) -> list[int]:
    return [int(one) for one in np.asarray(value).reshape(-1)]


# Element by element.


def _binary(function: Callable[[Any, Any], Any]) -> Meaning:
    return lambda given: function(np.asarray(given["x"]), np.asarray(given["y"]))


def _compared(function: Callable[[Any, Any], Any]) -> Meaning:
    return lambda given: function(np.asarray(given["x"]), np.asarray(given["y"])).astype(bool)


def _divided(given: Values) -> Any:
    x, y = np.asarray(given["x"]), np.asarray(given["y"])
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        if (y == 0).any():
            UNDEFINED.add("real_div of integers by 0")
        return np.trunc(np.where(y == 0, 0, x / np.where(y == 0, 1, y)))
    return wide(x) / wide(y)


def _by(function: Callable[[Any, Any], Any], name: str) -> Meaning:
    def found(given: Values) -> Any:
        x, y = np.asarray(given["x"]), np.asarray(given["y"])
        if x.dtype.kind in "iu" and y.dtype.kind in "iu" and (y == 0).any():
            UNDEFINED.add(f"{name} of integers by 0")
        return function(x, y)

    return found


def _power(given: Values) -> Any:
    x, y = np.asarray(given["x"]), np.asarray(given["y"])
    if x.dtype.kind in "iu":
        return np.power(x.astype(np.float64), y.astype(np.float64))
    return np.power(wide(x), wide(y))


OWN.update(
    {
        "add": _binary(np.add),
        "sub": _binary(np.subtract),
        "mul": _binary(np.multiply),
        "real_div": _divided,
        "floor_div": _by(np.floor_divide, "floor_div"),
        "mod": _by(np.mod, "mod"),
        "maximum": _binary(np.maximum),
        "minimum": _binary(np.minimum),
        "pow": _power,
        "equal": _compared(np.equal),
        "not_equal": _compared(np.not_equal),
        "less": _compared(np.less),
        "less_equal": _compared(np.less_equal),
        "greater": _compared(np.greater),
        "greater_equal": _compared(np.greater_equal),
        "logical_and": _compared(np.logical_and),
        "logical_or": _compared(np.logical_or),
        "logical_xor": _compared(np.logical_xor),
    }
)


def _unary(function: Callable[[Any], Any]) -> Meaning:
    return lambda given: function(wide(given["x"]))


def _sigmoid(x: Any) -> Any:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Any) -> Any:
    return _erf(x) if np.size(x) else np.asarray(x, np.float64)


def _softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


OWN.update(
    {
        "abs": _unary(np.abs),
        "acos": _unary(np.arccos),
        "asin": _unary(np.arcsin),
        "atan": _unary(np.arctan),
        "atanh": _unary(np.arctanh),
        "ceil": _unary(np.ceil),
        "cos": _unary(np.cos),
        "cosh": _unary(np.cosh),
        "erf": _unary(erf),
        "exp": _unary(np.exp),
        "exp2": _unary(lambda x: np.exp2(x.astype(np.float64))),
        "floor": _unary(np.floor),
        "round": _unary(np.round),
        "sign": _unary(np.sign),
        "sin": _unary(np.sin),
        "sinh": _unary(np.sinh),
        "sqrt": _unary(np.sqrt),
        "square": _unary(np.square),
        "tan": _unary(np.tan),
        "tanh": _unary(np.tanh),
        "relu": _unary(lambda x: np.maximum(x, 0)),
        "relu6": _unary(lambda x: np.minimum(np.maximum(x, 0), 6)),
        "sigmoid": _unary(_sigmoid),
        "silu": _unary(lambda x: x * _sigmoid(x)),
        "softplus": _unary(_softplus),
        "softsign": _unary(lambda x: x / (1 + np.abs(x))),
        "logical_not": lambda given: np.logical_not(given["x"]),
        "identity": lambda given: given["x"],
    }
)


@meaning("clip")
def _clip(given: Values) -> Any:
    return np.minimum(np.maximum(wide(given["x"]), given["alpha"]), given["beta"])


def _eps(given: Values, default: float, like: str = "x") -> Any:
    value = given.get("epsilon")
    value = default if value is None else value
    return np.float64(
        np.asarray(value).astype(np.asarray(given[like]).dtype)
        if np.asarray(given[like]).dtype == np.float16
        else value
    )


@meaning("inverse")
def _inverse(given: Values) -> Any:
    return 1 / (wide(given["x"]) + _eps(given, 1e-4))


@meaning("log")
def _log(given: Values) -> Any:
    return np.log(wide(given["x"]) + _eps(given, 1e-45))


@meaning("rsqrt")
def _rsqrt(given: Values) -> Any:
    return 1 / np.sqrt(wide(given["x"]) + _eps(given, 1e-12))


@meaning("threshold")
def _threshold(given: Values) -> Any:
    return np.maximum(wide(given["x"]), given["alpha"])


@meaning("cast")
def _cast(given: Values) -> Any:
    x, wanted = np.asarray(given["x"]), str(given["dtype"])
    if wanted == "bool":
        return x != 0
    if wanted.startswith(("int", "uint")) and x.dtype.kind == "f":
        return np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=2**31 - 1, neginf=-(2**31)))
    return x


# Activations.


@meaning("clamped_relu")
def _clamped_relu(given: Values) -> Any:
    x = wide(given["x"])
    return np.minimum(given["beta"], np.where(x >= 0, x, x * given["alpha"]))


@meaning("elu")
def _elu(given: Values) -> Any:
    x = wide(given["x"])
    alpha = 1.0 if given.get("alpha") is None else given["alpha"]
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


@meaning("gelu")
def _gelu(given: Values) -> Any:
    x, mode = wide(given["x"]), given.get("mode") or "EXACT"
    if mode == "TANH_APPROXIMATION":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    if mode == "SIGMOID_APPROXIMATION":
        return x * _sigmoid(1.702 * x)
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


@meaning("leaky_relu")
def _leaky_relu(given: Values) -> Any:
    x = wide(given["x"])
    alpha = 0.01 if given.get("alpha") is None else given["alpha"]
    return np.where(x >= 0, x, x * alpha)


@meaning("linear_activation")
def _linear_activation(given: Values) -> Any:
    return wide(given["x"]) * given["alpha"] + (0 if given.get("beta") is None else given["beta"])


@meaning("prelu")
def _prelu(given: Values) -> Any:
    x = wide(given["x"])
    alpha = wide(given["alpha"]).reshape(1, -1, *[1] * (x.ndim - 2))
    return np.where(x > 0, x, x * alpha)


@meaning("scaled_tanh")
def _scaled_tanh(given: Values) -> Any:
    alpha = 1.0 if given.get("alpha") is None else given["alpha"]
    beta = 1.0 if given.get("beta") is None else given["beta"]
    return alpha * np.tanh(beta * wide(given["x"]))


@meaning("sigmoid_hard")
def _sigmoid_hard(given: Values) -> Any:
    alpha = 0.2 if given.get("alpha") is None else given["alpha"]
    beta = 0.5 if given.get("beta") is None else given["beta"]
    return np.minimum(np.maximum(alpha * wide(given["x"]) + beta, 0), 1)


@meaning("softplus_parametric")
def _softplus_parametric(given: Values) -> Any:
    x = wide(given["x"])
    shape = (1, -1, *[1] * (x.ndim - 2))
    alpha, beta = wide(given["alpha"]).reshape(shape), wide(given["beta"]).reshape(shape)
    return alpha * np.logaddexp(0, beta * x)


@meaning("thresholded_relu")
def _thresholded_relu(given: Values) -> Any:
    x = wide(given["x"])
    alpha = 1.0 if given.get("alpha") is None else given["alpha"]
    return np.where(x >= alpha, x, 0)


@meaning("softmax")
def _softmax(given: Values) -> Any:
    axis = -1 if given.get("axis") is None else int(given["axis"])
    return softmax(wide(given["x"]), axis)


def softmax(x: Any, axis: int) -> Any:
    raised = np.exp(x - x.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


# Reductions.


def _reduced(function: Callable[[Any, Any, bool], Any]) -> Meaning:
    def found(given: Values) -> Any:
        axes = given.get("axes")
        chosen = None if axes is None else tuple(whole(axes))
        x = np.asarray(given["x"])
        if chosen is None or not chosen:
            chosen = tuple(range(x.ndim))
        return function(wide(x), chosen, bool(given.get("keep_dims") or False))

    return found


def _log_sum_exp(x: Any, axes: Any, keep: bool) -> Any:
    largest = x.max(axes, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0)
    found = np.log(np.exp(x - largest).sum(axes, keepdims=True)) + largest
    return found if keep else found.reshape(x.sum(axes).shape)


def _mean(x: Any, axes: Any, keep: bool) -> Any:
    found = x.mean(axes, keepdims=keep)
    return np.trunc(found) if x.dtype.kind in "iu" else found


OWN.update(
    {
        "reduce_sum": _reduced(lambda x, axes, keep: x.sum(axes, keepdims=keep)),
        "reduce_mean": _reduced(_mean),
        "reduce_max": _reduced(lambda x, axes, keep: x.max(axes, keepdims=keep)),
        "reduce_min": _reduced(lambda x, axes, keep: x.min(axes, keepdims=keep)),
        "reduce_prod": _reduced(lambda x, axes, keep: x.prod(axes, keepdims=keep)),
        "reduce_l1_norm": _reduced(lambda x, axes, keep: np.abs(x).sum(axes, keepdims=keep)),
        "reduce_l2_norm": _reduced(lambda x, axes, keep: np.sqrt((x * x).sum(axes, keepdims=keep))),
        "reduce_sum_square": _reduced(lambda x, axes, keep: (x * x).sum(axes, keepdims=keep)),
        "reduce_log_sum": _reduced(lambda x, axes, keep: np.log(x.sum(axes, keepdims=keep))),
        "reduce_log_sum_exp": _reduced(_log_sum_exp),
    }
)


def _arg(function: Callable[..., Any]) -> Meaning:
    def found(given: Values) -> Any:
        axis = -1 if given.get("axis") is None else int(given["axis"])
        x = np.asarray(given["x"])
        place = function(x, axis=axis)
        return np.expand_dims(place, axis) if bool(given.get("keep_dims") or False) else place

    return found


OWN["reduce_argmax"], OWN["reduce_argmin"] = _arg(np.argmax), _arg(np.argmin)


# Shapes.


@meaning("reshape")
def _reshape(given: Values) -> Any:
    x, wanted = np.asarray(given["x"]), whole(given["shape"])
    if 0 in wanted and x.size:
        # A zero takes the dimension at the same place, counted from the end.
        shape = list(x.shape)
        wanted = [
            (shape[at - len(wanted) + x.ndim] if 0 <= at - len(wanted) + x.ndim < x.ndim else 1) if one == 0 else one
            for at, one in enumerate(wanted)
        ]
    return x.reshape(wanted)


@meaning("reshape_like")
def _reshape_like(given: Values) -> Any:
    shape: list[int] = []
    for at, reference in enumerate(given["ref_tensors"]):
        begin, end = int(given["begins"][at]), int(given["ends"][at])
        sizes = list(np.shape(reference))
        shape += sizes[begin:] if bool(given["end_masks"][at]) else sizes[begin:end]
    return np.asarray(given["x"]).reshape(shape)


@meaning("expand_dims")
def _expand_dims(given: Values) -> Any:
    x, axes = np.asarray(given["x"]), whole(given["axes"])
    rank = x.ndim + len(axes)
    return np.expand_dims(x, tuple(sorted(one % rank for one in axes)))


@meaning("squeeze")
def _squeeze(given: Values) -> Any:
    axes = given.get("axes")
    return np.squeeze(np.asarray(given["x"]), None if axes is None else tuple(whole(axes)))


@meaning("transpose")
def _transpose(given: Values) -> Any:
    return np.transpose(given["x"], whole(given["perm"]))


@meaning("shape")
def _shape(given: Values) -> Any:
    return np.array(np.shape(given["x"]), np.int32)


@meaning("flatten2d")
def _flatten2d(given: Values) -> Any:
    x = np.asarray(given["x"])
    axis = 1 if given.get("axis") is None else int(given["axis"])
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))


@meaning("concat")
def _concat(given: Values) -> Any:
    # Scalars are taken for vectors of one element.
    held = [np.atleast_1d(one) for one in given["values"]]
    axis = int(given["axis"])
    if bool(given.get("interleave") or False):
        stacked = np.stack(held, axis % held[0].ndim + 1)
        shape = list(held[0].shape)
        shape[axis] *= len(held)
        return stacked.reshape(shape)
    return np.concatenate(held, axis)


@meaning("stack")
def _stack(given: Values) -> Any:
    return np.stack([np.asarray(one) for one in given["values"]], int(given["axis"]))


@meaning("split")
def _split(given: Values) -> Any:
    x, axis = np.asarray(given["x"]), int(given["axis"])
    sizes, count = given.get("split_sizes"), given.get("num_splits")
    if sizes is None:
        return list(np.split(x, int(count), axis))
    return list(np.split(x, np.cumsum(whole(sizes))[:-1], axis))


@meaning("tile")
def _tile(given: Values) -> Any:
    return np.tile(given["x"], whole(given["reps"]))


@meaning("fill")
def _fill(given: Values) -> Any:
    return np.full(whole(given["shape"]), 0.0 if given.get("value") is None else given["value"])


@meaning("fill_like")
def _fill_like(given: Values) -> Any:
    return np.full(np.shape(given["ref_tensor"]), 0.0 if given.get("value") is None else given["value"])


@meaning("range_1d")
def _range_1d(given: Values) -> Any:
    return np.arange(given["start"], given["end"], given["step"])


@meaning("reverse")
def _reverse(given: Values) -> Any:
    axes = given.get("axes")
    return np.flip(given["x"], None if axes is None else tuple(whole(axes)))


@meaning("band_part")
def _band_part(given: Values) -> Any:
    x = np.asarray(given["x"])
    lower = -1 if given.get("lower") is None else int(given["lower"])
    upper = -1 if given.get("upper") is None else int(given["upper"])
    row, column = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    keep = ((lower < 0) | (row - column <= lower)) & ((upper < 0) | (column - row <= upper))
    return np.where(keep, x, np.zeros((), x.dtype))


@meaning("pad")
def _pad(given: Values) -> Any:
    x, amounts = np.asarray(given["x"]), np.asarray(given["pad"]).reshape(-1, 2).astype(int)
    widths = [(0, 0)] * (x.ndim - len(amounts)) + [tuple(one) for one in amounts]
    mode = given.get("mode") or "constant"
    if mode == "constant":
        value = given.get("constant_val")
        return np.pad(x, widths, constant_values=0 if value is None else value)
    if mode == "reflect" and any(max(width) >= size for width, size in zip(widths, x.shape, strict=True)):
        raise Fault("pad reflects more than there is")
    return np.pad(x, widths, mode="reflect" if mode == "reflect" else "edge")


def _slices(given: Values) -> tuple[Any, ...]:
    x = np.asarray(given["x"])

    def each(name: str, default: Any) -> list[Any]:
        value = given.get(name)
        return [default] * x.ndim if value is None else [one.item() for one in np.asarray(value).reshape(-1)]

    begin, end, stride = each("begin", 0), each("end", 0), each("stride", 1)
    free_begin, free_end, squeezed = each("begin_mask", False), each("end_mask", False), each("squeeze_mask", False)
    found: list[Any] = []
    for at in range(x.ndim):
        if squeezed[at]:
            place = 0 if free_begin[at] else begin[at]
            if not -x.shape[at] <= place < x.shape[at]:
                raise Fault(f"a slice at {place} of a dimension of {x.shape[at]}")
            found.append(place)
        else:
            found.append(slice(None if free_begin[at] else begin[at], None if free_end[at] else end[at], stride[at]))
    return tuple(found)


@meaning("slice_by_index")
def _slice_by_index(given: Values) -> Any:
    return np.asarray(given["x"])[_slices(given)]


@meaning("slice_update")
def _slice_update(given: Values) -> Any:
    found, at = np.array(given["x"]), _slices(given)
    found[at] = np.reshape(given["update"], np.shape(found[at]))
    return found


@meaning("slice_by_size")
def _slice_by_size(given: Values) -> Any:
    x = np.asarray(given["x"])
    found = []
    for begin, size, extent in zip(whole(given["begin"]), whole(given["size"]), x.shape, strict=True):
        begin = begin + extent if begin < 0 else begin
        found.append(slice(begin, extent if size == -1 else begin + size))
    return x[tuple(found)]


@meaning("sliding_windows")
def _sliding_windows(given: Values) -> Any:
    x = np.asarray(given["x"])
    axis, size = int(given["axis"]) % x.ndim, int(given["size"])
    stride = 1 if given.get("stride") is None else int(given["stride"])
    return np.stack([np.take(x, range(at, at + size), axis) for at in range(0, x.shape[axis] - size + 1, stride)], axis)


@meaning("cumsum")
def _cumsum(given: Values) -> Any:
    x, axis = wide(given["x"]), 0 if given.get("axis") is None else int(given["axis"])
    back = bool(given.get("reverse") or False)
    x = np.flip(x, axis) if back else x
    found = np.cumsum(x, axis)
    if bool(given.get("exclusive") or False):
        found = found - x
    return np.flip(found, axis) if back else found


def _block(x: Any, size: int, forth: tuple[int, ...], back: bool) -> Any:
    count, channels, height, width = x.shape
    if back:
        parts = x.reshape(count, channels, height // size, size, width // size, size)
        return parts.transpose(forth).reshape(count, channels * size * size, height // size, width // size)
    kept = channels // size // size
    parts = x.reshape(
        (count, kept, size, size, height, width) if forth[1] == 1 else (count, size, size, kept, height, width)
    )
    return parts.transpose(forth).reshape(count, kept, height * size, width * size)


@meaning("pixel_shuffle")
def _pixel_shuffle(given: Values) -> Any:
    return _block(np.asarray(given["x"]), int(given["upscale_factor"]), (0, 1, 4, 2, 5, 3), False)


@meaning("pixel_unshuffle")
def _pixel_unshuffle(given: Values) -> Any:
    return _block(np.asarray(given["x"]), int(given["downscale_factor"]), (0, 1, 3, 5, 2, 4), True)


@meaning("depth_to_space")
def _depth_to_space(given: Values) -> Any:
    return _block(np.asarray(given["x"]), int(given["block_size"]), (0, 3, 4, 1, 5, 2), False)


@meaning("space_to_depth")
def _space_to_depth(given: Values) -> Any:
    return _block(np.asarray(given["x"]), int(given["block_size"]), (0, 3, 5, 1, 2, 4), True)


# Choices, and what is read or written at indices.


@meaning("select")
def _select(given: Values) -> Any:
    return np.where(np.asarray(given["cond"]).astype(bool), given["a"], given["b"])


@meaning("non_zero")
def _non_zero(given: Values) -> Any:
    return np.stack(np.nonzero(np.atleast_1d(given["x"])), -1).astype(np.int32)


@meaning("one_hot")
def _one_hot(given: Values) -> Any:
    axis = -1 if given.get("axis") is None else int(given["axis"])
    on = 1 if given.get("on_value") is None else given["on_value"]
    off = 0 if given.get("off_value") is None else given["off_value"]
    hot = np.asarray(given["indices"])[..., None] == np.arange(int(given["one_hot_vector_size"]))
    return np.moveaxis(np.where(hot, on, off), -1, axis)


def _places(indices: Any, size: int, name: str) -> Any:
    found = np.asarray(indices).astype(np.int64)
    if found.size and (found.min() < -size or found.max() >= size):
        raise Fault(f"{name} reads at {found.min()} to {found.max()} of {size}")
    return np.where(found < 0, found + size, found)


@meaning("gather")
def _gather(given: Values) -> Any:
    x, axis = np.asarray(given["x"]), 0 if given.get("axis") is None else int(given["axis"])
    batches = 0 if given.get("batch_dims") is None else int(given["batch_dims"])
    axis %= max(x.ndim, 1)
    indices = _places(given["indices"], x.shape[axis], "gather")
    if not batches:
        return np.take(x, indices, axis)
    found = [np.take(x[at], indices[at], axis - batches) for at in np.ndindex(*x.shape[:batches])]
    return np.stack(found).reshape(*x.shape[:batches], *found[0].shape)


@meaning("gather_along_axis")
def _gather_along_axis(given: Values) -> Any:
    x, axis = np.asarray(given["x"]), 0 if given.get("axis") is None else int(given["axis"])
    return np.take_along_axis(x, _places(given["indices"], x.shape[axis], "gather_along_axis"), axis)


@meaning("gather_nd")
def _gather_nd(given: Values) -> Any:
    x, indices = np.asarray(given["x"]), np.asarray(given["indices"])
    batches = 0 if given.get("batch_dims") is None else int(given["batch_dims"])
    depth = indices.shape[-1]
    found = []
    for at in np.ndindex(*indices.shape[:-1]):
        place = [_places(one, x.shape[batches + k], "gather_nd") for k, one in enumerate(indices[at])]
        found.append(x[at[:batches] + tuple(map(int, place))])
    shape = indices.shape[:-1] + x.shape[batches + depth :]
    return np.stack(found).reshape(shape) if found else np.zeros(shape, x.dtype)


def _write(data: Any, at: Any, value: Any, mode: str) -> None:
    match mode:
        case "update":
            data[at] = value
        case "add":
            data[at] = data[at] + value
        case "sub":
            data[at] = data[at] - value
        case "mul":
            data[at] = data[at] * value
        case "div":
            data[at] = data[at] / value
        case "max":
            data[at] = np.maximum(data[at], value)
        case "min":
            data[at] = np.minimum(data[at], value)
        case _:
            raise Unjudged("scatter", f"mode {mode}")


@meaning("scatter")
def _scatter(given: Values) -> Any:
    data, updates = np.array(wide(given["data"])), wide(given["updates"])
    axis = (0 if given.get("axis") is None else int(given["axis"])) % data.ndim
    indices = _places(given["indices"], data.shape[axis], "scatter")
    for at in np.ndindex(*indices.shape):
        before = (slice(None),) * axis
        _write(data, (*before, int(indices[at])), updates[(*before, *at)], given.get("mode") or "add")
    return data


@meaning("scatter_along_axis")
def _scatter_along_axis(given: Values) -> Any:
    data, updates = np.array(wide(given["data"])), wide(given["updates"])
    axis = (0 if given.get("axis") is None else int(given["axis"])) % data.ndim
    indices = _places(given["indices"], data.shape[axis], "scatter_along_axis")
    for at in np.ndindex(*indices.shape):
        place = tuple(int(indices[at]) if k == axis else one for k, one in enumerate(at))
        _write(data, place, updates[at], given.get("mode") or "add")
    return data


@meaning("scatter_nd")
def _scatter_nd(given: Values) -> Any:
    data, updates, indices = np.array(wide(given["data"])), wide(given["updates"]), np.asarray(given["indices"])
    for at in np.ndindex(*indices.shape[:-1]):
        place = tuple(int(_places(one, data.shape[k], "scatter_nd")) for k, one in enumerate(indices[at]))
        _write(data, place, updates[at], given.get("mode") or "add")
    return data


def _order(x: Any, axis: int, ascending: bool) -> Any:
    return np.argsort(
        x if ascending else -wide(x).astype(np.float64 if x.dtype.kind == "f" else np.int64), axis, "stable"
    )


@meaning("argsort")
def _argsort(given: Values) -> Any:
    axis = -1 if given.get("axis") is None else int(given["axis"])
    return _order(np.asarray(given["x"]), axis, bool(given.get("ascending") or False))


@meaning("topk")
def _topk(given: Values) -> Any:
    x, axis = np.asarray(given["x"]), -1 if given.get("axis") is None else int(given["axis"])
    count = 1 if given.get("k") is None else int(given["k"])
    order = _order(x, axis, bool(given.get("ascending") or False))
    order = np.take(order, range(x.shape[axis] if count == -1 else count), axis)
    values = np.take_along_axis(x, order, axis)
    returns = given.get("return_indices")
    return [values] if returns is not None and not returns else [values, order]


# Products.


@meaning("matmul")
def _matmul(given: Values) -> Any:
    x, y = wide(given["x"]), wide(given["y"])
    x = np.swapaxes(x, -1, -2) if bool(given.get("transpose_x") or False) and x.ndim > 1 else x
    y = np.swapaxes(y, -1, -2) if bool(given.get("transpose_y") or False) and y.ndim > 1 else y
    return np.matmul(x, y)


@meaning("linear")
def _linear(given: Values) -> Any:
    found = wide(given["x"]) @ wide(given["weight"]).T
    return found if given.get("bias") is None else found + wide(given["bias"])


@meaning("einsum")
def _einsum(given: Values) -> Any:
    return np.einsum(str(given["equation"]), *[wide(one) for one in given["values"]])


@meaning("scaled_dot_product_attention")
def _attention(given: Values) -> Any:
    query, key, value = wide(given["query"]), wide(given["key"]), wide(given["value"])
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    mask = given.get("attn_mask")
    if mask is not None:
        mask = np.asarray(mask)
        scores = scores + (np.where(mask, 0.0, -np.inf) if mask.dtype == bool else wide(mask))
    return softmax(scores, -1) @ value


# Normalizations.


def _along(value: Any, rank: int) -> Any:
    return wide(value).reshape(1, -1, *[1] * (rank - 2))


@meaning("batch_norm")
def _batch_norm(given: Values) -> Any:
    x = wide(given["x"])
    found = (x - _along(given["mean"], x.ndim)) / np.sqrt(_along(given["variance"], x.ndim) + _eps(given, 1e-5))
    found = found if given.get("gamma") is None else found * _along(given["gamma"], x.ndim)
    return found if given.get("beta") is None else found + _along(given["beta"], x.ndim)


@meaning("instance_norm")
def _instance_norm(given: Values) -> Any:
    x = wide(given["x"])
    axes = tuple(range(2, x.ndim))
    found = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + _eps(given, 1e-5))
    found = found if given.get("gamma") is None else found * _along(given["gamma"], x.ndim)
    return found if given.get("beta") is None else found + _along(given["beta"], x.ndim)


@meaning("layer_norm")
def _layer_norm(given: Values) -> Any:
    x, axes = wide(given["x"]), given.get("axes")
    chosen = tuple(range(x.ndim)) if axes is None else tuple(one % x.ndim for one in whole(axes))
    found = (x - x.mean(chosen, keepdims=True)) / np.sqrt(x.var(chosen, keepdims=True) + _eps(given, 1e-5))
    shape = [size if at in chosen else 1 for at, size in enumerate(x.shape)]
    found = found if given.get("gamma") is None else found * wide(given["gamma"]).reshape(shape)
    return found if given.get("beta") is None else found + wide(given["beta"]).reshape(shape)


@meaning("l2_norm")
def _l2_norm(given: Values) -> Any:
    x = wide(given["x"])
    axes = tuple(range(x.ndim - 3, x.ndim)) if x.ndim > 2 else tuple(range(x.ndim))
    return x / np.sqrt((x * x).sum(axes, keepdims=True) + _eps(given, 1e-6))


@meaning("local_response_norm")
def _local_response_norm(given: Values) -> Any:
    x, size = wide(given["x"]), int(given["size"])
    alpha = 1e-4 if given.get("alpha") is None else given["alpha"]
    beta = 0.75 if given.get("beta") is None else given["beta"]
    k = 1.0 if given.get("k") is None else given["k"]
    squares = np.zeros_like(x)
    for at in range(x.shape[1]):
        squares[:, at] = (x[:, max(0, at - size // 2) : min(x.shape[1], at + (size - 1) // 2 + 1)] ** 2).sum(1)
    return x / (k + alpha / size * squares) ** beta


# Windows.


def _margins(
    given: Values, sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[tuple[int, int]]:
    kind = str(given.get("pad_type") or "valid").lower()
    if kind == "valid":
        return [(0, 0)] * len(sizes)
    if kind == "custom":
        pad = whole(given["pad"])
        return list(zip(pad[::2], pad[1::2], strict=True))
    found = []
    for size, width, step, gap in zip(sizes, kernel, stride, dilation, strict=True):
        total = max(0, (math.ceil(size / step) - 1) * step + (width - 1) * gap + 1 - size)
        less = total // 2
        found.append((less, total - less) if kind == "same" else (total - less, less))
    return found


def _listed(given: Values, name: str, rank: int) -> list[int]:
    value = given.get(name)
    return [1] * rank if value is None else whole(value)


@meaning("conv")
def _conv(given: Values) -> Any:
    x, weight = wide(given["x"]), wide(given["weight"])
    rank = weight.ndim - 2
    stride, dilation = _listed(given, "strides", rank), _listed(given, "dilations", rank)
    groups = 1 if given.get("groups") is None else int(given["groups"])
    kernel = weight.shape[2:]
    x = np.pad(x, [(0, 0), (0, 0), *_margins(given, x.shape[2:], kernel, stride, dilation)])
    sizes = [(x.shape[2 + at] - (kernel[at] - 1) * dilation[at] - 1) // stride[at] + 1 for at in range(rank)]
    found = np.zeros((x.shape[0], weight.shape[0], *sizes))
    taken, made = weight.shape[1], weight.shape[0] // groups
    for group, place in itertools.product(range(groups), np.ndindex(*kernel)):
        window = tuple(
            slice(place[at] * dilation[at], place[at] * dilation[at] + (sizes[at] - 1) * stride[at] + 1, stride[at])
            for at in range(rank)
        )
        part = x[(slice(None), slice(group * taken, (group + 1) * taken), *window)]
        outs = slice(group * made, (group + 1) * made)
        found[:, outs] += np.einsum("nc...,oc->no...", part, weight[(outs, slice(None), *place)])
    return found if given.get("bias") is None else found + _along(given["bias"], x.ndim)


@meaning("conv_transpose")
def _conv_transpose(given: Values) -> Any:
    x, weight = wide(given["x"]), wide(given["weight"])
    rank = weight.ndim - 2
    stride, dilation = _listed(given, "strides", rank), _listed(given, "dilations", rank)
    groups = 1 if given.get("groups") is None else int(given["groups"])
    kind = str(given.get("pad_type") or "valid").lower()
    if kind not in ("valid", "custom"):
        raise Unjudged("conv_transpose", f"pad_type {kind}")
    pad = whole(given["pad"]) if kind == "custom" else [0] * 2 * rank
    kernel, taken, made = weight.shape[2:], x.shape[1] // groups, weight.shape[1]
    full = [(x.shape[2 + at] - 1) * stride[at] + (kernel[at] - 1) * dilation[at] + 1 for at in range(rank)]
    wanted = given.get("output_shape")
    sizes = (
        whole(wanted)[-rank:]
        if wanted is not None
        else [full[at] - pad[2 * at] - pad[2 * at + 1] for at in range(rank)]
    )
    held = np.zeros((x.shape[0], made * groups, *[max(full[at], sizes[at] + pad[2 * at]) for at in range(rank)]))
    for group, place in itertools.product(range(groups), np.ndindex(*kernel)):
        window = tuple(
            slice(
                place[at] * dilation[at], place[at] * dilation[at] + (x.shape[2 + at] - 1) * stride[at] + 1, stride[at]
            )
            for at in range(rank)
        )
        ins, outs = slice(group * taken, (group + 1) * taken), slice(group * made, (group + 1) * made)
        held[(slice(None), outs, *window)] += np.einsum(
            "nc...,co->no...", x[:, ins], weight[(ins, slice(None), *place)]
        )
    cut = tuple(slice(pad[2 * at], pad[2 * at] + sizes[at]) for at in range(rank))
    found = held[(slice(None), slice(None), *cut)]
    return found if given.get("bias") is None else found + _along(given["bias"], x.ndim)


def _pooled(kind: str) -> Meaning:
    def found(given: Values) -> Any:
        x, kernel = wide(given["x"]), whole(given["kernel_sizes"])
        rank = len(kernel)
        stride = _listed(given, "strides", rank)
        margins = _margins(given, x.shape[2:], kernel, stride, [1] * rank)
        is_up = bool(given.get("ceil_mode") or False)
        without = bool(given.get("exclude_padding_from_average") or False)
        sizes = []
        for at in range(rank):
            room = x.shape[2 + at] + sum(margins[at]) - kernel[at]
            size = (-(-room // stride[at]) if is_up else room // stride[at]) + 1
            if is_up and (size - 1) * stride[at] >= x.shape[2 + at] + margins[at][0]:
                size -= 1
            sizes.append(size)
        out = np.zeros((*x.shape[:2], *sizes))
        for place in np.ndindex(*sizes):
            window, count = [], 1
            for at in range(rank):
                begin = place[at] * stride[at] - margins[at][0]
                window.append(slice(max(begin, 0), min(begin + kernel[at], x.shape[2 + at])))
                count *= min(begin + kernel[at], x.shape[2 + at] + margins[at][1]) - begin
            seen = x[(slice(None), slice(None), *window)].reshape(*x.shape[:2], -1)
            if kind == "max":
                value = seen.max(-1) if seen.shape[-1] else np.full(x.shape[:2], -np.inf)
            elif kind == "average":
                value = seen.sum(-1) / (seen.shape[-1] if without else count)
            else:
                value = np.sqrt((seen * seen).sum(-1))
            out[(slice(None), slice(None), *place)] = value
        return out

    return found


OWN.update({"max_pool": _pooled("max"), "avg_pool": _pooled("average"), "l2_pool": _pooled("l2")})


# Recurrences.

_GATES: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "linear": lambda x: x,
}


def _gate(given: Values, name: str, default: str) -> Callable[[Any], Any]:
    chosen = str(given.get(name) or default)
    if chosen not in _GATES:
        raise Unjudged("a recurrence", chosen)
    return _GATES[chosen]


def _bias(given: Values, name: str, size: int) -> Any:
    return np.zeros(size) if given.get(name) is None else wide(given[name])


@meaning("lstm")
def _lstm(given: Values) -> Any:
    if given.get("peephole") is not None or (given.get("clip") is not None and float(given["clip"]) < 1e30):
        raise Unjudged("lstm", "peephole or clip")
    x, direction = wide(given["x"]), str(given.get("direction") or "forward")
    width = np.asarray(given["weight_hh"]).shape[1]
    gate, cell = _gate(given, "recurrent_activation", "sigmoid"), _gate(given, "cell_activation", "tanh")
    out = _gate(given, "activation", "tanh")
    ways = ("", "_back") if direction == "bidirectional" else ("",)
    steps, lasts, cells = [], [], []
    for at, way in enumerate(ways):
        into, over = wide(given["weight_ih" + way]), wide(given["weight_hh" + way])
        bias = _bias(given, "bias" + way, 4 * width)
        h = wide(given["initial_h"])[:, at * width : (at + 1) * width]
        c = wide(given["initial_c"])[:, at * width : (at + 1) * width]
        row: list[Any] = [None] * len(x)
        for step in reversed(range(len(x))) if way or direction == "reverse" else range(len(x)):
            i, f, o, z = np.split(x[step] @ into.T + h @ over.T + bias, 4, 1)
            c = gate(f) * c + gate(i) * cell(z)
            h = gate(o) * out(c)
            row[step] = h
        if direction == "reverse":
            row.reverse()
        steps.append(np.stack(row) if bool(given.get("output_sequence") or False) else h[None])
        lasts.append(h)
        cells.append(c)
    return [np.concatenate(steps, 2), np.concatenate(lasts, 1), np.concatenate(cells, 1)]


@meaning("gru")
def _gru(given: Values) -> Any:
    x, direction = wide(given["x"]), str(given.get("direction") or "forward")
    into, over = wide(given["weight_ih"]), wide(given["weight_hh"])
    width = over.shape[1]
    gate, out = _gate(given, "recurrent_activation", "sigmoid"), _gate(given, "activation", "tanh")
    bias, first = _bias(given, "bias", 3 * width), given.get("input_bias")
    if not given.get("reset_after") and np.any(bias[width : 2 * width]):
        raise Unjudged("gru", "where the reset gate acts on the bias is not said")
    held = _bias(given, "input_bias", 3 * width) if first is not None else np.zeros(3 * width)
    h = wide(given["initial_h"])
    row: list[Any] = [None] * len(x)
    for step in reversed(range(len(x))) if direction == "reverse" else range(len(x)):
        xr, xo, xz = np.split(x[step] @ into.T + held, 3, 1)
        hr, ho, hz = np.split(h @ over.T + bias, 3, 1)
        r, z = gate(xr + hr), gate(xz + hz)
        h = (1 - z) * out(xo + r * ho) + z * h
        row[step] = h
    if direction == "reverse":
        row.reverse()
    return [np.stack(row) if bool(given.get("output_sequence") or False) else h[None], h]


@meaning("rnn")
def _rnn(given: Values) -> Any:
    x, direction = wide(given["x"]), str(given.get("direction") or "forward")
    into, over = wide(given["weight_ih"]), wide(given["weight_hh"])
    bias, out = _bias(given, "bias", over.shape[0]), _gate(given, "activation", "tanh")
    h = wide(given["initial_h"])
    row: list[Any] = [None] * len(x)
    for step in reversed(range(len(x))) if direction == "reverse" else range(len(x)):
        h = out(x[step] @ into.T + h @ over.T + bias)
        row[step] = h
    if direction == "reverse":
        row.reverse()
    return [np.stack(row) if bool(given.get("output_sequence") or False) else h[None], h]


# Images.


def _mixed(x: Any, axis: int, at: Any) -> Any:
    size = x.shape[axis]
    at = np.clip(at, 0, size - 1)
    low = np.floor(at).astype(int)
    shape = [1] * x.ndim
    shape[axis] = -1
    part = (at - low).reshape(shape)
    return np.take(x, low, axis) * (1 - part) + np.take(x, np.minimum(low + 1, size - 1), axis) * part


@meaning("upsample_bilinear")
def _upsample_bilinear(given: Values) -> Any:
    x = wide(given["x"])
    aligned = True if given.get("align_corners") is None else bool(given["align_corners"])
    half = given.get("half_pixel_centers")
    half = not aligned if half is None else bool(half)
    for axis, name in ((-2, "height"), (-1, "width")):
        factor = given.get("scale_factor_" + name)
        size = x.shape[axis]
        count = math.floor(size * float(1 if factor is None else factor) + 1e-6)
        to = np.arange(count)
        if aligned:
            at = to * ((size - 1) / (count - 1)) if count > 1 else to * 0.0
        else:
            at = (to + 0.5) * (size / count) - 0.5 if half else to * (size / count)
        x = _mixed(x, axis, at)
    return x


@meaning("resize_bilinear")
def _resize_bilinear(given: Values) -> Any:
    x, mode = wide(given["x"]), given.get("sampling_mode") or "DEFAULT"
    for axis, name in ((-2, "height"), (-1, "width")):
        size, count = x.shape[axis], int(given["target_size_" + name])
        to = np.arange(count)
        if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS") and count > 1:
            at = to * ((size - 1) / (count - 1))
        elif mode == "UNALIGN_CORNERS":
            at = (to + 0.5) * (size / count) - 0.5
        else:
            raise Unjudged("resize_bilinear", f"{mode} to {count}")
        x = _mixed(x, axis, at)
    return x


@meaning("upsample_nearest_neighbor")
def _upsample_nearest(given: Values) -> Any:
    x = np.asarray(given["x"])
    for axis, name in ((-2, "height"), (-1, "width")):
        factor = given.get("scale_factor_" + name)
        size = x.shape[axis]
        count = math.floor(size * float(1 if factor is None else factor) + 1e-6)
        x = np.take(x, np.minimum(np.floor(np.arange(count) * (size / count)).astype(int), size - 1), axis)
    return x


@meaning("resize_nearest_neighbor")
def _resize_nearest(given: Values) -> Any:
    x = np.asarray(given["x"])
    for axis, name in ((-2, "height"), (-1, "width")):
        size, count = x.shape[axis], int(given["target_size_" + name])
        x = np.take(x, np.minimum(np.floor(np.arange(count) * (size / count)).astype(int), size - 1), axis)
    return x


@meaning("crop")
def _crop(given: Values) -> Any:
    x = np.asarray(given["x"])
    (top, bottom), (left, right) = whole(given["crop_height"]), whole(given["crop_width"])
    return x[..., top : x.shape[-2] - bottom, left : x.shape[-1] - right]


# Lists, which loops write into.


@meaning("make_list")
def _make_list(given: Values) -> Any:
    return [()]


@meaning("list_length")
def _list_length(given: Values) -> Any:
    return np.int32(len(given["ls"]))


@meaning("list_write")
def _list_write(given: Values) -> Any:
    held, at = list(given["ls"]), int(given["index"])
    held += [None] * (at + 1 - len(held))
    held[at] = given["value"]
    return [tuple(held)]


@meaning("list_read")
def _list_read(given: Values) -> Any:
    return given["ls"][int(given["index"])]


@meaning("list_gather")
def _list_gather(given: Values) -> Any:
    return np.stack([given["ls"][at] for at in whole(given["indices"])])


@meaning("list_scatter")
def _list_scatter(given: Values) -> Any:
    held = list(given["ls"])
    for at, value in zip(whole(given["indices"]), given["value"], strict=True):
        held += [None] * (at + 1 - len(held))
        held[at] = value
    return [tuple(held)]


# Programs.


class Held:
    """A value in the place of a variable's own, while coremltools folds."""

    def __init__(self, val: Any) -> None:
        self.val = val


def folded(operation: Any, given: Mapping[str, Any]) -> list[Any] | None:
    """What coremltools' own constant folding makes of an operation; None where it gives nothing."""
    if type(operation).value_inference is Operation.value_inference:
        return None
    changed = []
    for name, held in operation.inputs.items():
        several = isinstance(held, (list, tuple))
        for variable, value in zip(held if several else [held], given[name] if several else [given[name]], strict=True):
            if variable is not None and variable.val is None:
                changed.append((variable, variable._sym_val))
                # Its own arrays: coremltools writes into those that it folds (`thresholded_relu`).
                variable._sym_val = Held(value.copy() if isinstance(value, np.ndarray) else value)
    try:
        found = operation.value_inference()
    except Exception as error:
        raise Unjudged(operation.op_type, f"{type(error).__name__}: {error}"[:120]) from None
    finally:
        for variable, before in changed:
            variable._sym_val = before
    if found is None:
        return None
    several = len(operation.outputs) > 1 and isinstance(found, (tuple, list))
    return list(found) if several else [found]


class _Step(NamedTuple):
    operation: Any
    kind: str
    fixed: Values
    varying: tuple[tuple[str, Any], ...]
    outputs: tuple[Any, ...]
    declared: tuple[Any, ...]


def _numbers(variable: Any) -> Any:
    """The NumPy type of a variable; None for texts and lists."""
    kind = variable.sym_type
    if types.is_list(kind) or types.is_state(kind) or types.is_str(kind):
        return None
    try:
        return np.dtype(types.nptype_from_builtin(variable.dtype))
    except (KeyError, TypeError, ValueError):
        return None


class Evaluator:
    """A program to be run on NumPy arrays.

    Args:
        program: A `coremltools` MIL program.
        rounds: Whether float16 is rounded to; without it such numbers are kept in single precision.
        folds: Whether each operation is also folded by coremltools, and where it does not agree is noted in ``doubts``.
    """

    def __init__(self, program: Any, *, rounds: bool = True, folds: bool = False) -> None:
        self._main = program.functions["main"]
        self._rounds = rounds
        self._folds = folds
        self._plans: dict[int, list[_Step]] = {}
        self.doubts: list[str] = []
        self.states = {
            name: np.zeros(tuple(map(int, one.shape)), self._dtype(np.dtype(types.nptype_from_builtin(one.dtype))))
            for name, one in self._main.inputs.items()
            if types.is_state(one.sym_type)
        }
        self.names = [name for name in self._main.inputs if name not in self.states]
        self.unknown = sorted(set(self._lacking(self._main)))

    @property
    def undefined(self) -> str:
        """What the last prediction did that nothing says the result of."""
        return ", ".join(sorted(UNDEFINED))

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [one.name for one in self._main.outputs]

    @property
    def operations(self) -> list[str]:
        """The kinds of operation that take part."""
        return sorted({one.op_type for one in _all(self._main)})

    def _lacking(self, block: Any) -> list[str]:
        return [
            one.op_type
            for one in _all(block)
            if one.op_type not in (*OWN, "const", "cond", "while_loop", "read_state", "coreml_update_state")
            and type(one).value_inference is Operation.value_inference
        ]

    def _dtype(self, dtype: Any) -> Any:
        return np.dtype(np.float32) if dtype == np.float16 and not self._rounds else dtype

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Predict. States keep what is written to them.

        Raises:
            Unjudged: For an operation that is not known.
            Fault: Where the program cannot be run.
        """
        values: dict[Any, Any] = {}
        UNDEFINED.clear()
        given = iter(inputs)
        for name, variable in self._main.inputs.items():
            if name in self.states:
                values[variable] = name
            else:
                values[variable] = np.asarray(next(given)).astype(self._dtype(_numbers(variable)))
        with np.errstate(all="ignore"):
            found = self._run(self._main, values)
        return [np.asarray(one) for one in found]

    def _run(self, block: Any, values: dict[Any, Any]) -> list[Any]:
        for step in self._planned(block):
            made = self._made(step, values)
            if len(made) != len(step.outputs):
                raise Unjudged(step.kind, f"{len(made)} results for {len(step.outputs)}")
            for variable, value, dtype in zip(step.outputs, made, step.declared, strict=True):
                values[variable] = value if dtype is None or isinstance(value, tuple) else _rounded(value, dtype)
        return [self._value(one, values) for one in block.outputs]

    def _planned(self, block: Any) -> list[_Step]:
        if id(block) not in self._plans:
            self._plans[id(block)] = [self._step(one) for one in block.operations if one.op_type != "const"]
        return self._plans[id(block)]

    def _step(self, one: Any) -> _Step:
        fixed, varying = {}, []
        for name, held in one.inputs.items():
            if held is None:
                continue
            several = isinstance(held, (list, tuple))
            if all(_is_constant(variable) for variable in (held if several else (held,))):
                fixed[name] = [_plain(variable) for variable in held] if several else _plain(held)
            else:
                varying.append((name, held))
        declared = tuple(None if (found := _numbers(out)) is None else self._dtype(found) for out in one.outputs)
        return _Step(one, one.op_type, fixed, tuple(varying), tuple(one.outputs), declared)

    def _value(self, variable: Any, values: dict[Any, Any]) -> Any:
        return values[variable] if variable in values else _plain(variable)

    def _made(self, step: _Step, values: dict[Any, Any]) -> list[Any]:
        given = dict(step.fixed)
        for name, held in step.varying:
            several = isinstance(held, (list, tuple))
            given[name] = [self._value(one, values) for one in held] if several else self._value(held, values)
        match step.kind:
            case "cond":
                return self._run(step.operation.blocks[0 if bool(given["pred"]) else 1], values)
            case "while_loop":
                return self._looped(step.operation, given["loop_vars"], values)
            case "read_state":
                return [self.states[given["input"]]]
            case "coreml_update_state":
                held = np.asarray(given["value"])
                self.states[given["state"]] = held.astype(
                    self._dtype(np.dtype(np.float16)) if held.dtype.kind == "f" else held.dtype
                )
                return [self.states[given["state"]]]
        if step.kind not in OWN:
            found = folded(step.operation, given)
            if found is None:
                raise Unjudged(step.kind, "it folds to nothing")
            return found
        try:
            found = OWN[step.kind](given)
        except (Fault, Unjudged):
            raise
        except Exception as error:
            raise Fault(f"{step.kind} {step.operation.name}: {type(error).__name__}: {error}"[:200]) from None
        found = found if isinstance(found, list) else [found]
        if self._folds:
            self._doubt(step, given, found)
        return found

    def _doubt(self, step: _Step, given: Values, found: list[Any]) -> None:
        if step.kind == "cast" and not self._rounds:
            return
        try:
            others = folded(step.operation, given)
        except Unjudged:
            return
        for one, other, dtype in zip(found, others or (), step.declared, strict=False):
            if dtype is None or np.asarray(other).dtype.kind not in "fiub":
                continue
            a, b = (np.asarray(value).astype(dtype).astype(np.float64) for value in (one, other))
            near = 1e-3 if dtype == np.float16 else 1e-5
            if a.shape != b.shape or not np.allclose(a, b, near, 1e-6, equal_nan=True):
                self.doubts.append(f"{step.kind} {step.operation.name}")

    def _looped(self, operation: Any, held: list[Any], values: dict[Any, Any]) -> list[Any]:
        for _ in range(10000):
            inside = {**values, **dict(zip(operation.blocks[0].inputs, held, strict=True))}
            if not bool(self._run(operation.blocks[0], inside)[0]):
                return list(held)
            inside = {**values, **dict(zip(operation.blocks[1].inputs, held, strict=True))}
            held = self._run(operation.blocks[1], inside)
        raise Fault("while_loop does not end")


def _all(block: Any) -> list[Any]:
    found = []
    for one in block.operations:
        found.append(one)
        for inner in one.blocks:
            found += _all(inner)
    return found


def _is_constant(variable: Any) -> bool:
    made = variable.op
    return (
        made is not None
        and (made.op_type == "const" or made.op_type.startswith("constexpr"))
        and variable.val is not None
    )


def _plain(variable: Any) -> Any:
    value = variable.val
    return bool(value) if isinstance(value, np.bool_) else value


def _rounded(value: Any, dtype: Any) -> Any:
    array = np.asarray(value)
    if array.dtype == dtype:
        return array
    if dtype.kind in "iu" and array.dtype.kind == "f":
        array = np.trunc(array).astype(np.int64)
    return array.astype(dtype)


def read(path: str) -> Any:
    """The program of a saved package."""
    import coremltools as ct
    from coremltools.converters.mil.frontend.milproto import load

    model = ct.models.MLModel(path, skip_model_load=True)
    spec = model.get_spec()
    return load.load(spec, spec.specificationVersion, model.weights_dir)
