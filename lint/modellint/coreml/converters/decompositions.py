"""PyTorch's own decompositions of operators that coremltools has no converter for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._decomp import core_aten_decompositions

from modellint.coreml import private_converters as private


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Those of core ATen whose operators have no converter, at present."""
    known: Any = core_aten_decompositions
    return {
        operator: function
        for operator, function in known().items()
        if private.has_no_converter(private.looked_up(operator))
    }
