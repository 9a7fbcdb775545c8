"""Decompositions that an export supplies: operators that coreai-torch lacks or refuses, in ones that it converts.

They are those of every destination, before them a few that go round what coreai-torch alone refuses, and PyTorch's own. Each is run
while the captured program is decomposed, on tensors without values; it gives ``NotImplemented`` for uses that it leaves as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from modellint.destinations.capture.known_values import KnownValues
from modellint.destinations.coreai.antialiased_resizing import FILTERS, resized
from modellint.destinations.coreai.constants import ConstantsByOperators
from modellint.destinations.decompositions.table import BIT_EQUAL, Decomposition, Function, decompositions

ROUNDS = "rounds otherwise"
TORCHS = "PyTorch's decomposition"
TIES = "ties may come in another order"
_LARGEST = 1 << 24
"""How many numbers a table of which element goes where may have."""
aten = torch.ops.aten


class Replacement(NamedTuple):
    """What is done about one operator."""

    function: Function
    exactness: str
    is_spared: Callable[[Any, KnownValues], bool] | None = None
    """Whether what is known of a node's operands shows that it is converted right as it is."""


def composites() -> Mapping[Any, Replacement]:
    """By operator what takes the place of PyTorch's own decomposition.

    That asserts its success, which coreai-torch has no place for, or adds at places (``col2im``), which takes a table of all of them.
    """
    return {operator: found for operator in (*_ASSERTING, *_ADDING) if (found := supplied(operator)) is not None}


def supplied(operator: Any) -> Replacement | None:
    """What is done about an operator without a converter, or one of which a use is refused; None where nothing is known."""
    return _SUPPLIED.get(operator) or shared(operator)


def shared(operator: Any) -> Replacement | None:
    """What every destination has for an operator, or PyTorch itself."""
    found = _shared(operator)
    is_exact = all(each.exactness == BIT_EQUAL for each in found)
    functions = [each.function for each in found]
    if function := _of_pytorch(operator):
        functions.append(function)
    if not functions:
        return None
    return Replacement(partial(_first, functions), (BIT_EQUAL if is_exact else ROUNDS) if found else TORCHS)


def _of_pytorch(operator: Any) -> Function | None:
    from torch._decomp import decomposition_table

    function = decomposition_table.get(operator)
    # Those of `torch._refs` end in primitive operators, which have no converters.
    return function if function is not None and function.__module__.startswith("torch._decomp") else None


def _shared(operator: Any) -> list[Decomposition]:
    """The decompositions of an operator: those of its overload, and then those that are of all."""
    name, _, overload = str(operator).partition(".")[2].lower().partition(".")
    name = name if operator.namespace == "aten" else f"{operator.namespace}::{name}"
    names = dict.fromkeys((name if overload == "default" else f"{name}.{overload}", name))
    return [each for wanted in names for each in _by_name().get(wanted, ())]


@cache
def _by_name() -> Mapping[str, Sequence[Decomposition]]:
    table: dict[str, list[Decomposition]] = {}
    for each in decompositions():
        for name in each.names:
            table.setdefault(name, []).append(each)
    return table


def _first(functions: Sequence[Function], *args: Any, **kwargs: Any) -> Any:
    """What the first decomposition makes that takes the arguments."""
    for function in functions:
        try:
            with ConstantsByOperators():
                result = function(*args, **kwargs)
        except (NotImplementedError, TypeError):
            # Another overload's, or not written for these.
            continue
        if result is not NotImplemented:
            return result
    return NotImplemented


def _batched(rank: int, operator: Function, x: Tensor, *rest: Any) -> Any:
    """A pooling without a batch."""
    if x.dim() != rank + 1:
        return NotImplemented
    result = operator(x.unsqueeze(0), *rest)
    return tuple(part.squeeze(0) for part in result) if isinstance(result, tuple) else result.squeeze(0)


def _in_floats(operator: Function, x: Tensor, *rest: Any) -> Any:
    """A function of real numbers, of integers."""
    return NotImplemented if x.dtype.is_floating_point or x.dtype.is_complex else operator(x.to(torch.float32), *rest)


def _bounded(operator: Function, x: Tensor, *bounds: Any, **named: Any) -> Any:
    """Integers between bounds that are not whole, which makes them real numbers; truth values, which become integers."""
    given = [bound for bound in (*bounds, *named.values()) if bound is not None]
    if x.dtype is torch.bool:
        wanted = reduce(torch.promote_types, (torch.result_type(x, bound) for bound in given))
        return operator(x.to(wanted), *bounds, **named)
    if x.dtype.is_floating_point or not any(torch.result_type(x, bound).is_floating_point for bound in given):
        return NotImplemented
    return operator(x.to(torch.float32), *bounds, **named)


