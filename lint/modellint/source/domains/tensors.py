"""Tensors as abstract values, and what torch's operators make of them: rank, layout, whether a graph hangs on them.

Which operators keep strides, make a new contiguous tensor or a view is in PyTorch's documentation of tensor views
(<https://pytorch.org/docs/stable/tensor_view.html>); where it is silent, tests run the operator.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.source.domains.memory_layout import ONE, Axis, Dim, Layout, product
from modellint.source.engine.abstract_values import Const, Container, Instance, Number, Value, alternatives

if TYPE_CHECKING:
    from modellint.source.engine.abstract_values import Callee

_OF_FLOATS = frozenset(
    {"matmul", "bmm", "baddbmm", "softmax", "log_softmax", "linear", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "log"}
    | {"float", "half", "layer_norm", "normalize", "cdist", "div", "true_divide", "mean", "var", "std", "norm", "gelu"}
    | {"rand", "randn", "rand_like", "randn_like", "scaled_dot_product_attention", "interpolate", "sin", "cos"}
)
"""Operators that give floating-point numbers of whatever they are given."""
_CASTS = frozenset({"to", "type", "float", "half", "double", "cuda", "cpu", "type_as"})
_OF_INTEGERS = frozenset(f"{name}Tensor" for name in ("Byte", "Char", "Short", "Int", "Long", "Bool"))
_OF_DEFAULT_TYPE = frozenset({"zeros", "ones", "eye"})
"""Factories that give floating-point numbers where no type is said."""


class Tensor(Instance):
    """A tensor.

    ``layout`` is None where nothing is known of it. ``origin``: ``argument``, ``parameter``, ``buffer``, ``constant`` (made by
    a factory), ``computed``, or ``unseen`` (given by code that was not followed). ``certain``: it is a tensor and nothing else.
    ``assumed``: it, or what it was made of, comes from code that was not followed, and is taken to be contiguous. ``grad``:
    whether a graph hangs on it in training; None where that is not known. ``base``: the tensor whose memory it shares.
    ``refused``: the view that made it raises. ``batch``: None where it does not depend on what the caller gives; else whether
    the first dimension of that, the batch in most models, may still be there. ``dim``: the size that it stands for if it is a
    number and no tensor; so are the elements of a tuple of sizes, told from each other or not. ``shown``: what is done with it
    says that it is a tensor, though it may come from code that was not followed.
    """

    __slots__ = (
        "_owned",
        "_root",
        "assumed",
        "base",
        "batch",
        "certain",
        "dim",
        "grad",
        "layout",
        "made_by",
        "origin",
        "refined",
        "refused",
        "shown",
        "told",
    )

    def __init__(
        self,
        node: ast.AST | None,
        layout: Layout | None,
        origin: str = "computed",
        *,
        kind: str = "tensor",
        name: str = "",
        callee: Callee | None = None,
        certain: bool = True,
        assumed: bool = False,
        grad: bool | None = False,
        base: Tensor | None = None,
        made_by: str = "",
        batch: bool | None = None,
        shown: bool = False,
    ) -> None:
        super().__init__(kind, node, name, callee)
        self.shown = shown
        self.layout = layout
        self.origin = origin
        self.certain = certain
        self.assumed = assumed
        self.grad = grad
        self.base = base
        self.made_by = made_by
        self.refused = False
        self.batch = batch
        self.dim: Dim | None = None
        self.refined: Tensor | None = None
        """The same tensor from where on its rank is known."""
        self.told: dict[str, bool] | None = None
        """What rules found out about it, by the name of the question."""
        self._root: Tensor | None = None
        self._owned: bool | None = None

    @property
    def is_data(self) -> bool:
        """Whether it certainly is a tensor that depends on what the caller gives."""
        return self.is_tensor and self.batch is not None

    @property
    def is_tensor(self) -> bool:
        """Whether it certainly is a tensor."""
        return self.certain or self.shown

    @property
    def is_made(self) -> bool:
        """Whether it certainly is a tensor that the code itself makes, whatever the caller gives."""
        return self.certain and self.origin not in ("argument", "unseen")

    @property
    def is_float(self) -> bool:
        """Whether it certainly holds floating-point numbers, by the operator that made it."""
        part: Tensor | None = self
        while part is not None:
            name = part.made_by
            if name in _OF_FLOATS or name.startswith("conv") or part.kind == "parameter":
                return True
            if name[:1].isupper():
                return name not in _OF_INTEGERS
            if isinstance(part.node, ast.BinOp) and isinstance(part.node.op, ast.Div):
                return True
            if name in _OF_DEFAULT_TYPE and isinstance(part.node, ast.Call):
                return all(word.arg not in ("dtype", None) for word in part.node.keywords)
            part = part.base if name not in ("to", "type") else None
        return False

    @property
    def is_counted(self) -> bool:
        """Whether coremltools certainly holds its floats as integers (``counted_floats``)."""
        part: Tensor | None = self
        while part is not None and part.kind == "tensor":
            if part.told is not None and "counted" in part.told:
                return True
            part = part.base if part.made_by not in _CASTS else None
        return False

    def differs_in_shape(self, other: Tensor) -> bool:
        """Whether it certainly is of another shape than another tensor, which is no single number either."""
        if self.layout is None or other.layout is None:
            return False
        return 0 not in (self.rank, other.rank) and self.layout.differs_in_shape(other.layout)

    def has_fixed_size(self, dim: int) -> bool:
        """Whether the size of a dimension is made of numbers that the code knows, or is given as numbers."""
        axis = self.layout.size(dim) if self.layout is not None else None
        if axis is not None and is_fixed(axis[1]):
            return True
        return self.refined is not None and self.refined.has_fixed_size(dim)

    def has_size_one(self, dim: int) -> bool:
        """Whether a dimension is known to have one element."""
        axis = self.layout.size(dim) if self.layout is not None else None
        return axis is not None and axis[1] == ONE

    def unbatched(self) -> Tensor:
        """The same tensor, noted to be one of a batch."""
        self.batch = None if self.batch is None else False
        return self

    @property
    def rank(self) -> int | None:
        """The number of dimensions, where it is known."""
        return self.layout.rank if self.layout is not None else None

    @property
    def root(self) -> Tensor:
        """The tensor at the bottom of its views."""
        found = self
        above: list[Tensor] = []
        while found.base is not None:
            if found._root is None:
                above.append(found)
            found = found._root or found.base
        # A chain of views is gone down once, not from each of them.
        for part in above:
            part._root = found
        return found

    @property
    def registered(self) -> bool:
        """Whether it is a parameter or a buffer, or a view of one."""
        found: Tensor | None = self
        above: list[Tensor] = []
        while found is not None and found.kind == "tensor" and found._owned is None:
            above.append(found)
            found = found.base
        owned = found is not None and (found.kind != "tensor" or bool(found._owned))
        for part in above:
            part._owned = owned
        return owned


class Size(Value):
    """An int that is a product of sizes."""

    __slots__ = ("dim",)

    def __init__(self, dim: Dim) -> None:
        self.dim = dim

    @property
    def integer(self) -> int | None:
        """The product, where all sizes are known."""
        return self.dim.value


class Opaque(Value):
    """Something that nothing is known of, under a name: the same wherever the name is read."""

    __slots__ = ("dim",)

    def __init__(self) -> None:
        self.dim = Dim.symbol()

    @property
    def is_unseen(self) -> bool:
        """Nothing is known of it."""
        return True


class OpaqueNumber(Number):
    """An int whose value is not known, under a name."""

    __slots__ = ("dim",)

    def __init__(self) -> None:
        self.dim = Dim.symbol()


class Drawn(OpaqueNumber):
    """A number, or a truth, that Python took out of a tensor, at ``node``: `x.sum().item()`, `not x.any()`."""

    __slots__ = ("node", "tensor")

    def __init__(self, tensor: Tensor, node: ast.AST) -> None:
        super().__init__()
        self.tensor = tensor
        self.node = node

    @property
    def is_length(self) -> bool:
        """Whether it is a size, which a capture keeps as a symbol."""
        return False


class Length(Drawn):
    """A size that values decide, and that a capture keeps as a symbol: `x[mask].size(0)`."""

    __slots__ = ()

    def __init__(self, tensor: Tensor, dim: Dim | None = None) -> None:
        super().__init__(tensor, tensor.node or ast.Constant(None))
        self.dim = dim or self.dim

    @property
    def is_length(self) -> bool:
        """It is."""
        return True


class Shape(Value):
    """`x.shape`, `x.size()`."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Device(Value):
    """`x.device`: where a tensor lies is not known, but a device is true."""

    __slots__ = ()

    @property
    def is_unseen(self) -> bool:
        """Nothing else is known of it."""
        return True

    @property
    def is_always_true(self) -> bool:
        """It is."""
        return True


