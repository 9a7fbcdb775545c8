"""Reductions over axes: variance, extremes, products, medians, histograms, truth values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Dtype, Number, Tensor


def _variance(x: Any, dim: list[int] | None, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    dims = list(range(x.dim())) if not dim else [axis % x.dim() for axis in dim]
    mean = x.mean(dims, keepdim=True)
    off = x - mean
    # Counted, where sizes are not known before a run.
    count = torch.ones_like(x).sum(dims, keepdim=keepdim)
    free = torch.clamp_min(count - (1 if correction is None else correction), 0.0)
    variance = (off * off).sum(dims, keepdim=keepdim) / free
    return variance, mean if keepdim else mean.squeeze(dims)


_STATISTICS: dict[str, tuple[Callable[[Any, Any], Any], tuple[str, ...]]] = {
    "var": (lambda variance, mean: variance, ("var_correction",)),
    "std": (lambda variance, mean: variance.sqrt(), ("std_correction",)),
    "var_mean": (lambda variance, mean: (variance, mean), ()),
    "std_mean": (lambda variance, mean: (variance.sqrt(), mean), ()),
}
"""Results of variance and mean by operator, with further names for overloads with axes."""


def _of_all(statistic: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def of_all(x: Tensor, unbiased: bool = True) -> Any:
        """Variance, standard deviation and mean of all elements."""
        return statistic(*_variance(x, None, int(unbiased), False))

    return of_all


def _of_axes(statistic: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def of_axes(
        x: Tensor, dim: list[int] | None = None, correction: Number | None = None, keepdim: bool = False
    ) -> Any:
        """Variance, standard deviation and mean over axes, with any correction."""
        return statistic(*_variance(x, dim, correction, keepdim))

    return of_axes


for _operator, (_statistic, _others) in _STATISTICS.items():
    decomposes(_operator, exactness=within(16))(_of_all(_statistic))
    decomposes(_operator, ".dim", ".correction", *_others, exactness=within(16))(_of_axes(_statistic))


def _index_of(find: Callable[[Any, int], Any]) -> Callable[..., Any]:
    def index_of(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        """Index of the maximum or minimum among all elements."""
        if dim is not None:
            return NotImplemented
        index = find(x.reshape(-1), 0)
        return index.reshape([1] * x.dim()) if keepdim else index

    return index_of


INDEX_OF = tuple(decomposes(find.__name__)(_index_of(find)) for find in (torch.argmax, torch.argmin))
"""Indices among all elements."""


@decomposes("prod", exactness=within(16))
def prod(x: Tensor, dtype: Dtype | None = None) -> Any:
    """Product of all elements."""
    return _product(x.reshape(-1), 0, False, dtype)


@decomposes("prod", ".dim_int", exactness=within(16))
def prod_of_axis(x: Tensor, dim: int, keepdim: bool = False, dtype: Dtype | None = None) -> Any:
    """Product over an axis."""
    return _product(x, dim, keepdim, dtype)


def _product(x: Any, dim: int, keepdim: bool, dtype: Any) -> Any:
    if dtype is not None:
        x = x.to(dtype)
    if x.dtype == torch.bool:
        x = x.long()
    products = x.cumprod(dim)
    last = products.select(dim, products.shape[dim] - 1) if products.shape[dim] else products.sum(dim) + 1
    return last.unsqueeze(dim) if keepdim else last


@decomposes("cummax")
def cummax(x: Tensor, dim: int) -> Any:
    """Cumulative maximum, with its last index."""
    return _cumulative(x, dim, torch.ge)


@decomposes("cummin")
def cummin(x: Tensor, dim: int) -> Any:
    """Cumulative minimum, with its last index."""
    return _cumulative(x, dim, torch.le)


def _cumulative(x: Any, dim: int, better: Any) -> tuple[Any, Any]:
    values: list[Any] = []
    places: list[Any] = []
    for at in range(x.shape[dim]):
        value = torch.ops.aten.slice(x, dim, at, at + 1)
        place = torch.full_like(value, at, dtype=torch.int64)
        if values:
            wins = better(value, values[-1])
            if x.is_floating_point():
                # What is no number stays the largest and the smallest.
                wins = torch.logical_or(wins, torch.isnan(value))
            value = torch.where(wins, value, values[-1])
            place = torch.where(wins, place, places[-1])
        values.append(value)
        places.append(place)
    return torch.cat(values, dim), torch.cat(places, dim)


@decomposes("logsumexp", exactness=within(8))
def logsumexp(x: Tensor, dim: list[int], keepdim: bool = False) -> Any:
    """Log-sum-exp, from the largest element: devices sum the exponentials as they are (coremltools #2726)."""
    top = torch.amax(x.float(), dim, keepdim=True)
    top = torch.where(torch.abs(top) == torch.inf, torch.zeros_like(top), top)
    total = torch.log(torch.exp(x - top).sum(dim, keepdim=True)) + top
    return total if keepdim else total.squeeze(dim)


@decomposes("logcumsumexp", exactness=within(16))
def logcumsumexp(x: Tensor, dim: int) -> Any:
    """Cumulative log-sum-exp, each from its own maximum."""
    size = x.shape[dim]
    sums = [torch.logsumexp(x.narrow(dim, 0, at + 1), dim) for at in range(size)]
    return torch.stack(sums, dim)


@decomposes("kthvalue")
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """k-th smallest element along an axis, and its index."""
    values, places = torch.sort(x, dim)
    results = values.select(dim, k - 1), places.select(dim, k - 1)
    return tuple(result.unsqueeze(dim) for result in results) if keepdim else results


@decomposes("median", ".dim")
def median(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """Median along an axis, the lower of two, and its index; NaN wherever there is one."""
    value, place = kthvalue(x, (x.shape[dim] + 1) // 2, dim, True)
    if x.is_floating_point():
        missing = torch.isnan(x).to(x.dtype)
        some = torch.amax(missing, dim, keepdim=True) > 0
        value = torch.where(some, torch.nan, value)
        place = torch.where(some, torch.argmax(missing, dim, keepdim=True), place)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@decomposes("median")
def median_of_all(x: Tensor) -> Any:
    """Median of all elements, the lower of two."""
    return median(x.reshape(-1), 0)[0]


@decomposes("nanmean", exactness=within(8))
def nanmean(x: Tensor, dim: list[int] | None = None, keepdim: bool = False, dtype: Dtype | None = None) -> Any:
    """Mean without NaN."""
    dims = dim or list(range(x.dim()))
    missing = torch.isnan(x)
    count = torch.logical_not(missing).to(x.dtype).sum(dims, keepdim=keepdim)
    return torch.where(missing, torch.zeros_like(x), x).sum(dims, keepdim=keepdim) / count


@decomposes("histc")
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:  # noqa: A002
    """Histogram counts, in equal bins between given limits."""
    flat = x.reshape(-1)
    if min == max:
        raise NotImplementedError("limits that are those of the tensor")
    which = torch.floor((flat - min) * (bins / (max - min)))
    which = torch.where(flat == max, bins - 1, which.long())
    inside = torch.logical_and(flat >= min, flat <= max)
    hits = torch.logical_and(which.unsqueeze(-1) == torch.arange(bins), inside.unsqueeze(-1))
    return hits.to(x.dtype).sum(0)


@decomposes("cumsum")
def cumsum(x: Tensor, dim: int, dtype: Dtype | None = None) -> Any:
    """Sum of all elements so far, along an axis that is counted from the end: coremltools takes the last alone."""
    return torch.cumsum(x, dim % x.dim(), dtype=dtype)


@decomposes("sum")
def sum_of_all(x: Tensor, dtype: Dtype | None = None) -> Any:
    """Sum of all elements; coremltools counts truth values in floats, which hold no number above 2048 in float16."""
    return sum_of_axes(x.reshape(-1), [0], False, dtype)


@decomposes("sum", ".dim_intlist")
def sum_of_axes(x: Tensor, dim: list[int] | None = None, keepdim: bool = False, dtype: Dtype | None = None) -> Any:
    """Sum along axes; of truth values as integers, and of what is wanted in integers, where coremltools does not read the type."""
    if x.dtype is torch.bool or (x.dtype.is_floating_point and dtype is not None and not dtype.is_floating_point):
        x = x.to(torch.int32 if dtype is None else dtype)
    return torch.sum(x, dim or list(range(x.dim())), keepdim, dtype=dtype)


@decomposes("mean")
def mean_of_all(x: Tensor, dtype: Dtype | None = None) -> Any:
    """Mean of all elements; of integers in a type of floats, which coremltools does not read."""
    return mean_of_axes(x.reshape(-1), [0], False, dtype)


@decomposes("mean", ".dim")
def mean_of_axes(x: Tensor, dim: list[int] | None = None, keepdim: bool = False, dtype: Dtype | None = None) -> Any:
    """Mean along axes."""
    return torch.mean(x if dtype is None else x.to(dtype), dim or list(range(x.dim())), keepdim)


@decomposes("any")
def any_of_all(x: Tensor) -> Any:
    """Whether any element is not zero; coremltools casts floats to integers first, which lose their fractions."""
    return any_of_axes(x.reshape(-1), [0])


@decomposes("any", ".dim", ".dims")
def any_of_axes(x: Tensor, dim: list[int], keepdim: bool = False) -> Any:
    """Whether any element along axes is not zero."""
    return torch.amax((x != 0).float(), dim, keepdim) > 0


@decomposes("all")
def all_of_all(x: Tensor) -> Any:
    """Whether no element is zero."""
    return all_of_axes(x.reshape(-1), [0])


@decomposes("all", ".dim", ".dims")
def all_of_axes(x: Tensor, dim: list[int], keepdim: bool = False) -> Any:
    """Whether no element along axes is zero."""
    return torch.amin((x != 0).float(), dim, keepdim) > 0
