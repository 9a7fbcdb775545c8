"""Matrix products against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from known_faults import shows
from programs import agree, executed, mb

from modellint.destinations.coreml.mil.executor import ExecutionError

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
@pytest.mark.parametrize("biased", [True, False])
def test_linear(shape: tuple[int, ...], biased: bool) -> None:
    x, weight = normal(*shape), normal(4, 5)
    options = {"bias": normal(4)} if biased else {}
    made = executed(lambda x: mb.linear(x=x, weight=weight, **options), x=x)
    np.testing.assert_allclose(made, x @ weight.T + options.get("bias", 0), atol=1e-5)


def test_linear_of_integers() -> None:
    x, weight = np.array([[1, -2, 3]], np.int32), np.array([[4, 5, 6], [-1, 0, 2]], np.int32)
    assert executed(lambda x: mb.linear(x=x, weight=weight), x=x).tolist() == [[12, 5]]


@pytest.mark.parametrize(
    ("first", "second", "options"),
    [
        ((2, 3), (3, 4), {}),
        ((3, 2), (3, 4), {"transpose_x": True}),
        ((2, 3), (4, 3), {"transpose_y": True}),
        ((5, 1, 3, 2), (2, 4, 3), {"transpose_x": True, "transpose_y": True}),
        ((3,), (3, 4), {}),
    ],
)
def test_matmul(first: tuple[int, ...], second: tuple[int, ...], options: dict[str, bool]) -> None:
    agree(lambda x, y: mb.matmul(x=x, y=y, **options), x=normal(*first), y=normal(*second))


def test_coremltools_declares_a_wrong_shape_for_a_vector_times_many_matrices() -> None:
    # It takes away the first dimension, where its docstring inserts and removes the second last.
    if not shows("matmul-of-a-vector"):
        agree(lambda x, y: mb.matmul(x=x, y=y), x=normal(3), y=normal(2, 3, 4))
        return
    with pytest.raises(ExecutionError, match="gives 2x4, and 1x4 is declared"):
        executed(lambda x, y: mb.matmul(x=x, y=y), x=normal(3), y=normal(2, 3, 4))


@pytest.mark.parametrize("types", [("float32", "int32"), ("int32", "float32"), ("float16", "float32")])
def test_the_type_of_a_product_is_that_of_the_operand_that_is_no_constant(types: tuple[str, str]) -> None:
    x, y = np.arange(6).reshape(2, 3).astype(types[0]), np.arange(12).reshape(3, 4).astype(types[1])
    made = executed(lambda x: mb.matmul(x=x, y=y), 17, x=x)
    assert made.dtype == (np.int32 if types[0] == "int32" else np.float32)
    np.testing.assert_array_equal(made, x.astype(np.float32) @ y.astype(np.float32))


def test_fractions_have_no_integer_product() -> None:
    half = np.full((3, 4), 0.5, np.float32)
    with pytest.raises(ExecutionError, match="fractions"):
        executed(lambda x: mb.matmul(x=x, y=half), 17, x=np.ones((2, 3), np.int32))


@pytest.mark.parametrize(
    ("equation", "first", "second"),
    [
        ("nchw,nwhu->nchu", (2, 3, 4, 5), (2, 5, 4, 6)),
        ("nchw,nwhu->nchu", (1, 3, 4, 5), (2, 5, 1, 6)),
        ("chw,whr->chr", (3, 4, 5), (5, 4, 2)),
        ("chw,whr->chr", (3, 1, 5), (5, 4, 2)),
    ],
)
def test_einsum(equation: str, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    agree(lambda x, y: mb.einsum(values=(x, y), equation=equation), x=normal(*first), y=normal(*second))
