"""The smallest converters: other names of operators, and what hands its input on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.coreml.converters.registration import builds, expresses

if TYPE_CHECKING:
    from modellint.coreml.converters.arguments import Operand, Tensor


@builds("alias")
def alias(x: Tensor) -> Any:
    """The same values."""
    return x


@expresses("addcmul", exactness="<= 1 ulps")
def addcmul(x: Tensor, tensor1: Tensor, tensor2: Tensor, value: Operand = 1) -> Any:
    """The input plus ``value`` times a product."""
    return torch.add(x, tensor1 * tensor2 if value == 1 else value * tensor1 * tensor2)
