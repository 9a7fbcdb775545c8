"""Matrix products, distances, determinants and covariances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.decompositions.linear_algebra.linear_systems import linalg_lu_factor
from modellint.destinations.decompositions.table import decomposes, within

if TYPE_CHECKING:
    from modellint.destinations.decompositions.table import Dtype, Number, Tensor


@decomposes("addmv", exactness=within(16))
def addmv(x: Tensor, mat: Tensor, vec: Tensor, beta: Number = 1, alpha: Number = 1) -> Any:
    """Matrix-vector product, added to a vector."""
    return _plus(x, torch.mm(mat, vec.unsqueeze(-1)).squeeze(-1), beta, alpha)


@decomposes("addbmm", exactness=within(16))
def addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, beta: Number = 1, alpha: Number = 1) -> Any:
    """Sum of a batch of matrix products, added to a matrix."""
    return _plus(x, torch.bmm(batch1, batch2).sum(0), beta, alpha)


def _plus(x: Any, product: Any, beta: Any, alpha: Any) -> Any:
    if not x.is_floating_point():
        # As PyTorch has it.
        beta, alpha = int(beta), int(alpha)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return (x if beta == 1 else x * beta) + product


@decomposes("outer", "ger")
def outer(x: Tensor, vec2: Tensor) -> Any:
    """Outer product of vectors of two types: coremltools multiplies matrices, which are of one."""
    return x.unsqueeze(1) * vec2.unsqueeze(0)


@decomposes("linear", exactness=within(16))
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Linear layer of one row of weights without an axis of its own: coremltools takes matrices alone."""
    if weight.dim() != 1:
        return NotImplemented
    product = torch.matmul(x, weight.unsqueeze(-1)).squeeze(-1)
    return product if bias is None else product + bias


@decomposes("bilinear", exactness=within(16))
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """Bilinear form."""
    outs, left, right = weight.shape
    lead = input1.shape[:-1]
    first = torch.mm(input1.reshape(-1, left), weight.permute(1, 0, 2).reshape(left, outs * right))
    product = (first.reshape(-1, outs, right) * input2.reshape(-1, 1, right)).sum(-1)
    product = product.reshape(*lead, outs)
    return product if bias is None else product + bias


@decomposes("_trilinear", exactness=within(16))
def trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Any:
    """Sum of products of three tensors."""
    parts = []
    for operand, dims in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in sorted(dims):
            operand = operand.unsqueeze(dim)
        parts.append(operand)
    return (parts[0] * parts[1] * parts[2]).sum(sumdim)


@decomposes("cdist", "_cdist_forward", exactness=within(16))
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Any:
    """Pairwise distances of the rows of two matrices."""
    return _length(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


@decomposes("dist", exactness=within(16))
def dist(x: Tensor, other: Tensor, p: float = 2.0) -> Any:
    """Distance of two tensors."""
    return _length((x - other).reshape(-1), float(p))


def _length(off: Any, p: float) -> Any:
    size = torch.abs(off)
    if p == 0:
        return (size != 0).to(off.dtype).sum(-1)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return (size * size).sum(-1).sqrt()
    if p == float("inf"):
        return torch.amax(size, -1)
    return size.pow(p).sum(-1).pow(1 / p)


@decomposes("pdist", "_pdist_forward", exactness=within(16))
def pdist(x: Tensor, p: float = 2.0) -> Any:
    """Pairwise distances of the rows of one matrix."""
    rows = int(x.shape[0])
    pairs = [(row, later) for row in range(rows) for later in range(row + 1, rows)]
    left = torch.index_select(x, 0, torch.tensor([row for row, _ in pairs], dtype=torch.int64))
    right = torch.index_select(x, 0, torch.tensor([later for _, later in pairs], dtype=torch.int64))
    return _length(left - right, p)


@decomposes("linalg_det", "det", exactness=within(64))
def det(x: Tensor) -> Any:
    """Determinant of matrices of up to four rows, by cofactor expansion."""
    if x.shape[-1] > 4:
        raise NotImplementedError("a determinant of more than four rows")
    return _determinant(x)


@decomposes("_linalg_det", exactness=within(64))
def det_parts(x: Tensor) -> Any:
    """Determinant with its LU decomposition, of which the determinant alone is computed."""
    if x.shape[-1] > 4:
        raise NotImplementedError("a determinant of more than four rows")
    return _determinant(x), x + 0, torch.zeros_like(x)


def _determinant(x: Any) -> Any:
    count = int(x.shape[-1])
    if count == 1:
        return x.squeeze(-1).squeeze(-1)
    total = None
    for at in range(count):
        rest = torch.tensor([column for column in range(count) if column != at])
        minor = torch.index_select(torch.ops.aten.slice(x, -2, 1, count), x.dim() - 1, rest)
        part = x.select(-2, 0).select(-1, at) * _determinant(minor)
        total = part if total is None else total + part if at % 2 == 0 else total - part
    return total


@decomposes("_grouped_mm", exactness=within(64))
def grouped_mm(
    x: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Dtype | None = None
) -> Any:
    """Grouped matrix product: rows times the matrix of their group, whose ends ``offs`` gives."""
    if offs is None or x.dim() != 2 or mat2.dim() != 3 or bias is not None:
        raise NotImplementedError("groups of another kind")
    rows = torch.arange(x.shape[0])
    product: Any = None
    for group in range(mat2.shape[0]):
        mine = rows < offs.select(0, group)
        if group:
            mine = torch.logical_and(mine, rows >= offs.select(0, group - 1))
        part = torch.where(mine.unsqueeze(-1), torch.mm(x, mat2.select(0, group)), torch.zeros([1, 1]))
        product = part if product is None else product + part
    return product


@decomposes("transformers::grouped_mm_fallback", exactness=within(64))
def grouped_mm_fallback(x: Tensor, weight: Tensor, offs: Tensor) -> Any:
    """The same, as transformers writes it for where PyTorch's own is not compiled; rows behind the last group are zeros."""
    return grouped_mm(x, weight, offs)


@decomposes("cov", exactness=within(16))
def cov(x: Tensor, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Any:
    """Covariance matrix of the rows."""
    if fweights is not None or aweights is not None or x.dim() != 2:
        raise NotImplementedError("weights, or a single variable")
    off = x - x.mean(1, keepdim=True)
    return torch.mm(off, off.transpose(0, 1)) / max(0, int(x.shape[1]) - correction)


@decomposes("corrcoef", exactness=within(16))
def corrcoef(x: Tensor) -> Any:
    """Correlation matrix of the rows."""
    off = x - x.mean(1, keepdim=True)
    length = torch.sqrt((off * off).sum(1))
    return torch.clamp(torch.mm(off, off.transpose(0, 1)) / length.unsqueeze(0) / length.unsqueeze(1), -1, 1)


@decomposes("logdet", exactness=within(64))
def logdet(x: Tensor) -> Any:
    """Logarithm of the determinant of matrices of up to four rows."""
    return torch.log(det(x))


@decomposes("linalg_slogdet", "slogdet", exactness=within(64))
def slogdet(x: Tensor) -> Any:
    """Sign and logarithm of the determinant of matrices of up to four rows."""
    determinant = det(x)
    return torch.sign(determinant), torch.log(torch.abs(determinant))


@decomposes("_linalg_slogdet", exactness=within(64))
def slogdet_parts(x: Tensor) -> Any:
    """Sign and logarithm of the determinant, with its LU factorization and the pivots."""
    return *slogdet(x), *linalg_lu_factor(x)
