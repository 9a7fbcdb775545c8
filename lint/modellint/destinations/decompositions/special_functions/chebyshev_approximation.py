"""Chebyshev approximation: polynomials fitted to PyTorch's own values in double precision, summed in single precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch.utils import _python_dispatch


@cache
def coefficients(function: Callable[[Any], Any], low: float, high: float, count: int) -> tuple[float, ...]:
    """Chebyshev coefficients of a function on an interval, from its values at the Chebyshev nodes."""
    # In the middle of a capture, of which this is to be no part.
    with _python_dispatch._disable_current_modes():
        angles = (torch.arange(count, dtype=torch.float64) + 0.5) * (math.pi / count)
        values = function((torch.cos(angles) + 1) / 2 * (high - low) + low)
        terms = torch.cos(torch.arange(count, dtype=torch.float64).unsqueeze(-1) * angles)
        series: list[float] = ((terms * values).sum(-1) * (2 / count)).tolist()
    return series[0] / 2, *series[1:]


def fitted(x: Any, function: Callable[[Any], Any], low: float, high: float, count: int) -> Any:
    """Chebyshev approximation of a smooth function on an interval; beyond its ends, its value there."""
    return _summed(torch.clamp((x - low) * (2 / (high - low)) - 1, -1.0, 1.0), coefficients(function, low, high, count))


def _summed(x: Any, series: Sequence[float]) -> Any:
    """Chebyshev series summed by Clenshaw's recurrence."""
    now, before = torch.full_like(x, series[-1]), torch.zeros_like(x)
    for coefficient in reversed(series[1:-1]):
        now, before = 2 * x * now - before + coefficient, now
    return x * now - before + series[0]
