"""Resizing and sampling of images, of `coremltools.converters.mil.mil.ops.defs.iOS15.image_resizing` and later."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from modellint.destinations.coreml.mil.operation_registry import Refusal, operation


@operation(moves=True)
def upsample_nearest_neighbor(x: Tensor, scale_factor_height: float = 1, scale_factor_width: float = 1) -> Tensor:
    """Each element of the last two dimensions is the one at ``floor(i * old / new)``; new is ``floor(old * factor)``."""
    size = _scaled(x, scale_factor_height, scale_factor_width)
    images = x.reshape(1, -1, x.shape[-2], x.shape[-1])
    return functional.interpolate(images, size).reshape(*x.shape[:-2], *size)


@operation(moves=True)
def resize_nearest_neighbor(x: Tensor, target_size_height: int, target_size_width: int) -> Tensor:
    """Each element of the last two dimensions is the one at ``floor((i + 0.5) * old / new)``.

    Not documented, but what coremltools converts TensorFlow's ``half_pixel_centers`` to. That is also the one reading which
    meets both tests of `resize`: coremltools/converters/mil/mil/ops/tests/iOS17/test_image_resizing.py (2 to 3 elements),
    and test_ios17_resize_nearest_neighbor_dynamic_shape of the TensorFlow front end (10 to 20).
    """
    rows = x.index_select(x.dim() - 2, _nearest(x.shape[-2], target_size_height))
    return rows.index_select(x.dim() - 1, _nearest(x.shape[-1], target_size_width))


def _nearest(old: int, new: int) -> Tensor:
    return torch.div((2 * torch.arange(new) + 1) * old, 2 * new, rounding_mode="floor")


@operation()
def upsample_bilinear(
    x: Tensor,
    scale_factor_height: float = 1,
    scale_factor_width: float = 1,
    align_corners: bool = True,
    half_pixel_centers: bool | None = None,
) -> Tensor:
    """Bilinear interpolation at ``floor(size * factor)`` points, whose distance follows from the two sizes alone."""
    height, width = _scaled(x, scale_factor_height, scale_factor_width)
    match align_corners, not align_corners if half_pixel_centers is None else half_pixel_centers:
        case True, False:
            mode = "STRICT_ALIGN_CORNERS"
        case False, True:
            mode = "UNALIGN_CORNERS"
        case False, False:
            mode = "DEFAULT"
        case _:
            raise Refusal("corners aligned and half-pixel centers exclude each other")
    return resize_bilinear(x, height, width, mode)


@operation()
def resize_bilinear(
    x: Tensor, target_size_height: int = 1, target_size_width: int = 1, sampling_mode: str = "DEFAULT"
) -> Tensor:
    """Bilinear interpolation of the last two dimensions at the points that ``sampling_mode`` names."""
    height, width = target_size_height, target_size_width
    aligned = sampling_mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS") and min(height, width) > 1
    if aligned or sampling_mode == "UNALIGN_CORNERS":
        images = x.reshape(1, -1, x.shape[-2], x.shape[-1])
        resized = functional.interpolate(images, (height, width), mode="bilinear", align_corners=aligned)
        return resized.reshape(*x.shape[:-2], height, width)
    rows = interpolated(x, x.dim() - 2, _points(x.shape[-2], height, sampling_mode))
    return interpolated(rows, x.dim() - 1, _points(x.shape[-1], width, sampling_mode))


def interpolated(x: Tensor, axis: int, points: Tensor) -> Tensor:
    """``x`` along ``axis`` at fractional ``points``, each drawn to the nearest element that exists."""
    last = x.shape[axis] - 1
    points = points.clamp(0, last)
    left = points.floor().long()
    right = (left + 1).clamp(max=last)
    weight = (points - left).to(x.dtype).reshape([-1] + [1] * (x.dim() - 1 - axis))
    return torch.lerp(x.index_select(axis, left), x.index_select(axis, right), weight)


def _points(old: float, new: int, mode: str) -> Tensor:
    """Where ``new`` points lie among ``old`` elements: the formulas of ``resize_bilinear``'s docstring."""
    index = torch.arange(new, dtype=torch.float64)
    match mode:
        case "STRICT_ALIGN_CORNERS":
            return index * ((old - 1) / max(1, new - 1))
        case "ALIGN_CORNERS":
            return index * ((old - 1) / (new - 1)) if new > 1 else torch.full_like(index, (old - 1) / 2)
        case "DEFAULT":
            return index * (old / new)
        case "OFFSET_CORNERS":
            return (index + 0.5) * (max(1, old - 1) / new)
        case "UNALIGN_CORNERS":
            return (index + 0.5) * (old / new) - 0.5
        case _:
            raise Refusal(f"the sampling mode {mode!r} is not known")