def _extreme_truth(operator: Function, x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """The largest or smallest of truth values, and where it is."""
    if x.dtype is not torch.bool:
        return NotImplemented
    value, place = operator(x.to(torch.int32), dim, keepdim)
    return value != 0, place


def _extreme(operator: Function, x: Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
    """The largest or smallest of all numbers: coreai-torch reads the axes by their place, and there are none."""
    if dim:
        return NotImplemented
    return operator(x, tuple(range(x.dim())), keepdim) if x.dim() else x.clone()


def _argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    return torch.argmax(-x, dim, keepdim) if x.dtype.is_floating_point else NotImplemented


def _sort(x: Tensor, dim: int = -1, descending: bool = False) -> Any:
    if not x.dim():
        return NotImplemented
    if x.dtype is torch.bool:
        values, places = torch.topk(x.to(torch.int32), x.shape[dim], dim, descending, True)
        return values != 0, places
    return torch.topk(x, x.shape[dim], dim, descending, True)


def _sort_stable(x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """In the order of a stable sort, by how many elements come before each, if not too many are to be compared."""
    if not (stable and x.dim() and isinstance(x.shape[dim], int) and x.numel() * x.shape[dim] <= _LARGEST):
        return _sort(x, dim, descending)
    row = x.movedim(dim, -1)
    compared = row.to(torch.int32) if x.dtype is torch.bool else row
    at = torch.arange(x.shape[dim], dtype=torch.int32)
    mine, other = compared.unsqueeze(-1), compared.unsqueeze(-2)
    is_less, is_same = other < mine, other == mine
    if compared.dtype.is_floating_point:
        # What is not a number counts as the largest.
        strange, others = mine != mine, other != other
        is_less, is_same = is_less | (strange & ~others), is_same | (strange & others)
    is_before = (~is_less & ~is_same if descending else is_less) | (is_same & (at < at.unsqueeze(-1)))
    ranks = is_before.to(torch.int32).sum(-1, dtype=torch.int32)
    places = torch.where(ranks.unsqueeze(-2) == at.unsqueeze(-1), at, 0).sum(-1, dtype=torch.int32).to(torch.int64)
    return row.gather(-1, places).movedim(-1, dim), places.movedim(-1, dim)


def _argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Any:
    return NotImplemented if (parts := _sort(x, dim, descending)) is NotImplemented else parts[1]


def _argsort_stable(x: Tensor, *, stable: bool, dim: int = -1, descending: bool = False) -> Any:
    parts = _sort_stable(x, stable=stable, dim=dim, descending=descending)
    return NotImplemented if parts is NotImplemented else parts[1]


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
        if is_mask:
            # A query that sees no key gives zeros.
            seen = torch.amax(attn_mask.to(scores.dtype), -1, keepdim=True)
            return torch.softmax(torch.where(attn_mask, scores, -3e38), -1) * seen @ v
        scores = scores + attn_mask
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
    if reduce == "mean" and x.dtype.is_floating_point:
        count = here.sum(-2).to(x.dtype)
        total = torch.where(here, values, torch.zeros((), dtype=x.dtype)).sum(-2)
        mean = (old + total) / (count + 1) if includes else total / count.clamp_min(1)
        return (mean if includes else torch.where(count == 0, old, mean)).movedim(-1, dim)
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


def _masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """By the places of those that are true, of which there may be none."""
    x, mask = aten.broadcast_tensors([x, mask])
    return x.flatten().index_select(0, torch.nonzero(mask.flatten()).squeeze(1))


def _isnan(x: Tensor) -> Tensor:
    return x != x


def _remainder(x: Tensor, y: Any) -> Tensor:
    return torch.remainder(x, torch.full((), y, dtype=torch.result_type(x, y)))


def _elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    return torch.where(x > 0, x * scale, torch.expm1(x * input_scale) * (alpha * scale))


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


def _same(x: Tensor, *sizes: Any) -> Tensor:
    return x.reshape(*sizes)


def _squeezed(operator: Function, x: Tensor, *dims: Any) -> Tensor:
    """Without axes of size 1, by another shape: not every axis is taken for one."""
    return x.reshape(operator(x.new_empty(x.shape), *dims).shape)


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


def _shifted(is_left: bool, x: Tensor | int, places: Tensor | int) -> Any:
    """A shift as the product with a power of two, or the quotient by one, of 32 bits or more."""
    wanted = torch.result_type(x, places)
    if wanted not in (torch.int32, torch.int64) or (isinstance(places, int) and not 0 <= places < 32):
        return NotImplemented
    x = x.to(wanted) if isinstance(x, Tensor) else torch.full((), x, dtype=wanted)
    if not isinstance(places, Tensor):
        # 2 ** 31 is no number of 32 bits: the last place is gone in a second step.
        powers: Any = 1 << min(places, 30)
        last: Any = 1 + int(places > 30)
        return x * powers * last if is_left else (x // powers) // last
    with ConstantsByOperators():
        table = torch.tensor([1 << place for place in range(31)], dtype=x.dtype)
    # By a negative number, or by all places and more, PyTorch leaves 0, or the sign: Core AI's integers have 32 bits.
    is_some = (places >= 0) & (places < 32)
    powers = table[places.clamp(0, 30).to(torch.int64)]
    last = 1 + ((places > 30) | (places < 0)).to(x.dtype)
    if is_left:
        return x * powers * last * is_some.to(x.dtype)
    return torch.where(is_some, (x // powers) // last, -(x < 0).to(x.dtype))


_FLOAT_FUNCTIONS = [
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2", "expm1"),
    *("log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
]
_SUPPLIED: dict[Any, Replacement] = {
    aten.argmin.default: Replacement(_argmin, BIT_EQUAL),
    **{
        getattr(getattr(aten, name), overload): Replacement(partial(_bounded, getattr(torch, name)), BIT_EQUAL)
        for name in ("clamp", "clamp_min", "clamp_max")
        for overload in ("default", "Tensor")
    },
    **{
        getattr(getattr(aten, name), overload): Replacement(partial(resized, name), ROUNDS)
        for name in FILTERS
        for overload in ("default", "vec")
    },
    aten.amax.default: Replacement(partial(_extreme, torch.amax), BIT_EQUAL),
    aten.amin.default: Replacement(partial(_extreme, torch.amin), BIT_EQUAL),
    aten.max.dim: Replacement(partial(_extreme_truth, torch.max), TIES),
    aten.min.dim: Replacement(partial(_extreme_truth, torch.min), TIES),
    aten.sort.default: Replacement(_sort, TIES),
    aten.sort.stable: Replacement(_sort_stable, TIES),
    aten.isnan.default: Replacement(_isnan, BIT_EQUAL),
    aten.remainder.Scalar: Replacement(_remainder, BIT_EQUAL),
    aten.elu.default: Replacement(_elu, ROUNDS),
    aten.cumprod.default: Replacement(_cumprod, ROUNDS),
    aten.index_put.default: Replacement(_index_put, ROUNDS),
    aten.masked_select.default: Replacement(_masked_select, BIT_EQUAL),
    aten.view_copy.default: Replacement(_same, BIT_EQUAL),
    aten.permute_copy.default: Replacement(torch.permute, BIT_EQUAL),
    aten.narrow_copy.default: Replacement(torch.narrow, BIT_EQUAL),
    **{
        operator: Replacement(partial(_squeezed, operator), BIT_EQUAL)
        for operator in (aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
    },
    **{
        getattr(getattr(aten, name), overload): Replacement(
            partial(_shifted, "left" in name or "lshift" in name), BIT_EQUAL
        )
        for names, overloads in (
            (("bitwise_left_shift", "bitwise_right_shift"), ("Tensor", "Tensor_Scalar", "Scalar_Tensor")),
            (("__lshift__", "__rshift__"), ("Tensor", "Scalar")),
        )
        for name in names
        for overload in overloads
    },
    aten.argsort.default: Replacement(_argsort, TIES),
    aten.argsort.stable: Replacement(_argsort_stable, TIES),
    aten.as_strided.default: Replacement(_as_strided, BIT_EQUAL),
    aten.as_strided_copy.default: Replacement(_as_strided, BIT_EQUAL),
    aten.logaddexp.default: Replacement(_logaddexp, ROUNDS),
    aten._native_batch_norm_legit_no_training.default: Replacement(_normalized, ROUNDS),
    aten.scaled_dot_product_attention.default: Replacement(_attention, ROUNDS),
    aten.scatter_add.default: Replacement(_scatter_add, ROUNDS),
    aten.scatter_reduce.two: Replacement(_scatter_reduce, ROUNDS),
    aten.index_add.default: Replacement(_index_add, ROUNDS),
    aten.convolution.default: Replacement(_convolution, ROUNDS),
    aten.max_pool2d_with_indices.default: Replacement(partial(_batched, 2, aten.max_pool2d_with_indices), BIT_EQUAL),
    **{
        getattr(aten, name).default: Replacement(partial(_in_floats, getattr(torch, name)), BIT_EQUAL)
        for name in _FLOAT_FUNCTIONS
    },
}
_ASSERTING = (
    aten.linalg_inv.default,
    aten.linalg_solve.default,
    aten.linalg_lu_factor.default,
    aten.linalg_cholesky.default,
)
_ADDING = (aten.col2im.default,)
