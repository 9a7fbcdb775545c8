"""Quantization of activations against what coremltools computes of constants."""

from __future__ import annotations

import numpy as np
import pytest
from programs import agree, executed, mb

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("shifted", [True, False])
def test_quantize_and_back(kind: type[np.generic], axis: int | None, shifted: bool) -> None:
    x = RNG.normal(0, 40, (2, 3, 4)).astype(np.float32)
    count = None if axis is None else x.shape[axis]
    options = {"scale": np.float32(RNG.uniform(0.1, 0.9, count))}
    if axis is not None:
        options["axis"] = axis
    if shifted:
        low = 0 if kind is np.uint8 else -50
        zero = RNG.integers(low, 100, count)
        options["zero_point"] = zero.astype(kind) if count else kind(zero)
    agree(lambda x: mb.quantize(input=x, output_dtype=np.dtype(kind).name, **options), 17, x=x)

    def both(x: object) -> object:
        return mb.dequantize(input=mb.quantize(input=x, output_dtype=np.dtype(kind).name, **options), **options)

    spread = [1 if at != (axis if axis is None else axis % 3) else count for at in range(3)]
    scale = np.reshape(options["scale"], spread)
    zero = np.reshape(options["zero_point"], spread).astype(np.float32) if shifted else np.float32(0)
    low, high = (0, 255) if kind is np.uint8 else (-128, 127)
    whole = np.clip(np.rint(x / scale) + zero, low, high)
    wanted = scale * (whole - zero)
    np.testing.assert_allclose(executed(both, 17, x=x), wanted, rtol=1e-6)
