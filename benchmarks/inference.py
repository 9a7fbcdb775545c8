"""Random uses of every operation that coremltools computes itself when its inputs are constants.

While a program is built, coremltools evaluates such an operation with numpy (`value_inference`). A use is built twice: with
constants, which gives coremltools' value, and with placeholders, for the executor.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.random import Generator

from modellint.destinations.coreml.mil.executor import Executor, UnknownOperations

with contextlib.redirect_stderr(io.StringIO()):
    import coremltools as ct
    from coremltools.converters.mil import mil
    from coremltools.converters.mil.mil import Builder, Function, types
    from coremltools.converters.mil.mil.operation import Operation
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

NO_USE = {
    "const": "is the constant itself",
    "_const_symbolic": "a placeholder for a size while a program is built; conversions hold none",
}
"""What has a `value_inference` and cannot be used with other inputs than constants."""


class Use(NamedTuple):
    """The inputs of an operation: what may be a placeholder, and what is constant in any case."""

    data: dict[str, Any]
    constants: dict[str, Any]


class Random:
    """Draws what operations take, of one element type."""

    def __init__(self, seed: int, dtype: Any, opset: int) -> None:
        self.generator: Generator = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.opset = opset

    def integer(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return int(self.generator.integers(low, high + 1))

    def flag(self) -> bool:
        """Either."""
        return bool(self.generator.integers(2))

    def one_of(self, *values: Any) -> Any:
        """One of them."""
        return values[self.integer(0, len(values) - 1)]

    def sizes(self, low: int = 1, high: int = 5, most: int = 4) -> tuple[int, ...]:
        """A shape of rank ``low`` to ``high``."""
        return tuple(self.integer(1, most) for _ in range(self.integer(low, high)))

    def array(self, shape: tuple[int, ...], low: float = -4, high: float = 4, dtype: Any = None) -> Any:
        """Numbers of a range; 0 among them, and equal ones where they are integers."""
        kind = self.dtype if dtype is None else np.dtype(dtype)
        if kind == np.bool_:
            return self.generator.integers(0, 2, shape).astype(bool)
        if kind.kind == "u":
            low = max(low, 0)
        if kind.kind in "iu":
            least = math.ceil(low)
            return self.generator.integers(least, max(least, math.floor(high)) + 1, shape).astype(kind)
        values = self.generator.uniform(low, high, shape)
        return np.asarray(values, dtype=kind)

    def number(self, low: float, high: float) -> Any:
        """A scalar."""
        return self.array((), low, high)[()]

    def axes(self, rank: int) -> list[int]:
        """Some axes, negative ones among them."""
        chosen = self.generator.permutation(rank)[: self.integer(1, rank)]
        return [int(axis) - (rank if self.flag() else 0) for axis in chosen]

    def axis(self, rank: int) -> int:
        """An axis from either end."""
        return self.integer(-rank, rank - 1)


Draw = Callable[[Random], Use]
_draws: dict[str, Draw] = {}


def draws(*names: str) -> Callable[[Draw], Draw]:
    """Say of which operations a function draws uses."""

    def register(draw: Draw) -> Draw:
        for name in names:
            _draws[name] = draw
        return draw

    return register


def _unary(low: float, high: float, **constants: tuple[float, float]) -> Draw:
    def draw(random: Random) -> Use:
        x = random.array(random.sizes(), low, high)
        return Use({"x": x}, {name: random.number(*ends) for name, ends in constants.items()})

    return draw


_PLAIN = (
    "relu relu6 sigmoid softplus softsign abs atan ceil cos cosh erf exp exp2 floor round sign sin sinh square tan tanh"
    " logical_not identity shape non_zero"
)
_PAIRS = "add sub mul maximum minimum equal not_equal greater greater_equal less less_equal logical_and logical_or logical_xor"
_REDUCTIONS = "l1_norm l2_norm max mean min prod sum sum_square log_sum_exp"

for _name in _PLAIN.split():
    _draws[_name] = _unary(-4, 4)
for _name, _ends in {"acos": (-1, 1), "asin": (-1, 1), "atanh": (-0.9, 0.9), "sqrt": (0, 9)}.items():
    _draws[_name] = _unary(*_ends)
for _name in ("log", "rsqrt", "inverse"):
    _draws[_name] = _unary(0.1, 5, epsilon=(0.01, 0.5))
for _name in ("elu", "leaky_relu"):
    _draws[_name] = _unary(-4, 4, alpha=(0.1, 2))
for _name in ("clamped_relu", "linear_activation", "scaled_tanh", "sigmoid_hard"):
    _draws[_name] = _unary(-4, 4, alpha=(0.1, 2), beta=(0.1, 2))
_draws["thresholded_relu"] = _draws["threshold"] = _unary(-4, 4, alpha=(-2, 2))
_draws["clip"] = _unary(-4, 4, alpha=(-3, 0), beta=(0, 3))


@draws("gelu")
def _gelu(random: Random) -> Use:
    mode = random.one_of("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")
    return Use({"x": random.array(random.sizes())}, {"mode": mode})


@draws("prelu")
def _channels(random: Random) -> Use:
    shape = random.sizes(3, 5)
    alpha = random.array(shape[1:2], 0.1, 2)
    # Other ranks are refused with different slopes.
    return Use({"x": random.array(shape)}, {"alpha": alpha if len(shape) == 4 else np.full_like(alpha, alpha[0])})


@draws("softplus_parametric")
def _softplus_parametric(random: Random) -> Use:
    shape = random.sizes(3, 5)
    constants = {name: random.array(shape[1:2], 0.1, 2) for name in ("alpha", "beta")}
    return Use({"x": random.array(shape)}, constants)


@draws("cond")
def _cond(random: Random) -> Use:
    shape = random.sizes()
    pred = random.generator.integers(2) == 1
    return Use({"pred": np.bool_(pred), "a": random.array(shape), "b": random.array(shape)}, {})


def _build_cond(pred: Any, a: Any, b: Any) -> Any:
    def doubled() -> Any:
        return Builder.add(x=a, y=a)

    def difference() -> Any:
        return Builder.sub(x=a, y=b)

    return Builder.cond(pred=pred, _true_fn=doubled, _false_fn=difference)


@draws("list_length")
def _list_length(random: Random) -> Use:
    return Use({"x": random.array(random.sizes())}, {"length": random.integer(1, 5)})


def _build_list_length(x: Any, length: int) -> Any:
    held = Builder.make_list(init_length=length, elem_shape=x.shape, dtype="fp32", dynamic_length=False)
    return Builder.list_length(ls=held)


_builders: dict[str, Callable[..., Any]] = {"cond": _build_cond, "list_length": _build_list_length}
"""Operations that are built of more than their inputs."""


@draws("softmax")
def _softmax(random: Random) -> Use:
    shape = random.sizes()
    return Use({"x": random.array(shape)}, {"axis": random.axis(len(shape))})


@draws("cast")
def _cast(random: Random) -> Use:
    kinds = ["fp16", "fp32", "int32", "bool"]
    if random.opset >= 17:
        kinds += ["int8", "uint8", "int16", "uint16"]
    kind = random.one_of(*kinds)
    low = 0 if kind.startswith("u") else -100
    return Use({"x": random.array(random.sizes(0), low, 100)}, {"dtype": kind})


def _broadcast(random: Random) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = random.sizes()
    other = tuple(size if random.integer(0, 2) else 1 for size in shape)[random.integer(0, len(shape) - 1) :]
    return (shape, other) if random.flag() else (other, shape)


def _binary(low: float, high: float, low_of_y: float, high_of_y: float) -> Draw:
    def draw(random: Random) -> Use:
        first, second = _broadcast(random)
        return Use({"x": random.array(first, low, high), "y": random.array(second, low_of_y, high_of_y)}, {})

    return draw


for _name in _PAIRS.split():
    _draws[_name] = _binary(-4, 4, -4, 4)
_draws["pow"] = _binary(0.5, 3, 0, 3)


@draws("real_div", "floor_div", "mod")
def _division(random: Random) -> Use:
    first, second = _broadcast(random)
    y = random.array(second, 1, 5)
    sign = random.generator.choice([-1, 1], second).astype(y.dtype)
    return Use({"x": random.array(first, -20, 20), "y": np.asarray(y * sign)}, {})


@draws("select")
def _select(random: Random) -> Use:
    first, second = _broadcast(random)
    whole = np.broadcast_shapes(first, second)
    cond = random.array(random.one_of(first, whole), dtype=bool)
    return Use({"cond": cond, "a": random.array(whole), "b": random.array(random.one_of(second, whole))}, {})


@draws("matmul")
def _matmul(random: Random) -> Use:
    rows, inner, columns = (random.integer(1, 5) for _ in range(3))
    batch = random.sizes(0, 2)
    across, down = random.flag(), random.flag()
    first = (*batch, *((inner, rows) if across else (rows, inner)))
    second = (*batch[random.integer(0, len(batch)) :], *((columns, inner) if down else (inner, columns)))
    constants = {"transpose_x": across, "transpose_y": down}
    return Use({"x": random.array(first), "y": random.array(second)}, constants)


@draws("linear")
def _linear(random: Random) -> Use:
    inner, out = random.integer(1, 5), random.integer(1, 5)
    constants = {"weight": random.array((out, inner))}
    if random.flag():
        constants["bias"] = random.array((out,))
    return Use({"x": random.array((*random.sizes(0, 2), inner))}, constants)


@draws("einsum")
def _einsum(random: Random) -> Use:
    equation = random.one_of(
        "ij,jk->ik", "bhqd,bhkd->bhqk", "ab,ab->", "abc,cd->abd", "iij,jk->ik", "a,b->ab", "ab,b->a"
    )
    sizes = {letter: random.integer(1, 4) for letter in "abcdhijkq"}
    parts = equation.partition("->")[0].split(",")
    values = tuple(random.array(tuple(sizes[letter] for letter in part)) for part in parts)
    return Use({"values": values}, {"equation": equation})


@draws("l2_norm")
def _l2_norm(random: Random) -> Use:
    return Use({"x": random.array(random.sizes(3, 5))}, {"epsilon": random.number(1e-3, 0.1)})


@draws("layer_norm")
def _layer_norm(random: Random) -> Use:
    shape = random.sizes(2, 4, 5)
    axes = sorted(axis % len(shape) for axis in random.axes(len(shape)))
    constants: dict[str, Any] = {"axes": axes, "epsilon": random.number(1e-3, 0.1)}
    inner = tuple(shape[axis] for axis in axes)
    if random.flag():
        constants.update(gamma=random.array(inner), beta=random.array(inner))
    return Use({"x": random.array(shape)}, constants)


def _reduction(low: float, high: float) -> Draw:
    def draw(random: Random) -> Use:
        shape = random.sizes()
        constants: dict[str, Any] = {"keep_dims": random.flag()}
        if random.integer(0, 3):
            constants["axes"] = random.axes(len(shape))
        return Use({"x": random.array(shape, low, high)}, constants)

    return draw


for _name in _REDUCTIONS.split():
    _draws[f"reduce_{_name}"] = _reduction(-4, 4)
_draws["reduce_prod"] = _reduction(0.8, 1.25)
_draws["reduce_log_sum"] = _reduction(1, 4)


@draws("reduce_argmax", "reduce_argmin")
def _extreme(random: Random) -> Use:
    shape = random.sizes()
    constants: dict[str, Any] = {"axis": random.axis(len(shape)), "keep_dims": random.flag()}
    if random.opset >= 17:
        constants["output_dtype"] = random.one_of("int32", "uint16")
    return Use({"x": random.array(shape)}, constants)


@draws("gather")
def _gather(random: Random) -> Use:
    shape = random.sizes(1, 4)
    axis = random.axis(len(shape))
    constants: dict[str, Any] = {"axis": axis}
    low = 0 if random.opset >= 17 else -shape[axis]
    taken = random.sizes(0 if len(shape) == 1 else 1, 2)
    if random.opset >= 16 and axis % len(shape) and random.flag():
        constants["batch_dims"] = random.integer(1, axis % len(shape))
        taken = (*shape[: constants["batch_dims"]], *taken[:1])
    indices = random.array(taken, low, shape[axis] - 1, np.int32)
    return Use({"x": random.array(shape), "indices": indices}, constants)


@draws("gather_along_axis")
def _gather_along_axis(random: Random) -> Use:
    shape = random.sizes(1, 4)
    axis = random.axis(len(shape))
    taken = list(shape)
    taken[axis] = random.integer(1, 5)
    low = 0 if random.opset >= 17 else -shape[axis]
    indices = random.array(tuple(taken), low, shape[axis] - 1, np.int32)
    return Use({"x": random.array(shape), "indices": indices}, {"axis": axis})


@draws("scatter_along_axis")
def _scatter_along_axis(random: Random) -> Use:
    shape = random.sizes(1, 4)
    axis = random.axis(len(shape))
    taken = list(shape)
    taken[axis] = random.integer(1, shape[axis])
    # Which of equal indices wins is not said, so that none are equal.
    indices = np.argsort(random.generator.random(shape), axis=axis).take(range(taken[axis]), axis).astype(np.int32)
    mode = random.one_of("add", "update", "sub", "mul", "max", "min")
    data = {"data": random.array(shape), "indices": indices, "updates": random.array(tuple(taken))}
    return Use(data, {"axis": axis, "mode": mode})


@draws("argsort")
def _argsort(random: Random) -> Use:
    shape = random.sizes(1, 4)
    constants = {"axis": random.axis(len(shape)), "ascending": random.flag()}
    return Use({"x": _different(random, shape)}, constants)


@draws("topk")
def _topk(random: Random) -> Use:
    shape = random.sizes(1, 4)
    axis = random.axis(len(shape))
    constants: dict[str, Any] = {"axis": axis, "k": random.integer(1, shape[axis]), "ascending": random.flag()}
    if random.opset >= 17:
        constants["output_indices_dtype"] = random.one_of("int32", "uint16")
    return Use({"x": _different(random, shape)}, constants)


def _different(random: Random, shape: tuple[int, ...]) -> Any:
    """Numbers none of which are equal: the order of equal ones is not said."""
    low = 0 if random.dtype.kind == "u" else -10
    values = random.generator.permutation(
        np.arange(low, low + math.prod(shape)) % 256
        if random.dtype.itemsize == 1
        else np.arange(low, low + math.prod(shape))
    )
    return values.reshape(shape).astype(random.dtype)


@draws("band_part")
def _band_part(random: Random) -> Use:
    return Use(
        {"x": random.array(random.sizes(2, 2, 6))}, {"lower": random.integer(-1, 4), "upper": random.integer(-1, 4)}
    )


@draws("concat")
def _concat(random: Random) -> Use:
    shape = random.sizes(1, 4)
    axis = random.axis(len(shape))
    parts = []
    for _ in range(random.integer(1, 3)):
        size = list(shape)
        size[axis] = random.integer(1, 4)
        parts.append(random.array(tuple(size)))
    interleave = random.integer(0, 3) == 0
    if interleave:
        parts = [random.array(shape) for _ in parts]
    return Use({"values": tuple(parts)}, {"axis": axis, "interleave": interleave})


@draws("stack")
def _stack(random: Random) -> Use:
    shape = random.sizes(1, 4)
    parts = tuple(random.array(shape) for _ in range(random.integer(1, 3)))
    return Use({"values": parts}, {"axis": random.integer(-len(shape) - 1, len(shape))})


@draws("split")
def _split(random: Random) -> Use:
    shape = list(random.sizes(1, 4))
    axis = random.axis(len(shape))
    if random.flag():
        parts = random.integer(1, 3)
        shape[axis] *= parts
        constants: dict[str, Any] = {"num_splits": parts}
    else:
        sizes = [random.integer(1, 3) for _ in range(random.integer(1, 3))]
        shape[axis] = sum(sizes)
        constants = {"split_sizes": sizes}
    return Use({"x": random.array(tuple(shape))}, {**constants, "axis": axis})


@draws("cumsum")
def _cumsum(random: Random) -> Use:
    shape = random.sizes()
    constants = {"axis": random.integer(0, len(shape) - 1), "exclusive": random.flag(), "reverse": random.flag()}
    return Use({"x": random.array(shape)}, constants)


@draws("fill")
def _fill(random: Random) -> Use:
    shape = random.sizes()
    return Use({"shape": np.array(shape, dtype=np.int32)}, {"value": random.number(-4, 4)})


@draws("fill_like")
def _fill_like(random: Random) -> Use:
    return Use({"ref_tensor": random.array(random.sizes())}, {"value": random.number(-4, 4)})


@draws("flatten2d")
def _flatten2d(random: Random) -> Use:
    shape = random.sizes()
    return Use({"x": random.array(shape)}, {"axis": random.integer(1, len(shape))})


@draws("pad")
def _pad(random: Random) -> Use:
    mode = random.one_of("constant", "reflect", "replicate")
    shape = tuple(size + 2 for size in random.sizes(1 if mode == "constant" else 3, 4))
    padded = random.integer(1, len(shape) if mode == "constant" else 2)
    pad = np.array([random.integer(0, 2) for _ in range(2 * padded)], dtype=np.int32)
    constants: dict[str, Any] = {"pad": pad, "mode": mode}
    if mode == "constant":
        constants["constant_val"] = random.number(-4, 4)
    return Use({"x": random.array(shape)}, constants)


@draws("range_1d")
def _range_1d(random: Random) -> Use:
    start, step = random.number(-5, 5), random.number(1, 3)
    end = random.dtype.type(start + step * random.integer(1, 6) - (step / 2 if random.dtype.kind == "f" else 0))
    if random.flag():
        start, end, step = end, start, random.dtype.type(-step)
    return Use({"start": start, "end": end, "step": step}, {})


@draws("tile")
def _tile(random: Random) -> Use:
    shape = random.sizes(1, 4)
    return Use({"x": random.array(shape), "reps": np.array([random.integer(1, 3) for _ in shape], dtype=np.int32)}, {})


@draws("expand_dims")
def _expand_dims(random: Random) -> Use:
    shape = random.sizes(1, 3)
    added = random.integer(1, 5 - len(shape))
    rank = len(shape) + added
    axes = [int(axis) - (rank if random.flag() else 0) for axis in random.generator.permutation(rank)[:added]]
    return Use({"x": random.array(shape)}, {"axes": axes})


@draws("squeeze")
def _squeeze(random: Random) -> Use:
    shape = list(random.sizes(2, 5))
    axes = random.axes(len(shape))[: len(shape) - 1]
    for axis in axes:
        shape[axis] = 1
    return Use({"x": random.array(tuple(shape))}, {"axes": axes} if random.integer(0, 3) else {})


@draws("reshape")
def _reshape(random: Random) -> Use:
    shape = random.sizes(1, 5)
    wanted = list(random.generator.permutation(shape))
    if random.flag():
        wanted[random.integer(0, len(wanted) - 1)] = -1
    elif shape[0] == wanted[0]:
        wanted[0] = 0
    return Use({"x": random.array(shape)}, {"shape": np.array(wanted, dtype=np.int32)})


@draws("transpose")
def _transpose(random: Random) -> Use:
    shape = random.sizes()
    perm = [int(at) - (len(shape) if random.flag() else 0) for at in random.generator.permutation(len(shape))]
    return Use({"x": random.array(shape)}, {"perm": perm})


@draws("reverse")
def _reverse(random: Random) -> Use:
    shape = random.sizes()
    return Use({"x": random.array(shape)}, {"axes": random.axes(len(shape))} if random.integer(0, 3) else {})


@draws("reverse_sequence")
def _reverse_sequence(random: Random) -> Use:
    shape = random.sizes(2, 4)
    batch, along = (int(axis) for axis in random.generator.permutation(len(shape))[:2])
    lengths = random.array((shape[batch],), 1, shape[along], np.int32)
    return Use({"x": random.array(shape), "lengths": lengths}, {"seq_axis": along, "batch_axis": batch})


def _slices(random: Random, shape: tuple[int, ...]) -> dict[str, Any]:
    begin, end, stride, masks = [], [], [], []
    for size in shape:
        step = random.one_of(1, 1, 2, 3, -1, -2)
        first, last = sorted((random.integer(0, size - 1), random.integer(0, size - 1)))
        if step < 0:
            first, last = last, first
            open_end = last == 0
            last -= 1
        else:
            open_end = last == size - 1
            last += 1
        if open_end and step < 0:
            last = -size - 1
        squeezed = random.integer(0, 4) == 0
        begin.append(first - size if random.integer(0, 2) == 0 else first)
        end.append(last - size if random.integer(0, 2) == 0 and 0 < last < size else last)
        stride.append(1 if squeezed else step)
        masks.append((random.integer(0, 3) == 0, random.integer(0, 3) == 0 or (open_end and step < 0), squeezed))
    columns = [list(column) for column in zip(*masks, strict=True)]
    if all(columns[2]):
        columns[2][0] = False
    int32 = {
        name: np.array(value, dtype=np.int32) for name, value in (("begin", begin), ("end", end), ("stride", stride))
    }
    return {**int32, **dict(zip(("begin_mask", "end_mask", "squeeze_mask"), columns, strict=True))}


@draws("slice_by_index")
def _slice_by_index(random: Random) -> Use:
    shape = random.sizes(1, 4, 6)
    return Use({"x": random.array(shape)}, _slices(random, shape))


@draws("slice_update")
def _slice_update(random: Random) -> Use:
    shape = random.sizes(1, 4, 6)
    slices = _slices(random, shape)
    taken: list[Any] = []
    for at in range(len(shape)):
        if slices["squeeze_mask"][at]:
            taken.append(int(slices["begin"][at]))
            continue
        begin = None if slices["begin_mask"][at] else int(slices["begin"][at])
        end = None if slices["end_mask"][at] else int(slices["end"][at])
        taken.append(slice(begin, end, int(slices["stride"][at])))
    x = random.array(shape)
    return Use({"x": x, "update": random.array(x[tuple(taken)].shape)}, slices)


@draws("slice_by_size")
def _slice_by_size(random: Random) -> Use:
    shape = random.sizes(1, 4, 6)
    begin = [random.integer(0, size - 1) for size in shape]
    size = [
        -1 if random.integer(0, 3) == 0 else random.integer(1, whole - first)
        for first, whole in zip(begin, shape, strict=True)
    ]
    constants = {"begin": np.array(begin, dtype=np.int32), "size": np.array(size, dtype=np.int32)}
    return Use({"x": random.array(shape)}, constants)


@draws("quantize")
def _quantize(random: Random) -> Use:
    shape = random.sizes(2, 4)
    kind = random.one_of("int8", "uint8")
    # Powers of two: what is divided by others is rounded in half precision first, or not.
    constants: dict[str, Any] = {"output_dtype": kind, "scale": random.dtype.type(2.0 ** random.integer(-4, 0))}
    if random.flag():
        axis = random.axis(len(shape))
        scales = 2.0 ** random.generator.integers(-4, 1, shape[axis])
        constants.update(axis=axis, scale=scales.astype(random.dtype))
    if random.flag():
        zero = random.generator.integers(0, 9, np.shape(constants["scale"]))
        constants["zero_point"] = np.asarray(zero).astype(kind)[()]
    return Use({"input": random.array(shape, -40, 40)}, constants)


@draws("scaled_dot_product_attention")
def _attention(random: Random) -> Use:
    batch = random.sizes(1, 2)
    targets, sources, width, out = (random.integer(1, 5) for _ in range(4))
    data = {
        "query": random.array((*batch, targets, width)),
        "key": random.array((*batch, sources, width)),
        "value": random.array((*batch, sources, out)),
    }
    match random.integer(0, 2):
        case 0:
            data["attn_mask"] = random.array((targets, sources))
        case 1:
            mask = random.array((targets, sources), dtype=bool)
            # A row that attends to nothing has no value.
            mask[:, 0] = True
            data["attn_mask"] = mask
    return Use(data, {})


def fault(name: str, use: Use, dtype: Any) -> str:
    """Why coremltools' own value of a use is wrong, where it is known to be; see docs/coremltools-faults.md."""
    kind = np.dtype(dtype).kind
    if name == "scatter_along_axis" and use.constants["mode"] != "update":
        return "the mode is ignored"
    if name == "concat" and use.constants["interleave"]:
        return "interleave is ignored"
    if name == "topk" and kind == "u" and not use.constants["ascending"]:
        return "unsigned numbers are negated to sort them, so that 0 stays the smallest"
    if name == "cumsum" and use.constants["exclusive"]:
        return "an exclusive sum raises"
    if name == "flatten2d" and use.constants["axis"] == 0:
        return "the product of no sizes is a float, which raises"
    if name == "gather" and use.constants.get("batch_dims", 0) and use.constants["axis"] < 0:
        return "with batch dimensions, a negative axis is counted wrong"
    if name == "squeeze" and len(use.constants.get("axes", use.data["x"].shape)) == use.data["x"].ndim:
        return "what is squeezed to a scalar raises"
    if name == "elu" and (np.dtype(dtype) == np.float16 or np.abs(use.data["x"]).max() < 0.1):
        return "exp(x) is rounded before 1 is subtracted"
    return ""


