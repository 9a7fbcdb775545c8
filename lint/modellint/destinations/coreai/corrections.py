"""Corrections: decompositions of operators that coreai-torch converts to something else, in ones that it converts right.

Each is run while the captured program is decomposed, on tensors without values; it gives ``NotImplemented`` for uses that it leaves
as they are. What coreai-torch 0.4.3 gets wrong is listed in `docs/coreai.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from modellint.destinations.coreai.supplied_decompositions import ROUNDS, Replacement
from modellint.destinations.decompositions.table import BIT_EQUAL, Function

aten = torch.ops.aten


def mends() -> Mapping[Any, Replacement]:
    """By operator what is decomposed wherever coreai-torch converts it to something else."""
    return _MENDS


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


def _to_copy(x: Tensor, *, dtype: torch.dtype | None = None, **rest: Any) -> Any:
    """A cast of floats to integers: one back to floats after it has the converter delete both."""
    if dtype is None or dtype.is_floating_point or dtype is torch.bool or not x.dtype.is_floating_point:
        return NotImplemented
    return aten._to_copy.default(torch.trunc(x), dtype=dtype, **rest)


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


_MENDS: dict[Any, Replacement] = {
    aten.add.Tensor: Replacement(partial(_scaled, torch.add), ROUNDS),
    aten.sub.Tensor: Replacement(partial(_scaled, torch.sub), ROUNDS),
    aten.rsub.Scalar: Replacement(_scaled_reversed, ROUNDS),
    aten.rsub.Tensor: Replacement(_scaled_reversed, ROUNDS),
    aten._to_copy.default: Replacement(_to_copy, BIT_EQUAL),
    aten.bitwise_not.default: Replacement(_bitwise_not, BIT_EQUAL),
    aten.expm1.default: Replacement(_expm1, ROUNDS),
    **{
        getattr(getattr(aten, f"upsample_nearest{rank}d"), overload): Replacement(_nearest, BIT_EQUAL)
        for rank in (1, 2, 3)
        for overload in ("default", "vec")
    },
    aten.log1p.default: Replacement(_log1p, ROUNDS),
    **{
        getattr(getattr(aten, name), overload): Replacement(partial(_of_floats, getattr(torch, name)), BIT_EQUAL)
        for name, overloads in {
            "mul": "Tensor",
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
