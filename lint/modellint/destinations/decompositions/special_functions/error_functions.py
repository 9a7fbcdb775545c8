"""Error function and its relatives: erfc, erfcx, erfinv, and the normal distribution's log_ndtr and ndtri."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.elementwise import _log1p as log1p
from modellint.destinations.decompositions.special_functions.chebyshev_approximation import fitted
from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


def _of_share(share: Any) -> Any:
    """Scaled complementary error function, erfcx(x), divided by share = 2 / (x + 2), as a function of share in (0, 1]."""
    return torch.special.erfcx(2 / share - 2) / share


def _scaled(x: Any) -> Any:
    """Scaled complementary error function, erfcx(x), for x ≥ 0."""
    share = 2 / (x + 2)
    return share * fitted(share, _of_share, 0.0, 1.0, 22)


@decomposes("special_erfcx", exactness=within(32))
def erfcx(x: Tensor) -> Any:
    """Scaled complementary error function, exp(x²)·erfc(x)."""
    scaled = _scaled(x.abs())
    return torch.where(x < 0, 2 * torch.exp(x * x) - scaled, scaled)


@decomposes("erfc", "special_erfc", exactness=within(4))
def erfc(x: Tensor) -> Any:
    """Complementary error function, 1 - erf(x), without the cancellation of that difference where erf(x) is near 1."""
    size = x.abs()
    tail = _scaled(size) * torch.exp(-size * size)
    return torch.where(x < 0, 2 - tail, tail)


@decomposes("special_log_ndtr", exactness=within(32))
def log_ndtr(x: Tensor) -> Any:
    """Logarithm of the standard normal distribution function."""
    size = x.abs()
    tail, square = _scaled(size * math.sqrt(0.5)) / 2, size * size / 2
    return torch.where(x < -1, torch.log(tail) - square, log1p(-_below(x, tail * torch.exp(-square))))


def _below(x: Any, tail: Any) -> Any:
    return torch.where(x < 0, 1 - tail, tail)


def _tail(left: Any) -> Any:
    """Lower tail probability p ≤ 1/2, of left = -log(4p·(1 - p))."""
    return torch.exp(-left) / (2 + 2 * torch.sqrt(-torch.expm1(-left)))


def _central(left: Any) -> Any:
    small = _tail(left)
    return -torch.special.ndtri(small) * math.sqrt(0.5) / (1 - 2 * small)


def _far(root: Any) -> Any:
    return _central(root * root)


def _inverse(left: Any, x: Any) -> Any:
    """Inverse error function, erfinv(x), from x and left = -log(1 - x²)."""
    near = fitted(left, _central, 0.0, 6.25, 16)
    far = fitted(torch.sqrt(torch.clamp_min(left, 6.25)), _far, 2.5, 9.5, 22)
    return torch.where(left < 6.25, near, far) * x


@decomposes("erfinv", "special_erfinv", exactness=within(32))
def erfinv(x: Tensor) -> Any:
    """Inverse error function."""
    inverse = _inverse(-torch.log((1 - x) * (1 + x)), x)
    return torch.where(x.abs() == 1, x * torch.inf, inverse)


@decomposes("special_ndtri", exactness=within(32))
def ndtri(x: Tensor) -> Any:
    """Quantile function of the standard normal distribution."""
    quantile = _inverse(-torch.log(4 * x * (1 - x)), 2 * x - 1) * math.sqrt(2)
    return torch.where(x == 0, -torch.inf, torch.where(x == 1, torch.inf, quantile))
