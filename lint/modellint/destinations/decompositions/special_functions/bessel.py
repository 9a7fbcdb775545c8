"""Bessel functions and the Airy function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.special_functions.chebyshev_approximation import fitted
from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor

_SPLIT = 8.0
"""Where asymptotic forms begin: a smooth function of 1 / x, over sqrt(x), times an exponential or a wave."""
EXACTNESS = within(32)


def _damped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def far(share: Any) -> Any:
        x = _SPLIT / share
        return function(x) * torch.sqrt(x)

    return far


_I0_FAR, _I1_FAR = _damped(torch.special.i0e), _damped(torch.special.i1e)


def _i1_near(size: Any) -> Any:
    return torch.special.i1e(size) / size


def _modified(size: Any, far: Callable[[Any], Any], near: Any) -> Any:
    large = torch.clamp_min(size, _SPLIT)
    return torch.where(size < _SPLIT, near, fitted(_SPLIT / large, far, 0.0, 1.0, 10) / torch.sqrt(large))


@decomposes("special_i0e", exactness=EXACTNESS)
def i0e(x: Tensor) -> Any:
    """Exponentially scaled modified Bessel function of order 0, exp(-|x|)·I0(x)."""
    size = x.abs()
    return _modified(size, _I0_FAR, fitted(size, torch.special.i0e, 0.0, _SPLIT, 24))


@decomposes("special_i1e", exactness=EXACTNESS)
def i1e(x: Tensor) -> Any:
    """Exponentially scaled modified Bessel function of order 1, exp(-|x|)·I1(x)."""
    size = x.abs()
    scaled = _modified(size, _I1_FAR, size * fitted(size, _i1_near, 0.0, _SPLIT, 24))
    return torch.where(x < 0, -scaled, scaled)


@decomposes("i0", "special_i0", exactness=EXACTNESS)
def i0(x: Tensor) -> Any:
    """Modified Bessel function of the first kind of order 0."""
    return torch.exp(x.abs()) * i0e(x)


@decomposes("special_i1", exactness=EXACTNESS)
def i1(x: Tensor) -> Any:
    """Modified Bessel function of the first kind of order 1."""
    return torch.exp(x.abs()) * i1e(x)


def _j0_near(square: Any) -> Any:
    return torch.special.bessel_j0(torch.sqrt(square))


def _j1_near(square: Any) -> Any:
    x = torch.sqrt(square)
    return torch.special.bessel_j1(x) / x


def _y0_near(square: Any) -> Any:
    x = torch.sqrt(square)
    return torch.special.bessel_y0(x) - 2 / math.pi * torch.log(x) * torch.special.bessel_j0(x)


def _y1_near(square: Any) -> Any:
    x = torch.sqrt(square)
    wave = torch.log(x) * torch.special.bessel_j1(x) - 1 / x
    return (torch.special.bessel_y1(x) - 2 / math.pi * wave) / x


def _phase(x: Any, order: int) -> Any:
    return x - (2 * order + 1) * math.pi / 4


def _parts(order: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Asymptotic amplitudes of both functions of an order, as functions of ``_SPLIT / x``: in phase, and out of it."""
    first = getattr(torch.special, f"bessel_j{order}")
    second = getattr(torch.special, f"bessel_y{order}")

    def inside(share: Any) -> Any:
        x = _SPLIT / share
        phase = _phase(x, order)
        return torch.sqrt(x) * (first(x) * torch.cos(phase) + second(x) * torch.sin(phase))

    def outside(share: Any) -> Any:
        x = _SPLIT / share
        phase = _phase(x, order)
        return torch.sqrt(x) * (second(x) * torch.cos(phase) - first(x) * torch.sin(phase))

    return inside, outside


_PARTS = {order: _parts(order) for order in (0, 1)}


def _far(x: Any, order: int) -> tuple[Any, Any]:
    """Asymptotic expansion, from ``_SPLIT`` on, of the functions of the first and the second kind."""
    x = torch.clamp_min(x, _SPLIT)
    inside, outside = (fitted(_SPLIT / x, part, 1e-3, 1.0, 10) / torch.sqrt(x) for part in _PARTS[order])
    phase = _phase(x, order)
    cosine, sine = torch.cos(phase), torch.sin(phase)
    return inside * cosine - outside * sine, inside * sine + outside * cosine


