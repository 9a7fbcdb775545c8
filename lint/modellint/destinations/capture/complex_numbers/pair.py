"""Complex tensor as a pair of real ones: no destination has complex numbers, and what is captured so has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

Handler: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Handler)

HANDLERS: dict[Any, Handler] = {}
"""By the function of PyTorch, as `__torch_function__` is given it."""

_REAL = {torch.complex128: torch.float64, torch.complex64: torch.float32, torch.complex32: torch.float16}
_COMPLEX = {real: kind for kind, real in _REAL.items()}


class Pair(torch.Tensor):
    """A complex tensor that holds two real ones of the same shape, and no elements of its own.

    Raises ``NotImplementedError`` for a function of complex numbers that is not in ``HANDLERS``.
    """

    re: torch.Tensor
    im: torch.Tensor

    @staticmethod
    def __new__(cls, re: torch.Tensor, im: torch.Tensor) -> Pair:
        """Pair of a real and an imaginary part, which are broadcast to one shape and promoted to one type."""
        if re.shape != im.shape:
            re, im = torch.broadcast_tensors(re, im)  # type: ignore[no-untyped-call]
        if re.dtype != im.dtype:
            kind = torch.promote_types(re.dtype, im.dtype)
            re, im = re.to(kind), im.to(kind)
        pair: Pair = torch.Tensor._make_wrapper_subclass(
            cls, re.shape, dtype=_COMPLEX.get(re.dtype, torch.complex64), device=re.device
        )
        pair.re, pair.im = re, im
        return pair

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"Pair({self.re!r}, {self.im!r})"

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handler = HANDLERS.get(function)
        if handler is None:
            raise NotImplementedError(f"{name_of(function)} of complex numbers is not computed as pairs of real ones")
        return handler(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise NotImplementedError(f"{function} of complex numbers is not computed as pairs of real ones")


# Libraries tell whose array something is by the module of its class (opt_einsum).
Pair.__module__ = "torch"


def name_of(function: Any) -> str:
    """The name of a function, and for what reads an attribute that of the attribute."""
    name = getattr(function, "__name__", str(function))
    return str(getattr(getattr(function, "__self__", None), "__name__", name)) if name == "__get__" else str(name)


def pair_of(value: Any) -> Pair:
    """Any number or tensor as a pair. The elements of a complex tensor are copied: they are taken for constants."""
    if isinstance(value, Pair):
        return value
    if isinstance(value, torch.Tensor) and value.is_complex():
        whole = torch.view_as_real(value.detach().resolve_conj())
        return Pair(whole[..., 0].clone(), whole[..., 1].clone())
    if isinstance(value, torch.Tensor):
        real = value if value.is_floating_point() else value.to(torch.get_default_dtype())
        return Pair(real, torch.zeros_like(real))
    number = complex(value)
    return Pair(torch.tensor(number.real), torch.tensor(number.imag))


def is_complex(value: Any) -> bool:
    """Whether this is a complex number or a tensor of such, as a pair or not."""
    if isinstance(value, torch.Tensor):
        return isinstance(value, Pair) or value.dtype.is_complex
    return isinstance(value, complex)


def handles(*names: str, spaces: tuple[Any, ...] = (torch, torch.Tensor, functional)) -> Callable[[F], F]:
    """Register what computes the functions of these names, wherever PyTorch has them."""

    def register(handler: F) -> F:
        for name in names:
            for space in spaces:
                function = getattr(space, name, None)
                if function is not None:
                    HANDLERS[function] = handler
        return handler

    return register


def reads(*names: str) -> Callable[[F], F]:
    """Register what an attribute of a complex tensor is."""

    def register(handler: F) -> F:
        for name in names:
            HANDLERS[getattr(torch.Tensor, name).__get__] = handler
        return handler

    return register


# What moves elements does the same to both parts.

_MOVES = (
    "__getitem__", "__neg__", "as_strided", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "chunk", "clone", "constant_pad_nd",
    "contiguous", "cumsum", "detach", "diagonal", "diff", "dropout", "dsplit", "expand", "expand_as", "flatten", "flip", "fliplr",
    "flipud", "gather", "hsplit", "index_select", "masked_select", "mean", "moveaxis", "movedim", "narrow", "neg", "negative", "pad",
    "permute", "positive", "ravel", "repeat", "repeat_interleave", "reshape", "reshape_as", "roll", "rot90", "select", "split",
    "split_with_sizes", "squeeze", "sum", "swapaxes", "swapdims", "t", "take_along_dim", "tensor_split", "tile", "transpose", "tril",
    "triu", "unbind", "unflatten", "unfold", "unsqueeze", "view", "view_as", "vsplit",
)  # fmt: skip


def _moved(function: Any) -> Handler:
    def both(*args: Any, **kwargs: Any) -> Any:
        real, imaginary = (function(*_parts(args, part), **_parts(kwargs, part)) for part in ("re", "im"))
        return _paired(real, imaginary)

    return both


def _parts(value: Any, part: str) -> Any:
    def of(leaf: Any) -> Any:
        if not is_complex(leaf):
            # A real tensor among complex ones has no imaginary part; indices and masks stand for themselves.
            return leaf
        return getattr(pair_of(leaf), part)

    return pytree.tree_map(of, value)


def _paired(real: Any, imaginary: Any) -> Any:
    if isinstance(real, torch.Tensor):
        return Pair(real, imaginary)
    return type(real)(map(_paired, real, imaginary))


def _joined(function: Any) -> Handler:
    def both(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = [pair_of(each) for each in tensors]
        kept = [each.re for each in pairs], [each.im for each in pairs]
        return Pair(*(function(parts, *args, **kwargs) for parts in kept))

    return both


for _name in _MOVES:
    for _space in (torch, torch.Tensor, functional):
        if (_function := getattr(_space, _name, None)) is not None:
            HANDLERS[_function] = _moved(_function)
for _name in ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack"):
    HANDLERS[getattr(torch, _name)] = _joined(getattr(torch, _name))


@handles("pad_sequence", spaces=(torch._C._nn,))
def _padded(sequences: Any, batch_first: bool = False, padding_value: complex = 0.0, *rest: Any) -> Pair:
    pairs, value = [pair_of(each) for each in sequences], complex(padding_value)
    function = torch._C._nn.pad_sequence
    return Pair(
        function([each.re for each in pairs], batch_first, value.real, *rest),
        function([each.im for each in pairs], batch_first, value.imag, *rest),
    )


for _name in ("fftshift", "ifftshift"):
    HANDLERS[getattr(torch.fft, _name)] = _moved(getattr(torch.fft, _name))
for _name in ("mT", "T"):
    reads(_name)(_moved(getattr(torch.Tensor, _name).__get__))


# What is asked of a complex tensor, and is the same of its real part.

for _name in (
    "shape",
    "ndim",
    "device",
    "requires_grad",
    "is_cuda",
    "layout",
    "is_leaf",
    "grad_fn",
    "is_sparse",
    "is_quantized",
):
    reads(_name)(lambda z, *_, _name=_name: getattr(_answering(z), _name))


def _answering(z: Any) -> torch.Tensor:
    """What knows it. No pair is made of another tensor for that: what a capture writes of its nodes asks too, and would be a node more."""
    real: torch.Tensor = z.re if isinstance(z, Pair) else z
    return real


def _asked(name: str) -> Handler:
    return lambda z, *args, **kwargs: getattr(_answering(z), name)(*args, **kwargs)


for _name in ("size", "dim", "numel", "nelement", "stride", "is_contiguous", "__len__", "ndimension"):
    HANDLERS[getattr(torch.Tensor, _name)] = _asked(_name)


@reads("dtype")
def _dtype(z: Any, *_: Any) -> torch.dtype:
    return _COMPLEX.get(z.re.dtype, torch.complex64) if isinstance(z, Pair) else z.dtype


@reads("real")
def _real_part(z: Any, *_: Any) -> torch.Tensor:
    return pair_of(z).re


@reads("imag")
def _imaginary_part(z: Any, *_: Any) -> torch.Tensor:
    return pair_of(z).im


@reads("mH", "H")
def _adjoint(z: Any, *_: Any) -> Pair:
    z = pair_of(z)
    return Pair(z.re.mT, -z.im.mT)


@handles("is_complex")
def _is_complex(_: Any) -> bool:
    return True


@handles("is_floating_point", "is_conj", "is_neg", "is_inference")
def _is_not(_: Any) -> bool:
    return False


# What makes complex numbers, and what makes real ones of them.


@handles("complex")
def _of_parts(real: torch.Tensor, imag: torch.Tensor) -> Pair:
    return Pair(real, imag)


@handles("polar")
def _of_length(abs: torch.Tensor, angle: torch.Tensor) -> Pair:  # noqa: A002
    return Pair(abs * torch.cos(angle), abs * torch.sin(angle))


@handles("view_as_complex")
def _of_last_axis(input: torch.Tensor) -> Pair:  # noqa: A002
    return Pair(input[..., 0], input[..., 1])


@handles("view_as_real")
def _as_last_axis(input: Any) -> torch.Tensor:  # noqa: A002
    z = pair_of(input)
    return torch.stack((z.re, z.im), -1)


@handles("real")
def _real(input: Any) -> torch.Tensor:  # noqa: A002
    return pair_of(input).re


@handles("imag")
def _imaginary(input: Any) -> torch.Tensor:  # noqa: A002
    return pair_of(input).im


@handles("abs", "absolute", "__abs__")
def _length(input: Any) -> torch.Tensor:  # noqa: A002
    z = pair_of(input)
    return torch.hypot(z.re, z.im)


@handles("angle")
def _angle(input: Any) -> torch.Tensor:  # noqa: A002
    z = pair_of(input)
    return torch.atan2(z.im, z.re)


@handles("conj", "conj_physical")
def _conjugate(input: Any) -> Pair:  # noqa: A002
    z = pair_of(input)
    return Pair(z.re, -z.im)


@handles("resolve_conj", "resolve_neg", "cpu", "cfloat")
def _itself(input: Any) -> Pair:  # noqa: A002
    return pair_of(input)


@handles("to", "type")
def _to(input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002
    named = (value for value in (*args, *kwargs.values()) if isinstance(value, (torch.dtype, torch.Tensor)))
    like = next(named, None)
    kind = like.dtype if isinstance(like, torch.Tensor) else like
    if kind is None:
        return pair_of(input)
    if kind.is_complex:
        z = pair_of(input)
        return Pair(z.re.to(_REAL[kind]), z.im.to(_REAL[kind]))
    return pair_of(input).re.to(kind)


@handles("type_as")
def _type_as(input: Any, other: Any) -> Any:  # noqa: A002
    return _to(input, other.dtype)


for _name in ("float", "double", "half", "bfloat16"):
    HANDLERS[getattr(torch.Tensor, _name)] = _asked(_name)


# Arithmetic.


@handles("add", "__add__", "__radd__")
def _add(input: Any, other: Any, *, alpha: Any = 1) -> Pair:  # noqa: A002
    a, b = pair_of(input), pair_of(other)
    return Pair(a.re + alpha * b.re, a.im + alpha * b.im) if alpha != 1 else Pair(a.re + b.re, a.im + b.im)


@handles("sub", "subtract", "__sub__")
def _subtract(input: Any, other: Any, *, alpha: Any = 1) -> Pair:  # noqa: A002
    a, b = pair_of(input), pair_of(other)
    return Pair(a.re - alpha * b.re, a.im - alpha * b.im) if alpha != 1 else Pair(a.re - b.re, a.im - b.im)


@handles("rsub", "__rsub__")
def _subtract_from(input: Any, other: Any) -> Pair:  # noqa: A002
    return _subtract(other, input)


@handles("mul", "multiply", "__mul__", "__rmul__")
def _multiply(input: Any, other: Any) -> Pair:  # noqa: A002
    for real, z in ((input, other), (other, input)):
        if not is_complex(real):
            z = pair_of(z)
            return Pair(z.re * real, z.im * real)
    a, b = pair_of(input), pair_of(other)
    return Pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@handles("div", "divide", "true_divide", "__truediv__", "__div__")
def _divide(input: Any, other: Any) -> Pair:  # noqa: A002
    if not is_complex(other):
        z = pair_of(input)
        return Pair(z.re / other, z.im / other)
    return _multiply(input, _reciprocal(other))


@handles("__rtruediv__", "__rdiv__")
def _divide_by(input: Any, other: Any) -> Pair:  # noqa: A002
    return _divide(other, input)


@handles("reciprocal")
def _reciprocal(input: Any) -> Pair:  # noqa: A002
    z = pair_of(input)
    # The greater part is divided by first, so that no square leaves what a float holds.
    most = torch.maximum(z.re.abs(), z.im.abs())
    re, im = z.re / most, z.im / most
    length = (re * re + im * im) * most
    return Pair(re / length, -im / length)


@handles("square")
def _square(input: Any) -> Pair:  # noqa: A002
    return _multiply(input, input)


@handles("pow", "__pow__", "float_power")
def _power(input: Any, exponent: Any) -> Pair:  # noqa: A002
    if not isinstance(exponent, int) or not 1 <= exponent <= 8:
        raise NotImplementedError("a power of complex numbers is computed for whole numbers from 1 to 8")
    result = pair_of(input)
    for _ in range(exponent - 1):
        result = _multiply(result, input)
    return result


@handles("exp")
def _exponential(input: Any) -> Pair:  # noqa: A002
    z = pair_of(input)
    length = torch.exp(z.re)
    return Pair(length * torch.cos(z.im), length * torch.sin(z.im))


@handles("where")
def _where(condition: Any, input: Any, other: Any) -> Pair:  # noqa: A002
    a, b = pair_of(input), pair_of(other)
    return Pair(torch.where(condition, a.re, b.re), torch.where(condition, a.im, b.im))


@handles("masked_fill")
def _filled(input: Any, mask: Any, value: Any) -> Pair:  # noqa: A002
    z = pair_of(input)
    filler = pair_of(value) if isinstance(value, torch.Tensor) else complex(value)
    real, imaginary = (filler.re, filler.im) if isinstance(filler, Pair) else (filler.real, filler.imag)
    return Pair(z.re.masked_fill(mask, real), z.im.masked_fill(mask, imaginary))


@handles("zeros_like", "empty_like")
def _zeros(input: Any, **_: Any) -> Pair:  # noqa: A002
    z = pair_of(input)
    return Pair(torch.zeros_like(z.re), torch.zeros_like(z.im))


@handles("ones_like")
def _ones(input: Any, **_: Any) -> Pair:  # noqa: A002
    z = pair_of(input)
    return Pair(torch.ones_like(z.re), torch.zeros_like(z.im))


MAKE_OF_A_TYPE = {
    getattr(space, name)
    for space, prefix in ((torch, ""), (torch.Tensor, "new_"))
    for name in (prefix + each for each in ("zeros", "ones", "empty", "full"))
} | {torch.linspace}
"""Functions that make a complex tensor where they are asked for the type of one."""


def _made(function: Any) -> Handler:
    fills = function.__name__.endswith("full")

    def make(*args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
        if args and isinstance(args[0], torch.Tensor) and is_complex(args[0]):
            like = pair_of(args[0]).re
            args, dtype = (like, *args[1:]), dtype or _COMPLEX[like.dtype]
        if dtype is None or not dtype.is_complex:
            return function(*args, dtype=dtype, **kwargs)
        if not fills:
            real = function(*args, dtype=_REAL[dtype], **kwargs)
            return Pair(real, torch.zeros_like(real))
        if "fill_value" not in kwargs:
            args, kwargs["fill_value"] = args[:-1], args[-1]
        value, kind = complex(kwargs.pop("fill_value")), _REAL[dtype]
        return Pair(*(function(*args, fill_value=part, dtype=kind, **kwargs) for part in (value.real, value.imag)))

    return make


for _function in MAKE_OF_A_TYPE:
    HANDLERS[_function] = _made(_function)


@handles("__setitem__")
def _assign(input: Any, where: Any, value: Any) -> None:  # noqa: A002
    if not isinstance(input, Pair):
        raise NotImplementedError("an assignment of complex numbers to what is no pair of real ones")
    z = pair_of(value)
    input.re[where], input.im[where] = z.re, z.im


def _bilinear(function: Any) -> Handler:
    """Bilinear function, such as a matrix product, of two factors of which one or both are complex."""

    def product(a: Any, b: Any) -> Pair:
        if not is_complex(a):
            b = pair_of(b)
            return Pair(function(a, b.re), function(a, b.im))
        if not is_complex(b):
            a = pair_of(a)
            return Pair(function(a.re, b), function(a.im, b))
        a, b = pair_of(a), pair_of(b)
        return Pair(function(a.re, b.re) - function(a.im, b.im), function(a.re, b.im) + function(a.im, b.re))

    return product


for _name in ("matmul", "bmm", "mm", "mv", "outer", "inner", "dot"):
    handles(_name)(_bilinear(getattr(torch, _name)))
handles("__matmul__")(_bilinear(torch.matmul))


@handles("linear")
def _linear(input: Any, weight: Any, bias: Any = None) -> Pair:  # noqa: A002
    result = _bilinear(functional.linear)(input, weight)
    return result if bias is None else _add(result, bias)


@handles("einsum")
def _einsum(equation: str, *operands: Any) -> Pair:
    factors = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if len(factors) != 2:
        if len(factors) == 1:
            z = pair_of(factors[0])
            return Pair(torch.einsum(equation, z.re), torch.einsum(equation, z.im))
        raise NotImplementedError("einsum of more than two complex tensors is not computed as pairs of real ones")
    product: Pair = _bilinear(lambda a, b: torch.einsum(equation, a, b))(*factors)
    return product
