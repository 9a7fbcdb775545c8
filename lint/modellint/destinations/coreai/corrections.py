"""Corrections: decompositions of operators that coreai-torch converts to something else, in ones that it converts right.

Each is run while the captured program is decomposed, on tensors without values; it gives ``NotImplemented`` for uses that it leaves
as they are. What coreai-torch 0.4.3 gets wrong is listed in `docs/coreai.md`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor

from modellint.destinations.capture.known_values import KnownValues
from modellint.destinations.coreai.supplied_decompositions import ROUNDS, Replacement, shared, supplied
from modellint.destinations.decompositions.attention import scaled_dot_product_attention
from modellint.destinations.decompositions.table import BIT_EQUAL, Function

aten = torch.ops.aten
_LARGEST_HALF, _LEAST_HALF = 65504.0, 2.0**-14
"""The largest number of float16, and the smallest that is not subnormal."""


def mends(captured: Collection[Any]) -> Mapping[Any, Replacement]:
    """By operator what is decomposed wherever coreai-torch converts it to something else, or to what cannot be run.

    ``captured`` are the operators of the program as it was captured: a pooling gives indices only where they are asked for there.
    """
    indexed = {
        operator: each
        for operator, each in _INDEXED.items()
        if operator in captured or _OF_ONE_AXIS.get(operator) in captured
    }
    always = {operator: found for operator in _FAILING if (found := supplied(operator)) is not None}
    return {**_MENDS, **always, **indexed}


def _scaled(operator: Function, x: Tensor, y: Any, *, alpha: float = 1) -> Any:
    """`add` and `sub` with a factor, which the converter leaves out; of integers and a float, which it computes in float16."""
    if alpha != 1:
        return operator(x, y * alpha)
    return _of_floats(operator, x, y)


def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Any:
    """`index` by truth values, which the converter takes for the numbers 0 and 1: by the places of those that are true."""
    if not any(index is not None and index.dtype is torch.bool for index in indices):
        return NotImplemented
    named = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(named) == 1:
        # Of several places none may be true: the interpreter ends its process on those alone.
        ((dim, mask),) = named
        return x.flatten(dim, dim + mask.dim() - 1).index_select(dim, torch.nonzero(mask.flatten()).squeeze(1))
    places: list[Tensor | None] = []
    for index in indices:
        is_mask = index is not None and index.dtype is torch.bool
        places += torch.nonzero(index).unbind(1) if is_mask else [index]  # type: ignore[arg-type]
    return aten.index.Tensor(x, places)


def _truth(x: Tensor) -> Any:
    """`any` and `all` of a tensor without axes, at which the converter ends its process."""
    if x.dim():
        return NotImplemented
    # Of bytes PyTorch gives a byte.
    return x.clone() if x.dtype is torch.bool else (x != 0).to(torch.uint8 if x.dtype is torch.uint8 else torch.bool)


def _index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    """`index_put` by truth values, without which the interpreter ends its process where none is true: a choice at every place.

    It ends it too at values that are broadcast, but one number at a list of places of the first axes: they are spread before.
    """
    named = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if all(index.dtype is not torch.bool for _, index in named):
        shape = aten.index.Tensor(x, indices).shape
        is_number = not values.dim() and indices[0] is not None and all(index.dim() < 2 for _, index in named)
        if is_number or values.shape == shape:
            return NotImplemented
        return aten.index_put.default(x, indices, values.expand(shape), accumulate)
    if len(named) != 1:
        return NotImplemented
    ((dim, mask),) = named
    behind = x.dim() - dim - mask.dim()
    if values.dim() > dim + 1 + behind:
        # What is assigned may have further dimensions of one.
        values = values.reshape(values.shape[values.dim() - dim - 1 - behind :])
    axis = values.dim() - behind - 1
    chosen = mask.reshape(*[1] * dim, *mask.shape, *[1] * behind)
    if axis >= 0 and not (isinstance(values.shape[axis], int) and values.shape[axis] == 1):
        # A value for each place that is true, counted from one: as many as are found, and there may be none.
        flat = mask.flatten()
        counted = torch.cumsum(flat.to(torch.int32), 0) * flat.to(torch.int32)
        shape = [*values.shape[:axis], 1, *values.shape[axis + 1 :]]
        rows = torch.cat([torch.zeros(shape, dtype=values.dtype), values], axis)
        taken = rows.index_select(axis, counted)
        given = taken.reshape(*taken.shape[:axis], *mask.shape, *taken.shape[axis + 1 :])
    elif axis >= 0:
        given = values.reshape(*values.shape[:axis], *[1] * mask.dim(), *values.shape[axis + 1 :])
    else:
        given = values
    return torch.where(chosen, x + given if accumulate else given, x)


def _cat(tensors: Sequence[Tensor], dim: int = 0) -> Any:
    """`cat` of tensors that all have no element, whose converter takes the rank of the first that has one."""
    if not all(any(isinstance(size, int) and size == 0 for size in tensor.shape) for tensor in tensors):
        return NotImplemented
    # `torch.cat` leaves out what has the shape `(0,)`, beside tensors of another rank.
    first = max(tensors, key=Tensor.dim)
    joined = [tensor for tensor in tensors if tensor.dim() == first.dim()]
    shape = list(first.shape)
    shape[dim] = sum(tensor.shape[dim] for tensor in joined)
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    return torch.zeros(shape, dtype=dtype)


def _scaled_reversed(x: Tensor, y: Any, alpha: float = 1) -> Any:
    """`rsub`: as a sum, as the difference of a number and a tensor is captured as `rsub` again."""
    return x * -alpha + y


_TRUTHS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mul": torch.logical_and,
    "minimum": torch.logical_and,
    "add": torch.logical_or,
    "maximum": torch.logical_or,
    "lt": lambda x, y: torch.logical_and(~x, y),
    "le": lambda x, y: torch.logical_or(~x, y),
    "gt": lambda x, y: torch.logical_and(x, ~y),
    "ge": lambda x, y: torch.logical_or(x, ~y),
}
"""What two truth values are combined by: the interpreter has no sum, product or order of them."""
_ANY_OR_ALL: Mapping[str, Function] = {"amax": torch.any, "max": torch.any, "amin": torch.all, "min": torch.all}
"""The same of the largest and the smallest of many."""


def _of_truths(name: str, otherwise: Function, x: Tensor, y: Any, **options: Any) -> Any:
    if isinstance(y, Tensor) and x.dtype is y.dtype is torch.bool and options.get("alpha", 1):
        return _TRUTHS[name](x, y)
    return otherwise(x, y, **options)


def _largest_truth(name: str, x: Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
    if x.dtype is not torch.bool:
        return NotImplemented
    return _ANY_OR_ALL[name](x, dim=list(dim) or list(range(x.dim())), keepdim=keepdim)


def _as_it_is(*args: Any, **options: Any) -> Any:
    return NotImplemented


def _of_floats(operator: Function, x: Tensor, y: Any) -> Any:
    """An operation of integers with a Python float, which the converter computes in float16."""
    if isinstance(x, Tensor) and not x.dtype.is_floating_point and not x.dtype.is_complex and isinstance(y, float):
        return operator(x.to(torch.float32), y)
    return NotImplemented


_NARROW = {torch.int8: 8, torch.uint8: 8, torch.int16: 16}
"""Types of integers that a cast saturates to, and how many bits they have."""


def _to_copy(x: Tensor, *, dtype: torch.dtype | None = None, **rest: Any) -> Any:
    """A cast: of integers to fewer bits, which saturates; of floats to integers, which the converter deletes with one back."""
    bits = _NARROW.get(dtype) if dtype is not None else None
    is_narrower = bits is not None and _NARROW.get(x.dtype, 32) >= bits
    if bits is not None and is_narrower and not x.dtype.is_floating_point and x.dtype not in (torch.bool, dtype):
        # Wrapped as PyTorch does it.
        low = torch.bitwise_and(x.to(torch.int32), torch.full((), 2**bits - 1, dtype=torch.int32))
        low = low if dtype is torch.uint8 else torch.where(low >= 2 ** (bits - 1), low - 2**bits, low)
        return aten._to_copy.default(low, dtype=dtype, **rest)
    if dtype is None or dtype.is_floating_point or dtype is torch.bool or not x.dtype.is_floating_point:
        return NotImplemented
    # An integer has no -0.
    return aten._to_copy.default(torch.trunc(x) + 0.0, dtype=dtype, **rest)


def _bitwise_not(x: Tensor) -> Any:
    """The complement of signed integers, which the converter computes in float32."""
    if x.dtype is torch.uint8:
        return (255 - x.to(torch.int32)).to(torch.uint8)
    return NotImplemented if x.dtype is torch.bool else -x - 1


def _sum(
    x: Tensor, dim: Sequence[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    """The sum over an axis of size 0, which the converter leaves to what is in memory."""
    dims = dim or range(x.dim())
    if not any(isinstance(x.shape[at], int) and x.shape[at] == 0 for at in dims):
        return NotImplemented
    shape = [1 if at in {each % x.dim() for each in dims} else size for at, size in enumerate(x.shape)]
    zeros = torch.zeros(shape, dtype=dtype or (x.dtype if x.dtype.is_floating_point else torch.int64))
    return zeros if keepdim else zeros.squeeze(list(dims))


def _attention(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, *rest: Any, **options: Any) -> Any:
    """Attention with a mask of truth values: a query that sees no key gives zeros, and to the converter the mean.

    What the converter adds to hidden scores is outweighed by scores that are large enough, too.
    """
    if attn_mask is None or attn_mask.dtype is not torch.bool:
        return NotImplemented
    return scaled_dot_product_attention(q, k, v, attn_mask, *rest, **options)


def _sees_all(node: Any, known: KnownValues) -> bool:
    """Whether every query of an attention sees every key by a mask that depends on no input, as those of transformers' encoders do."""
    mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
    seen = known.value(mask) if isinstance(mask, torch.fx.Node) else None
    return seen is not None and seen.dtype is torch.bool and bool(seen.all())


