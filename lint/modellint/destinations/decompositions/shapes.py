"""Shape operators, and constructors of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Dtype, Operand, Tensor


@decomposes("unfold")
def unfold(x: Tensor, dimension: int, size: int, step: int) -> Any:
    """Sliding windows along an axis, with their elements along a new last one."""
    if x.dim() == 0:
        return x.reshape(1)
    dimension %= x.dim()
    count = (x.shape[dimension] - size) // step + 1
    places = torch.tensor([[window * step + at for at in range(size)] for window in range(count)])
    numbers = x.to(torch.int32) if x.dtype is torch.bool else x
    taken = torch.index_select(numbers, dimension, places.reshape(-1))
    taken = taken.reshape(*x.shape[:dimension], count, size, *x.shape[dimension + 1 :])
    return taken.movedim(dimension + 1, -1).to(x.dtype)


@decomposes("where", ".scalarother", ".scalarself", ".scalar", ".self")
def where(condition: Tensor, x: Operand, other: Operand) -> Any:
    """Selection by a condition; either side may be a number."""
    if isinstance(x, torch.Tensor) and isinstance(other, torch.Tensor):
        wanted = torch.result_type(x, other)
        return torch.where(condition, x.to(wanted), other.to(wanted))
    wanted = torch.result_type(*(side if isinstance(side, torch.Tensor) else torch.tensor(side) for side in (x, other)))
    if isinstance(x, torch.Tensor) or isinstance(other, torch.Tensor):
        wanted = torch.result_type(x, other)
    # A tensor without axes would be taken for a number again.
    ones = [1] * max(1, condition.dim())
    x = x.to(wanted) if isinstance(x, torch.Tensor) else torch.full(ones, x, dtype=wanted)
    other = other.to(wanted) if isinstance(other, torch.Tensor) else torch.full(ones, other, dtype=wanted)
    if list(x.shape) == list(other.shape) == ones != list(condition.shape) and wanted != torch.bool:
        # A choice between two numbers has no size of its own to coremltools where that of the condition is flexible.
        x = x - condition.to(wanted) * 0
    chosen = torch.where(condition, x, other)
    shapes = [side.shape for side in (x, other) if list(side.shape) != ones]
    shape = torch.broadcast_shapes(condition.shape, *shapes)  # type: ignore[no-untyped-call]
    return chosen if chosen.shape == shape else chosen.reshape(shape)


@decomposes("linspace", ".tensor_tensor", ".tensor_scalar", ".scalar_tensor", exactness=within(4))
def linspace(
    start: Operand,
    end: Operand,
    steps: int,
    dtype: Dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
) -> Any:
    """Evenly spaced numbers between ends that are computed: of one element, which coremltools takes for rows where they have an axis."""
    wanted = dtype or torch.float32
    if not wanted.is_floating_point:
        return NotImplemented
    first, last = (
        end.to(wanted).reshape(1) if isinstance(end, torch.Tensor) else torch.full([1], end, dtype=wanted)
        for end in (start, end)
    )
    if steps < 2:
        return first[:steps]
    step = (last - first) / (steps - 1)
    half = steps // 2
    # From both ends, as PyTorch does.
    before = torch.arange(half, dtype=wanted)
    behind = torch.arange(steps - half - 1, -1, -1, dtype=wanted)
    return torch.cat([first + step * before, last - step * behind])


@decomposes("roll")
def roll(x: Tensor, shifts: list[int], dims: list[int] | None = None) -> Any:
    """Rotation along axes, or of all elements; of truth values as integers."""
    if not dims:
        return torch.roll(x.reshape(-1), shifts, 0).reshape(x.shape)
    if x.dtype is torch.bool:
        return torch.roll(x.to(torch.int32), shifts, dims).to(torch.bool)
    return torch.roll(x, shifts, dims)


@decomposes("gather")
def gather(x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Any:
    """Elements along an axis, by their places, which may be fewer along the other axes; of truth values as integers."""
    for axis in range(x.dim()):
        wanted = index.shape[axis]
        if axis != dim % x.dim() and isinstance(wanted, int) and wanted != x.shape[axis]:
            x = x.narrow(axis, 0, wanted)
    if x.dtype is torch.bool:
        return torch.gather(x.to(torch.int32), dim, index).to(torch.bool)
    return torch.gather(x, dim, index)


@decomposes("native_channel_shuffle")
def native_channel_shuffle(x: Tensor, groups: int) -> Any:
    """Channel shuffle."""
    parts = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    return parts.transpose(1, 2).reshape(x.shape)


@decomposes("mt")
def matrix_transposed(x: Tensor) -> Any:
    """Transposition of the last two axes."""
    return x.transpose(-2, -1)


@decomposes("zeros_like")
def zeros_like(
    x: Tensor,
    dtype: Dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
    memory_format: object = None,
) -> Any:
    """Zeros of another dtype."""
    return torch.zeros(x.shape, dtype=dtype)


@decomposes("ones_like")
def ones_like(
    x: Tensor,
    dtype: Dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
    memory_format: object = None,
) -> Any:
    """Ones of another dtype."""
    return torch.ones(x.shape, dtype=dtype)


@decomposes("eye")
def eye(
    n: int, dtype: Dtype | None = None, layout: object = None, device: object = None, pin_memory: object = None
) -> Any:
    """Ones on the diagonal of a square, in their dtype: coremltools makes floats of truth values and integers."""
    return eye_of_rows(n, n, dtype)


@decomposes("eye", ".m")
def eye_of_rows(
    n: int,
    m: int,
    dtype: Dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
) -> Any:
    """The same with another number of columns."""
    ones = torch.arange(n).reshape(n, 1) == torch.arange(m).reshape(1, m)
    return ones.to(dtype or torch.get_default_dtype())


@decomposes("full_like")
def full_like(
    x: Tensor,
    fill_value: Operand,
    dtype: Dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
    memory_format: object = None,
) -> Any:
    """Constant tensor of another dtype; a number in integers without its fraction, which coremltools keeps."""
    return _full(x.shape, fill_value, dtype or x.dtype)


@decomposes("new_full")
def new_full(
    x: Tensor,
    size: list[int],
    fill_value: Operand,
    dtype: Dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
) -> Any:
    """Constant tensor in another's dtype; in integers without a fraction."""
    return _full(size, fill_value, dtype or x.dtype)