DEVICE = Device()


class Limits(Value):
    """`torch.finfo(dtype)` or `torch.iinfo(dtype)`; ``dtype`` is None where it is not written down, as in `x.dtype`."""

    __slots__ = ("dtype", "whole")

    def __init__(self, whole: bool, dtype: str | None) -> None:
        self.whole = whole
        self.dtype = dtype


class Limit(Number):
    """A number that a type tells, `torch.finfo(x.dtype).min`: where none is written down, that of the usual one."""

    __slots__ = ("limits", "value")

    def __init__(self, limits: Limits, value: float) -> None:
        self.limits = limits
        self.value = value

    @classmethod
    def of(cls, limits: Limits, name: str) -> Limit | None:
        """What `limits.name` is, where that is known."""
        if limits.whole:
            bits = _BITS.get(limits.dtype or "")
            if bits is None or name not in ("min", "max"):
                return None
            return cls(limits, -(1 << bits) if name == "min" else (1 << bits) - 1)
        largest, tiniest, epsilon = _FLOATS.get(limits.dtype or "float32", (None, None, None))
        known = {"max": largest, "min": largest, "tiny": tiniest, "smallest_normal": tiniest, "eps": epsilon}.get(name)
        return None if known is None else cls(limits, -known if name == "min" else known)

    @property
    def is_told_by_type(self) -> bool:
        """It is."""
        return True

    @property
    def number(self) -> float:
        """The number that the type tells."""
        return self.value

    def negated(self) -> Limit:
        """The same with the other sign."""
        return Limit(self.limits, -self.value)