def _addmm(x: Tensor, first: Tensor, second: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
    """A product that nothing is added to, by ``beta=0``: the converter multiplies NaN and infinity by 0."""
    if beta:
        return NotImplemented
    product = torch.mm(first, second)
    return product if alpha == 1 else product * alpha


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
    """An average that does not count what is padded, one in ceil mode, and one without a batch; these are wrong, or refused."""
    kernel, padding = _for_each(kernel, rank), _for_each(padding, rank)
    if x.dim() == rank + 1:
        pooled = operator(
            x.unsqueeze(0), kernel, stride, padding, ceil_mode, count_include_pad, *_given(divisor_override)
        )
        return pooled.squeeze(0)
    if not stride:
        return operator(x, kernel, kernel, padding, ceil_mode, count_include_pad, *_given(divisor_override))
    if ceil_mode:
        return _avg_pool_over_the_end(
            operator, x, kernel, _for_each(stride, rank), padding, count_include_pad, divisor_override
        )
    if count_include_pad or divisor_override is not None or not any(padding):
        return NotImplemented
    ones = x.new_ones((1, 1, *x.shape[2:]))
    return operator(x, kernel, stride, padding, False, True) / operator(ones, kernel, stride, padding, False, True)


def _avg_pool_over_the_end(
    operator: Function,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    """An average in ceil mode: over zeros at the end, which do not count, as many as the last window needs."""
    sizes = [int(size) for size in x.shape[2:]]
    ends = []
    for size, window, step, pad in zip(sizes, kernel, stride, padding, strict=True):
        count = -(-(size + 2 * pad - window) // step) + 1
        # No window begins behind the input and the padding before it.
        count -= (count - 1) * step >= size + pad
        ends.append(max((count - 1) * step + window - size - 2 * pad, 0))
    margins = [
        margin for pad, end in zip(reversed(padding), reversed(ends), strict=True) for margin in (pad, pad + end)
    ]
    within, none = (kernel, stride, [0] * len(sizes)), (False, True)
    total = operator(torch.nn.functional.pad(x, margins), *within, *none, *_given(divisor_override))
    if divisor_override is not None or not (any(ends) or (any(padding) and not count_include_pad)):
        return total
    ones = x.new_ones((1, 1, *sizes))
    if count_include_pad:
        pads = [pad for pad in reversed(padding) for _ in range(2)]
        ones = torch.nn.functional.pad(ones, pads, value=1.0)
        margins = [margin for end in reversed(ends) for margin in (0, end)]
    return total / operator(torch.nn.functional.pad(ones, margins), *within, *none)


def _for_each(sizes: Sequence[int], rank: int) -> list[int]:
    """One size for each dimension."""
    return list(sizes) * rank if len(sizes) == 1 else list(sizes)


def _given(divisor: int | None) -> tuple[int, ...]:
    return () if divisor is None else (divisor,)


def _nearest(x: Tensor, output_size: Sequence[int] | None, *scales: Any) -> Any:
    """Resizing by the nearest element: the interpreter takes another one but where each is repeated, a whole number of times."""
    factors = [*(scales[0] if scales and isinstance(scales[0], (list, tuple)) else scales), *[None] * x.dim()]
    lengths = x.shape[2:]
    sizes = list(output_size or (int(size * (factor or 1)) for size, factor in zip(lengths, factors, strict=False)))
    if all(isinstance(size, int) for size in (*lengths, *sizes)) and all(
        wanted % length == 0 for wanted, length in zip(sizes, lengths, strict=True)
    ):
        return NotImplemented
    for axis in range(2, x.dim()):
        factor, length, wanted = factors[axis - 2], x.shape[axis], sizes[axis - 2]
        ratio = 1 / factor if factor else length / wanted
        places = torch.floor(torch.arange(wanted, dtype=torch.float32) * ratio).clamp(max=length - 1)
        x = x.index_select(axis, places.to(torch.int64))
    return x


def _scalar_tensor(
    value: Any, *, dtype: torch.dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Any:
    """A number as a tensor, which the converter makes in float16 where that holds it, and casts: 1e-5 becomes 6e-8."""
    if not isinstance(value, float) or is_kept_by_float16(value):
        return NotImplemented
    return torch.full((), value, dtype=dtype)


def is_kept_by_float16(value: float) -> bool:
    """Whether the converter gives a number of float32 as it is: in float16 without rounding, or beyond it."""
    if not math.isfinite(value) or value == 0:
        return True
    (half,) = struct.unpack("<e", struct.pack("<e", value)) if abs(value) <= _LARGEST_HALF else (value,)
    return bool(half == value and abs(value) >= _LEAST_HALF)


def _arange(
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Any:
    """Numbers at a distance, which the converter rounds to float16, as it does where they begin: by whole numbers."""
    if not any(isinstance(each, float) and not is_kept_by_float16(each) for each in (start, step)):
        return NotImplemented
    if dtype is not None and not dtype.is_floating_point:
        return NotImplemented
    count = len(torch.arange(start, end, step, device="meta"))
    places = torch.arange(count, dtype=torch.float32)
    return (places * step + start).to(dtype or torch.float32)


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


_FAILING = (aten.isclose.default, aten.logaddexp.default)
"""What converts, and cannot be run."""
_INDEXED = {
    operator: replacement
    for operator in (aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default)
    if (replacement := shared(operator)) is not None
}
"""What gives zeros for indices."""
_OF_ONE_AXIS = {aten.max_pool2d_with_indices.default: aten.max_pool1d_with_indices.default}
"""By an operator another that is made of it."""
_MENDS: dict[Any, Replacement] = {
    aten.sum.dim_IntList: Replacement(_sum, BIT_EQUAL),
    aten.addmm.default: Replacement(_addmm, BIT_EQUAL),
    aten.scaled_dot_product_attention.default: Replacement(_attention, ROUNDS, _sees_all),
    aten.add.Tensor: Replacement(partial(_of_truths, "add", partial(_scaled, torch.add)), ROUNDS),
    aten.sub.Tensor: Replacement(partial(_scaled, torch.sub), ROUNDS),
    aten.rsub.Scalar: Replacement(_scaled_reversed, ROUNDS),
    aten.rsub.Tensor: Replacement(_scaled_reversed, ROUNDS),
    aten._to_copy.default: Replacement(_to_copy, BIT_EQUAL),
    aten.index.Tensor: Replacement(_index, BIT_EQUAL),
    aten.index_put.default: Replacement(_index_put, BIT_EQUAL),
    **dict.fromkeys((aten.any.default, aten.all.default), Replacement(_truth, BIT_EQUAL)),
    aten.cat.default: Replacement(_cat, BIT_EQUAL),
    aten.bitwise_not.default: Replacement(_bitwise_not, BIT_EQUAL),
    aten.expm1.default: Replacement(_expm1, ROUNDS),
    aten.scalar_tensor.default: Replacement(_scalar_tensor, BIT_EQUAL),
    aten.arange.start_step: Replacement(_arange, ROUNDS),
    **{
        getattr(getattr(aten, f"upsample_nearest{rank}d"), overload): Replacement(_nearest, BIT_EQUAL)
        for rank in (1, 2, 3)
        for overload in ("default", "vec")
    },
    aten.log1p.default: Replacement(_log1p, ROUNDS),
    aten.mul.Tensor: Replacement(partial(_of_truths, "mul", partial(_of_floats, torch.mul)), BIT_EQUAL),
    **{
        operator: Replacement(partial(_of_truths, str(operator).split(".")[1], _as_it_is), BIT_EQUAL)
        for operator in (
            *(aten.maximum.default, aten.minimum.default),
            *(aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor),
        )
    },
    **{
        operator: Replacement(partial(_largest_truth, str(operator).split(".")[1]), BIT_EQUAL)
        for operator in (aten.amax.default, aten.amin.default, aten.max.default, aten.min.default)
    },
    **{
        getattr(getattr(aten, name), overload): Replacement(partial(_of_floats, getattr(torch, name)), BIT_EQUAL)
        for name, overloads in {
            "div": "Tensor",
            **dict.fromkeys(("gt", "ge", "lt", "le", "eq", "ne"), "Scalar"),
        }.items()
        for overload in overloads.split()
    },
    **{
        getattr(aten, f"avg_pool{rank}d").default: Replacement(
            partial(_avg_pool, rank, getattr(aten, f"avg_pool{rank}d")), ROUNDS
        )
        for rank in (2, 3)
    },
}
