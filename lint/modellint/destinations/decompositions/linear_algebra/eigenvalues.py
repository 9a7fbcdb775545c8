"""Singular value and eigenvalue decompositions by unrolled Jacobi rotations.

The method converges quadratically: what is left of the last sweeps is less than rounding. Of vectors, only the sign is not PyTorch's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.linear_algebra.linear_systems import EXACTNESS, size_of
from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Tensor


def _sweeps(size: int) -> int:
    """Number of Jacobi sweeps."""
    return 2 if size == 2 else 5 + size // 4


def _rounds(size: int) -> list[tuple[list[int], list[int]]]:
    """Round-robin schedule of column pairs: rounds of pairs that have no column in common."""
    seats: list[int] = list(range(size + size % 2))
    rounds = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        pairs = [pair for pair in zip(seats[:half], reversed(seats[half:]), strict=True) if max(pair) < size]
        rounds.append(([first for first, _ in pairs], [second for _, second in pairs]))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return [pairs for pairs in rounds if pairs[0]]


def _rotated(x: Any, high: int) -> Any:
    """One-sided Jacobi: columns rotated until they are orthogonal in their first rows; the others are rotated along."""
    size = int(x.shape[-1])
    order = list(range(size))
    for first, second in _rounds(size) * _sweeps(size):
        rest = [column for column in range(size) if column not in (*first, *second)]
        parts = [
            x.index_select(-1, torch.tensor([order.index(column) for column in some]))
            for some in (first, second, rest)
            if some
        ]
        x = torch.cat([*_turned(parts[0], parts[1], high), *parts[2:]], -1)
        order = [*first, *second, *rest]
    return x


def _turned(first: Any, second: Any, high: int) -> tuple[Any, Any]:
    """Jacobi rotation of two columns, after which they are orthogonal."""
    left, right = (first, second) if first.shape[-2] == high else (first[..., :high, :], second[..., :high, :])
    product = 2 * (left * right).sum(-2, keepdim=True)
    more = (right * right).sum(-2, keepdim=True) - (left * left).sum(-2, keepdim=True)
    steep = more.abs() + torch.sqrt(more * more + product * product) + 1e-30
    tangent = (1 - 2 * (more < 0).to(first.dtype)) * product / steep
    cosine = torch.rsqrt(tangent * tangent + 1)
    sine = cosine * tangent
    return cosine * first - sine * second, sine * first + cosine * second


def _decomposed(x: Any, vectors: bool) -> tuple[Any, Any, Any]:
    """Singular value decomposition of a matrix with no more columns than rows; right vectors are columns, values fall."""
    size, high = size_of(x), int(x.shape[-2])
    # Fourth powers of the elements are computed with.
    largest = torch.clamp_min(x.abs().amax((-2, -1), keepdim=True), 1e-30)
    x = x / largest
    if vectors:
        x = torch.cat([x, torch.eye(size).expand(*x.shape[:-2], size, size)], -2)
    x = _rotated(x, high)
    columns = x[..., :high, :] if vectors else x
    lengths = torch.sqrt((columns * columns).sum(-2))
    values, order = torch.sort(lengths, -1, descending=True)
    values = values * largest.squeeze(-1)
    if not vectors:
        return None, values, None
    # Taken by a product with ones and zeros, each matrix of many in its own order.
    places = (torch.arange(size).unsqueeze(-1) == order.unsqueeze(-2)).to(x.dtype)
    left = columns / torch.clamp_min(lengths, 1e-30).unsqueeze(-2)
    return torch.matmul(left, places), values, torch.matmul(x[..., high:, :], places)


def singular(x: Any, vectors: bool = True) -> tuple[Any, Any, Any]:
    """Singular value decomposition, with right vectors as columns; or the values only."""
    if x.shape[-2] >= x.shape[-1]:
        return _decomposed(x, vectors)
    left, values, right = _decomposed(x.mT, vectors)
    return right, values, left


@decomposes("linalg_svdvals", exactness=EXACTNESS)
def linalg_svdvals(x: Tensor, driver: str | None = None) -> Any:
    """Singular values."""
    return singular(x, False)[1]


@decomposes("_linalg_svd", exactness=EXACTNESS)
def linalg_svd_parts(x: Tensor, full_matrices: bool = False, compute_uv: bool = True, driver: str | None = None) -> Any:
    """Singular value decomposition."""
    if not compute_uv:
        values = singular(x, False)[1]
        return values, values, values
    return linalg_svd(x, full_matrices)


@decomposes("linalg_svd", exactness=EXACTNESS)
def linalg_svd(x: Tensor, full_matrices: bool = True, driver: str | None = None) -> Any:
    """Singular value decomposition."""
    if full_matrices and x.shape[-2] != x.shape[-1]:
        raise NotImplementedError("with vectors beyond those of the singular values")
    left, values, right = singular(x)
    return left, values, right.mT


@decomposes("linalg_eigh", exactness=EXACTNESS)
def linalg_eigh(x: Tensor, uplo: str = "L") -> Any:
    """Eigenvalues of a symmetric matrix, rising, and eigenvectors."""
    return _symmetric(x, uplo, True)


def _symmetric(x: Any, uplo: str, vectors: bool) -> tuple[Any, Any]:
    ones = torch.ones(size_of(x), size_of(x))
    half = x * (ones.tril(-1) if uplo.upper() == "L" else ones.triu(1))
    x = half + half.mT + x * torch.eye(size_of(x))
    # With none below zero they are the singular values.
    more = torch.sqrt((x * x).sum((-2, -1), keepdim=True))
    _, values, vectors_of = singular(x + more * torch.eye(size_of(x)), vectors)
    return (values - more.squeeze(-1)).flip(-1), vectors_of.flip(-1) if vectors else None


@decomposes("_linalg_eigh", exactness=EXACTNESS)
def linalg_eigh_parts(x: Tensor, uplo: str = "L", compute_v: bool = True) -> Any:
    """Eigenvalues of a symmetric matrix, rising, and eigenvectors."""
    return linalg_eigh(x, uplo)


@decomposes("linalg_eigvalsh", exactness=EXACTNESS)
def linalg_eigvalsh(x: Tensor, uplo: str = "L") -> Any:
    """Eigenvalues of a symmetric matrix, rising."""
    return _symmetric(x, uplo, False)[0]


def _least(x: Any, values: Any, atol: float | None, rtol: float | None) -> Any:
    """Tolerance below which a singular value counts as zero."""
    if rtol is None:
        rtol = 0.0 if atol else max(x.shape[-2:]) * torch.finfo(torch.float32).eps
    return torch.clamp_min(values[..., :1] * rtol, atol or 0.0)


def _inverse(x: Any, atol: float | None, rtol: float | None) -> Any:
    left, values, right = singular(x)
    return torch.matmul(right * _inverted(values, _least(x, values, atol, rtol)).unsqueeze(-2), left.mT)


def _inverted(values: Any, least: Any) -> Any:
    """Reciprocals of values above a tolerance, and zeros for the others."""
    counts = (values > least).to(values.dtype)
    return counts / (values + (1 - counts))


@decomposes("linalg_pinv", ".atol_rtol_float", ".atol_rtol_tensor", exactness=EXACTNESS)
def linalg_pinv(x: Tensor, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Any:
    """Pseudo-inverse, with given tolerances."""
    return _inverse(x, atol, rtol)


@decomposes("linalg_pinv", "pinverse", exactness=EXACTNESS)
def pinverse(x: Tensor, rcond: float = 1e-15, hermitian: bool = False) -> Any:
    """Pseudo-inverse, with a relative tolerance."""
    return _inverse(x, None, rcond)


@decomposes("linalg_matrix_rank", ".atol_rtol_float", ".atol_rtol_tensor")
def linalg_matrix_rank(x: Tensor, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Any:
    """Matrix rank, with given tolerances."""
    values = singular(x, False)[1]
    return (values > _least(x, values, atol, rtol)).long().sum(-1)


@decomposes("linalg_matrix_rank")
def linalg_matrix_rank_above(x: Tensor, tol: float, hermitian: bool = False) -> Any:
    """Matrix rank: the singular values above a tolerance."""
    return (singular(x, False)[1] > tol).long().sum(-1)


@decomposes("linalg_lstsq", exactness=EXACTNESS)
def linalg_lstsq(x: Tensor, b: Tensor, rcond: float | None = None, driver: str | None = None) -> Any:
    """Least squares solution, residuals, rank and singular values."""
    left, values, right = singular(x)
    least = _least(x, values, None, rcond)
    solution = torch.matmul(right * _inverted(values, least).unsqueeze(-2), torch.matmul(left.mT, b))
    off = b - torch.matmul(x, solution)
    return solution, (off * off).sum(-2), (values > least).long().sum(-1), values


_TERMS = 12
_SQUARES = 12


@decomposes("linalg_matrix_exp", "matrix_exp", exactness=within(256))
def linalg_matrix_exp(x: Tensor) -> Any:
    """Matrix exponential by scaling and squaring."""
    size = size_of(x)
    norm = x.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    powers = torch.tensor([2.0**at for at in range(-1, _SQUARES - 1)])
    count = (norm > powers).long().sum(-1, keepdim=True)
    small = x * torch.exp2(-count.to(x.dtype))
    identity = torch.eye(size)
    total = identity + small / _TERMS
    for at in range(_TERMS - 1, 0, -1):
        total = identity + torch.matmul(small / at, total)
    for at in range(_SQUARES):
        total = torch.where(count > at, torch.matmul(total, total), total)
    return total