def _scaled(x: Tensor, height: float, width: float) -> tuple[int, int]:
    return math.floor(x.shape[-2] * height), math.floor(x.shape[-1] * width)


@operation(moves=True)
def crop(x: Tensor, crop_height: list[int], crop_width: list[int]) -> Tensor:
    """The last two dimensions without so many elements at their beginning and end."""
    height, width = x.shape[-2:]
    return x[..., crop_height[0] : height - crop_height[1], crop_width[0] : width - crop_width[1]]


@operation()
def resize(
    x: Tensor,
    shape: list[int],
    resized_dims: int,
    interpolation_mode: str = "LINEAR",
    sampling_mode: str = "DEFAULT",
) -> Tensor:
    """`resize_bilinear` or `resize_nearest_neighbor` to the last ``resized_dims`` numbers of ``shape``; 0 keeps a size."""
    kept = x.shape[x.dim() - resized_dims :]
    sizes = [size or old for size, old in zip(shape[len(shape) - resized_dims :], kept, strict=True)]
    if list(kept[:-2]) != sizes[:-2]:
        raise Refusal("more than two dimensions are resized")
    height, width = ([1] if x.dim() < 2 else [x.shape[-2]]) + sizes if len(sizes) == 1 else sizes[-2:]
    match interpolation_mode, sampling_mode:
        case "NEAREST_NEIGHBOR", "DEFAULT":
            return resize_nearest_neighbor(x, height, width)
        case "LINEAR", _ if x.is_floating_point():
            return resize_bilinear(x, height, width, sampling_mode)
        case _:
            raise Refusal(f"{interpolation_mode} {sampling_mode} of {x.dtype} has no documented meaning")


@operation()
def crop_resize(
    x: Tensor,
    roi: Tensor | None = None,
    boxes: Tensor | None = None,
    box_indices: list[int] | None = None,
    target_height: int = 1,
    target_width: int = 1,
    normalized_coordinates: bool = False,
    spatial_scale: float = 1.0,
    box_coordinate_mode: str = "CORNERS_HEIGHT_FIRST",
    sampling_mode: str = "DEFAULT",
    pad_value: float = 0.0,
) -> Tensor:
    """Boxes of images (B, C, H, W), resized by bilinear interpolation.

    Until iOS 16 ``roi`` has (N, 1, 4, 1, 1) boxes for all images, or (N, 1, 5, 1, 1) with the image's index first, and the
    result is of shape (N, B or 1, C, h, w); from iOS 17 on it is ``boxes`` (N, 4), and the result's (N, C, h, w). Points
    lie in a box as `resize_bilinear` lays them into an image of ``end - start + 1`` elements. Those outside of the image
    give ``pad_value``: coremltools/converters/mil/mil/ops/tests/iOS16/test_image_resizing.py.
    """
    height, width = x.shape[-2:]
    scales = (height - 1, width - 1) if normalized_coordinates else (1, 1)
    regions = boxes if boxes is not None else roi
    if regions is None:
        raise Refusal("no boxes are given")
    rows = regions.double().reshape(regions.shape[0], -1).tolist()
    whole = boxes is None and len(rows[0]) == 4
    crops = []
    for number, row in enumerate(rows):
        if whole:
            images = x
        else:
            at = int(row[0]) if boxes is None else number if box_indices is None else box_indices[number]
            images = x[at : at + 1]
        corners = _corners([value * spatial_scale for value in row[-4:]], box_coordinate_mode)
        vertical = _within(corners[0] * scales[0], corners[2] * scales[0], target_height, sampling_mode)
        horizontal = _within(corners[1] * scales[1], corners[3] * scales[1], target_width, sampling_mode)
        resized = interpolated(interpolated(images, 2, vertical), 3, horizontal)
        inside = _inside(vertical, height)[:, None] & _inside(horizontal, width)
        crops.append(torch.where(inside, resized, pad_value))
    return torch.cat(crops) if boxes is not None else torch.stack(crops)


