"""Compressed weights against what coremltools expands them to, and the examples of its docstrings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from programs import mb, program, types

from modellint.destinations.coreml.mil.executor import Executor

RNG = np.random.default_rng(0)


def packed(bits: int, kind: str, values: Any) -> np.ndarray:
    """Integers of few bits, as coremltools types them."""
    return np.asarray(values).astype(types.nptype_from_builtin(types.string_to_builtin(f"{kind}{bits}")))


def expanded(build: Callable[[], Any], opset: int) -> np.ndarray:
    """What the executor makes of compressed weights, held against coremltools' own expansion."""
    held = []

    def with_input(x: Any) -> Any:
        made = build()
        held.append(made)
        return mb.add(x=mb.cast(x=made, dtype="fp32"), y=x)

    made = program(with_input, opset, x=np.zeros(1, np.float32))
    ours = next(iter(Executor(made)({"x": torch.zeros(1)}).values())).numpy()
    theirs = held[0].op.materialized_val_inference()
    np.testing.assert_array_equal(ours, np.asarray(theirs, np.float32))
    return ours


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_affine(kind: type[np.generic], half: bool, axis: int) -> None:
    data = RNG.integers(0, 120, (4, 6)).astype(kind)
    count = data.shape[axis]
    float_kind = np.float16 if half else np.float32
    expanded(
        lambda: mb.constexpr_affine_dequantize(
            quantized_data=data,
            zero_point=RNG.integers(0, 9, count).astype(kind),
            scale=RNG.uniform(0.1, 2, count).astype(float_kind),
            axis=axis,
        ),
        16,
    )


@pytest.mark.parametrize("bits", [1, 2, 4, 6, 8])
def test_a_look_up_table_with_packed_indices(bits: int) -> None:
    shape, lut = (3, 5, 7), RNG.normal(size=2**bits).astype(np.float32)
    indices = RNG.integers(0, 2**bits, shape)
    stream = (indices.reshape(-1, 1) >> np.arange(bits)) & 1
    stored = np.packbits(stream.astype(np.uint8).ravel(), bitorder="little")
    made = expanded(lambda: mb.constexpr_lut_to_dense(indices=stored, lut=lut, shape=np.uint32(shape)), 16)
    np.testing.assert_array_equal(made, lut[indices])


def test_sparse_weights_with_a_packed_mask() -> None:
    dense = RNG.normal(size=(3, 7)).astype(np.float16) * (RNG.random((3, 7)) < 0.4)
    mask = np.packbits((dense != 0).ravel(), bitorder="little")
    made = expanded(
        lambda: mb.constexpr_sparse_to_dense(nonzero_data=dense[dense != 0], mask=mask, shape=np.uint32(dense.shape)),
        16,
    )
    np.testing.assert_array_equal(made, dense)


def test_cast() -> None:
    value = RNG.normal(size=(2, 3)).astype(np.float16)
    made = expanded(lambda: mb.constexpr_cast(source_val=value, output_dtype="fp32"), 16)
    np.testing.assert_array_equal(made, value)


@pytest.mark.parametrize("kind", ["int4", "uint4", "int8", "uint8"])
@pytest.mark.parametrize("blocks", [(1, 1), (4, 1), (2, 3), (4, 6)])
@pytest.mark.parametrize("shifted", [True, False])
def test_scales_of_blocks(kind: str, blocks: tuple[int, int], shifted: bool) -> None:
    name, bits = kind.rstrip("48"), int(kind[-1])
    data, offset = packed(bits, name, RNG.integers(0, 8, (4, 6))), packed(bits, name, RNG.integers(0, 8, blocks))
    scale = RNG.uniform(0.5, 2, blocks).astype(np.float32)
    options = {"offset": offset} if shifted else {}
    made = expanded(lambda: mb.constexpr_blockwise_shift_scale(data=data, scale=scale, **options), 18)
    whole = np.kron(scale, np.ones((4 // blocks[0], 6 // blocks[1]), np.float32))
    shift = np.kron(offset.astype(np.float32), np.ones_like(whole, shape=(4 // blocks[0], 6 // blocks[1])))
    np.testing.assert_allclose(made, whole * (data.astype(np.float32) - (shift if shifted else 0)), rtol=1e-6)


def test_look_up_tables_of_blocks() -> None:
    indices = packed(2, "uint", np.array([2, 3, 3, 0, 1, 0, 3, 0, 2, 1, 0, 3]).reshape(6, 2))
    lut = np.array([1, 5, 9, 13, 2, 10, 18, 26], np.float16).reshape(2, 1, 4, 1)
    made = expanded(lambda: mb.constexpr_lut_to_dense(indices=indices, lut=lut), 18)
    assert made.tolist() == [[9, 13], [13, 1], [5, 1], [26, 2], [18, 10], [2, 26]]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("blocks", [(1, 1, 1), (2, 1, 2)])
def test_look_up_tables_of_vectors(axis: int, blocks: tuple[int, ...]) -> None:
    indices = packed(2, "uint", RNG.integers(0, 4, (2, 3, 4)))
    lut = RNG.normal(size=(*blocks, 4, 3)).astype(np.float32)
    expanded(lambda: mb.constexpr_lut_to_dense(indices=indices, lut=lut, vector_axis=axis), 18)


def test_sparse_weights_of_bits() -> None:
    dense = RNG.normal(size=(3, 4)).astype(np.float32) * (RNG.random((3, 4)) < 0.5)
    mask = packed(1, "uint", dense != 0)
    made = expanded(lambda: mb.constexpr_sparse_to_dense(nonzero_data=dense[dense != 0], mask=mask), 18)
    np.testing.assert_array_equal(made, dense)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sparse_look_up_tables(axis: int | None) -> None:
    mask = packed(1, "uint", RNG.random((4, 6)) < 0.5)
    count = int(np.count_nonzero(mask))
    indices = packed(1, "uint", RNG.integers(0, 2, count))
    lut = RNG.normal(size=(1, 1, 2, 1 if axis is None else 2)).astype(np.float32)
    options = {} if axis is None else {"vector_axis": axis}

    def build() -> Any:
        both = mb.constexpr_lut_to_sparse(indices_mask=mask, indices_nonzero_data=indices, lut=lut, **options)
        return mb.constexpr_sparse_to_dense(mask=both[0], nonzero_data=both[1])

    expanded(build, 18)


def test_sparse_scales_of_blocks() -> None:
    mask = packed(1, "uint", np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]]))
    data = np.array([10, 11, 3, 4, 5, 6, 7, 8, 9], np.int8)

    def build() -> Any:
        both = mb.constexpr_sparse_blockwise_shift_scale(
            data_mask=mask,
            nonzero_data=data,
            scale=np.array([[0.1, 0.2, 0.3, 0.4]], np.float32),
            offset=np.array([[1, 2, 3, 4]], np.int8),
        )
        return mb.constexpr_sparse_to_dense(mask=both[0], nonzero_data=both[1])

    made = expanded(build, 18)
    np.testing.assert_allclose(made[made != 0], [0.9, 1.8, 0.2, 0.4, 0.6, 0.9, 1.2, 0.7, 1.4], rtol=1e-5)
