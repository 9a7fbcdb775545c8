"""Operations on one tensor, by element, of `coremltools.converters.mil.mil.ops.defs.iOS15.elementwise_unary` and later."""

from __future__ import annotations

from torch import Tensor

from modellint.coreml.mil.operation import operation
from modellint.coreml.mil.values import as_dtype


@operation()
def cast(x: Tensor, dtype: str) -> Tensor:
    """Another element type; a float becomes an integer by truncation."""
    return as_dtype(x, dtype)
