"""Sets of torch's operators and layers by what they do, to be asked by name."""

from __future__ import annotations

from collections.abc import Mapping

from modellint.source.project.external_name_facts import PARAMETER_CLASSES, may_build

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

WITHOUT_GRAPH = frozenset(
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

CASTS = frozenset({"to", "type", "cuda", "cpu", "float"})
"""Operators that give the same tensor where nothing has to change, else a copy."""
EITHER = frozenset({"reshape", "reshape_as", "flatten", "ravel", "contiguous"})
"""Operators that give a view where they can, and a copy where they cannot."""

PERMUTING = frozenset(
    {"transpose", "permute", "t", "adjoint", "swapaxes", "swapdims", "movedim", "moveaxis", "einsum"}
    | {"expand", "expand_as", "unfold", "select", "narrow", "unbind", "split", "diagonal"}
)
"""Operators whose result seldom lies in memory as a contiguous tensor does."""
ON_BY_DEFAULT = {"dropout": 2, "dropout1d": 2, "dropout2d": 2, "dropout3d": 2}
"""Functions whose ``training`` is True unless told otherwise, and the place of that argument."""
OFF_BY_DEFAULT = {"alpha_dropout": 2, "feature_alpha_dropout": 2, "batch_norm": 5, "rrelu": 3}
"""Those whose ``training`` is False unless told otherwise."""


class Operators:
    """Names of torch's operators and layers without a namespace (``permute``, ``ReLU``), by what they do."""

    activations: frozenset[str] = ACTIVATIONS
    """Layers that change each element by itself."""
    element_wise: frozenset[str] = SAME
    """Operators whose result has the shape of their first tensor, and is contiguous where that is."""
    broadcasting: frozenset[str] = BINARY
    """Operators that broadcast."""
    reductions: frozenset[str] = REDUCTIONS
    """Operators that take dimensions away by computing one number of many."""
    factories: frozenset[str] = MAKERS
    """Functions and methods that make a tensor, whatever they are given."""
    casts: frozenset[str] = CASTS
    """Operators that give the same tensor where nothing has to change, else a copy."""
    copying: frozenset[str] = EITHER
    """Operators that give a view where they can, and a copy where they cannot."""
    permuting: frozenset[str] = PERMUTING
    """Operators whose result seldom lies in memory as a contiguous tensor does."""
    in_place_layout: frozenset[str] = IN_PLACE_LAYOUT
    """Methods that change shape and strides of a tensor in place, and not what it holds."""
    training_by_default: Mapping[str, int] = ON_BY_DEFAULT
    """Functions whose ``training`` is True unless told otherwise, and the place of that argument."""
    evaluating_by_default: Mapping[str, int] = OFF_BY_DEFAULT
    """Those whose ``training`` is False unless told otherwise."""
    parameter_classes: frozenset[str] = PARAMETER_CLASSES
    """The dotted names of `nn.Parameter` and its kin."""

    @staticmethod
    def may_have_state(name: str) -> bool:
        """Whether a name may be that of a module class with state."""
        return may_build(name)

    @staticmethod
    def attributes_of(container: str) -> frozenset[str]:
        """The attributes that `nn.ModuleDict` or `nn.ParameterDict` has, which no key of it may be called."""
        from modellint.data.torch_names import MODULE_DICT_ATTRIBUTES, PARAMETER_DICT_ATTRIBUTES

        return MODULE_DICT_ATTRIBUTES if container == "ModuleDict" else PARAMETER_DICT_ATTRIBUTES


operators = Operators()
"""Sets of torch's operators and layers by what they do: ``operators.reductions``."""
