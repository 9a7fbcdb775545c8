"""Decompositions of PyTorch's own, for operators that have no converter."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from torch import _decomp

from modellint.destinations.coreml.private import operator_tables


@cache
def _core() -> dict[Any, Callable[..., Any]]:
    """The decompositions of core ATen; what is composite at any rate is decomposed without a table."""
    # The public function also collects the composite ones, which takes seconds.
    table: Any = getattr(_decomp, "_core_aten_decompositions_post_autograd", _decomp.core_aten_decompositions)
    return dict(table().items())


@cache
def decompositions(done: frozenset[str]) -> dict[Any, Callable[..., Any]]:
    """The decompositions of operators that have no converter, of coremltools or of ours, or are named in ``done``."""
    return {
        operator: function
        for operator, function in _core().items()
        if (name := operator_tables.looked_up(operator)) in done or operator_tables.has_no_converter(name)
    }