def _corners(box: list[float], mode: str) -> tuple[float, float, float, float]:
    """A box as (top, left, bottom, right)."""
    if mode.endswith("WIDTH_FIRST"):
        box = [box[1], box[0], box[3], box[2]]
    if mode.startswith("CORNERS"):
        return box[0], box[1], box[2], box[3]
    return box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2


def _within(start: float, end: float, count: int, mode: str) -> Tensor:
    """``count`` points from ``start`` to ``end``."""
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        if count == 1:
            return torch.tensor([start if mode.startswith("STRICT") else (start + end) / 2], dtype=torch.float64)
        return torch.linspace(start, end, count, dtype=torch.float64)
    if end < start:
        # coremltools' test of UNALIGN_CORNERS with such a box expects what no formula gives: points of the whole image.
        raise Refusal("a box ends before it begins")
    return start + _points(end - start + 1, count, mode).clamp(0, end - start)


def _inside(points: Tensor, size: int) -> Tensor:
    return (points >= 0) & (points <= size - 1)


@operation()
def resample(
    x: Tensor,
    coordinates: Tensor,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
    coordinates_mode: str,
    align_corners: bool,
) -> Tensor:
    """Elements of ``x`` (B, C, H, W) at ``coordinates`` (B, h, w, 2), each an (x, y).

    ``reflection`` mirrors at the outermost elements' centers and ``symmetric`` at their edges, whatever ``align_corners``
    says of the coordinates.
    """
    if padding_mode not in ("constant", "border", "reflection", "symmetric"):
        raise Refusal(f"the padding {padding_mode!r} is not known")
    if not coordinates.is_floating_point():
        coordinates = coordinates.to(x.dtype)
    # PyTorch's align_corners says both how coordinates count and where they are mirrored.
    aligned = {"reflection": True, "symmetric": False}.get(padding_mode, align_corners)
    size = torch.tensor([x.shape[-1], x.shape[-2]], dtype=x.dtype)
    grid = coordinates
    if coordinates_mode == "normalized_zero_to_one":
        grid = 2 * coordinates - 1
    elif coordinates_mode != "unnormalized" and coordinates_mode != "normalized_minus_one_to_one":
        raise Refusal(f"the coordinates {coordinates_mode!r} are not known")
    if coordinates_mode == "unnormalized" or aligned != align_corners:
        pixels = coordinates
        if coordinates_mode != "unnormalized":
            pixels = (grid + 1) / 2 * (size - 1) if align_corners else ((grid + 1) * size - 1) / 2
        grid = 2 * pixels / (size - 1).clamp(min=1) - 1 if aligned else (2 * pixels + 1) / size - 1
    if padding_mode == "constant":
        sampled = functional.grid_sample(x, grid, sampling_mode, "zeros", aligned)
        if padding_value == 0:
            return sampled
        weight = functional.grid_sample(torch.ones_like(x[:, :1]), grid, sampling_mode, "zeros", aligned)
        return sampled + padding_value * (1 - weight)
    beyond = "border" if padding_mode == "border" else "reflection"
    return functional.grid_sample(x, grid, sampling_mode, beyond, aligned)


@operation()
def affine(
    x: Tensor,
    transform_matrix: Tensor,
    output_height: int,
    output_width: int,
    sampling_mode: str,
    padding_mode: str,
    padding_value: float,
    coordinates_mode: str,
    align_corners: bool,
) -> Tensor:
    """`resample` of ``x`` at ``(a0 x + a1 y + a2, b0 x + b1 y + b2)``, x and y over the output from -1 to 1.

    ``transform_matrix`` is (B or 1, 6).
    """
    if coordinates_mode != "normalized_minus_one_to_one":
        raise Refusal(f"the coordinates {coordinates_mode!r} are not defined")
    matrices = transform_matrix.reshape(-1, 2, 3).expand(x.shape[0], 2, 3)
    grid = functional.affine_grid(matrices, [x.shape[0], x.shape[1], output_height, output_width], align_corners)
    return resample(x, grid, sampling_mode, padding_mode, padding_value, coordinates_mode, align_corners)