def _full(size: list[int], value: Operand, kind: Dtype) -> Any:
    if isinstance(value, float) and not (kind.is_floating_point or kind.is_complex):
        value = bool(value) if kind is torch.bool else int(value)
    return torch.full(size, value, dtype=kind)


@decomposes("empty_permuted")
def empty_permuted(
    size: list[int],
    physical_layout: list[int],
    dtype: Dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
) -> Any:
    """Tensor that is to be written to: zeros, in whatever order they lie in memory."""
    return torch.zeros(size, dtype=dtype)


@decomposes("fill", ".tensor")
def fill(x: Tensor, value: Tensor) -> Any:
    """A tensor full of an element of another tensor, which coremltools takes for 0, or of a number in the tensor's own type."""
    return value.to(x.dtype).reshape([1] * x.dim()).expand(x.shape) + 0


@decomposes("tril_indices")
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    dtype: object = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
) -> Any:
    """Indices of the lower triangle of a matrix."""
    return _places(row, col, lambda down, right: right <= down + offset)


@decomposes("triu_indices")
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    dtype: object = None,
    layout: object = None,
    device: object = None,
    pin_memory: object = None,
) -> Any:
    """Indices of the upper triangle of a matrix."""
    return _places(row, col, lambda down, right: right >= down + offset)


def _places(row: int, col: int, is_among: Callable[[int, int], bool]) -> Any:
    places = [(down, right) for down in range(row) for right in range(col) if is_among(down, right)]
    return torch.tensor(places, dtype=torch.int64).reshape(-1, 2).T + 0
