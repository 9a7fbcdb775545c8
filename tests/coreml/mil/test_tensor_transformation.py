"""Changes of shape and order against numpy and what coremltools computes of constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import agree, executed, mb, program
from torch.nn import functional

from modellint.destinations.coreml.mil.executor import ExecutionError, Executor

RNG = np.random.default_rng(0)


def numbered(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@st.composite
def slices(draw: Any) -> tuple[tuple[int, ...], dict[str, Any], tuple[Any, ...]]:
    """A shape, the inputs of a slice of it, and the same as numpy's index. No slice is empty."""
    shape = tuple(draw(st.lists(st.integers(2, 6), min_size=1, max_size=4)))
    rows: dict[str, list[Any]] = {name: [] for name in ("begin", "end", "stride")}
    masks: dict[str, list[bool]] = {name: [] for name in ("begin_mask", "end_mask", "squeeze_mask")}
    index: list[Any] = []
    for axis, size in enumerate(shape):
        stride = draw(st.sampled_from([1, 1, 1, 2, 3, -1, -2]))
        taken = draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=2).map(sorted))
        begin, end = (taken[0], taken[1] + 1) if stride > 0 else (taken[1], taken[0] - 1)
        open_begin, open_end = draw(st.booleans()), draw(st.booleans()) or end < 0
        squeezed = draw(st.integers(0, 3)) == 0 and not (
            axis == len(shape) - 1 and len(index) == sum(masks["squeeze_mask"])
        )
        if squeezed:
            stride, open_begin, open_end = 1, False, False
            index.append(begin)
        else:
            index.append(slice(None if open_begin else begin, None if open_end else end, stride))
        # A bound counts from the end as well; -1 as the end of a backward slice would be another bound.
        rows["begin"].append(begin - size if draw(st.booleans()) else begin)
        rows["end"].append(end - size if end < size and draw(st.booleans()) else end)
        if open_end and end < 0:
            rows["end"][-1] = 0
        rows["stride"].append(stride)
        for name, flag in zip(masks, (open_begin, open_end, squeezed), strict=True):
            masks[name].append(flag)
    return shape, {**rows, **masks}, tuple(index)


@settings(max_examples=150, deadline=None)
@given(slices())
def test_slices_are_numpys(drawn: Any) -> None:
    shape, inputs, index = drawn
    x = numbered(*shape)
    np.testing.assert_array_equal(executed(lambda x: mb.slice_by_index(x=x, **inputs), x=x), x[index])


@settings(max_examples=100, deadline=None)
@given(slices())
def test_slices_are_written_where_they_are_read(drawn: Any) -> None:
    shape, inputs, index = drawn
    x, expected = numbered(*shape), numbered(*shape)
    update = -1 - numbered(*x[index].shape)
    expected[index] = update
    got = executed(lambda x, update: mb.slice_update(x=x, update=update, **inputs), 18, x=x, update=update)
    np.testing.assert_array_equal(got, expected)


def test_writing_a_slice_leaves_the_input() -> None:
    x, update = numbered(4), -numbered(2)

    def build(x: Any, update: Any) -> Any:
        return mb.slice_update(x=x, update=update, begin=[0], end=[2]), mb.identity(x=x)

    written, kept = executed(build, 18, x=x, update=update)
    assert written.tolist() == [0, -1, 2, 3]
    assert kept.tolist() == [0, 1, 2, 3]


def test_bounds_of_a_slice_that_are_computed() -> None:
    bounds = {"begin": np.array([0, -3], dtype=np.int32), "end": np.array([2, 100], dtype=np.int32)}
    x = numbered(3, 5)
    got = executed(lambda x, begin, end: mb.slice_by_index(x=x, begin=begin, end=end), x=x, **bounds)
    np.testing.assert_array_equal(got, x[0:2, -3:])


@pytest.mark.parametrize(("begin", "size"), [([0, 1], [2, 2]), ([1, 0], [-1, -1]), ([-2, -1], [1, 1])])
def test_slices_by_size(begin: list[int], size: list[int]) -> None:
    agree(lambda x: mb.slice_by_size(x=x, begin=begin, size=size), x=numbered(3, 4))


@pytest.mark.parametrize("shape", [(4, 6), (-1,), (2, -1, 2), (1, 24, 1), (0, -1, 0), (0, 0, 4)])
def test_reshape(shape: tuple[int, ...]) -> None:
    agree(lambda x: mb.reshape(x=x, shape=shape), x=numbered(2, 3, 4))


@pytest.mark.parametrize("shape", [(1, 0, -1, 0), (0, 0, 0, 0), (-1, 0), (6, 0)])
def test_zeros_in_a_shape_of_another_length(shape: tuple[int, ...]) -> None:
    x = numbered(2, 3, 4)
    agree(lambda x: mb.reshape(x=x, shape=shape), 17, x=x)
    asked = np.array(shape, dtype=np.int32)
    built = program(lambda x, shape: mb.reshape(x=x, shape=shape), 15, x=x, shape=asked)
    with pytest.raises(ExecutionError, match="rank 3"):
        Executor(built)({"x": torch.from_numpy(x), "shape": torch.from_numpy(asked)})


def test_reshape_to_a_computed_shape() -> None:
    x = numbered(2, 3, 4)
    got = executed(lambda x, shape: mb.reshape(x=x, shape=shape), x=x, shape=np.array([4, -1], dtype=np.int32))
    np.testing.assert_array_equal(got, x.reshape(4, 6))


