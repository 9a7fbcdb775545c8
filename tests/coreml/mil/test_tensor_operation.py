"""Operations on whole tensors against numpy and what coremltools computes of constants."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from programs import Function, Program, agree, executed, get_new_symbol, mb, types
from torch.nn import functional

from modellint.destinations.coreml.mil.executor import ExecutionError, Executor

RNG = np.random.default_rng(0)
X = RNG.permutation(120).reshape(2, 3, 4, 5).astype(np.float32)


@pytest.mark.parametrize(("lower", "upper"), list(product([-1, 0, 1, 5], [-1, 0, 2])))
def test_band_part(lower: int, upper: int) -> None:
    agree(lambda x: mb.band_part(x=x, lower=lower, upper=upper), x=X)


def test_outside_a_band_infinities_are_zeros() -> None:
    x = np.full((2, 2), np.inf, dtype=np.float32)
    assert executed(lambda x: mb.band_part(x=x, lower=-1, upper=0), x=x).tolist() == [[np.inf, 0], [np.inf, np.inf]]


@pytest.mark.parametrize(("axis", "exclusive", "reverse"), list(product([0, 2, -1], [False, True], [False, True])))
def test_cumsum(axis: int, exclusive: bool, reverse: bool) -> None:
    got = executed(lambda x: mb.cumsum(x=x, axis=axis, exclusive=exclusive, reverse=reverse), x=X)
    expected = np.flip(X, axis) if reverse else X
    expected = np.cumsum(expected, axis) - (expected if exclusive else 0)
    np.testing.assert_array_equal(got, np.flip(expected, axis) if reverse else expected)


def test_an_exclusive_sum_beside_infinity() -> None:
    x = np.array([1, np.inf, 2], dtype=np.float32)
    assert executed(lambda x: mb.cumsum(x=x, exclusive=True), x=x).tolist() == [0, 1, np.inf]


@pytest.mark.parametrize("value", [2.5, np.float16(1.5), 3, True])
def test_fill(value: Any) -> None:
    agree(lambda: mb.fill(shape=[2, 3], value=value))
    agree(lambda x: mb.fill_like(ref_tensor=x, value=value), 16, x=X)
    got = executed(lambda shape: mb.fill(shape=shape, value=value), shape=np.array([3, 1], dtype=np.int32))
    assert got.tolist() == [[value]] * 3


def test_fill_where_not_even_the_number_of_axes_is_declared() -> None:
    made = Program()
    with Function({"shape": mb.placeholder((get_new_symbol(),), dtype=types.int32)}) as function:
        function.set_outputs([mb.fill(shape=function.inputs["shape"], value=2.0)])
    made.add_function("main", function)
    (result,) = Executor(made)({"shape": torch.tensor([2, 1, 3])}).values()
    assert result.shape == (2, 1, 3)


def test_non_zero() -> None:
    agree(mb.non_zero, x=X % 3)
    agree(mb.non_zero, x=X % 3 == 0)


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
def test_one_hot(axis: int) -> None:
    indices = np.array([[0, 2, 1], [3, -1, 4]], dtype=np.int32)
    expected = np.moveaxis(indices[..., None] == np.arange(4), -1, axis)
    got = executed(lambda indices: mb.one_hot(indices=indices, one_hot_vector_size=4, axis=axis), indices=indices)
    np.testing.assert_array_equal(got, expected.astype(np.int32))

    def build(indices: Any, one_hot_vector_size: Any) -> Any:
        values = {"on_value": 2.0, "off_value": -1.0}
        return mb.one_hot(indices=indices, one_hot_vector_size=one_hot_vector_size, axis=axis, **values)

    got = executed(build, indices=indices, one_hot_vector_size=np.int32(4))
    np.testing.assert_array_equal(got, np.where(expected, np.float32(2), np.float32(-1)))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
@pytest.mark.parametrize("pad", [[1, 2], [0, 0, 1, 1, 2, 0], [1, 0, 2, 1, 3, 3, 1, 4]])
def test_pad(mode: str, pad: list[int]) -> None:
    agree(lambda x: mb.pad(x=x, pad=pad, mode=mode, constant_val=7.0), x=X)


def test_a_reflection_of_more_than_there_is_is_refused() -> None:
    x, pad = X[0, 0], np.array([0, 0, 5, 0], dtype=np.int32)
    with pytest.raises(ExecutionError, match="a reflection of 5"):
        executed(lambda x, pad: mb.pad(x=x, pad=pad, mode="reflect"), x=x, pad=pad)


def test_pad_by_a_computed_width() -> None:
    pad = np.array([0, 0, 1, 2, 0, 0, 0, 1], dtype=np.int32)
    expected = np.pad(X, pad.reshape(4, 2))
    np.testing.assert_array_equal(executed(lambda x, pad: mb.pad(x=x, pad=pad), x=X, pad=pad), expected)


@pytest.mark.parametrize(
    ("start", "end", "step"), [(0, 7, 2), (5, -3, -3), (2, 2, 1), (-4, 3, 7), (3, 0, 1), (0, 3, -1)]
)
def test_range_of_integers(start: int, end: int, step: int) -> None:
    bounds = {"start": np.int32(start), "end": np.int32(end), "step": np.int32(step)}
    assert executed(mb.range_1d, **bounds).tolist() == list(range(start, end, step))


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(0.0, 1.0, 0.1), (0.0, 0.3, 0.1), (0.0, 0.9, 0.3), (-1.0, 1.0, 0.25), (5.0, 1.0, -0.5)],
)
def test_range_of_numbers(start: float, end: float, step: float) -> None:
    agree(lambda: mb.range_1d(start=start, end=end, step=step))
    agree(mb.range_1d, start=np.float32(start), end=np.float32(end), step=np.float32(step))


def test_a_range_without_a_step_is_refused() -> None:
    with pytest.raises(ExecutionError, match="step of 0"):
        executed(mb.range_1d, start=np.int32(0), end=np.int32(3), step=np.int32(0))


def test_tile() -> None:
    agree(lambda x: mb.tile(x=x, reps=[1, 2, 1, 3]), x=X)
    agree(lambda x: mb.tile(x=x, reps=[2, 2, 3, 2]), x=X)
    agree(lambda x: mb.tile(x=x, reps=[3, 1]), x=np.array([[1.0, 2.0]], dtype=np.float32))


@pytest.mark.parametrize(("axis", "ascending"), list(product([0, 1, -1], [False, True])))
def test_order(axis: int, ascending: bool) -> None:
    agree(lambda x: mb.argsort(x=x, axis=axis, ascending=ascending), x=X)
    agree(lambda x: mb.topk(x=x, k=2, axis=axis, ascending=ascending), x=X)
    agree(lambda x: mb.topk(x=x, k=2, axis=axis, ascending=ascending, return_indices=False), 16, x=X)
    agree(lambda x: mb.topk(x=x, k=2, axis=axis, output_indices_dtype="uint16"), 17, x=X)


def test_of_equal_values_the_first_comes_first() -> None:
    x = np.array([1, 3, 3, 1, 3], dtype=np.float32)
    assert executed(lambda x: mb.argsort(x=x), x=x).tolist() == [1, 2, 4, 0, 3]
    assert executed(lambda x: mb.topk(x=x, k=2), x=x)[1].tolist() == [1, 2]


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_flatten2d(axis: int) -> None:
    agree(lambda x: mb.flatten2d(x=x, axis=axis), x=X)


def test_shape() -> None:
    assert executed(mb.shape, x=X).tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_stack(axis: int) -> None:
    agree(lambda x, y: mb.concat(values=(x, y, x), axis=axis), x=X, y=-X)
    agree(lambda x, y: mb.stack(values=(x, y), axis=axis), x=X, y=-X)


def test_concat_in_turn() -> None:
    # coremltools' own computation leaves `interleave` out.
    x = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32)
    got = executed(lambda x, y: mb.concat(values=(x, y), axis=0, interleave=True), x=x, y=x + 6)
    assert got.tolist() == [[1, 2], [7, 8], [3, 4], [9, 10], [5, 6], [11, 12]]
    got = executed(lambda x, y: mb.concat(values=(x, y), axis=-1, interleave=True), x=x, y=x + 6)
    assert got.tolist() == [[1, 7, 2, 8], [3, 9, 4, 10], [5, 11, 6, 12]]


def test_concat_of_scalars() -> None:
    x, y = np.int32(3), np.int32(4)
    assert executed(lambda x, y: mb.concat(values=(x, y), axis=0), x=x, y=y).tolist() == [3, 4]


def test_split() -> None:
    agree(lambda x: mb.split(x=x, axis=2, num_splits=2), x=X)
    agree(lambda x: mb.split(x=x, axis=-1, split_sizes=[1, 3, 1]), x=X)


def overlap(a: Any, b: Any) -> float:
    """Intersection over union of two boxes: x and y of the centre, width, height."""
    sides = [
        min(a[i] + a[i + 2] / 2, b[i] + b[i + 2] / 2) - max(a[i] - a[i + 2] / 2, b[i] - b[i + 2] / 2) for i in (0, 1)
    ]
    both = max(0.0, sides[0]) * max(0.0, sides[1])
    return both / (a[2] * a[3] + b[2] * b[3] - both)


def survivors(boxes: Any, scores: Any, most: float, least: float, per_class: bool) -> list[int]:
    best, label = scores.max(1), scores.argmax(1)
    left: list[int] = []
    for index in np.argsort(-best):
        rivals = [one for one in left if not per_class or label[one] == label[index]]
        if best[index] > least and all(overlap(boxes[index], boxes[one]) <= most for one in rivals):
            left.append(int(index))
    return left or [int(best.argmax())]


@pytest.mark.parametrize(("per_class", "least", "count"), list(product([False, True], [-200.0, 10.0, 500.0], [5, 40])))
def test_non_maximum_suppression(per_class: bool, least: float, count: int) -> None:
    boxes = np.concatenate([RNG.random((2, 30, 2)) * 100, RNG.random((2, 30, 2)) * 60 + 5], -1).astype(np.float32)
    scores = RNG.permutation(2 * 30 * 3).reshape(2, 30, 3).astype(np.float32) - 100

    def build(boxes: Any, scores: Any) -> Any:
        limits = {"iou_threshold": 0.2, "score_threshold": least, "max_boxes": count}
        return mb.non_maximum_suppression(boxes=boxes, scores=scores, per_class_suppression=per_class, **limits)

    places, values, indices, counts = executed(build, boxes=boxes, scores=scores)
    for item in range(2):
        expected = survivors(boxes[item], scores[item], 0.2, least, per_class)[:count]
        size = len(expected)
        assert counts[item] == size
        assert indices[item].tolist() == expected + [-1] * (count - size)
        np.testing.assert_array_equal(places[item, :size], boxes[item, expected])
        np.testing.assert_array_equal(values[item, :size], scores[item, expected])
        assert not places[item, size:].any()
        assert not values[item, size:].any()


def test_non_maximum_suppression_with_boxes_last() -> None:
    boxes = np.array([[[1, 1, 2, 2], [1.1, 1, 2, 2], [8, 8, 2, 2]]], dtype=np.float32)
    scores = np.array([[[0.5], [0.9], [0.1]]], dtype=np.float32)

    def build(boxes: Any, scores: Any) -> Any:
        return mb.non_maximum_suppression(boxes=boxes, scores=scores, iou_threshold=0.5, max_boxes=3)

    places, values, indices = executed(build, 17, boxes=boxes.transpose(0, 2, 1), scores=scores.transpose(0, 2, 1))
    assert indices.tolist() == [[1, 2, -1]]
    np.testing.assert_array_equal(places[0].T, [*boxes[0, [1, 2]], [0] * 4])
    np.testing.assert_array_equal(values[0, 0], np.array([0.9, 0.1, 0], dtype=np.float32))


def test_reflection_is_pytorchs() -> None:
    expected = functional.pad(torch.from_numpy(X), (2, 1, 3, 0), mode="reflect").numpy()
    got = executed(lambda x: mb.pad(x=x, pad=[0, 0, 0, 0, 3, 0, 2, 1], mode="reflect"), x=X)
    np.testing.assert_array_equal(got, expected)
