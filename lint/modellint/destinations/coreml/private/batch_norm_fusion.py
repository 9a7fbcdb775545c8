"""Exact scales: a scale and a shift by channel, which coremltools' pass `fuse_elementwise_to_batchnorm` makes a normalization."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MODULE = "coremltools.converters.mil.mil.passes.defs.optimize_elementwise_binary"
_EPSILON = 1e-5
"""The ``epsilon`` of MIL's `batch_norm` where none is given."""


@contextmanager
def exact_scales() -> Iterator[None]:
    """Make up for the default ``epsilon`` of the normalization into which the pass writes ``x * scale + shift``.

    It gives a variance of one and no ``epsilon``, so that the scale is divided by ``sqrt(1 + 1e-5)``: every `GroupNorm` with weights
    is 5e-6 too small (8.3 to 9.1.dev1).
    """
    try:
        module: Any = importlib.import_module(_MODULE)
        builder = module.mb
        normalize = builder.batch_norm
    except (ImportError, AttributeError):
        # A version whose pass is written otherwise.
        yield
        return

    def batch_norm(**arguments: Any) -> Any:
        gamma = arguments.get("gamma")
        if gamma is not None and "epsilon" not in arguments:
            arguments["gamma"] = (gamma.astype("float64") * math.sqrt(1 + _EPSILON)).astype(gamma.dtype)
        return normalize(**arguments)

    module.mb = type("Builder", (builder,), {"batch_norm": staticmethod(batch_norm)})
    try:
        yield
    finally:
        module.mb = builder
