"""Convolutions, of `coremltools.converters.mil.mil.ops.defs.iOS15.conv` and later."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from modellint.destinations.coreml.mil.operation_registry import Refusal, operation

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_CONV_TRANSPOSE = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}

Margins = list[tuple[int, int]]
"""How much is added before and after each spatial dimension."""


def margins(
    pad_type: str,
    pad: Sequence[int] | None,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Margins:
    """What ``pad_type`` adds to an input of spatial ``sizes``.

    ``same`` and ``same_lower`` add so much that ``ceil(size / stride)`` windows fit; an odd element goes behind, and with
    ``same_lower`` in front. The total is `coremltools.converters.mil.mil.ops.defs._utils.aggregated_pad`'s. Its docstring
    of ``conv`` puts the odd element of ``same`` in front; TensorFlow, whose tests the operation has to meet, does not.
    """
    match pad_type.lower():
        case "valid":
            return [(0, 0)] * len(kernel)
        case "custom":
            flat = [0] * (2 * len(kernel)) if pad is None else list(pad)
            return list(zip(flat[::2], flat[1::2], strict=True))
        case "same" | "same_lower" as kind:
            margins_by_axis = []
            for size, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
                total = max(0, stride * (math.ceil(size / stride) - 1) + (width - 1) * dilation + 1 - size)
                less, more = total // 2, total - total // 2
                margins_by_axis.append((less, more) if kind == "same" else (more, less))
            return margins_by_axis
        case kind:
            raise Refusal(f"the padding {kind!r} is not known")


def padded(x: Tensor, around: Margins, value: float = 0.0) -> Tensor:
    """``x`` with a constant around its last dimensions; a negative margin takes away."""
    if not any(side for pair in around for side in pair):
        return x
    return functional.pad(x, [side for pair in reversed(around) for side in pair], value=value)


@operation()
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    strides: list[int] | None = None,
    pad_type: str = "valid",
    pad: list[int] | None = None,
    dilations: list[int] | None = None,
    groups: int = 1,
) -> Tensor:
    """Convolution of ``x`` (n, C_in, *d) with ``weight`` (C_out, C_in / groups, *k), in 1 to 3 spatial dimensions."""
    rank = x.dim() - 2
    strides = strides or [1] * rank
    dilations = dilations or [1] * rank
    around = margins(pad_type, pad, x.shape[2:], weight.shape[2:], strides, dilations)
    if all(before == after >= 0 for before, after in around):
        return _CONV[rank](x, weight, bias, strides, [before for before, _ in around], dilations, groups)
    return _CONV[rank](padded(x, around), weight, bias, strides, 0, dilations, groups)


@operation()
def conv_quantized(
    x: Tensor,
    weight: Tensor,
    quantization_type: str,
    quant_scale: Tensor,
    quant_bias: Tensor,
    bias: Tensor | None = None,
    nbits: int = 8,
    strides: list[int] | None = None,
    pad_type: str = "valid",
    pad: list[int] | None = None,
    dilations: list[int] | None = None,
    groups: int = 1,
) -> Tensor:
    """`conv` with the weights ``weight * quant_scale + quant_bias``, where both are scalars or have C_out elements.

    coremltools calls the operation experimental and says neither how a look-up table nor how fewer than 8 bits are stored.
    """
    if quantization_type != "linear" or nbits != 8 or bias is not None:
        raise Refusal(f"{quantization_type} quantization of {nbits} bits has no documented layout")
    sizes = [-1] + [1] * (weight.dim() - 1)
    restored = weight.to(x.dtype) * quant_scale.reshape(sizes) + quant_bias.reshape(sizes)
    return conv(x, restored, None, strides, pad_type, pad, dilations, groups)


@operation()
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    pad: list[int] | None = None,
    output_shape: list[int] | None = None,
    pad_type: str = "valid",
    strides: list[int] | None = None,
    dilations: list[int] | None = None,
    groups: int = 1,
) -> Tensor:
    """Transposed convolution of ``x`` (n, C_in, *d) with ``weight`` (C_in, C_out / groups, *k).

    The result of full size, ``(d - 1) * stride + (k - 1) * dilation + 1``, loses what ``pad`` names; ``same`` leaves
    ``d * stride``, and takes the odd element from the end. ``output_shape`` sets the size, and what it asks for beyond
    the full size is the bias alone.
    """
    rank = x.dim() - 2
    strides = strides or [1] * rank
    dilations = dilations or [1] * rank
    sizes, kernel = x.shape[2:], weight.shape[2:]
    full = [(sizes[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(rank)]
    wanted = None if output_shape is None else output_shape[2:]
    match pad_type.lower():
        case "same":
            wanted = wanted or [size * stride for size, stride in zip(sizes, strides, strict=True)]
            before = [max(0, whole - size) // 2 for whole, size in zip(full, wanted, strict=True)]
        case "custom":
            flat = pad or [0] * (2 * rank)
            before = flat[::2]
            wanted = wanted or [whole - a - b for whole, a, b in zip(full, before, flat[1::2], strict=True)]
        case _:
            before = [0] * rank
            wanted = wanted or full
    more = [size - whole + 2 * cut for size, whole, cut in zip(wanted, full, before, strict=True)]
    limits = [max(pair) for pair in zip(strides, dilations, strict=True)]
    if all(0 <= extra < limit and cut >= 0 for extra, limit, cut in zip(more, limits, before, strict=True)):
        return _CONV_TRANSPOSE[rank](x, weight, bias, strides, before, more, groups, dilations)
    whole = _CONV_TRANSPOSE[rank](x, weight, None, strides, 0, 0, groups, dilations)
    cut_whole = padded(whole, [(-cut, size - w + cut) for size, w, cut in zip(wanted, full, before, strict=True)])
    return cut_whole if bias is None else torch.add(cut_whole, bias.reshape([-1] + [1] * rank))
