"""Transposed convolutions with output padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.coreml.supplied_converters.registration import expresses, within

if TYPE_CHECKING:
    from modellint.destinations.coreml.supplied_converters.arguments import Tensor


def _is_no_matter(arguments: dict[str, Any]) -> bool:
    """Whether coremltools converts the convolution itself: it does, but for output padding without padding."""
    return not arguments.get("transposed", True) or not any(arguments["output_padding"]) or any(arguments["padding"])


def _grown(
    x: Any, weight: Any, bias: Any, stride: list[int], output_padding: list[int], groups: int, dilation: list[int]
) -> Any:
    """Transposed convolution without padding, whose output is padded at its ends."""
    rank = weight.dim() - 2
    convolve = getattr(torch.nn.functional, f"conv_transpose{rank}d")
    output = convolve(x, weight, None, stride, 0, 0, groups, dilation)
    each = list(output_padding) * (rank if len(output_padding) == 1 else 1)
    output = torch.nn.functional.pad(output, [margin for size in reversed(each) for margin in (0, size)])
    return output if bias is None else output + bias.reshape([-1, *([1] * rank)])


@expresses(
    "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", exactness=within(16), unless=_is_no_matter
)
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
    """Transposed convolution with output padding and no padding."""
    return _grown(x, weight, bias, stride, output_padding, groups, dilation)


@expresses("convolution", "_convolution", exactness=within(16), unless=_is_no_matter)
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
    """Convolution operator of any kind, transposed with output padding and no padding."""
    return _grown(x, weight, bias, stride, output_padding, groups, dilation)
