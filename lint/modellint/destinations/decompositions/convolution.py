"""Transposed convolutions with output padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


def _grown(
    x: Any,
    weight: Any,
    bias: Any,
    stride: list[int],
    padding: list[int],
    output_padding: list[int],
    groups: int,
    dilation: list[int],
) -> Any:
    """Transposed convolution whose output is padded at its ends, and then cut by the padding at both."""
    rank = weight.dim() - 2
    convolve = getattr(torch.nn.functional, f"conv_transpose{rank}d")
    output = convolve(x, weight, None, stride, 0, 0, groups, dilation)
    each, cuts = (list(sizes) * (rank if len(sizes) == 1 else 1) for sizes in (output_padding, padding))
    output = torch.nn.functional.pad(output, [margin for size in reversed(each) for margin in (0, size)])
    for axis, cut in enumerate(cuts, 2):
        if cut:
            output = output[(slice(None),) * axis + (slice(cut, -cut),)]
    return output if bias is None else output + bias.reshape([-1, *([1] * rank)])


@decomposes("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", exactness=within(16))
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: list[int] = [1],  # noqa: B006
    padding: list[int] = [0],  # noqa: B006
    output_padding: list[int] = [0],  # noqa: B006
    groups: int = 1,
    dilation: list[int] = [1],  # noqa: B006
) -> Any:
    """Transposed convolution with output padding, and no padding or three dimensions."""
    return _grown(x, weight, bias, stride, padding, output_padding, groups, dilation)


@decomposes("convolution", "_convolution", exactness=within(16))
def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    benchmark: object = None,
    deterministic: object = None,
    cudnn_enabled: object = None,
    allow_tf32: object = None,
) -> Any:
    """Convolution operator of any kind, transposed with output padding, and no padding or three dimensions."""
    if not transposed:
        return NotImplemented
    return _grown(x, weight, bias, stride, padding, output_padding, groups, dilation)