_BITS = {"int64": 63, "long": 63, "int32": 31, "int": 31, "int16": 15, "short": 15, "int8": 7}
_FLOATS = {
    "float16": (65504.0, 6.104e-05, 9.766e-04),
    "half": (65504.0, 6.104e-05, 9.766e-04),
    "bfloat16": (3.3895e38, 1.1755e-38, 7.8125e-03),
    "float32": (3.4028235e38, 1.1754944e-38, 1.1920929e-07),
    "float": (3.4028235e38, 1.1754944e-38, 1.1920929e-07),
    "float64": (1.7976931348623157e308, 2.2250738585072014e-308, 2.220446049250313e-16),
    "double": (1.7976931348623157e308, 2.2250738585072014e-308, 2.220446049250313e-16),
}
"""Of each type the largest number, the smallest normal one, and the distance of 1 to the next."""


FACTORIES = frozenset(
    {"zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "linspace", "logspace", "eye", "tensor"}
    | {"as_tensor", "from_numpy", "FloatTensor", "LongTensor", "IntTensor", "BoolTensor", "DoubleTensor", "Tensor"}
    | {"HalfTensor", "ByteTensor", "ShortTensor", "randperm", "hann_window", "hamming_window", "blackman_window"}
    | {
        "tril_indices",
        "triu_indices",
        "range",
        "normal",
        "bernoulli",
        "scalar_tensor",
        "kaiser_window",
        "bartlett_window",
    }
    | {"complex", "polar"}
)
"""Functions of ``torch`` that make a tensor out of none."""

LIKE = frozenset(
    {"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like"}
    | {"new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "new"}
)

MAKERS = FACTORIES | LIKE
"""Functions and methods that make a tensor, whatever they are given."""

SAME = frozenset(
    {"relu", "gelu", "silu", "sigmoid", "tanh", "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "abs"}
    | {"neg", "clamp", "clip", "clamp_min", "clamp_max", "round", "floor", "ceil", "trunc", "frac", "sin", "cos", "tan"}
    | {
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "erf",
        "erfc",
        "erfinv",
        "pow",
        "square",
        "reciprocal",
        "sign",
        "softplus",
    }
    | {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "leaky_relu", "elu", "selu", "celu", "relu6"}
    | {"hardtanh", "hardswish", "hardsigmoid", "hardshrink", "mish", "softsign", "logsigmoid", "prelu", "rrelu"}
    | {"float", "half", "double", "long", "int", "bool", "byte", "bfloat16", "to", "type", "type_as", "cuda", "cpu"}
    | {"masked_fill", "nan_to_num", "logical_not", "isnan", "isinf", "isfinite", "softmax", "log_softmax", "layer_norm"}
    | {
        "group_norm",
        "batch_norm",
        "instance_norm",
        "rms_norm",
        "cumsum",
        "cumprod",
        "normalize",
        "roll",
        "flip",
        "tril",
    }
    | {"triu", "sigmoid_", "relu_", "scatter", "scatter_add", "index_fill", "index_copy", "masked_scatter", "threshold"}
    | {"logit", "conj", "requires_grad_", "fmod", "remainder", "softmin", "local_response_norm", "gumbel_softmax"}
    | {"add_", "sub_", "mul_", "div_", "clamp_", "fill_", "zero_", "masked_fill_", "copy_", "exp_", "neg_", "sqrt_"}
    | {"pow_", "addcmul_", "addcdiv_", "lerp_", "scatter_", "index_copy_", "index_fill_", "index_add_", "scatter_add_"}
    | {
        "normal_",
        "uniform_",
        "bernoulli_",
        "random_",
        "triu_",
        "tril_",
        "round_",
        "floor_",
        "abs_",
        "set_",
        "retain_grad",
    }
)
"""Operators whose result has the shape of their first tensor, and is contiguous where that is."""

BINARY = frozenset(
    {"add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide", "maximum", "minimum"}
    | {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "atan2", "where", "lerp"}
    | {"addcmul", "addcdiv", "rsub", "hypot", "bitwise_and", "bitwise_or", "xlogy", "logaddexp"}
)
"""Operators that broadcast."""

REDUCTIONS = frozenset(
    {"sum", "mean", "amax", "amin", "prod", "std", "var", "norm", "logsumexp", "all", "any", "argmax", "argmin"}
    | {"max", "min", "median", "nanmean", "nansum", "count_nonzero"}
)

_INTEGER = frozenset(
    {"argmax", "argmin", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "logical_xor"}
    | {"isnan", "isinf", "isfinite", "long", "int", "bool", "byte", "all", "any", "argsort", "nonzero", "bincount"}
    | {"count_nonzero", "bucketize", "searchsorted", "one_hot", "floor_divide", "sign", "floor", "round", "ceil"}
)
"""Operators whose result carries no graph."""

VIEWS = frozenset(
    {"view", "reshape", "transpose", "permute", "t", "T", "mT", "swapaxes", "swapdims", "movedim", "moveaxis", "expand"}
    | {"expand_as", "unfold", "narrow", "select", "squeeze", "unsqueeze", "flatten", "unflatten", "detach", "data"}
    | {"chunk", "split", "unbind", "tensor_split", "view_as", "reshape_as", "diagonal", "real", "imag", "contiguous"}
    | {"index_select", "adjoint", "H", "mH", "ravel", "view_as_real", "view_as_complex", "alias", "unsafe_chunk"}
)

IN_PLACE_LAYOUT = frozenset(
    {
        "transpose_",
        "t_",
        "squeeze_",
        "unsqueeze_",
        "swapaxes_",
        "swapdims_",
        "resize_",
        "as_strided_",
        "set_",
        "resize_as_",
    }
)

TENSOR_ONLY = frozenset(
    {"view", "permute", "transpose", "contiguous", "unsqueeze", "unfold", "swapaxes", "swapdims", "movedim", "expand"}
    | {"expand_as", "view_as", "detach", "masked_fill", "softmax", "sigmoid", "requires_grad_", "clamp"}
)
"""Methods by which an object that nothing is known of shows that it is a tensor (or an array, which has no others of them)."""

SHOWING = TENSOR_ONLY | frozenset(
    {
        "size",
        "dim",
        "sum",
        "mean",
        "any",
        "all",
        "max",
        "min",
        "argmax",
        "argmin",
        "abs",
        "norm",
        "item",
        "numel",
        "long",
    }
    | {
        "float",
        "half",
        "double",
        "int",
        "bool",
        "squeeze",
        "flatten",
        "reshape",
        "nonzero",
        "masked_select",
        "eq",
        "ne",
    }
    | {
        "cumsum",
        "cuda",
        "cpu",
        "new_zeros",
        "new_ones",
        "new_tensor",
        "new_full",
        "repeat_interleave",
        "gather",
        "topk",
    }
    | {"mul", "mul_", "add_", "sub_", "div_", "masked_fill_", "zero_", "fill_", "clamp_", "type_as", "isnan", "isinf"}
    | {"bmm", "matmul", "clone", "unbind", "chunk", "gt", "lt", "ge", "le", "std", "var", "t", "tril", "triu", "log"}
    | {"exp", "sqrt", "pow", "relu", "tanh", "is_floating_point", "element_size", "movedim", "unflatten", "narrow"}
    | {"repeat", "tolist", "div", "sub", "add", "scatter_", "index_select", "bernoulli", "masked_scatter", "allclose"}
)
"""Methods and attributes that say of an argument of ``forward``, or of what a layer gave, that it is a tensor."""

CONVOLUTIONS = frozenset({"Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"})
POOLS: tuple[str, ...] = (
    "AvgPool",
    "MaxPool",
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "LPPool",
    "Upsample",
    "UpsamplingNearest",
    "ZeroPad",
)
POOLS += (
    "ReflectionPad",
    "ReplicationPad",
    "ConstantPad",
    "CircularPad",
    "PixelShuffle",
    "PixelUnshuffle",
    "UpsamplingBilinear",
)
NORMS: tuple[str, ...] = (
    "BatchNorm",
    "InstanceNorm",
    "GroupNorm",
    "LayerNorm",
    "RMSNorm",
    "LocalResponseNorm",
    "SyncBatchNorm",
    "Dropout",
)
NORMS += ("AlphaDropout", "FeatureAlphaDropout")
ACTIVATIONS = frozenset(
    {"ReLU", "ReLU6", "GELU", "SiLU", "Sigmoid", "Tanh", "LeakyReLU", "ELU", "SELU", "CELU", "Softplus", "Softsign"}
    | {"Hardtanh", "Hardswish", "Hardsigmoid", "Hardshrink", "Softshrink", "Tanhshrink", "Mish", "PReLU", "RReLU"}
    | {"Softmax", "LogSoftmax", "Softmin", "LogSigmoid", "Threshold", "Softmax2d"}
)


def int_of(value: Value | None) -> int | None:
    """A value as an int that is known."""
    return None if value is None else value.integer


def is_fixed(size: Dim | None) -> bool:
    """Whether a size is made of numbers that the code knows, or that the object or its caller is given as numbers."""
    return size is not None and all(isinstance(symbol, tuple) for symbol, _ in size.powers)


def may_be_part(name: str) -> bool:
    """Whether `outputs.name` may be a tensor among several that a module gave: it is called like no method or fact of one."""
    if name in _OF_TENSORS or name in _OF_OTHERS:
        return False
    return not name.endswith("_") and not name.startswith(("_", "is_", "get_", "to_", "new_", "has_", "use_"))


_OF_TENSORS = SAME | BINARY | REDUCTIONS | VIEWS | SHOWING | LIKE | _INTEGER
_OF_TENSORS |= {"shape", "ndim", "dtype", "device", "requires_grad", "grad", "itemsize", "layout", "backward", "numpy"}
_OF_OTHERS = frozenset({"keys", "values", "items", "get", "pop", "append", "update", "copy", "tensors", "decompose"})
_OF_OTHERS |= {"config", "training"}
"""Methods of containers, and what objects tell of themselves."""


def carries_graph(name: str, parts: Sequence[bool | None]) -> bool | None:
    """Whether a graph hangs on the result of an operator, from what hangs on its tensors."""
    if name in _INTEGER:
        return False
    if True in parts:
        return True
    return None if None in parts else False


def batch_of(parts: Sequence[Tensor]) -> bool | None:
    """Whether the batch may still be in what is computed of tensors."""
    known = [part.batch for part in parts if part.batch is not None]
    return any(known) if known else None


def like(layout: Layout | None) -> Layout | None:
    """A tensor of the same shape: contiguous if the other is."""
    if layout is None or layout.is_contiguous:
        return layout
    return forgotten(layout)


def forgotten(layout: Layout | None) -> Layout | None:
    """The same sizes, with strides that are not known."""
    if layout is None:
        return None
    return Layout([Axis(axis.size, None, axis.block) for axis in layout.axes])


def packed(layout: Layout | None) -> Layout | None:
    """The same sizes, contiguous."""
    if layout is None:
        return None
    axes: list[Axis] = []
    stride = ONE
    for axis in reversed(layout.axes):
        axes.append(Axis(axis.size, stride, axis.block))
        stride = stride * axis.size
    return Layout(axes[::-1])


def viewed(layout: Layout | None, sizes: Sequence[Dim | None] | None) -> Layout | None:
    """The layout of a view that is legal; None where it is not understood."""
    if layout is None or sizes is None:
        return None
    if layout.is_contiguous:
        return Layout.contiguous(filled(layout, sizes))
    runs = layout.runs() if layout.rank is not None else None
    full = filled(layout, sizes)
    if runs is None:
        return forgotten(Layout.contiguous(full))
    axes: list[Axis] = []
    pending = list(full)
    for run in runs:
        left = product(axis.size for axis in run)
        taken: list[Dim] = []
        while pending and (left != ONE or pending[0] == ONE):
            size = pending.pop(0)
            taken.append(size)
            left = left / size
        if left != ONE:
            return forgotten(Layout.contiguous(full))
        stride = run[-1].stride
        part: list[Axis] = []
        for size in reversed(taken):
            part.append(Axis(size, stride))
            stride = stride and stride * size
        axes.extend(reversed(part))
    if any(size != ONE for size in pending):
        return forgotten(Layout.contiguous(full))
    axes.extend(Axis(ONE, ONE) for _ in pending)
    return Layout(axes)


def filled(layout: Layout, sizes: Sequence[Dim | None]) -> list[Dim]:
    """Target sizes with the one that is left out, if it is one, filled in."""
    if sum(size is None for size in sizes) == 1:
        total = product(axis.size for axis in layout.axes)
        known = product(size for size in sizes if size is not None)
        rest = total / known if known.factor else Dim.symbol()
        # What is a fraction in symbols is a whole number where the view is possible at all.
        return [rest if size is None else size for size in sizes]
    return [Dim.symbol() if size is None else size for size in sizes]


def reduced(layout: Layout | None, dims: Sequence[int] | None, keep: bool) -> Layout | None:
    """What is left of the axes of a tensor after a reduction."""
    if layout is None:
        return None
    if dims is None:
        return Layout(())
    rank = layout.rank
    found: Layout | None = layout
    if rank is None:
        for dim in dims:
            place = found.position(dim) if found is not None else None
            found = place[0] if place is not None else None
    if found is None:
        return None
    gone = set()
    for dim in dims:
        place = found.position(dim)
        if place is None:
            return None
        gone.add(place[1])
    axes = [Axis(ONE, ONE) if at in gone else axis for at, axis in enumerate(found.axes) if keep or at not in gone]
    result = packed(Layout(axes))
    return result if layout.is_contiguous else forgotten(result)


def broadcast(layouts: Sequence[Layout | None]) -> Layout | None:
    """The result of an operator that broadcasts, as far as that can be told from its operands."""
    if not layouts or any(layout is None for layout in layouts):
        return None
    known = [layout for layout in layouts if layout is not None]
    if len(known) == 1:
        return like(known[0])
    ranks = [layout.rank for layout in known]
    if None in ranks:
        shapes = {tuple((axis.size, axis.block) for axis in layout.axes) for layout in known}
        if len(shapes) == 1 and all(layout.is_contiguous for layout in known):
            return known[0]
        scalars = [layout for layout in known if layout.rank != 0]
        return like(scalars[0]) if len(scalars) == 1 else None
    widest = max(known, key=lambda layout: layout.rank or 0)
    sizes: list[Dim] = []
    for at in range(1, (widest.rank or 0) + 1):
        here = [layout.axes[-at].size for layout in known if (layout.rank or 0) >= at]
        others = {size for size in here if size != ONE}
        # A size that is a number is that of the result: the others are the same, or 1.
        number = next((size for size in here if size.value is not None and size != ONE), here[0])
        sizes.insert(0, ONE if not others else next(iter(others)) if len(others) == 1 else number)
    result = Layout.contiguous(sizes)
    return result if all(layout.is_contiguous for layout in known) else forgotten(result)


def multiplied(left: Layout | None, right: Layout | None) -> Layout | None:
    """`matmul`: a new contiguous tensor, whatever it is given."""
    if left is None or right is None or left.rank is None or right.rank is None:
        # A stack of matrices is taken to be multiplied by one like it.
        rank = next((layout.rank for layout in (left, right) if layout is not None and layout.rank), 0)
        return Layout.contiguous([Dim.symbol() for _ in range(rank)]) if rank > 2 else Layout.unranked()
    if left.rank == 1 or right.rank == 1:
        return Layout.contiguous([Dim.symbol() for _ in range(max(left.rank, right.rank) - 1)])
    wide = left if left.rank >= right.rank else right
    sizes = [axis.size for axis in wide.axes[:-2]]
    return Layout.contiguous([*sizes, left.axes[-2].size, right.axes[-1].size])


def contracted(equation: str, layouts: Sequence[Layout | None]) -> Layout | None:
    """`einsum`: where two tensors are multiplied as matrices, the result lies in the order batch, left, right."""
    before, arrow, out = equation.replace(" ", "").partition("->")
    labels = before.split(",")
    if not arrow or "." in equation or len(labels) != len(layouts):
        return None
    sizes: dict[str, Dim] = {}
    for names, layout in zip(labels, layouts, strict=True):
        ranked = layout.with_rank(len(names)) if layout is not None else None
        for name, axis in zip(names, ranked.axes if ranked is not None else (), strict=False):
            sizes.setdefault(name, axis.size)
    made = Layout.contiguous([sizes.get(name) or Dim.symbol() for name in out])
    if len(labels) != 2 or any(len(set(names)) != len(names) for names in labels):
        return forgotten(made)
    left, right = map(set, labels)
    kinds = [0 if name in left and name in right else 1 if name in left else 2 for name in out]
    of_one = [kind for kind in kinds if kind]
    if not (left & right) - set(out) or of_one != sorted(of_one):
        return forgotten(made)
    order = sorted(range(len(out)), key=lambda at: kinds[at])
    ordered = Layout.contiguous([made.axes[at].size for at in order])
    return Layout([ordered.axes[order.index(at)] for at in range(len(out))])


def depth_of(value: Value | None) -> Layout | None:
    """The layout of `torch.tensor(value)`."""
    rank = 0
    while isinstance(value, Container):
        rank += 1
        if not value.items or not value.exact:
            return None
        value = alternatives(value.items[0])[0]
    if isinstance(value, Const):
        return Layout.contiguous([Dim.symbol() for _ in range(rank)])
    return None
