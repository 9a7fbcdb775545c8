"""Gamma function and its relatives: logarithm, digamma, polygamma, zeta, incomplete gamma functions."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from modellint.destinations.decompositions.special_functions.chebyshev_approximation import fitted
from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Operand, Tensor


def _between_zeros(x: Any) -> Any:
    """Logarithm of the gamma function, lgamma(1 + x), divided by x·(x - 1), which has the same zeros."""
    return torch.lgamma(x + 1) / (x * (x - 1))


def _stirling(x: Any) -> Any:
    return (x - 0.5) * torch.log(x) - x + 0.5 * math.log(2 * math.pi)


def _beyond_stirling(x: Any) -> Any:
    """Remainder of Stirling's formula for lgamma, times x, as a function of 1 / x."""
    x = 1 / x
    return (torch.lgamma(x) - _stirling(x)) * x


def _rest(x: Any) -> Any:
    """Remainder of Stirling's formula, for x ≥ 3."""
    return fitted(1 / x, _beyond_stirling, 1e-3, 1 / 3, 8) / x


def _log_gamma(x: Any) -> Any:
    """lgamma(x) for x > 0."""
    small = torch.where(x < 1, x, x - 1)
    near = small * (small - 1) * fitted(small, _between_zeros, 0.0, 2.0, 18)
    near = torch.where(x < 1, near - torch.log(x), near)
    large = torch.clamp_min(x, 3.0)
    return torch.where(x < 3, near, _stirling(large) + _rest(large))


@decomposes("lgamma", "special_gammaln", exactness=within(32))
def lgamma(x: Tensor) -> Any:
    """Logarithm of the gamma function's absolute value."""
    positive = _log_gamma(torch.where(x < 0, 1 - x, x))
    sine = torch.sin(math.pi * (x - torch.round(x))).abs()
    return torch.where(x < 0, math.log(math.pi) - torch.log(sine) - positive, positive)


@decomposes("mvlgamma", "special_multigammaln", exactness=within(32))
def mvlgamma(x: Tensor, p: int) -> Any:
    """Logarithm of the multivariate gamma function."""
    total = sum((lgamma(x - at / 2) for at in range(1, p)), lgamma(x))
    return total + p * (p - 1) / 4 * math.log(math.pi)


def _beyond_log(x: Any) -> Any:
    x = 1 / x
    return (torch.special.digamma(x) - torch.log(x)) * x


@decomposes("digamma", "special_digamma", "special_psi", exactness=within(32))
def digamma(x: Tensor) -> Any:
    """Digamma function, the derivative of lgamma."""
    up = torch.where(x < 0, 1 - x, x)
    near = fitted(torch.where(up < 1, up + 1, up), torch.special.digamma, 1.0, 3.0, 20)
    near = torch.where(up < 1, near - 1 / up, near)
    large = torch.clamp_min(up, 3.0)
    result = torch.where(up < 3, near, torch.log(large) + fitted(1 / large, _beyond_log, 0.0, 1 / 3, 10) / large)
    off = math.pi * (x - torch.round(x))
    result = torch.where(x < 0, result - math.pi * torch.cos(off) / torch.sin(off), result)
    return torch.where(torch.logical_and(x < 0, off == 0), torch.nan, result)


_FIRST = 10
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)


def _zeta(x: Any, q: Any) -> Any:
    """Hurwitz zeta function: some terms, and the Euler-Maclaurin formula for the others."""
    total = torch.pow(q, -x)
    for at in range(1, _FIRST):
        total = total + torch.pow(q + at, -x)
    end = q + _FIRST
    part = torch.pow(end, -x)
    total = total + part * (end / (x - 1) + 0.5)
    part = part * x / end
    for at, number in enumerate(_BERNOULLI):
        total = total + number * part
        part = part * (x + 2 * at + 1) * (x + 2 * at + 2) / (end * end)
    return total


