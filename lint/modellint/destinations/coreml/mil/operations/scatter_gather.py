"""Reading and writing at indices, of `coremltools.converters.mil.mil.ops.defs.iOS15.scatter_gather` and later.

A negative index counts from the end before iOS 17; from then on it is out of bounds, and what happens out of bounds is
undefined unless ``validate_indices`` asks for an error. Both are refused here.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.operation_registry import Refusal, axis_within, operation


@operation(moves=True)
def gather(
    x: Tensor, indices: Tensor, opset: int, axis: int = 0, batch_dims: int = 0, validate_indices: bool = False
) -> Tensor:
    """Slices of ``x`` along ``axis``, in place of which the axes of ``indices`` stand; ``batch_dims`` axes are common."""
    axis = axis_within(axis, x.dim())
    places = _bounded(indices, x.shape[axis], opset)
    if batch_dims == 0:
        picked = x.index_select(axis, places.reshape(-1))
        return picked.reshape([*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]])
    common = x.shape[:batch_dims]
    items = x.reshape(-1, *x.shape[batch_dims:])
    chosen = places.reshape(len(items), -1)
    picked = torch.stack([item.index_select(axis - batch_dims, at) for item, at in zip(items, chosen, strict=True)])
    return picked.reshape(*common, *x.shape[batch_dims:axis], *places.shape[batch_dims:], *x.shape[axis + 1 :])


@operation(moves=True)
def gather_along_axis(x: Tensor, indices: Tensor, opset: int, axis: int = 0, validate_indices: bool = False) -> Tensor:
    """``x`` at ``indices`` along ``axis``, element by element."""
    return torch.gather(x, axis, _bounded(indices, x.shape[axis], opset))


@operation(moves=True)
def gather_nd(x: Tensor, indices: Tensor, opset: int, batch_dims: int = 0, validate_indices: bool = False) -> Tensor:
    """Slices of ``x`` at the places whose coordinates are the last axis of ``indices``; ``batch_dims`` axes are common."""
    depth = indices.shape[-1]
    common, sizes, rest = x.shape[:batch_dims], x.shape[batch_dims:][:depth], x.shape[batch_dims + depth :]
    places = _flat(indices, sizes, opset).reshape(prod(common), -1)
    items = x.reshape(len(places), prod(sizes), prod(rest))
    picked = items[torch.arange(len(places)).unsqueeze(1), places]
    return picked.reshape([*indices.shape[:-1], *rest])


@operation()
def scatter(
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    opset: int,
    axis: int = 0,
    mode: str = "add",
    validate_indices: bool = False,
) -> Tensor:
    """``data`` with slices along ``axis`` changed by those of ``updates``, at ``indices`` (of any rank)."""
    axis = axis_within(axis, data.dim())
    places = _bounded(indices, data.shape[axis], opset).reshape(-1)
    slices = updates.reshape(*data.shape[:axis], len(places), *data.shape[axis + 1 :])
    moved, written = data.movedim(axis, 0), slices.movedim(axis, 0)
    spread = places.reshape([-1] + [1] * (data.dim() - 1)).expand(written.shape)
    return _written(moved, 0, spread, written, mode).movedim(0, axis)


@operation()
def scatter_along_axis(
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    opset: int,
    axis: int = 0,
    mode: str = "add",
    validate_indices: bool = False,
) -> Tensor:
    """``data`` changed by ``updates`` at ``indices`` along ``axis``, element by element."""
    return _written(data, axis, _bounded(indices, data.shape[axis], opset), updates, mode)


@operation()
def scatter_nd(
    data: Tensor, indices: Tensor, updates: Tensor, opset: int, mode: str = "add", validate_indices: bool = False
) -> Tensor:
    """``data`` changed by ``updates`` at the places whose coordinates are the last axis of ``indices``."""
    depth = indices.shape[-1]
    sizes = data.shape[:depth]
    places = _flat(indices, sizes, opset).reshape(-1, 1)
    items = data.reshape(prod(sizes), -1)
    written = updates.reshape(len(places), items.shape[1])
    return _written(items, 0, places.expand(written.shape), written, mode).reshape(data.shape)


def _bounded(indices: Tensor, size: int, opset: int) -> Tensor:
    """Indices from 0 on, as torch takes them."""
    places = indices.to(torch.int64)
    if places.numel():
        least, greatest = (int(extreme) for extreme in torch.aminmax(places))
        if least < 0 and opset >= 17:
            raise Refusal(f"index {least}: from iOS 17 on a negative one is out of bounds, which is undefined")
        if least < -size or greatest >= size:
            raise Refusal(f"index {least if least < -size else greatest} is out of bounds of {size}")
        if least < 0:
            return torch.where(places < 0, places + size, places)
    return places


def _flat(indices: Tensor, sizes: torch.Size, opset: int) -> Tensor:
    """Coordinates in the last axis as numbers of elements."""
    places = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for at, size in enumerate(sizes):
        places = places * size + _bounded(indices[..., at], size, opset)
    return places


def _written(data: Tensor, axis: int, places: Tensor, updates: Tensor, mode: str) -> Tensor:
    """``data`` after each of ``updates`` was written along ``axis``, by ``mode``.

    Where several are written to one place, all of them count; with ``update`` the last does, or which is open.
    """
    match mode:
        case "update":
            return data.scatter(axis, places, updates)
        case "add":
            return data.scatter_add(axis, places, updates)
        case "sub":
            return data.scatter_add(axis, places, -updates)
        case "mul":
            return data.scatter_reduce(axis, places, updates, "prod")
        case "div":
            divisor = torch.ones_like(data).scatter_reduce(axis, places, updates, "prod")
            return data / divisor if data.is_floating_point() else torch.div(data, divisor, rounding_mode="trunc")
        case "max":
            return data.scatter_reduce(axis, places, updates, "amax")
        case "min":
            return data.scatter_reduce(axis, places, updates, "amin")
        case _:
            raise Refusal(f"there is no mode {mode!r}")