@decomposes("special_bessel_j0", exactness=EXACTNESS)
def bessel_j0(x: Tensor) -> Any:
    """Bessel function of the first kind of order 0."""
    size = x.abs()
    return torch.where(size < _SPLIT, fitted(size * size, _j0_near, 0.0, _SPLIT**2, 18), _far(size, 0)[0])


@decomposes("special_bessel_j1", exactness=EXACTNESS)
def bessel_j1(x: Tensor) -> Any:
    """Bessel function of the first kind of order 1."""
    size = x.abs()
    near = size * fitted(size * size, _j1_near, 0.0, _SPLIT**2, 18)
    magnitude = torch.where(size < _SPLIT, near, _far(size, 1)[0])
    return torch.where(x < 0, -magnitude, magnitude)


def _of_positive(x: Any, value: Any) -> Any:
    return torch.where(x > 0, value, torch.where(x == 0, -torch.inf, x * torch.nan))


@decomposes("special_bessel_y0", exactness=EXACTNESS)
def bessel_y0(x: Tensor) -> Any:
    """Bessel function of the second kind of order 0."""
    near = fitted(x * x, _y0_near, 0.0, _SPLIT**2, 20) + 2 / math.pi * torch.log(x) * bessel_j0(x)
    return _of_positive(x, torch.where(x < _SPLIT, near, _far(x, 0)[1]))


@decomposes("special_bessel_y1", exactness=EXACTNESS)
def bessel_y1(x: Tensor) -> Any:
    """Bessel function of the second kind of order 1."""
    near = x * fitted(x * x, _y1_near, 0.0, _SPLIT**2, 20)
    near = near + 2 / math.pi * (torch.log(x) * bessel_j1(x) - 1 / x)
    return _of_positive(x, torch.where(x < _SPLIT, near, _far(x, 1)[1]))


@decomposes("special_spherical_bessel_j0", exactness=within(4))
def spherical_bessel_j0(x: Tensor) -> Any:
    """Spherical Bessel function of order 0, sin(x) / x."""
    square = x * x
    near = 1 - square / 6 * (1 - square / 20 * (1 - square / 42))
    ratio = torch.sin(x) / torch.where(x == 0, 1.0, x)
    return torch.where(x.abs() < 0.5, near, torch.where(x.abs() == torch.inf, 0.0, ratio))


_DEEP, _STEEP = -8.0, 2.0
"""Ends of the interval on which the Airy function is a Chebyshev series; beyond them, asymptotic expansions."""


def _decay(share: Any) -> Any:
    """Airy function without its exponential decay, as a function of the exponent's reciprocal."""
    exponent = 1 / share
    x = (1.5 * exponent) ** (2 / 3)
    return torch.special.airy_ai(x) * torch.exp(exponent) * torch.sqrt(torch.sqrt(x))


def _terms(count: int) -> list[float]:
    """Coefficients of the Airy function's asymptotic expansion."""
    terms = [1.0]
    for at in range(1, count):
        terms.append(terms[-1] * (6 * at - 5) * (6 * at - 3) * (6 * at - 1) / (216 * at * (2 * at - 1)))
    return terms


@decomposes("special_airy_ai", exactness=within(64))
def airy_ai(x: Tensor) -> Any:
    """Airy function Ai."""
    up = torch.clamp_min(x, _STEEP)
    exponent = 2 / 3 * up * torch.sqrt(up)
    least = 2 / 3 * _STEEP**1.5
    falling = fitted(1 / exponent, _decay, 1e-2, 1 / least, 16) * torch.exp(-exponent) / torch.sqrt(torch.sqrt(up))
    down = torch.clamp_min(-x, -_DEEP)
    phase = 2 / 3 * down * torch.sqrt(down)
    even = odd = torch.zeros_like(phase)
    terms = _terms(8)
    square = 1 / (phase * phase)
    for at in range(6, -1, -2):
        even = terms[at] - even * square
        odd = terms[at + 1] - odd * square
    wave = torch.sin(phase + math.pi / 4) * even - torch.cos(phase + math.pi / 4) * odd / phase
    wave = wave / torch.sqrt(math.pi * torch.sqrt(down))
    middle = fitted(x, torch.special.airy_ai, _DEEP, _STEEP, 36)
    return torch.where(x > _STEEP, falling, torch.where(x < _DEEP, wave, middle))
