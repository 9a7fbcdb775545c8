"""Convolutions against sums that numpy writes out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from programs import executed, mb

Array = NDArray[np.float32]
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def convolved(
    x: Array, weight: Array, strides: list[int], dilations: list[int], pad: list[int], groups: int = 1
) -> Array:
    """The definition, with ``pad`` before and after each dimension."""
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    x = np.pad(x, [(0, 0), (0, 0), *pairs])
    kernel = weight.shape[2:]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    each_in, each_out = weight.shape[1], weight.shape[0] // groups
    found = np.zeros((x.shape[0], weight.shape[0], *sizes), np.float64)
    for tap in itertools.product(*map(range, kernel)):
        spans = tuple(slice(t * d, t * d + s * n, s) for t, d, s, n in zip(tap, dilations, strides, sizes, strict=True))
        seen = x[(slice(None), slice(None), *spans)]
        for group in range(groups):
            ins, outs = np.s_[group * each_in : (group + 1) * each_in], np.s_[group * each_out : (group + 1) * each_out]
            found[:, outs] += np.einsum("oi,ni...->no...", weight[(outs, slice(None), *tap)], seen[:, ins])
    return found.astype(np.float32)


def transposed(x: Array, weight: Array, strides: list[int], dilations: list[int]) -> Array:
    """The definition of the transposed convolution, of full size: every input adds the kernel to the output."""
    kernel, sizes = weight.shape[2:], x.shape[2:]
    full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(sizes, strides, kernel, dilations, strict=True)]
    found = np.zeros((x.shape[0], weight.shape[1], *full), np.float64)
    for tap in itertools.product(*map(range, kernel)):
        spans = tuple(
            slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in zip(tap, dilations, strides, sizes, strict=True)
        )
        found[(slice(None), slice(None), *spans)] += np.einsum("io,ni...->no...", weight[(..., *tap)], x)
    return found.astype(np.float32)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_custom_padding_may_differ_at_both_ends(rank: int, groups: int) -> None:
    x, weight, bias = (
        normal(2, 4, 9, 8, 7)[(..., *[0] * (3 - rank))],
        normal(6, 4 // groups, *[3, 2, 3][:rank]),
        normal(6),
    )
    strides, dilations, pad = [2, 1, 3][:rank], [1, 2, 1][:rank], [1, 2, 0, 1, 2, 0][: 2 * rank]
    made = executed(
        lambda x: mb.conv(
            x=x,
            weight=weight,
            bias=bias,
            strides=strides,
            pad_type="custom",
            pad=pad,
            dilations=dilations,
            groups=groups,
        ),
        x=x,
    )
    wanted = convolved(x, weight, strides, dilations, pad, groups) + bias.reshape(1, -1, *[1] * rank)
    np.testing.assert_allclose(made, wanted, atol=1e-5)


@pytest.mark.parametrize(("kind", "pad"), [("same", [1, 2, 0, 1]), ("same_lower", [2, 1, 1, 0]), ("valid", [0] * 4)])
def test_the_odd_element_of_same_goes_behind(kind: str, pad: list[int]) -> None:
    x, weight = normal(1, 2, 7, 6), normal(3, 2, 4, 2)
    made = executed(lambda x: mb.conv(x=x, weight=weight, pad_type=kind), 16, x=x)
    np.testing.assert_allclose(made, convolved(x, weight, [1, 1], [1, 1], pad), atol=1e-5)


def test_same_leaves_as_many_as_there_are_strides() -> None:
    x, weight = normal(1, 1, 10), normal(1, 1, 2)
    # Five windows of two elements side by side: nothing is padded.
    made = executed(lambda x: mb.conv(x=x, weight=weight, pad_type="same", strides=[2]), x=x)
    np.testing.assert_allclose(made, convolved(x, weight, [2], [1], [0, 0]), atol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["valid", "custom", "same"])
def test_a_transposed_convolution_is_cut_from_its_full_size(rank: int, kind: str) -> None:
    x, weight, bias = normal(2, 3, *[5, 4, 3][:rank]), normal(3, 4, *[4, 3, 2][:rank]), normal(4)
    strides, dilations = [2, 3, 1][:rank], [1, 1, 2][:rank]
    options = {"pad": [1, 0, 2, 1, 0, 1][: 2 * rank]} if kind == "custom" else {}
    made = executed(
        lambda x: mb.conv_transpose(
            x=x, weight=weight, bias=bias, pad_type=kind, strides=strides, dilations=dilations, **options
        ),
        x=x,
    )
    whole = transposed(x, weight, strides, dilations)
    spans = []
    for at, size in enumerate(whole.shape[2:]):
        before, after = 0, 0
        if kind == "custom":
            before, after = options["pad"][2 * at : 2 * at + 2]
        elif kind == "same":
            before = max(0, size - x.shape[2 + at] * strides[at]) // 2
            after = size - x.shape[2 + at] * strides[at] - before
        spans.append(slice(before, size - after))
    np.testing.assert_allclose(made, whole[(..., *spans)] + bias.reshape(1, -1, *[1] * rank), atol=1e-5)


def test_what_output_shape_asks_for_beyond_the_full_size_is_the_bias() -> None:
    x, weight, bias = normal(1, 2, 4), normal(2, 3, 3), normal(3)
    made = executed(
        lambda x: mb.conv_transpose(
            x=x, weight=weight, bias=bias, pad=[1, 1], pad_type="custom", strides=[2], output_shape=[1, 3, 9]
        ),
        x=x,
    )
    whole = transposed(x, weight, [2], [1])[..., 1:]
    wanted = np.concatenate([whole, np.zeros((1, 3, 9 - whole.shape[2]), np.float32)], -1) + bias[:, None]
    np.testing.assert_allclose(made, wanted, atol=1e-5)


def test_quantized_weights_have_a_scale_and_a_bias() -> None:
    x, weight = normal(1, 2, 5, 5), RNG.integers(0, 256, (3, 2, 3, 3)).astype(np.uint8)
    scale, shift = normal(3), normal(3)
    made = executed(
        lambda x: mb.conv_quantized(
            x=x,
            weight=weight,
            quantization_type="linear",
            nbits=8,
            quant_scale=scale,
            quant_bias=shift,
            pad_type="valid",
        ),
        x=x,
    )
    restored = weight * scale.reshape(-1, 1, 1, 1) + shift.reshape(-1, 1, 1, 1)
    wanted = convolved(x, restored, [1, 1], [1, 1], [0] * 4)
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-3)


def test_half_precision_is_rounded_once() -> None:
    x, weight = normal(1, 64, 8).astype(np.float16), normal(4, 64, 3).astype(np.float16)
    made = executed(lambda x: mb.conv(x=x, weight=weight), 17, x=x)
    wanted = convolved(x.astype(np.float32), weight.astype(np.float32), [1], [1], [0, 0])
    # One unit of the eleventh bit, and never more: the sum itself is not rounded.
    np.testing.assert_allclose(made, wanted, rtol=2**-11 + 1e-6, atol=1e-5)
    np.testing.assert_array_equal(made, made.astype(np.float16))
