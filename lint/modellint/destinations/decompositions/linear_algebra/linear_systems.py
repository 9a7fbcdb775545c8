"""Linear systems and factorizations (LU, Cholesky, QR) by unrolled elimination.

The errors are those of PyTorch's own elimination: they grow with the condition number of the matrix.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor

MOST = 16
"""The rows of a matrix up to which steps are written out."""
MOST_TRIANGULAR = 128
"""The same of a triangular system, whose steps are cheap: gated delta rules (Qwen3-Next) solve such of 64 rows."""
EXACTNESS = within(64)


def size_of(x: Any, most: int = MOST) -> int:
    """Columns of a matrix. Raises ``NotImplementedError`` where there are too many to unroll."""
    if x.dim() < 2 or max(x.shape[-2:]) > most:
        raise NotImplementedError(f"a matrix of more than {most} rows or columns")
    return int(x.shape[-1])


def _ones(flags: Iterable[bool]) -> Any:
    """Indicator column: ones where something holds, and zeros."""
    return torch.tensor([[float(flag)] for flag in flags])


def _pivoted(x: Any, step: int) -> tuple[Any, Any]:
    """Partial pivoting: the row with the largest element of a column swapped into its place; and which row it was."""
    size = int(x.shape[-2])
    # Rows that have had their turn are out of the question.
    score = x[..., step].abs() * _ones(at >= step for at in range(size)).squeeze(-1)
    best = (score - _ones(at < step for at in range(size)).squeeze(-1)).argmax(-1, keepdim=True)
    chosen = (best == torch.arange(size)).to(x.dtype).unsqueeze(-1)
    off = _ones(at == step for at in range(size)) - chosen
    return torch.matmul(torch.eye(size) - off * off.mT, x), best


def _eliminated(x: Any, step: int, rows: Any, right: Any) -> tuple[Any, Any]:
    """Gaussian elimination of one column from some rows, and the factors."""
    factor = x[..., step : step + 1] / x[..., step : step + 1, step : step + 1] * rows
    return x - factor * (x[..., step : step + 1, :] * right), factor


def _factored(x: Any) -> tuple[Any, Any]:
    """LU factorization in one matrix, and the pivots counted from one."""
    size = size_of(x)
    pivots = []
    for step in range(size):
        x, best = _pivoted(x, step)
        pivots.append(best + 1)
        own = _ones(at == step for at in range(size))
        below = _ones(at > step for at in range(size))
        x, factor = _eliminated(x, step, below, below.mT)
        x = x * (1 - below * own.mT) + factor * own.mT
    return x, torch.cat(pivots, -1)


def substituted(triangle: Any, b: Any, upper: bool, unit: bool) -> Any:
    """Solution of a triangular system by substitution, block by block; the other triangle is not read."""
    size = size_of(triangle, MOST_TRIANGULAR)
    blocks = [slice(at, min(at + MOST, size)) for at in range(0, size, MOST)]
    solution: Any = None
    for at in blocks[::-1] if upper else blocks:
        right = b[..., at, :]
        if solution is not None:
            known = slice(at.stop, size) if upper else slice(0, at.start)
            right = right - triangle[..., at, known] @ solution
        rows = _within_a_block(triangle[..., at, at], right, upper, unit)
        solution = rows if solution is None else torch.cat([rows, solution] if upper else [solution, rows], -2)
    return solution


def _within_a_block(triangle: Any, b: Any, upper: bool, unit: bool) -> Any:
    size = int(triangle.shape[-1])
    rows = []
    for step in reversed(range(size)) if upper else range(size):
        own = b[..., step : step + 1, :]
        if not unit:
            own = own / triangle[..., step : step + 1, step : step + 1]
        rows.append(own)
        b = b - triangle[..., step : step + 1] * own
    return torch.cat(rows[::-1] if upper else rows, -2)


def solved(x: Any, b: Any) -> Any:
    """Solution of a linear system by Gauss-Jordan elimination."""
    size = size_of(x)
    batch = torch.broadcast_shapes(x.shape[:-2], b.shape[:-2])  # type: ignore[no-untyped-call]
    both = torch.cat([matrix.expand(*batch, *matrix.shape[-2:]) for matrix in (x, b)], -1)
    for step in range(size):
        both, _ = _pivoted(both, step)
        both, _ = _eliminated(both, step, _ones(at != step for at in range(size)), 1.0)
    diagonal = (both[..., :size] * torch.eye(size)).sum(-1, keepdim=True)
    return both[..., size:] / diagonal


@decomposes("linalg_inv", "inverse", exactness=EXACTNESS)
def linalg_inv(x: Tensor) -> Any:
    """Matrix inverse."""
    return solved(x, torch.eye(size_of(x)))


@decomposes("linalg_inv_ex", exactness=EXACTNESS)
def linalg_inv_ex(x: Tensor, check_errors: bool = False) -> Any:
    """Matrix inverse, and zeros for the error code."""
    return linalg_inv(x), _no_error(x)


@decomposes("linalg_solve", exactness=EXACTNESS)
def linalg_solve(x: Tensor, b: Tensor, left: bool = True) -> Any:
    """Solution of linear systems."""
    if b.dim() == 1 or (b.dim() == x.dim() - 1 and b.shape == x.shape[:-1]):
        return solved(x, b.unsqueeze(-1)).squeeze(-1)
    return solved(x, b) if left else solved(x.mT, b.mT).mT


@decomposes("linalg_solve_ex", exactness=EXACTNESS)
def linalg_solve_ex(x: Tensor, b: Tensor, left: bool = True, check_errors: bool = False) -> Any:
    """Solution of linear systems, and zeros for the error code."""
    return linalg_solve(x, b, left), _no_error(x)


@decomposes("_linalg_solve_ex", exactness=EXACTNESS)
def linalg_solve_parts(x: Tensor, b: Tensor, left: bool = True, check_errors: bool = False) -> Any:
    """Solution of linear systems, with the LU factorization, its pivots, and zeros for the error code."""
    factors, pivots = linalg_lu_factor(x)
    return linalg_solve(x, b, left), factors, pivots, _no_error(x)


def _no_error(x: Any) -> Any:
    return torch.zeros(x.shape[:-2], dtype=torch.int32)


@decomposes("linalg_solve_triangular", exactness=EXACTNESS)
def linalg_solve_triangular(x: Tensor, b: Tensor, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """Solution of triangular systems."""
    if left:
        return substituted(x, b, upper, unitriangular)
    return substituted(x.mT, b.mT, not upper, unitriangular).mT


@decomposes("linalg_lu_factor", exactness=EXACTNESS)
def linalg_lu_factor(x: Tensor, pivot: bool = True) -> Any:
    """LU factorization in one matrix, and the pivots."""
    if not pivot or x.shape[-1] != x.shape[-2]:
        raise NotImplementedError("without pivots, or of a matrix that is not square")
    return _factored(x)


@decomposes("linalg_lu_factor_ex", exactness=EXACTNESS)
def linalg_lu_factor_ex(x: Tensor, pivot: bool = True, check_errors: bool = False) -> Any:
    """LU factorization in one matrix, the pivots, and zeros for the error code."""
    return *linalg_lu_factor(x, pivot), _no_error(x)


@decomposes("linalg_cholesky", "cholesky", exactness=EXACTNESS)
def linalg_cholesky(x: Tensor, upper: bool = False) -> Any:
    """Cholesky factor of a positive definite matrix."""
    size = size_of(x)
    if upper:
        x = x.mT
    columns = []
    for step in range(size):
        root = torch.sqrt(x[..., step : step + 1, step : step + 1])
        column = x[..., step : step + 1] / root * _ones(at >= step for at in range(size))
        columns.append(column)
        x = x - column * column.mT
    factor = torch.cat(columns, -1)
    return factor.mT if upper else factor


@decomposes("linalg_cholesky_ex", exactness=EXACTNESS)
def linalg_cholesky_ex(x: Tensor, upper: bool = False, check_errors: bool = False) -> Any:
    """Cholesky factor of a positive definite matrix, and zeros for the error code."""
    return linalg_cholesky(x, upper), _no_error(x)


@decomposes("cholesky_solve", exactness=EXACTNESS)
def cholesky_solve(b: Tensor, triangle: Tensor, upper: bool = False) -> Any:
    """Solution of a linear system by its Cholesky factor."""
    lower = triangle.mT if upper else triangle
    return substituted(lower.mT, substituted(lower, b, False, False), True, False)


@decomposes("cholesky_inverse", exactness=EXACTNESS)
def cholesky_inverse(triangle: Tensor, upper: bool = False) -> Any:
    """Matrix inverse by its Cholesky factor."""
    return cholesky_solve(torch.eye(size_of(triangle)), triangle, upper)


@decomposes("linalg_qr", exactness=EXACTNESS)
def linalg_qr(x: Tensor, mode: str = "reduced") -> Any:
    """QR factorization by Householder reflections, with LAPACK's signs."""
    if mode == "r":
        raise NotImplementedError("without the orthogonal matrix")
    size_of(x)
    high, wide = int(x.shape[-2]), int(x.shape[-1])
    orthogonal = torch.eye(high).expand(*x.shape[:-2], high, high)
    for step in range(min(high - 1, wide)):
        column = x[..., step : step + 1]
        below = column * _ones(at > step for at in range(high))
        rest = (below * below).sum(-2, keepdim=True)
        own = x[..., step : step + 1, step : step + 1]
        end = (2 * (own < 0).to(x.dtype) - 1) * torch.sqrt(own * own + rest)
        # Without anything below there is nothing to reflect.
        nothing = (rest == 0).to(x.dtype)
        vector = below / (own - end + nothing) + _ones(at == step for at in range(high))
        vector = vector * ((end - own) / (end + nothing) * (1 - nothing)).sqrt()
        x = x - vector * (vector * x).sum(-2, keepdim=True)
        orthogonal = orthogonal - (orthogonal * vector.mT).sum(-1, keepdim=True) * vector.mT
    kept = high if mode == "complete" else min(high, wide)
    return orthogonal[..., :kept], x[..., :kept, :] * torch.ones(kept, wide).triu()
