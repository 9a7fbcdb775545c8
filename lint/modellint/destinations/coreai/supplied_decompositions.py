"""Decompositions that an export supplies: operators that coreai-torch lacks, refuses or gets wrong, in ones that it converts right.

Each is a function of PyTorch's, run while the captured program is decomposed, on tensors without values; it gives ``NotImplemented``
for uses that it leaves as they are. What coreai-torch 0.4.3 gets wrong is listed in `docs/coreai.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

BIT_EQUAL = "bit-equal"
ROUNDS = "rounds otherwise"
TORCHS = "PyTorch's decomposition"
TIES = "ties may come in another order"
_LARGEST = 1 << 24
"""How many numbers a table of which element goes where may have."""
aten = torch.ops.aten
Function = Callable[..., Any]


class Decomposition(NamedTuple):
    """What is done about one operator."""

    function: Function
    exactness: str


def mends() -> Mapping[Any, Decomposition]:
    """By operator what is decomposed wherever coreai-torch converts it to something else."""
    return _MENDS


def supplied(operator: Any) -> Decomposition | None:
    """What is done about an operator without a converter, or one of which a use is refused; None where nothing is known."""
    if operator in _SUPPLIED:
        return _SUPPLIED[operator]
    from torch._decomp import decomposition_table

    function = decomposition_table.get(operator)
    # Those of `torch._refs` end in primitive operators, which have no converters.
    if function is None or not function.__module__.startswith("torch._decomp"):
        return None
    return Decomposition(function, TORCHS)


# What converts to something else


def _scaled(operator: Function, x: Tensor, y: Any, *, alpha: float = 1) -> Any:
    """`add` and `sub` with a factor, which the converter leaves out; of integers and a float, which it computes in float16."""
    if alpha != 1:
        return operator(x, y * alpha)
    return _of_floats(operator, x, y)


def _scaled_reversed(x: Tensor, y: Any, alpha: float = 1) -> Any:
    """`rsub`: as a sum, as the difference of a number and a tensor is captured as `rsub` again."""
    return x * -alpha + y


def _of_floats(operator: Function, x: Tensor, y: Any) -> Any:
    """An operation of integers with a Python float, which the converter computes in float16."""
    if isinstance(x, Tensor) and not x.dtype.is_floating_point and not x.dtype.is_complex and isinstance(y, float):
        return operator(x.to(torch.float32), y)
    return NotImplemented


_truncating: list[bool] = []


def _to_copy(x: Tensor, *, dtype: torch.dtype | None = None, **rest: Any) -> Any:
    """A cast of floats to integers: one back to floats after it has the converter delete both."""
    if _truncating or dtype is None or dtype.is_floating_point or dtype is torch.bool or not x.dtype.is_floating_point:
        return NotImplemented
    _truncating.append(True)
    try:
        return aten._to_copy.default(torch.trunc(x), dtype=dtype, **rest)
    finally:
        _truncating.pop()


def _bitwise_not(x: Tensor) -> Any:
    """The complement of signed integers, which the converter computes in float32."""
    return NotImplemented if x.dtype in (torch.bool, torch.uint8) else -x - 1


def _avg_pool(
    rank: int,
    operator: Function,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """An average that does not count what is padded, and one without a batch; both are wrong, or refused."""
    kernel, padding = _for_each(kernel, rank), _for_each(padding, rank)
    if x.dim() == rank + 1:
        pooled = operator(
            x.unsqueeze(0), kernel, stride, padding, ceil_mode, count_include_pad, *_given(divisor_override)
        )
        return pooled.squeeze(0)
    if not stride:
        return operator(x, kernel, kernel, padding, ceil_mode, count_include_pad, *_given(divisor_override))
    if count_include_pad or ceil_mode or divisor_override is not None or not any(padding):
        return NotImplemented
    ones = x.new_ones((1, 1, *x.shape[2:]))
    return operator(x, kernel, stride, padding, False, True) / operator(ones, kernel, stride, padding, False, True)


def _for_each(sizes: Sequence[int], rank: int) -> list[int]:
    """One size for each dimension."""
    return list(sizes) * rank if len(sizes) == 1 else list(sizes)


def _given(divisor: int | None) -> tuple[int, ...]:
    return () if divisor is None else (divisor,)


def _nearest(x: Tensor, output_size: Sequence[int] | None, *scales: Any) -> Any:
    """Resizing by the nearest element: the interpreter takes another one where the ratio is no whole number."""
    factors = [*(scales[0] if scales and isinstance(scales[0], (list, tuple)) else scales), *[None] * x.dim()]
    lengths = x.shape[2:]
    sizes = list(output_size or (int(size * (factor or 1)) for size, factor in zip(lengths, factors, strict=False)))
    if all(isinstance(size, int) for size in (*lengths, *sizes)) and all(
        not (wanted % length and length % wanted) for wanted, length in zip(sizes, lengths, strict=True)
    ):
        return NotImplemented
    for axis in range(2, x.dim()):
        factor, length, wanted = factors[axis - 2], x.shape[axis], sizes[axis - 2]
        ratio = 1 / factor if factor else length / wanted
        places = torch.floor(torch.arange(wanted, dtype=torch.float32) * ratio).clamp(max=length - 1)
        x = x.index_select(axis, places.to(torch.int64))
    return x


def _expm1(x: Tensor) -> Any:
    """`expm1`, which the interpreter computes as `exp(x) - 1`: nothing is left of small numbers."""
    return torch.tanh(x * 0.5) * (torch.exp(x) + 1.0) if x.dtype.is_floating_point else NotImplemented


def _log1p(x: Tensor) -> Any:
    """`log1p`, which the interpreter computes as `log(1 + x)`: near zero by its series, with an error below a rounding."""
    if not x.dtype.is_floating_point:
        return NotImplemented
    near, series = torch.clamp(x, -0.25, 0.25), torch.zeros_like(x)
    for power in range(13, 0, -1):
        series = series * near + (1 if power % 2 else -1) / power
    return torch.where(x.abs() < 0.25, series * near, torch.log(1.0 + x))


# What has no converter, or is refused


def _batched(rank: int, operator: Function, x: Tensor, *rest: Any) -> Any:
    """A pooling without a batch."""
    if x.dim() != rank + 1:
        return NotImplemented
    result = operator(x.unsqueeze(0), *rest)
    return tuple(part.squeeze(0) for part in result) if isinstance(result, tuple) else result.squeeze(0)


def _in_floats(operator: Function, x: Tensor, *rest: Any) -> Any:
    """A function of real numbers, of integers."""
    return NotImplemented if x.dtype.is_floating_point or x.dtype.is_complex else operator(x.to(torch.float32), *rest)


def _argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    return torch.argmax(-x, dim, keepdim) if x.dtype.is_floating_point else NotImplemented


def _sort(x: Tensor, dim: int = -1, descending: bool = False) -> Any:
    return torch.topk(x, x.shape[dim], dim, descending, True) if x.dim() else NotImplemented


def _sort_stable(x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    return _sort(x, dim, descending)


def _argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Any:
    return NotImplemented if (parts := _sort(x, dim, descending)) is NotImplemented else parts[1]


def _diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    moved = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = moved.shape[-2:]
    first = (max(-offset, 0), max(offset, 0))
    count = max(min(rows - first[0], columns - first[1]), 0)
    places = torch.arange(count) * (columns + 1) + first[0] * columns + first[1]
    return moved.reshape(*moved.shape[:-2], rows * columns).index_select(-1, places)


def _unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    dim %= x.dim()
    count = (x.shape[dim] - size) // step + 1
    places = torch.arange(count).unsqueeze(1) * step + torch.arange(size)
    taken = x.index_select(dim, places.reshape(-1))
    return taken.reshape(*x.shape[:dim], count, size, *x.shape[dim + 1 :]).movedim(dim + 1, -1)


def _as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
    """Of a tensor that lies in memory as it is read: what is taken are elements of it, at places that are known."""
    wanted = math.prod(size)
    if (
        not x.is_contiguous()
        or x.storage_offset()
        or not all(isinstance(part, int) for part in (*size, *stride))
        or wanted > _LARGEST
    ):
        return NotImplemented
    places = torch.zeros((), dtype=torch.int64) + (storage_offset or 0)
    for extent, each in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(extent, dtype=torch.int64) * each
    if (
        wanted
        and int(storage_offset or 0) + sum((extent - 1) * each for extent, each in zip(size, stride, strict=True))
        >= x.numel()
    ):
        return NotImplemented
    return x.reshape(-1).index_select(0, places.reshape(-1)).reshape(size)


def _cdist(x: Tensor, y: Tensor, p: float, compute_mode: int | None = None) -> Tensor:
    apart = (x.unsqueeze(-2) - y.unsqueeze(-3)).abs()
    if p == 2:
        return (apart * apart).sum(-1).sqrt()
    if p == 1:
        return apart.sum(-1)
    if p == 0:
        return (apart != 0).to(x.dtype).sum(-1)
    return apart.amax(-1) if math.isinf(p) else apart.pow(p).sum(-1).pow(1 / p)


def _adaptive_avg_pool3d(x: Tensor, output_size: Sequence[int]) -> Tensor:
    """Means over parts of each axis, one axis after the other: the parts of one axis have the same share of each of another."""
    for dim, count in zip((-3, -2, -1), output_size, strict=True):
        length = x.shape[dim]
        ends = [(at * length // count, -(-(at + 1) * length // count)) for at in range(count)]
        x = torch.stack([x.narrow(dim, first, last - first).mean(dim) for first, last in ends], dim)
    return x


def _adaptive_max_pool2d(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The largest of each part, and its place among all."""
    height, width = x.shape[-2:]
    values, places = [], []
    for row in range(output_size[0]):
        top, bottom = row * height // output_size[0], -(-(row + 1) * height // output_size[0])
        for column in range(output_size[1]):
            left, right = column * width // output_size[1], -(-(column + 1) * width // output_size[1])
            part = x[..., top:bottom, left:right].flatten(-2)
            at = torch.argmax(part, -1)
            values.append(part.amax(-1))
            places.append((at // (right - left) + top) * width + at % (right - left) + left)
    shape = (*x.shape[:-2], *output_size)
    return torch.stack(values, -1).reshape(shape), torch.stack(places, -1).reshape(shape)


def _angle(x: Tensor) -> Any:
    return NotImplemented if x.dtype.is_complex else torch.where(x != x, x, torch.where(x < 0, math.pi, 0.0))


def _logaddexp(x: Tensor, y: Tensor) -> Tensor:
    larger, apart = torch.maximum(x, y), (x - y).abs()
    return torch.where(x == y, x + math.log(2.0), larger + torch.log1p(torch.exp(-apart)))


def _normalized(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, momentum: float, eps: float
) -> Any:
    """Batch normalisation by running statistics, without weight or bias."""
    if weight is not None and bias is not None:
        return NotImplemented
    shape = (1, -1, *[1] * (x.dim() - 2))
    result = (x - mean.reshape(shape)) / torch.sqrt(var.reshape(shape) + eps)
    result = result if weight is None else result * weight.reshape(shape)
    result = result if bias is None else result + bias.reshape(shape)
    return result, x.new_zeros((0,)), x.new_zeros((0,))


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention whose values are of another size than its queries."""
    if dropout_p or enable_gqa:
        return NotImplemented
    scores = q @ k.transpose(-2, -1) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    if is_causal:
        attn_mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    if attn_mask is not None:
        is_mask = attn_mask.dtype is torch.bool
        scores = torch.where(attn_mask, scores, -math.inf) if is_mask else scores + attn_mask
    return torch.softmax(scores, -1) @ v


def _scatter(reduce: str, x: Tensor, dim: int, index: Tensor, source: Tensor, includes: bool = True) -> Any:
    """What goes to one place is picked by a table of places, and added up, or compared."""
    dim %= max(x.dim(), 1)
    beside = [at for at in range(x.dim()) if at != dim]
    if (
        not x.dim()
        or any(index.shape[at] != x.shape[at] for at in beside)
        or math.prod(index.shape) * x.shape[dim] > _LARGEST
    ):
        return NotImplemented
    source = source[tuple(slice(0, size) for size in index.shape)]
    places, values = index.movedim(dim, -1).unsqueeze(-1), source.movedim(dim, -1).unsqueeze(-1)
    here = places == torch.arange(x.shape[dim], dtype=index.dtype)
    old = x.movedim(dim, -1)
    if reduce == "sum":
        zero = torch.zeros((), dtype=x.dtype)
        gathered = torch.where(here, values, zero).sum(-2)
        kept = old if includes else torch.where(here.any(-2), zero, old)
        return (kept + gathered).movedim(-1, dim)
    if reduce in ("amax", "amin") and x.dtype.is_floating_point:
        end = -math.inf if reduce == "amax" else math.inf
        gathered = getattr(torch.where(here, values, end), reduce)(-2)
        both = torch.maximum if reduce == "amax" else torch.minimum
        return (both(old, gathered) if includes else torch.where(here.any(-2), gathered, old)).movedim(-1, dim)
    return NotImplemented


def _scatter_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    return _scatter("sum", x, dim, index, source)


def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    return _scatter(reduce, x, dim, index, source, include_self)


def _index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    """What is added at places that dimensions beside each other are indexed by."""
    named = [at for at, index in enumerate(indices) if index is not None]
    tensors = [index for index in indices if index is not None]
    if (
        not accumulate
        or named != list(range(named[0], named[-1] + 1))
        or any(index.dtype is torch.bool for index in tensors)
    ):
        return NotImplemented
    first, sizes = named[0], [x.shape[at] for at in named]
    together = list(aten.broadcast_tensors(tensors))
    places = torch.zeros((), dtype=torch.int64)
    for index, size in zip(together, sizes, strict=True):
        places = places * size + torch.where(index < 0, index + size, index)
    lead, rest = x.shape[:first], x.shape[named[-1] + 1 :]
    given = values.expand(*lead, *together[0].shape, *rest).reshape(*lead, places.numel(), *rest)
    flat = x.reshape(*lead, math.prod(sizes), *rest)
    shape = [1] * first + [places.numel()] + [1] * len(rest)
    added = _scatter("sum", flat, first, places.reshape(shape).expand(given.shape), given)
    return added if added is NotImplemented else added.reshape(x.shape)


def _isnan(x: Tensor) -> Tensor:
    return x != x


def _remainder(x: Tensor, y: Any) -> Tensor:
    return torch.remainder(x, torch.full((), y, dtype=torch.result_type(x, y)))


def _elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    return torch.where(x > 0, x * scale, torch.expm1(x * input_scale) * (alpha * scale))


def _var_mean(
    x: Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    dims = list(dim) if dim else list(range(x.dim()))
    count = math.prod(x.shape[at] for at in dims)
    mean = x.mean(dims, True)
    apart = x - mean
    divisor = max(count - (1 if correction is None else correction), 0)
    squares = (apart * apart).sum(dims, keepdim)
    variance = squares / divisor if divisor else squares * math.inf
    return variance, mean if keepdim else mean.reshape(variance.shape)


def _var(x: Tensor, dim: Sequence[int] | None = None, **options: Any) -> Tensor:
    return _var_mean(x, dim, **options)[0]


def _std(x: Tensor, dim: Sequence[int] | None = None, **options: Any) -> Tensor:
    return _var_mean(x, dim, **options)[0].sqrt()


def _std_mean(x: Tensor, dim: Sequence[int] | None = None, **options: Any) -> tuple[Tensor, Tensor]:
    variance, mean = _var_mean(x, dim, **options)
    return variance.sqrt(), mean


def _cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """Products of ever longer stretches, which are doubled step by step."""
    if not x.dim():
        return NotImplemented
    x = x if dtype is None else x.to(dtype)
    length, step = x.shape[dim], 1
    while step < length:
        x = torch.cat(
            [x.narrow(dim, 0, step), x.narrow(dim, step, length - step) * x.narrow(dim, 0, length - step)], dim
        )
        step *= 2
    return x


def _extreme(operator: Function, x: Tensor, y: Tensor) -> Tensor:
    """The larger or smaller of two numbers; where one of them is NaN, the other."""
    return torch.where(x != x, y, torch.where(y != y, x, operator(x, y)))


def _addbmm(x: Tensor, first: Tensor, second: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return x * beta + torch.bmm(first, second).sum(0) * alpha


def _trilinear(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    for dims, at in ((expand1, 0), (expand2, 1), (expand3, 2)):
        parts = [first, second, third]
        for dim in dims:
            parts[at] = parts[at].unsqueeze(dim)
        first, second, third = parts
    return (first * second * third).sum(list(sumdim))


def _ranked(x: Tensor, at: int, dim: int, keepdim: bool) -> Any:
    """The element at a place of what is sorted, and where it stood."""
    parts = [part.narrow(dim, at, 1) for part in torch.topk(x, x.shape[dim], dim, False, True)]
    return tuple(parts if keepdim else (part.squeeze(dim) for part in parts))


def _median(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The middle one of what is sorted, of two the smaller."""
    return _ranked(x, (x.shape[dim] - 1) // 2, dim, keepdim) if x.dim() else NotImplemented


def _median_of_all(x: Tensor) -> Any:
    return _median(x.reshape(-1), 0)[0]


def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return _ranked(x, k - 1, dim, keepdim) if x.dim() else NotImplemented


def _same(x: Tensor, *sizes: Any) -> Tensor:
    return x.reshape(*sizes)


def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Any:
    if not x.dim():
        return NotImplemented
    shape = [1] * source.dim()
    shape[dim] = -1
    return _scatter("sum", x, dim, index.reshape(shape).expand(source.shape), source if alpha == 1 else source * alpha)


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """A transposed convolution in three dimensions: one of the input with zeros between, by the weight turned round."""
    if not transposed or weight.dim() != 5 or x.dim() != 5:
        return NotImplemented
    for dim, step in zip((2, 3, 4), stride, strict=True):
        if step > 1:
            apart = x.unsqueeze(dim + 1)
            zeros = torch.zeros_like(apart).repeat_interleave(step - 1, dim + 1)
            x = torch.cat([apart, zeros], dim + 1).flatten(dim, dim + 1).narrow(dim, 0, (x.shape[dim] - 1) * step + 1)
    ends: list[int] = []
    for at in (2, 1, 0):
        before = dilation[at] * (weight.shape[at + 2] - 1) - padding[at]
        ends += [before, before + output_padding[at]]
    if min(ends) < 0:
        return NotImplemented
    turned = weight.flip((2, 3, 4))
    turned = turned.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2).flatten(0, 1)
    return torch.conv3d(torch.nn.functional.pad(x, ends), turned, bias, 1, 0, list(dilation), groups)


_MENDS: dict[Any, Decomposition] = {
    aten.add.Tensor: Decomposition(partial(_scaled, torch.add), ROUNDS),
    aten.sub.Tensor: Decomposition(partial(_scaled, torch.sub), ROUNDS),
    aten.rsub.Scalar: Decomposition(_scaled_reversed, ROUNDS),
    aten.rsub.Tensor: Decomposition(_scaled_reversed, ROUNDS),
    aten._to_copy.default: Decomposition(_to_copy, BIT_EQUAL),
    aten.bitwise_not.default: Decomposition(_bitwise_not, BIT_EQUAL),
    aten.expm1.default: Decomposition(_expm1, ROUNDS),
    **{
        getattr(getattr(aten, f"upsample_nearest{rank}d"), overload): Decomposition(_nearest, BIT_EQUAL)
        for rank in (1, 2, 3)
        for overload in ("default", "vec")
    },
    aten.log1p.default: Decomposition(_log1p, ROUNDS),
    **{
        getattr(getattr(aten, name), overload): Decomposition(partial(_of_floats, getattr(torch, name)), BIT_EQUAL)
        for name, overloads in {
            "mul": "Tensor",
            "div": "Tensor",
            **dict.fromkeys(("gt", "ge", "lt", "le", "eq", "ne"), "Scalar"),
        }.items()
        for overload in overloads.split()
    },
    **{
        getattr(aten, f"avg_pool{rank}d").default: Decomposition(
            partial(_avg_pool, rank, getattr(aten, f"avg_pool{rank}d")), ROUNDS
        )
        for rank in (2, 3)
    },
}
_FLOAT_FUNCTIONS = [
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2", "expm1"),
    *("log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
]
_SUPPLIED: dict[Any, Decomposition] = {
    aten.argmin.default: Decomposition(_argmin, BIT_EQUAL),
    aten.sort.default: Decomposition(_sort, TIES),
    aten.sort.stable: Decomposition(_sort_stable, TIES),
    aten.median.default: Decomposition(_median_of_all, "unless there is NaN"),
    aten.median.dim: Decomposition(_median, "unless there is NaN, and ties may come in another order"),
    aten.kthvalue.default: Decomposition(_kthvalue, TIES),
    aten.isnan.default: Decomposition(_isnan, BIT_EQUAL),
    aten.remainder.Scalar: Decomposition(_remainder, BIT_EQUAL),
    aten.elu.default: Decomposition(_elu, ROUNDS),
    aten.var.correction: Decomposition(_var, ROUNDS),
    aten.std.correction: Decomposition(_std, ROUNDS),
    aten.var_mean.correction: Decomposition(_var_mean, ROUNDS),
    aten.std_mean.correction: Decomposition(_std_mean, ROUNDS),
    aten.cumprod.default: Decomposition(_cumprod, ROUNDS),
    aten.fmax.default: Decomposition(partial(_extreme, torch.maximum), BIT_EQUAL),
    aten.fmin.default: Decomposition(partial(_extreme, torch.minimum), BIT_EQUAL),
    aten.addbmm.default: Decomposition(_addbmm, ROUNDS),
    aten._trilinear.default: Decomposition(_trilinear, ROUNDS),
    aten.index_put.default: Decomposition(_index_put, ROUNDS),
    aten.view_copy.default: Decomposition(_same, BIT_EQUAL),
    aten.permute_copy.default: Decomposition(torch.permute, BIT_EQUAL),
    aten.narrow_copy.default: Decomposition(torch.narrow, BIT_EQUAL),
    aten.argsort.default: Decomposition(_argsort, TIES),
    aten.diagonal.default: Decomposition(_diagonal, BIT_EQUAL),
    aten.diagonal_copy.default: Decomposition(_diagonal, BIT_EQUAL),
    aten.unfold.default: Decomposition(_unfold, BIT_EQUAL),
    aten.unfold_copy.default: Decomposition(_unfold, BIT_EQUAL),
    aten.as_strided.default: Decomposition(_as_strided, BIT_EQUAL),
    aten.as_strided_copy.default: Decomposition(_as_strided, BIT_EQUAL),
    aten._cdist_forward.default: Decomposition(_cdist, ROUNDS),
    aten._adaptive_avg_pool3d.default: Decomposition(_adaptive_avg_pool3d, ROUNDS),
    aten.adaptive_max_pool2d.default: Decomposition(_adaptive_max_pool2d, BIT_EQUAL),
    aten.angle.default: Decomposition(_angle, BIT_EQUAL),
    aten.logaddexp.default: Decomposition(_logaddexp, ROUNDS),
    aten._native_batch_norm_legit_no_training.default: Decomposition(_normalized, ROUNDS),
    aten.scaled_dot_product_attention.default: Decomposition(_attention, ROUNDS),
    aten.scatter_add.default: Decomposition(_scatter_add, ROUNDS),
    aten.scatter_reduce.two: Decomposition(_scatter_reduce, ROUNDS),
    aten.index_add.default: Decomposition(_index_add, ROUNDS),
    aten.convolution.default: Decomposition(_convolution, ROUNDS),
    aten.max_pool2d_with_indices.default: Decomposition(partial(_batched, 2, aten.max_pool2d_with_indices), BIT_EQUAL),
    **{
        getattr(aten, name).default: Decomposition(partial(_in_floats, getattr(torch, name)), BIT_EQUAL)
        for name in _FLOAT_FUNCTIONS
    },
}
