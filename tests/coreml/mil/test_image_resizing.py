"""Resizing and sampling against the formulas of coremltools' docstrings in numpy, and against PyTorch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from programs import executed, mb
from torch.nn import functional

from modellint.destinations.coreml.mil.executor import ExecutionError

Array = NDArray[np.float32]
RNG = np.random.default_rng(0)
MODES = ["STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS"]


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def points(old: float, new: int, mode: str) -> NDArray[np.float64]:
    """Grid points, as ``resize_bilinear`` documents them."""
    i = np.arange(new)
    match mode:
        case "STRICT_ALIGN_CORNERS":
            found = i * (old - 1) / (new - 1) if new > 1 else np.zeros(1)
        case "ALIGN_CORNERS":
            found = i * (old - 1) / (new - 1) if new > 1 else np.array([(old - 1) / 2])
        case "DEFAULT":
            found = i * (old - old / new) / (new - 1) if new > 1 else np.zeros(1)
        case "OFFSET_CORNERS":
            delta = max(1, old - 1) / new
            found = 0.5 * delta + i * delta
        case _:
            found = i * old / new + 0.5 * old / new - 0.5
    return np.clip(found, 0, old - 1)


def sampled(x: Array, rows: NDArray[np.float64], columns: NDArray[np.float64]) -> Array:
    """``x`` between its elements."""
    for axis, at in ((-2, rows), (-1, columns)):
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        part = (at - low).reshape(-1, *[1] * (-axis - 1))
        x = np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part
    return x.astype(np.float32)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(7, 9), (3, 2), (1, 5), (4, 1), (1, 1), (4, 6)])
def test_resize_bilinear(mode: str, size: tuple[int, int]) -> None:
    x = normal(2, 3, 4, 6)
    made = executed(
        lambda x: mb.resize_bilinear(x=x, target_size_height=size[0], target_size_width=size[1], sampling_mode=mode),
        x=x,
    )
    wanted = sampled(x, points(4, size[0], mode), points(6, size[1], mode))
    np.testing.assert_allclose(made, wanted, atol=2e-6)
    # iOS 17's resize is the same; a size of 0 stays.
    later = executed(lambda x: mb.resize(x=x, shape=[1, *size], resized_dims=np.uint32(2), sampling_mode=mode), 17, x=x)
    np.testing.assert_array_equal(later, made)
    one = executed(lambda x: mb.resize(x=x, shape=[0, size[1]], resized_dims=np.uint32(1)), 17, x=x)
    wanted = sampled(x, np.arange(4.0), points(6, size[1], "DEFAULT"))
    np.testing.assert_allclose(one, wanted, atol=2e-6)


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({"align_corners": True}, "STRICT_ALIGN_CORNERS"),
        ({"align_corners": False}, "UNALIGN_CORNERS"),
        ({"align_corners": False, "half_pixel_centers": False}, "DEFAULT"),
        ({}, "STRICT_ALIGN_CORNERS"),
    ],
)
def test_upsample_bilinear_follows_from_the_sizes(options: dict[str, bool], mode: str) -> None:
    x = normal(1, 2, 4, 5)
    made = executed(
        lambda x: mb.upsample_bilinear(x=x, scale_factor_height=2.3, scale_factor_width=1.7, **options), 16, x=x
    )
    np.testing.assert_allclose(made, sampled(x, points(4, 9, mode), points(5, 8, mode)), atol=2e-6)


@pytest.mark.parametrize("size", [(9, 5), (3, 2), (4, 12)])
def test_nearest_neighbors(size: tuple[int, int]) -> None:
    x = normal(2, 3, 4, 6)
    wanted = x[:, :, (2 * np.arange(size[0]) + 1) * 4 // (2 * size[0])]
    wanted = wanted[..., (2 * np.arange(size[1]) + 1) * 6 // (2 * size[1])]
    resized = executed(
        lambda x: mb.resize_nearest_neighbor(x=x, target_size_height=size[0], target_size_width=size[1]), x=x
    )
    np.testing.assert_array_equal(resized, wanted)
    scaled = executed(
        lambda x: mb.upsample_nearest_neighbor(
            x=x, scale_factor_height=size[0] / 4 + 0.01, scale_factor_width=size[1] / 6 + 0.01
        ),
        x=x,
    )
    lower = x[:, :, np.arange(size[0]) * 4 // size[0]][..., np.arange(size[1]) * 6 // size[1]]
    np.testing.assert_array_equal(scaled, lower)
    whole = (x * 100).astype(np.int32)
    later = executed(
        lambda x: mb.resize(x=x, shape=size, resized_dims=np.uint32(2), interpolation_mode="NEAREST_NEIGHBOR"),
        17,
        x=whole,
    )
    np.testing.assert_array_equal(later, (wanted * 100).astype(np.int32))


@pytest.mark.parametrize(("size", "indices"), [(3, [0, 1, 1]), (4, [0, 0, 1, 1]), (1, [1])])
def test_the_nearest_of_two_elements(size: int, indices: list[int]) -> None:
    x = np.array([[[1.0], [2.0]]], np.float32)
    options = {"resized_dims": np.uint32(2), "interpolation_mode": "NEAREST_NEIGHBOR"}
    made = executed(lambda x: mb.resize(x=x, shape=[size, 1], **options), 17, x=x)
    assert made.ravel().tolist() == [x[0, at, 0] for at in indices]


def test_crop() -> None:
    x = normal(2, 5, 7)
    made = executed(lambda x: mb.crop(x=x, crop_height=[1, 2], crop_width=[0, 3]), x=x)
    np.testing.assert_array_equal(made, x[:, 1:3, :4])


BOXES = {
    "CORNERS_HEIGHT_FIRST": [0.5, 1.0, 2.5, 4.0],
    "CORNERS_WIDTH_FIRST": [1.0, 0.5, 4.0, 2.5],
    "CENTER_SIZE_HEIGHT_FIRST": [1.5, 2.5, 2.0, 3.0],
    "CENTER_SIZE_WIDTH_FIRST": [2.5, 1.5, 3.0, 2.0],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", list(BOXES))
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (5, 2)])
def test_boxes(mode: str, kind: str, normalized: bool, size: tuple[int, int]) -> None:
    x = normal(2, 3, 4, 6)
    box = np.array(BOXES[kind], np.float32)
    high_first = "HEIGHT" in kind
    given = box / np.array([3, 5, 3, 5] if high_first else [5, 3, 5, 3], np.float32) if normalized else box
    options = {
        "target_height": size[0],
        "target_width": size[1],
        "normalized_coordinates": normalized,
        "box_coordinate_mode": kind,
        "sampling_mode": mode,
    }
    wanted = sampled(x, 0.5 + points(3.0, size[0], mode), 1.0 + points(4.0, size[1], mode))
    roi = given.reshape(1, 1, 4, 1, 1)
    early = executed(lambda x: mb.crop_resize(x=x, roi=roi, **options), x=x)
    np.testing.assert_allclose(early[0], wanted, atol=1e-5)
    boxes, indices = np.stack([given, given]), np.array([1, 0], np.int32)
    late = executed(lambda x: mb.crop_resize(x=x, boxes=boxes, box_indices=indices, **options), 17, x=x)
    np.testing.assert_allclose(late, wanted[[1, 0]], atol=1e-5)


def test_points_beyond_the_image_have_the_padding_value() -> None:
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    roi = np.array([0, 0.1, 0.3, 1.3, 1.0], np.float32).reshape(1, 1, 5, 1, 1)
    made = executed(
        lambda x: mb.crop_resize(
            x=x,
            roi=roi,
            target_height=2,
            target_width=2,
            normalized_coordinates=True,
            sampling_mode="ALIGN_CORNERS",
            pad_value=7.0,
        ),
        16,
        x=x,
    )
    np.testing.assert_allclose(made.ravel(), [3.1, 5.2, 7.0, 7.0], atol=1e-5)


def test_a_box_that_ends_before_it_begins() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    roi = np.array([2, 2, 1, 1], np.float32).reshape(1, 1, 4, 1, 1)

    def build(mode: str) -> np.ndarray:
        return executed(
            lambda x: mb.crop_resize(x=x, roi=roi, target_height=2, target_width=2, sampling_mode=mode), x=x
        )

    assert build("ALIGN_CORNERS").ravel().tolist() == [10, 9, 6, 5]
    with pytest.raises(ExecutionError, match="ends before it begins"):
        build("UNALIGN_CORNERS")


def mirrored(at: float, size: int, mode: str) -> float:
    """A coordinate in the image, from one that may lie outside."""
    low, high = (0.0, size - 1.0) if mode == "reflection" else (-0.5, size - 0.5)
    if mode == "border":
        return min(max(at, 0.0), size - 1.0)
    while not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return min(max(at, 0.0), size - 1.0)


@pytest.mark.parametrize("padding", ["constant", "border", "reflection", "symmetric"])
@pytest.mark.parametrize("counted", ["unnormalized", "normalized_minus_one_to_one", "normalized_zero_to_one"])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("kind", ["bilinear", "nearest"])
def test_resample(padding: str, counted: str, aligned: bool, kind: str) -> None:
    x = normal(2, 3, 4, 5)
    pixels = RNG.uniform(-3, 7, (2, 3, 4, 2)).astype(np.float32)
    sizes = np.array([5, 4], np.float32)
    part = pixels / (sizes - 1) if aligned else (pixels + 0.5) / sizes
    given = {"unnormalized": pixels, "normalized_zero_to_one": part}.get(counted, 2 * part - 1)
    made = executed(
        lambda x, at: mb.resample(
            x=x,
            coordinates=at,
            sampling_mode=kind,
            padding_mode=padding,
            padding_value=1.5,
            coordinates_mode=counted,
            align_corners=aligned,
        ),
        x=x,
        at=given,
    )
    for n, i, j in itertools.product(range(2), range(3), range(4)):
        column, row = map(float, pixels[n, i, j])
        if padding != "constant":
            column, row = mirrored(column, 5, padding), mirrored(row, 4, padding)
        bordered = np.pad(x[n], [(0, 0), (9, 9), (9, 9)], constant_values=1.5)
        at_row, at_column = np.array([row + 9]), np.array([column + 9])
        if kind == "nearest":
            at_row, at_column = np.rint(at_row), np.rint(at_column)
        np.testing.assert_allclose(made[n, :, i, j], sampled(bordered, at_row, at_column)[:, 0, 0], atol=2e-5)


@pytest.mark.parametrize("matrices", [1, 2])
def test_affine(matrices: int) -> None:
    x, matrix = normal(2, 3, 4, 5), normal(matrices, 6)
    made = executed(
        lambda x, m: mb.affine(
            x=x,
            transform_matrix=m,
            output_height=3,
            output_width=6,
            sampling_mode="bilinear",
            padding_mode="constant",
            padding_value=0.0,
            coordinates_mode="normalized_minus_one_to_one",
            align_corners=True,
        ),
        x=x,
        m=matrix,
    )
    rows, columns = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 6), indexing="ij")
    spread = np.stack([columns, rows, np.ones_like(rows)], -1)
    grid = np.einsum("hwk,nrk->nhwr", spread, np.broadcast_to(matrix.reshape(-1, 2, 3), (2, 2, 3)))
    wanted = functional.grid_sample(torch.from_numpy(x), torch.from_numpy(grid.astype(np.float32)), align_corners=True)
    np.testing.assert_allclose(made, wanted.numpy(), atol=1e-5)