@decomposes("special_zeta", ".self_scalar", ".other_scalar", exactness=within(32))
def zeta(x: Operand, other: Operand) -> Any:
    """Hurwitz zeta function of positive numbers."""
    like = x if isinstance(x, torch.Tensor) else other
    x = x if isinstance(x, torch.Tensor) else torch.full_like(like, x)
    other = other if isinstance(other, torch.Tensor) else torch.full_like(like, other)
    result = _zeta(torch.clamp_min(x, 1 + 1e-6), other)
    result = torch.where(other > 0, result, torch.inf)
    return torch.where(x > 1, result, torch.where(x == 1, torch.inf, x * torch.nan))


@decomposes("polygamma", "special_polygamma", exactness=within(32))
def polygamma(n: int, x: Tensor) -> Any:
    """Polygamma function of x ≥ -9."""
    if n == 0:
        return digamma(x)
    return (-1) ** (n + 1) * math.factorial(n) * _zeta(torch.full_like(x, n + 1), x)


_STEPS = 64


def _bent(x: Any) -> Any:
    """Remainder of log(1 + x) beyond its linear term, divided by x²: (log(1 + x) - x) / x²."""
    return torch.where(x.abs() < 1e-3, -0.5 + x / 3 - x * x / 4, (torch.log1p(x) - x) / (x * x))


def _weight(a: Any, x: Any) -> Any:
    """Leading factor of the incomplete gamma functions, x^a·exp(-x) / Γ(a + 1); from a = 3 on without cancellation."""
    off = (x - a) / a
    bent = torch.where(off.abs() < 0.4, off * off * fitted(off, _bent, -0.4, 0.4, 14), torch.log(x / a) - off)
    large = torch.clamp_min(a, 3.0)
    many = torch.exp(a * bent - _rest(large)) / torch.sqrt(2 * math.pi * a)
    return torch.where(a < 3, torch.exp(a * torch.log(x) - x - _log_gamma(a + 1)), many)


@cache
def _laguerre() -> tuple[list[float], list[float]]:
    """Nodes of Gauss-Laguerre quadrature, and the logarithms of their weights."""
    points, weights = np.polynomial.laguerre.laggauss(_STEPS)
    return points.tolist(), np.log(weights).tolist()


def _shares(a: Any, x: Any) -> tuple[Any, Any]:
    """Regularized incomplete gamma functions, the lower and the upper one."""
    a, x = torch.broadcast_tensors(a, x)  # type: ignore[no-untyped-call]
    weight = _weight(a, x)
    low = torch.minimum(x, a + 1)
    ratios = low.unsqueeze(-1) / (a.unsqueeze(-1) + torch.arange(1.0, _STEPS + 1))
    lower = weight * (1 + torch.cumprod(ratios, -1).sum(-1))
    high = torch.maximum(x, a + 1).unsqueeze(-1)
    points, weights = _laguerre()
    grown = (a - 1).unsqueeze(-1) * torch.log(1 + torch.tensor(points) / high)
    upper = weight * a * (torch.exp(grown + torch.tensor(weights)) / high).sum(-1)
    lower = torch.where(x == 0, 0.0, torch.where(x == torch.inf, 1.0, torch.where(x < a + 1, lower, 1 - upper)))
    upper = torch.where(x == 0, 1.0, torch.where(x == torch.inf, 0.0, torch.where(x < a + 1, 1 - lower, upper)))
    return lower, upper


@decomposes("igamma", "special_gammainc", exactness=within(64))
def gammainc(x: Tensor, other: Tensor) -> Any:
    """Regularized lower incomplete gamma function P(x, other), for a shape ``x`` of up to 100."""
    return _shares(x, other)[0]


@decomposes("igammac", "special_gammaincc", exactness=within(64))
def gammaincc(x: Tensor, other: Tensor) -> Any:
    """Regularized upper incomplete gamma function Q(x, other), for a shape ``x`` of up to 100."""
    return _shares(x, other)[1]
