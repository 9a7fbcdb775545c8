"""Reading and writing at indices against numpy and what coremltools computes of constants."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from programs import agree, executed, mb

from modellint.destinations.coreml.mil.executor import ExecutionError

RNG = np.random.default_rng(0)
X = RNG.normal(0, 1, (3, 4, 5)).astype(np.float32)
MODES = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "sub": lambda old, new: old - new,
    "mul": lambda old, new: old * new,
    "div": lambda old, new: old / new,
    "max": np.maximum,
    "min": np.minimum,
}


def indices(bound: int, shape: tuple[int, ...], negative: bool = False) -> Any:
    return RNG.integers(-bound if negative else 0, bound, shape).astype(np.int32)


@pytest.mark.parametrize(("axis", "shape", "opset"), list(product([0, 1, -1], [(), (2,), (2, 3)], [15, 16, 17])))
def test_gather(axis: int, shape: tuple[int, ...], opset: int) -> None:
    chosen = indices(X.shape[axis], shape, negative=opset < 17)
    np.testing.assert_array_equal(
        executed(lambda x, i: mb.gather(x=x, indices=i, axis=axis), opset, x=X, i=chosen), np.take(X, chosen, axis)
    )


@pytest.mark.parametrize(("axis", "batch_dims", "opset"), [(1, 1, 16), (2, 1, 17), (2, 2, 17), (1, 0, 16)])
def test_gather_of_a_batch(axis: int, batch_dims: int, opset: int) -> None:
    chosen = indices(X.shape[axis], (*X.shape[:batch_dims], 2, 3))
    agree(lambda x, i: mb.gather(x=x, indices=i, axis=axis, batch_dims=batch_dims), opset, x=X, i=chosen)


def test_gather_of_a_batch_along_an_axis_from_the_end() -> None:
    # coremltools takes the common axes off the negative number.
    chosen = indices(5, (3, 4, 2))
    got = executed(lambda x, i: mb.gather(x=x, indices=i, axis=-1, batch_dims=2), 16, x=X, i=chosen)
    np.testing.assert_array_equal(got, np.take_along_axis(X, chosen, -1))


@pytest.mark.parametrize(("axis", "opset"), list(product([0, 1, -1], [15, 17])))
def test_gather_along_axis(axis: int, opset: int) -> None:
    shape = list(X.shape)
    shape[axis] = 7
    chosen = indices(X.shape[axis], tuple(shape), negative=opset < 17)
    agree(lambda x, i: mb.gather_along_axis(x=x, indices=i, axis=axis), opset, x=X, i=chosen)


@pytest.mark.parametrize(("depth", "batch_dims"), [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (1, 2)])
def test_gather_nd(depth: int, batch_dims: int) -> None:
    sizes = X.shape[batch_dims : batch_dims + depth]
    common = X.shape[:batch_dims]
    chosen = np.stack([indices(size, (*common, 2, 3)) for size in sizes], -1)
    got = executed(lambda x, i: mb.gather_nd(x=x, indices=i, batch_dims=batch_dims), 16, x=X, i=chosen)
    expected = np.stack([X[(*place[:batch_dims], *chosen[place])] for place in np.ndindex(*chosen.shape[:-1])]).reshape(
        *chosen.shape[:-1], *X.shape[batch_dims + depth :]
    )
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("mode", "axis", "opset"), list(product(MODES, [0, -2], [15, 17])))
def test_scatter(mode: str, axis: int, opset: int) -> None:
    # coremltools' documentation: one write after the other, at places that may come twice.
    chosen = np.array([2, 0, 1] if mode == "update" else [2, 0, 2], dtype=np.int32)
    updates = RNG.normal(0, 1, (3, 4, 5) if axis == 0 else (3, 3, 5)).astype(np.float32)
    expected = X.copy()
    for at, place in enumerate(chosen):
        there, new = np.moveaxis(expected, axis, 0), np.moveaxis(updates, axis, 0)
        there[place] = MODES[mode](there[place], new[at])
    got = executed(
        lambda data, i, updates: mb.scatter(data=data, indices=i, updates=updates, axis=axis, mode=mode),
        opset,
        data=X,
        i=chosen,
        updates=updates,
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("mode", "axis"), list(product(MODES, [0, 1, -1])))
def test_scatter_along_axis(mode: str, axis: int) -> None:
    shape = list(X.shape)
    shape[axis] = 3
    chosen = np.argsort(RNG.random(X.shape), axis).take(range(3), axis).astype(np.int32)
    if mode != "update":
        chosen = indices(X.shape[axis], tuple(shape), negative=True)
    updates = RNG.normal(0, 1, shape).astype(np.float32)
    expected = X.copy()
    for place in np.ndindex(*shape):
        target = list(place)
        target[axis] = chosen[place]
        expected[tuple(target)] = MODES[mode](expected[tuple(target)], updates[place])
    got = executed(
        lambda data, i, updates: mb.scatter_along_axis(data=data, indices=i, updates=updates, axis=axis, mode=mode),
        data=X,
        i=chosen,
        updates=updates,
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("mode", "depth"), list(product(MODES, [1, 2, 3])))
def test_scatter_nd(mode: str, depth: int) -> None:
    chosen = np.array([[2, 3, 4], [0, 1, 2], [2, 3, 4], [1, 1, 1]], dtype=np.int32)[:, :depth]
    if mode == "update":
        chosen = chosen[[0, 1, 3]]
    updates = RNG.normal(0, 1, (len(chosen), *X.shape[depth:])).astype(np.float32)
    expected = X.copy()
    for place, new in zip(chosen, updates, strict=True):
        expected[tuple(place)] = MODES[mode](expected[tuple(place)], new)
    got = executed(
        lambda data, i, updates: mb.scatter_nd(data=data, indices=i, updates=updates, mode=mode),
        data=X,
        i=chosen,
        updates=updates,
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_scatter_nd_with_indices_of_three_axes() -> None:
    chosen = np.array([[[2, 3]], [[0, 1]], [[2, 0]]], dtype=np.int32)
    updates = RNG.normal(0, 1, (3, 1, 5)).astype(np.float32)
    expected = X.copy()
    for row in range(3):
        expected[tuple(chosen[row, 0])] += updates[row, 0]
    got = executed(
        lambda data, i, updates: mb.scatter_nd(data=data, indices=i, updates=updates), data=X, i=chosen, updates=updates
    )
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize(("index", "opset"), [(4, 15), (-5, 15), (4, 17), (-1, 17)])
def test_an_index_out_of_bounds_is_refused(index: int, opset: int) -> None:
    chosen = np.array([index], dtype=np.int32)
    with pytest.raises(ExecutionError, match=str(index)):
        executed(lambda x, i: mb.gather(x=x, indices=i, axis=1), opset, x=X, i=chosen)
    with pytest.raises(ExecutionError, match=str(index)):
        executed(
            lambda data, i, updates: mb.scatter(data=data, indices=i, updates=updates, axis=1),
            opset,
            data=X,
            i=chosen,
            updates=X[:, :1],
        )


def test_scatter_with_indices_of_two_axes() -> None:
    chosen = np.array([[3, 0], [1, 3]], dtype=np.int32)
    updates = RNG.normal(0, 1, (3, 2, 2, 5)).astype(np.float32)
    expected = X.copy()
    for row, column in np.ndindex(2, 2):
        expected[:, chosen[row, column]] += updates[:, row, column]
    got = executed(
        lambda data, i, updates: mb.scatter(data=data, indices=i, updates=updates, axis=1),
        data=X,
        i=chosen,
        updates=updates,
    )
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_integers_are_divided_to_integers() -> None:
    data, updates = np.array([7, -7], dtype=np.int32), np.array([2, 2], dtype=np.int32)
    got = executed(
        lambda data, updates: mb.scatter(data=data, indices=[0, 1], updates=updates, mode="div"),
        data=data,
        updates=updates,
    )
    assert got.tolist() == [3, -3]
