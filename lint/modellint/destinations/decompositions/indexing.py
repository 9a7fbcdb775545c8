"""Indexing: by masks and places, diagonals, and places in what is sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Operand, Tensor


@decomposes("masked_scatter")
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Any:
    """Elements of another tensor, in their order, put where a mask holds."""
    x, mask = torch.broadcast_tensors(x, mask)  # type: ignore[no-untyped-call]
    places = torch.cumsum(mask.reshape(-1).long(), 0) - 1
    taken = torch.index_select(source.reshape(-1), 0, torch.clamp(places, 0, source.numel() - 1))
    return torch.where(mask, taken.reshape(x.shape), x)


@decomposes("index_put", exactness="bit-equal")
def index_put(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    """Assignment of one value at masks and indices."""
    hit = torch.ones([1] * x.dim(), dtype=torch.bool)
    axis = 0
    for index in indices:
        shape = [1] * x.dim()
        if index is None:
            axis += 1
            continue
        if index.dtype == torch.bool:
            shape[axis : axis + index.dim()] = index.shape
            axis += index.dim()
        else:
            if index.numel() != 1:
                raise NotImplementedError("masks and more than one place")
            shape[axis] = x.shape[axis]
            index = torch.arange(x.shape[axis]) == torch.remainder(index.reshape(1), x.shape[axis])
            axis += 1
        hit = torch.logical_and(hit, index.reshape(shape))
    if values.numel() != 1:
        raise NotImplementedError("masks, places and more than one value")
    return torch.where(hit, values.reshape([1] * x.dim()).to(x.dtype), x)


@decomposes("index_put", exactness=within(4))
def put_at_places(x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool = False) -> Any:
    """Assignment or addition at places along some axes, which are broadcast to each other."""
    if x.dtype == torch.bool:
        return put_at_places(x.int(), indices, values.int(), accumulate) != 0
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    rest = [axis for axis in range(x.dim()) if axis not in axes]
    places = torch.broadcast_tensors(*(index for index in indices if index is not None))  # type: ignore[no-untyped-call]
    order = [*axes, *rest]
    permuted = x.permute(order)
    # Where the axes are neighbours, what is put has its places where they stand, else in front.
    first = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    shape = [x.shape[axis] for axis in rest]
    values = values.expand([*shape[:first], *places[0].shape, *shape[first:]])
    count = places[0].dim()
    values = values.permute([*range(first, first + count), *range(first), *range(first + count, values.dim())])
    at = torch.zeros_like(places[0])
    for axis, index in zip(axes, places, strict=True):
        at = at * x.shape[axis] + torch.where(index < 0, index + x.shape[axis], index)
    flat = permuted.reshape([-1, *shape])
    put = flat.index_put((at.reshape(-1),), values.reshape([-1, *shape]), accumulate)
    return put.reshape(permuted.shape).permute([order.index(axis) for axis in range(x.dim())])


@decomposes("index_reduce", exactness=within(8))
def index_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool = True) -> Any:
    """Reduction into an axis at indices: product, mean, maximum or minimum."""
    shape = [1] * x.dim()
    shape[dim] = -1
    places = index.reshape(shape).expand(source.shape) + 0
    if reduce != "mean":
        return torch.scatter_reduce(x, dim, places, source, reduce, include_self=include_self)
    count = torch.zeros_like(x).scatter_add(dim, places, torch.ones_like(source))
    total = torch.zeros_like(x).scatter_add(dim, places, source)
    if include_self:
        return (total + x) / (count + 1)
    return torch.where(count == 0, x, total / torch.clamp(count, min=1))


@decomposes("diagonal")
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Diagonal of two axes, along a new last one."""
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    rest = [axis for axis in range(x.dim()) if axis not in (dim1, dim2)]
    high, wide = int(x.shape[dim1]), int(x.shape[dim2])
    down, right = max(0, -offset), max(0, offset)
    count = max(0, min(high - down, wide - right))
    places = [(at + down) * wide + at + right for at in range(count)]
    flat = x.permute([*rest, dim1, dim2]).reshape(*(x.shape[axis] for axis in rest), high * wide)
    return torch.index_select(flat, len(rest), torch.tensor(places, dtype=torch.int64))


@decomposes("diag")
def diag(x: Tensor, diagonal: int = 0) -> Any:
    """Diagonal of a matrix, or a matrix with that diagonal."""
    return torch.diagonal(x, diagonal, 0, 1) if x.dim() == 2 else torch.diag_embed(x, diagonal)


@decomposes("narrow")
def narrow(x: Tensor, dim: int, start: int, length: int) -> Any:
    """Slice of an axis; a negative start counts from the end."""
    start %= int(x.shape[dim])
    return torch.ops.aten.slice(x, dim, start, start + length)


@decomposes("narrow_copy")
def narrow_copy(x: Tensor, dim: int, start: int, length: int) -> Any:
    """Slice of an axis, copied."""
    start %= int(x.shape[dim]) or 1
    return torch.ops.aten.slice(x, dim, start, start + length)


@decomposes("put", exactness=within(1))
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Any:
    """Elements put at indices into the flattened tensor."""
    flat, places = x.reshape(-1), index.reshape(-1)
    method = torch.scatter_add if accumulate else torch.scatter
    return method(flat, 0, torch.remainder(places, x.numel()), source.reshape(-1)).reshape(x.shape)


@decomposes("diagonal_scatter")
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Matrix with another diagonal."""
    if x.dim() != 2 or dim1 % 2 or not dim2 % 2:
        raise NotImplementedError("of more than two axes")
    high, wide = x.shape
    kept = torch.tensor([[right - down != offset for right in range(wide)] for down in range(high)])
    places = torch.tensor(
        [[max(0, min(src.shape[0] - 1, down + min(0, offset))) for _ in range(wide)] for down in range(high)]
    )
    return torch.where(kept, x, torch.index_select(src, 0, places.reshape(-1)).reshape(high, wide))


@decomposes("bucketize", ".tensor")
def bucketize(x: Tensor, boundaries: Tensor, out_int32: bool = False, right: bool = False) -> Any:
    """Index of the bucket of each element; NaN lies behind all boundaries."""
    values = x.unsqueeze(-1)
    behind = boundaries > values if right else boundaries >= values
    return torch.logical_not(behind).long().sum(-1)


@decomposes("searchsorted", ".tensor")
def searchsorted(
    boundaries: Tensor,
    x: Tensor,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Any:
    """Insertion index of each element in a sorted sequence."""
    if sorter is not None:
        raise NotImplementedError("a sequence that is not sorted")
    if boundaries.dim() > 1:
        boundaries = boundaries.unsqueeze(-2)
    return bucketize(x, boundaries, out_int32, right or side == "right")


@decomposes("index_fill", ".int_scalar", ".int_tensor")
def index_fill(x: Tensor, dim: int, index: Tensor, value: Operand) -> Any:
    """Fill with a number at indices along an axis."""
    size = int(x.shape[dim])
    hit = (torch.arange(size).unsqueeze(-1) == torch.remainder(index, size).reshape(1, -1)).long().sum(-1) > 0
    shape = [1] * x.dim()
    shape[dim] = size
    return torch.where(
        hit.reshape(shape), torch.full_like(x, value) if not isinstance(value, torch.Tensor) else value, x
    )
