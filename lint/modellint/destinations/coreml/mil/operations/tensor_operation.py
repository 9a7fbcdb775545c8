"""Operations on whole tensors, of `coremltools.converters.mil.mil.ops.defs.iOS15.tensor_operation` and later."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

import torch
from torch import Tensor
from torch.nn import functional

from modellint.destinations.coreml.mil.non_maximum_suppression import kept_boxes
from modellint.destinations.coreml.mil.operation_registry import Declared, Refusal, axis_within, operation


@operation()
def argsort(x: Tensor, axis: int = -1, ascending: bool = False) -> Tensor:
    """Indices in the order of the values along ``axis``; equal ones keep their order (MIL leaves it open)."""
    return torch.sort(x, dim=axis, descending=not ascending, stable=True).indices


@operation(moves=True)
def band_part(x: Tensor, lower: int = -1, upper: int = -1) -> Tensor:
    """``lower`` diagonals below the main one and ``upper`` above it, zeros elsewhere; a negative number keeps all."""
    height, width = x.shape[-2:]
    below = torch.arange(height).unsqueeze(1) - torch.arange(width)
    inside = torch.ones_like(below, dtype=torch.bool)
    if lower >= 0:
        inside &= below <= lower
    if upper >= 0:
        inside &= below >= -upper
    return torch.where(inside, x, torch.zeros((), dtype=x.dtype))


@operation(moves=True)
def concat(values: list[Tensor], axis: int, interleave: bool = False) -> Tensor:
    """Concatenation along ``axis``, interleaved where that is asked for; scalars become a vector."""
    if values[0].dim() == 0:
        return torch.stack(values)
    if not interleave:
        return torch.cat(values, axis)
    axis %= values[0].dim()
    return torch.stack(values, axis + 1).flatten(axis, axis + 1)


@operation()
def cumsum(x: Tensor, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Cumulative sum along ``axis``: without the element itself where ``exclusive``, from the end where ``reverse``."""
    ordered = x.flip(axis) if reverse else x
    if exclusive and x.shape[axis]:
        ahead = ordered.narrow(axis, 0, x.shape[axis] - 1)
        ordered = torch.cat([torch.zeros_like(ordered.narrow(axis, 0, 1)), ahead], axis)
    result = torch.cumsum(ordered, axis)
    return result.flip(axis) if reverse else result


@operation(moves=True)
def fill(shape: Sequence[int], value: Tensor | None = None) -> Tensor:
    """Constant tensor, of zeros by default."""
    return (torch.zeros(()) if value is None else value).expand(list(shape))


@operation(moves=True)
def fill_like(ref_tensor: Tensor, value: Tensor | None = None) -> Tensor:
    """Constant tensor, of zeros by default, in another's shape."""
    return (torch.zeros(()) if value is None else value).expand(ref_tensor.shape)


@operation(moves=True)
def flatten2d(x: Tensor, axis: int = 1) -> Tensor:
    """A matrix: the axes before ``axis`` are its rows."""
    return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))


@operation(moves=True)
def identity(x: Tensor) -> Tensor:
    """Identity, of lists too."""
    return x


@operation(moves=True)
def non_maximum_suppression(
    boxes: Tensor,
    scores: Tensor,
    iou_threshold: float,
    max_boxes: int,
    opset: int,
    score_threshold: float = -float("inf"),
    per_class_suppression: bool = False,
) -> tuple[Tensor, ...]:
    """Boxes with the highest scores that do not overlap a better one by more than ``iou_threshold``.

    By the reference of coremltools' tests (`TestNonMaximumSuppression`): a box counts by its best class, whose score must
    exceed ``score_threshold``; where none does, the best box stays. Rows that are left over are 0, with index -1. From
    iOS 17 on boxes are the last axis, there is no threshold of scores, and the number of boxes is no output.
    """
    if opset >= 17:
        boxes, scores = boxes.transpose(1, 2), scores.transpose(1, 2)
    batch, _, classes = scores.shape
    chosen_boxes = boxes.new_zeros(batch, max_boxes, 4)
    chosen_scores = scores.new_zeros(batch, max_boxes, classes)
    indices = torch.full((batch, max_boxes), -1, dtype=torch.int32)
    counts = torch.zeros(batch, dtype=torch.int32)
    for item in range(batch):
        kept = kept_boxes(boxes[item], scores[item], iou_threshold, score_threshold, per_class_suppression)[:max_boxes]
        counts[item] = count = len(kept)
        chosen_boxes[item, :count] = boxes[item, kept]
        chosen_scores[item, :count] = scores[item, kept]
        indices[item, :count] = kept.to(torch.int32)
    if opset >= 17:
        return chosen_boxes.transpose(1, 2), chosen_scores.transpose(1, 2), indices
    return chosen_boxes, chosen_scores, indices, counts


