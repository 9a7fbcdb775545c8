"""Exact means: coremltools' pass `fuse_reduce_mean` takes a sum times a constant for a mean only where it is one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MODULE = "coremltools.converters.mil.mil.passes.defs.cleanup.fuse_reduce_mean"
_TOLERANCE = 1e-6
"""Of the number itself: what float32 rounds."""


@contextmanager
def exact_means() -> Iterator[None]:
    """Compare a factor with one over the count relatively.

    The pass compares by an absolute tolerance of 1e-6: of more than a thousand elements it takes a variance's ``1 / (n - 1)`` for
    ``1 / n``, and of a million every smaller factor.
    """
    try:
        module: Any = importlib.import_module(_MODULE)
        is_near = module._check_var_scalar_value
    except (ImportError, AttributeError):
        # A version whose pass is written otherwise.
        yield
        return

    def is_equal(value: Any, number: float, tolerance: float = _TOLERANCE) -> bool:
        return bool(is_near(value, number, min(tolerance, _TOLERANCE * abs(number))))

    module._check_var_scalar_value = is_equal
    try:
        yield
    finally:
        module._check_var_scalar_value = is_near