def test_reshape_like() -> None:
    def build(x: Any, first: Any, second: Any) -> Any:
        ends = {"begins": (0, 1), "ends": (2, 0), "end_masks": (False, True)}
        return mb.reshape_like(x=x, ref_tensors=(first, second), **ends)

    got = executed(build, 16, x=numbered(180), first=numbered(2, 3, 4), second=numbered(1, 5, 6))
    assert got.shape == (2, 3, 5, 6)


@pytest.mark.parametrize("axes", [[0], [-1], [1, 3], [-2, 0], [4, 0, 2]])
def test_expand_dims(axes: list[int]) -> None:
    agree(lambda x: mb.expand_dims(x=x, axes=axes), x=numbered(2, 3))


@pytest.mark.parametrize("axes", [None, [0], [-2], [0, 2]])
def test_squeeze(axes: list[int] | None) -> None:
    chosen = {} if axes is None else {"axes": axes}
    agree(lambda x: mb.squeeze(x=x, **chosen), x=numbered(1, 3, 1, 2))


def test_squeeze_leaves_axes_that_are_no_ones() -> None:
    assert executed(lambda x: mb.squeeze(x=x, axes=[0, 1]), x=numbered(1, 3, 1)).shape == (3, 1)


@pytest.mark.parametrize("perm", [(0, 1, 2), (2, 0, 1), (-1, 0, -2)])
def test_transpose(perm: tuple[int, ...]) -> None:
    agree(lambda x: mb.transpose(x=x, perm=perm), x=numbered(2, 3, 4))


@pytest.mark.parametrize("axes", [None, [0], [-1, 0]])
def test_reverse(axes: list[int] | None) -> None:
    chosen = {} if axes is None else {"axes": axes}
    agree(lambda x: mb.reverse(x=x, **chosen), x=numbered(2, 3, 4))


@pytest.mark.parametrize(("seq_axis", "batch_axis"), [(0, 1), (1, 0), (2, 0), (1, -1)])
def test_reverse_sequence(seq_axis: int, batch_axis: int) -> None:
    x = numbered(3, 4, 5)
    count, size = x.shape[batch_axis], x.shape[seq_axis]
    lengths = RNG.integers(0, size + 1, count).astype(np.int32)
    expected = np.moveaxis(x.copy(), (batch_axis, seq_axis), (0, 1))
    for item, length in enumerate(lengths):
        expected[item, :length] = expected[item, :length][::-1]
    expected = np.moveaxis(expected, (0, 1), (batch_axis, seq_axis))

    def build(x: Any, lengths: Any) -> Any:
        return mb.reverse_sequence(x=x, lengths=lengths, seq_axis=seq_axis, batch_axis=batch_axis)

    np.testing.assert_array_equal(executed(build, x=x, lengths=lengths), expected)


@pytest.mark.parametrize(("axis", "size", "stride"), [(0, 2, 1), (1, 3, 2), (-1, 4, 3), (-2, 1, 1)])
def test_sliding_windows(axis: int, size: int, stride: int) -> None:
    x = numbered(4, 6, 8)
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    expected = np.moveaxis(np.take(windows, range(0, windows.shape[axis % 3], stride), axis % 3), -1, axis % 3 + 1)
    got = executed(lambda x: mb.sliding_windows(x=x, axis=axis, size=size, stride=stride), x=x)
    np.testing.assert_array_equal(got, expected)


def test_space_and_depth() -> None:
    x = numbered(1, 4, 1, 1)
    assert executed(lambda x: mb.depth_to_space(x=x, block_size=2), x=x).tolist() == [[[[0, 1], [2, 3]]]]
    x = numbered(2, 12, 3, 2)

    def there_and_back(x: Any) -> Any:
        return mb.space_to_depth(x=mb.depth_to_space(x=x, block_size=2), block_size=2)

    np.testing.assert_array_equal(executed(there_and_back, x=x), x)
    # A block's place is the slower part of a channel's number, and the faster one in PyTorch's pixel shuffle.
    shuffled = functional.pixel_shuffle(
        torch.from_numpy(x.reshape(2, 4, 3, 3, 2)).transpose(1, 2).reshape(2, 12, 3, 2), 2
    )
    np.testing.assert_array_equal(executed(lambda x: mb.depth_to_space(x=x, block_size=2), x=x), shuffled.numpy())


def test_pixel_shuffle() -> None:
    x = numbered(2, 12, 3, 2)
    expected = functional.pixel_shuffle(torch.from_numpy(x), 2).numpy()
    np.testing.assert_array_equal(executed(lambda x: mb.pixel_shuffle(x=x, upscale_factor=2), x=x), expected)
    back = executed(lambda x: mb.pixel_unshuffle(x=x, downscale_factor=np.uint32(2)), 16, x=expected)
    np.testing.assert_array_equal(back, x)


def test_space_and_batch() -> None:
    x = numbered(2, 1, 2, 4)
    got = executed(lambda x: mb.space_to_batch(x=x, block_shape=[2, 2], paddings=[[0, 0], [2, 0]]), x=x)
    assert got.shape == (8, 1, 1, 3)
    assert got[:, 0, 0].tolist()[:2] == [[0, 0, 2], [0, 8, 10]]
    back = executed(lambda x: mb.batch_to_space(x=x, block_shape=[2, 2], crops=[[0, 0], [2, 0]]), x=got)
    np.testing.assert_array_equal(back, x)