@operation()
def non_zero(x: Tensor) -> Tensor:
    """Indices of nonzero elements, one in each row."""
    return torch.nonzero(x)


@operation(moves=True)
def one_hot(
    indices: Tensor,
    one_hot_vector_size: int,
    axis: int = -1,
    on_value: Tensor | None = None,
    off_value: Tensor | None = None,
) -> Tensor:
    """One-hot encoding: ``on_value`` (1) at each index along a new axis, ``off_value`` (0) elsewhere, also where an index is outside."""
    on = torch.ones((), dtype=torch.int32) if on_value is None else on_value
    off = torch.zeros((), dtype=torch.int32) if off_value is None else off_value
    axis = axis_within(axis, indices.dim() + 1)
    places = torch.arange(one_hot_vector_size).reshape([-1] + [1] * (indices.dim() - axis))
    return torch.where(indices.unsqueeze(axis) == places, on, off)


@operation(moves=True)
def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", constant_val: float = 0.0) -> Tensor:
    """Padding of the last axes, by ``pad[2 * i]`` elements before and ``pad[2 * i + 1]`` after the i-th of them."""
    widths = list(zip(pad[::2], pad[1::2], strict=True))
    if mode == "constant":
        return functional.pad(x, [size for both in reversed(widths) for size in both], value=constant_val)
    first = x.dim() - len(widths)
    for axis, (before, after) in enumerate(widths, first):
        if before or after:
            x = x.index_select(axis, _padded_places(x.shape[axis], before, after, mode))
    return x


@operation()
def range_1d(start: Tensor, end: Tensor, step: Tensor, declared: tuple[Declared, ...]) -> Tensor:
    """Range: ``start``, ``start + step``, … before ``end``.

    How many they are is computed in the element type, as coremltools does for the size that it declares: 0.3 / 0.1 is 3 in
    single precision, and a little more in double precision.
    """
    first, last, by = start.item(), end.item(), step.item()
    if not by:
        raise Refusal("a range with a step of 0")
    shape = declared[0].shape
    size = None if shape is None else shape[0]
    if not start.is_floating_point():
        return torch.arange(first, max(first, last) if by > 0 else min(first, last), by)
    count = max(0, ceil(((end - start) / step).item())) if size is None else size
    return (first + torch.arange(count, dtype=torch.float64) * by).to(start.dtype)


@operation()
def shape(x: Tensor) -> Tensor:
    """Sizes of all axes."""
    return torch.tensor(x.shape, dtype=torch.int32)


@operation(moves=True)
def split(
    x: Tensor, axis: int, num_splits: int | None = None, split_sizes: Sequence[int] | None = None
) -> tuple[Tensor, ...]:
    """Split along ``axis``: into ``split_sizes``, or ``num_splits`` equal parts."""
    if split_sizes is not None:
        return torch.split(x, list(split_sizes), axis)
    if num_splits is None or x.shape[axis] % num_splits:
        raise Refusal(f"{x.shape[axis]} elements in {num_splits} equal parts")
    return torch.tensor_split(x, num_splits, axis)


@operation(moves=True)
def stack(values: list[Tensor], axis: int) -> Tensor:
    """Stack along a new axis."""
    return torch.stack(values, axis)


@operation(moves=True)
def tile(x: Tensor, reps: Sequence[int]) -> Tensor:
    """``x`` repeated along each axis."""
    if all(size == 1 or count == 1 for size, count in zip(x.shape, reps, strict=True)):
        return x.expand([size * count for size, count in zip(x.shape, reps, strict=True)])
    return x.repeat(*reps)


@operation(moves=True)
def topk(
    x: Tensor,
    k: int = 1,
    axis: int = -1,
    ascending: bool = False,
    sort: bool = True,
    return_indices: bool = True,
    output_indices_dtype: str = "int32",
) -> tuple[Tensor, ...]:
    """The ``k`` greatest values along ``axis`` (least where ``ascending``; all for -1), sorted, and their indices.

    Of equal values the first comes first; MIL leaves that open, and the order altogether where ``sort`` is false.
    """
    values, indices = torch.sort(x, dim=axis, descending=not ascending, stable=True)
    count = x.shape[axis] if k == -1 else k
    chosen = (values.narrow(axis, 0, count), indices.narrow(axis, 0, count))
    return chosen if return_indices else chosen[:1]


def _padded_places(size: int, before: int, after: int, mode: str) -> Tensor:
    places = torch.arange(-before, size + after)
    match mode:
        case "replicate":
            return places.clamp(0, size - 1)
        case "reflect":
            if max(before, after) >= size:
                raise Refusal(f"a reflection of {max(before, after)} elements, of {size}")
            mirrored = places.abs()
            return torch.where(mirrored >= size, 2 * (size - 1) - mirrored, mirrored)
        case _:
            raise Refusal(f"there is no mode {mode!r}")
