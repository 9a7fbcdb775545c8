"""Orthogonal polynomials and other special functions that have an expression in few operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


def _recurrence(x: Any, n: int, first: Any, step: Any) -> Any:
    before, now = torch.ones_like(x), first
    if n <= 0:
        return before
    for at in range(1, n):
        before, now = now, step(at, now, before)
    return now


@decomposes("special_chebyshev_polynomial_t", ".n_scalar", exactness=within(64))
def chebyshev_polynomial_t(x: Tensor, n: int) -> Any:
    """Chebyshev polynomials of the first kind."""
    return _recurrence(x, n, x, lambda _, now, before: 2 * x * now - before)


@decomposes("special_hermite_polynomial_h", ".n_scalar", exactness=within(64))
def hermite_polynomial_h(x: Tensor, n: int) -> Any:
    """Physicists' Hermite polynomials."""
    return _recurrence(x, n, 2 * x, lambda at, now, before: 2 * x * now - 2 * at * before)


@decomposes("special_laguerre_polynomial_l", ".n_scalar", exactness=within(64))
def laguerre_polynomial_l(x: Tensor, n: int) -> Any:
    """Laguerre polynomials."""
    return _recurrence(x, n, 1 - x, lambda at, now, before: ((2 * at + 1 - x) * now - at * before) / (at + 1))


@decomposes("special_legendre_polynomial_p", ".n_scalar", exactness=within(64))
def legendre_polynomial_p(x: Tensor, n: int) -> Any:
    """Legendre polynomials."""
    return _recurrence(x, n, x, lambda at, now, before: ((2 * at + 1) * x * now - at * before) / (at + 1))