def inferring() -> Iterator[tuple[str, int, Any]]:
    """Each definition of an operation with a `value_inference`: its name, iOS version and class."""
    for name, versions in sorted(SSAOpRegistry.core_ops.items()):
        seen: set[Any] = set()
        for version, defined in sorted(versions.items(), key=lambda item: item[0].value):
            if defined not in seen and defined.value_inference is not Operation.value_inference:
                yield name, max(15, int(version.name.removeprefix("iOS"))), defined
            seen.add(defined)


def element_types(defined: Any) -> list[Any]:
    """numpy's types for the element types that an operation's first input may have."""
    for one in defined.input_spec.input_types.values():
        domain = getattr(one, "type_domain", ()) or defined.type_domains.get(getattr(one, "type_domain_id", ""), ())
        if domain:
            chosen = domain if isinstance(domain, (tuple, list)) else (domain,)
            return [types.nptype_from_builtin(kind) for kind in chosen if kind is not types.str]
    return [np.float32] if defined.__name__ in _builders else [np.float16, np.float32, np.int32, np.bool_]


def difference(name: str, opset: int, dtype: Any, seed: int) -> dict[str, Any]:
    """Build one use twice and compare.

    The row has ``error``, the largest difference over the largest number, or one of ``unknown``, ``raised`` (by the
    executor) and ``left_out`` (why coremltools gives no value).
    """
    from operation_tests import relative

    random = Random(seed, dtype, opset)
    use = _draws[name](random)
    target = getattr(ct.target, f"iOS{opset}")
    row: dict[str, Any] = {"half": dtype == np.float16, "fault": fault(name, use, dtype)}
    build = _builders.get(name) or getattr(Builder, name)
    try:
        with Function({}, opset_version=target):
            held = {key: _constant(value) for key, value in use.data.items()}
            made = build(**held, **use.constants)
        wanted = [one.val for one in (made if isinstance(made, (tuple, list)) else (made,))]
    except Exception as error:
        return {**row, "left_out": f"{type(error).__name__}: {error}"[:200]}
    if any(value is None for value in wanted):
        return {**row, "left_out": "no value"}
    flat = {f"{key}_{at}": part for key, value in use.data.items() for at, part in enumerate(_parts(value))}
    placeholders = {key: _placeholder(np.asarray(part)) for key, part in flat.items()}
    program = mil.Program()
    try:
        with Function(placeholders, opset_version=target) as function:
            given = {key: _given(key, value, function.inputs) for key, value in use.data.items()}
            made = build(**given, **use.constants)
            function.set_outputs(list(made) if isinstance(made, (tuple, list)) else [made])
        program.add_function("main", function)
    except Exception as error:
        return {**row, "left_out": f"with placeholders: {type(error).__name__}: {error}"[:200]}
    try:
        run = Executor(program)
        got = list(run({key: torch.from_numpy(_held(part)) for key, part in flat.items()}).values())
    except UnknownOperations as error:
        return {**row, "unknown": list(error.names)}
    except Exception as error:
        return {**row, "raised": f"{type(error).__name__}: {error}"[:300]}
    worst, said = 0.0, ""
    for ours, theirs in zip(got, wanted, strict=True):
        array, value = ours.numpy(), np.asarray(theirs)
        if array.shape != value.shape:
            worst, said = float("inf"), f"shape {array.shape} for {value.shape}"
            continue
        row["exact"] = row.get("exact", True) and value.dtype.kind in "iub"
        error = relative(array.astype(np.float64), value.astype(np.float64)) if array.size else 0.0
        if error > worst:
            worst, said = error, f"{array.ravel()[:6].tolist()} for {value.ravel()[:6].tolist()}"
    shown = {key: list(np.shape(part)) for key, part in flat.items()}
    return {**row, "error": worst, "said": said, "use": f"{shown} {use.constants}"[:400] if worst else ""}


