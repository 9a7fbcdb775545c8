"""Matrix products, of `coremltools.converters.mil.mil.ops.defs.iOS15.linear` and later."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from modellint.coreml.mil.operation import operation


@operation()
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias``; ``x`` is of rank 1 to 3, ``weight`` of shape (out, in)."""
    return functional.linear(x, weight, bias)