def _placeholder(value: Any) -> Any:
    kind = types.numpy_type_to_builtin_type(value.dtype)
    return Builder.placeholder(shape=value.shape, dtype=kind, allow_rank0_input=True)


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _constant(value: Any) -> Any:
    return tuple(Builder.const(val=part) for part in value) if isinstance(value, tuple) else Builder.const(val=value)


def _given(key: str, value: Any, variables: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(variables[f"{key}_{at}"] for at in range(len(value)))
    return variables[f"{key}_0"]


def _held(value: Any) -> Any:
    """An array that torch takes: it has no unsigned integers of 16 bits to compute with."""
    array = np.array(value)
    return array.astype(np.int32) if array.dtype == np.uint16 else array


def undrawn() -> list[str]:
    """Operations with a `value_inference` for which no uses are drawn."""
    return sorted({name for name, _, _ in inferring()} - set(_draws))


def uses(seeds: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """A name for each use, and what compares it."""
    for name, opset, defined in inferring():
        if name not in _draws:
            continue
        for dtype in element_types(defined):
            for seed in range(seeds):
                label = f"{name} iOS{opset} {np.dtype(dtype).name} {seed}"
                yield label, lambda name=name, opset=opset, dtype=dtype, seed=seed: difference(name, opset, dtype, seed)
