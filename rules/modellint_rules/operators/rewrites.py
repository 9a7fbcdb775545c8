"""What to write in the place of operators that do not convert.

Tests run every rewrite beside the original on random inputs, and convert it by both routes.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple


class Rewrite(NamedTuple):
    """An expression of operators that convert, for one that does not."""

    operators: str
    """Names without a namespace, with spaces between them."""
    original: str
    """How it is called, on ``x``, ``y`` and ``z``."""
    written: str
    inputs: str
    """Shapes of ``x``, ``y`` and ``z``; behind a shape ``i`` for indices, ``b`` for booleans, ``u`` for numbers between 0 and 1."""
    ulps: int = 0
    """How far the two may be apart, in units of the last place of the largest output; 0 where they are equal bit for bit."""
    given: str = ""
    """What must hold for it."""

    @property
    def advice(self) -> str:
        """What to do, in a sentence."""
        given = f", given {self.given}" if self.given else ""
        rounds = "" if self.ulps == 0 else "; it may round differently"
        return f"Write `{self.written}` for `{self.original}`{given}{rounds}"


_ALL = (
    # Layout: the same numbers at other places.
    Rewrite("movedim moveaxis", "x.movedim(0, 2)", "x.permute(1, 2, 0)", "2x3x4"),
    Rewrite("swapaxes swapdims", "x.swapaxes(0, 1)", "x.transpose(0, 1)", "2x3x4"),
    Rewrite("mh adjoint", "x.adjoint()", "x.transpose(-2, -1)", "2x3x4", given="real numbers"),
    Rewrite("ravel", "torch.ravel(x)", "x.reshape(-1)", "2x3"),
    Rewrite("view_as", "x.view_as(y)", "x.reshape(y.shape)", "2x3 3x2"),
    Rewrite("broadcast_to", "torch.broadcast_to(x, (2, 3))", "x.expand(2, 3)", "1x3"),
    Rewrite("flipud", "torch.flipud(x)", "torch.flip(x, [0])", "2x3"),
    Rewrite("rot90", "torch.rot90(x)", "torch.flip(x, [1]).transpose(0, 1)", "2x3"),
    Rewrite(
        "channel_shuffle native_channel_shuffle",
        "F.channel_shuffle(x, 2)",
        "x.reshape(x.shape[0], 2, -1, *x.shape[2:]).transpose(1, 2).reshape(x.shape)",
        "2x4x3x3",
    ),
    Rewrite(
        "tensor_split",
        "torch.tensor_split(x, 3, dim=1)[0]",
        "torch.split(x, x.shape[1] // 3, dim=1)[0]",
        "2x6",
        given="parts of one size",
    ),
    Rewrite("hsplit", "torch.hsplit(x, 2)[0]", "torch.split(x, x.shape[1] // 2, dim=1)[0]", "2x6"),
    Rewrite("vsplit", "torch.vsplit(x, 2)[0]", "torch.split(x, x.shape[0] // 2, dim=0)[0]", "4x3"),
    Rewrite("dsplit", "torch.dsplit(x, 2)[0]", "torch.split(x, x.shape[2] // 2, dim=2)[0]", "2x3x4"),
    Rewrite("unsafe_chunk", "torch.unsafe_chunk(x, 2, 1)[0]", "torch.chunk(x, 2, 1)[0]", "2x6"),
    Rewrite("unsafe_split", "torch.unsafe_split(x, 2, 1)[0]", "torch.split(x, 2, 1)[0]", "2x6"),
    Rewrite("narrow_copy", "torch.narrow_copy(x, 1, 0, 2)", "x[:, 0:2]", "2x5"),
    Rewrite("alias", "x[:, :] * 2", "x * 2", "2x3", given="a slice that takes everything"),
    Rewrite(
        "unfold unfold_copy",
        "x.unfold(1, 3, 2)",
        "torch.stack([x[:, i : i + 3] for i in range(0, x.shape[1] - 2, 2)], 1)",
        "2x8",
    ),
    Rewrite("vstack row_stack", "torch.vstack([x, y])", "torch.cat([x, y], 0)", "2x3 4x3", given="two dimensions"),
    Rewrite("dstack", "torch.dstack([x, y])", "torch.stack([x, y], 2)", "2x3 2x3", given="two dimensions"),
    Rewrite("column_stack", "torch.column_stack([x, y])", "torch.cat([x, y], 1)", "2x3 2x4", given="two dimensions"),
    Rewrite(
        "block_diag",
        "torch.block_diag(x, y)",
        "torch.cat([F.pad(x, (0, y.shape[1])), F.pad(y, (x.shape[1], 0))], 0)",
        "2x3 4x5",
    ),
    Rewrite(
        "cartesian_prod",
        "torch.cartesian_prod(x, y)",
        "torch.stack([x[:, None].expand(3, 4).reshape(-1), y[None].expand(3, 4).reshape(-1)], 1)",
        "3 4",
    ),
    Rewrite(
        "diag linalg_diagonal", "torch.diag(x)", "x.reshape(-1)[:: x.shape[1] + 1]", "3x3", given="a square matrix"
    ),
    Rewrite(
        "diag_embed diagflat",
        "torch.diag_embed(x)",
        "torch.where(torch.eye(3, dtype=torch.bool), x[..., None], torch.zeros_like(x[..., None]))",
        "2x3",
    ),
    # Indices.
    Rewrite("take_along_dim", "torch.take_along_dim(x, y, 1)", "torch.gather(x, 1, y)", "2x3 2x2i"),
    Rewrite("take", "torch.take(x, y)", "x.reshape(-1)[y]", "2x3 4i"),
    Rewrite(
        "index_add",
        "x.index_add(0, y, z)",
        "x.scatter_add(0, y[:, None].expand(-1, x.shape[1]), z)",
        "4x3 2i 2x3",
        given="two dimensions",
    ),
    Rewrite(
        "index_copy",
        "x.index_copy(0, y, z)",
        "x.scatter(0, y[:, None].expand(-1, x.shape[1]), z)",
        "4x3 1i 1x3",
        given="two dimensions",
    ),
    Rewrite(
        "index_fill",
        "x.index_fill(0, y, 0.5)",
        "torch.where((torch.arange(x.shape[0])[:, None] == y).any(1)[:, None], torch.full_like(x, 0.5), x)",
        "4x3 2i",
        given="two dimensions",
    ),
    Rewrite(
        "scatter_reduce",
        'x.scatter_reduce(1, y, z, reduce="sum")',
        "x.scatter_add(1, y, z)",
        "2x5 2x3i 2x3",
        given='`reduce="sum"`',
    ),
    Rewrite("bucketize", "torch.bucketize(x, y)", "(x[..., None] > y).sum(-1)", "2x3 4", given="sorted boundaries"),
    Rewrite("isin", "torch.isin(x, y)", "(x[..., None] == y).sum(-1) > 0", "2x3i 2i"),
    # New tensors.
    Rewrite("new_ones", "x.new_ones(2, 3)", "torch.ones(2, 3, dtype=x.dtype, device=x.device)", "2x3"),
    Rewrite("zero", "x.zero_()", "torch.zeros_like(x)", "2x3"),
    Rewrite("where.ScalarOther", "torch.where(x > 0, x, 0.5)", "torch.where(x > 0, x, torch.full_like(x, 0.5))", "2x3"),
    # Truth values.
    Rewrite(
        "__and__ __iand__ and bitwise_and",
        "(x > 0) & (y > 0)",
        "torch.logical_and(x > 0, y > 0)",
        "2x3 2x3",
        given="booleans",
    ),
    Rewrite(
        "__or__ __ior__ or bitwise_or",
        "(x > 0) | (y > 0)",
        "torch.logical_or(x > 0, y > 0)",
        "2x3 2x3",
        given="booleans",
    ),
    Rewrite(
        "__xor__ __ixor__ xor bitwise_xor",
        "(x > 0) ^ (y > 0)",
        "torch.logical_xor(x > 0, y > 0)",
        "2x3 2x3",
        given="booleans",
    ),
    Rewrite("__lshift__ __ilshift__ bitwise_left_shift", "x << 2", "x * 4", "2x3i"),
    Rewrite("__rshift__ __irshift__ bitwise_right_shift", "x >> 2", "x // 4", "2x3i"),
    Rewrite("isfinite", "torch.isfinite(x)", 'torch.abs(x) < float("inf")', "2x3"),
    Rewrite("isinf", "torch.isinf(x)", 'torch.abs(x) == float("inf")', "2x3"),
    Rewrite("isposinf", "torch.isposinf(x)", 'x == float("inf")', "2x3"),
    Rewrite("isneginf", "torch.isneginf(x)", 'x == -float("inf")', "2x3"),
    Rewrite("isclose", "torch.isclose(x, y)", "torch.abs(x - y) <= 1e-8 + 1e-5 * torch.abs(y)", "2x3 2x3"),
    Rewrite("signbit", "torch.signbit(x)", "x < 0", "2x3", given="no negative zero"),
    Rewrite("count_nonzero", "torch.count_nonzero(x, dim=1)", "(x != 0).sum(1)", "2x3"),
    # One number after another.
    Rewrite("sgn", "torch.sgn(x)", "torch.sign(x)", "2x3", given="real numbers"),
    Rewrite("trunc fix", "torch.trunc(x)", "torch.sign(x) * torch.floor(torch.abs(x))", "2x3"),
    Rewrite("fmax", "torch.fmax(x, y)", "torch.maximum(x, y)", "2x3 2x3", given="no NaN"),
    Rewrite("fmin", "torch.fmin(x, y)", "torch.minimum(x, y)", "2x3 2x3", given="no NaN"),
    Rewrite("hardshrink", "F.hardshrink(x)", "torch.where(torch.abs(x) > 0.5, x, torch.zeros_like(x))", "2x3"),
    Rewrite("softshrink", "F.softshrink(x)", "torch.sign(x) * F.relu(torch.abs(x) - 0.5)", "2x3"),
    Rewrite("copysign", "torch.copysign(x, y)", "torch.abs(x) * torch.sign(y)", "2x3 2x3", given="no zero in `y`"),
    Rewrite(
        "heaviside",
        "torch.heaviside(x, y)",
        "torch.where(x == 0, y, (x > 0).to(x.dtype))",
        "2x3 2x3",
    ),
    Rewrite("fmod", "torch.fmod(x, y)", "x - y * torch.sign(x / y) * torch.floor(torch.abs(x / y))", "2x3 2x3u", 16),
    Rewrite("hypot", "torch.hypot(x, y)", "torch.sqrt(x * x + y * y)", "2x3 2x3", 2),
    Rewrite("lerp", "torch.lerp(x, y, z)", "x + z * (y - x)", "2x3 2x3 2x3u", 4),
    Rewrite("addcmul", "torch.addcmul(x, y, z, value=0.3)", "x + 0.3 * y * z", "2x3 2x3 2x3", 2),
    Rewrite("addcdiv", "torch.addcdiv(x, y, z, value=0.3)", "x + 0.3 * y / z", "2x3 2x3 2x3u", 2),
    Rewrite(
        "celu",
        "F.celu(x, alpha=2.0)",
        "F.relu(x) + torch.minimum(2.0 * (torch.exp(x / 2.0) - 1), torch.zeros_like(x))",
        "2x3",
        4,
    ),
    Rewrite("log_sigmoid", "F.logsigmoid(x)", "-F.softplus(-x)", "2x3", 4),
    Rewrite("logit special_logit", "torch.logit(x)", "torch.log(x) - torch.log(1 - x)", "2x3u", 8),
    Rewrite(
        "logaddexp",
        "torch.logaddexp(x, y)",
        "torch.maximum(x, y) + torch.log(1 + torch.exp(-torch.abs(x - y)))",
        "2x3 2x3",
        4,
    ),
    Rewrite(
        "logaddexp2",
        "torch.logaddexp2(x, y)",
        "torch.maximum(x, y) + torch.log(1 + torch.exp2(-torch.abs(x - y))) / math.log(2)",
        "2x3 2x3",
        8,
    ),
    Rewrite("xlogy special_xlogy", "torch.xlogy(x, y)", "x * torch.log(y)", "2x3 2x3u", 2, "a positive `y`"),
    Rewrite("special_entr", "torch.special.entr(x)", "-x * torch.log(x)", "2x3u", 2, "a positive `x`"),
    Rewrite("erfc special_erfc", "torch.erfc(x)", "1 - torch.erf(x)", "2x3", 4),
    Rewrite("special_ndtr", "torch.special.ndtr(x)", "0.5 * (1 + torch.erf(x / math.sqrt(2)))", "2x3", 4),
    Rewrite("acosh arccosh", "torch.acosh(1 + x)", "torch.log(1 + x + torch.sqrt(x * (x + 2)))", "2x3u", 16),
    Rewrite(
        "asinh arcsinh",
        "torch.asinh(x)",
        "torch.sign(x) * torch.log(torch.abs(x) + torch.sqrt(x * x + 1))",
        "2x3",
        16,
    ),
    Rewrite("sinc special_sinc", "torch.sinc(x)", "torch.sin(math.pi * x) / (math.pi * x)", "2x3", 8, "no zero"),
    Rewrite("deg2rad", "torch.deg2rad(x)", "x * (math.pi / 180)", "2x3", 2),
    Rewrite("rad2deg", "torch.rad2deg(x)", "x * (180 / math.pi)", "2x3", 2),
    Rewrite("ldexp", "torch.ldexp(x, y)", "x * torch.exp2(y)", "2x3 2x3i", 4),
    Rewrite(
        "polar",
        "torch.polar(x, y).real",
        "torch.complex(x * torch.cos(y), x * torch.sin(y)).real",
        "2x3u 2x3",
        4,
    ),
    Rewrite("angle", "torch.angle(x)", "(x < 0).to(x.dtype) * math.pi", "2x3", given="real numbers"),
    # Along a dimension.
    Rewrite("diff", "torch.diff(x)", "x[..., 1:] - x[..., :-1]", "2x5"),
    Rewrite("msort", "torch.msort(x)", "torch.sort(x, dim=0)[0]", "5x2"),
    Rewrite(
        "median nanmedian",
        "torch.median(x, dim=1)[0]",
        "torch.sort(x, dim=1)[0][:, (x.shape[1] - 1) // 2]",
        "2x5",
        given="no NaN",
    ),
    Rewrite("kthvalue", "torch.kthvalue(x, 2, dim=1)[0]", "torch.sort(x, dim=1)[0][:, 2 - 1]", "2x5"),
    Rewrite(
        "quantile nanquantile",
        "torch.quantile(x, 0.5, dim=1)",
        "torch.sort(x, dim=1)[0][:, 1:3].mean(1)",
        "2x4",
        4,
        "the quantile 0.5 of four numbers",
    ),
    Rewrite(
        "cummax",
        "torch.cummax(x, dim=1)[0]",
        "torch.stack([x[:, : i + 1].amax(1) for i in range(x.shape[1] - 1)] + [x.amax(1)], 1)",
        "2x5",
    ),
    Rewrite(
        "cummin",
        "torch.cummin(x, dim=1)[0]",
        "torch.stack([x[:, : i + 1].amin(1) for i in range(x.shape[1] - 1)] + [x.amin(1)], 1)",
        "2x5",
    ),
    Rewrite("prod", "torch.prod(x, dim=1)", "torch.cumprod(x, 1)[:, -1]", "2x3", 4),
    Rewrite("nansum", "torch.nansum(x)", "torch.where(x != x, torch.zeros_like(x), x).sum()", "2x3", 4),
    Rewrite(
        "nanmean",
        "torch.nanmean(x)",
        "torch.where(x != x, torch.zeros_like(x), x).sum() / (x == x).to(x.dtype).sum()",
        "2x3",
        4,
    ),
    Rewrite("aminmax", "torch.aminmax(x, dim=1)[0]", "torch.amin(x, 1)", "2x3"),
    Rewrite("std_mean", "torch.std_mean(x, dim=1)[0]", "torch.std(x, dim=1)", "2x3", 2),
    Rewrite("var_mean", "torch.var_mean(x, dim=1)[0]", "torch.var(x, dim=1)", "2x3", 2),
    Rewrite("trapezoid trapz", "torch.trapezoid(x)", "(x[..., 1:] + x[..., :-1]).sum(-1) / 2", "2x3", 4),
    Rewrite(
        "cumulative_trapezoid",
        "torch.cumulative_trapezoid(x)",
        "torch.cumsum(x[..., 1:] + x[..., :-1], -1) / 2",
        "2x3",
        4,
    ),
    Rewrite(
        "renorm",
        "torch.renorm(x, 2, 0, 1.0)",
        "x * torch.clamp(1.0 / (torch.norm(x, dim=1, keepdim=True) + 1e-7), max=1.0)",
        "2x3",
        8,
    ),
    # Products.
    Rewrite("outer ger", "torch.outer(x, y)", "x[:, None] * y[None, :]", "3 4"),
    Rewrite("kron", "torch.kron(x, y)", "(x[:, None, :, None] * y[None, :, None, :]).reshape(8, 15)", "2x3 4x5"),
    Rewrite(
        "tensordot",
        "torch.tensordot(x, y, dims=1)",
        "(x.reshape(-1, x.shape[-1]) @ y.reshape(y.shape[0], -1)).reshape(*x.shape[:-1], *y.shape[1:])",
        "2x3x4 4x5",
        4,
    ),
    Rewrite("inner", "torch.inner(x, y)", "x @ y.transpose(0, 1)", "2x3 4x3", 4, "two dimensions"),
    Rewrite("vdot", "torch.vdot(x, y)", "(x * y).sum()", "5u 5u", 4),
    Rewrite("addr", "torch.addr(x, y, z)", "x + y[:, None] * z[None, :]", "3x4 3 4", 2),
    Rewrite("addmv", "torch.addmv(x, y, z)", "x + (y @ z[:, None])[:, 0]", "3 3x4 4", 4),
    Rewrite("addbmm", "torch.addbmm(x, y, z)", "x + torch.bmm(y, z).sum(0)", "3x5 2x3x4 2x4x5", 8),
    Rewrite("linalg_matrix_power", "torch.matrix_power(x, 3)", "x @ x @ x", "3x3", 8),
    Rewrite("linalg_multi_dot", "torch.linalg.multi_dot([x, y, z])", "x @ y @ z", "2x3 3x4 4x5", 8),
    Rewrite("linalg_cross", "torch.linalg.cross(x, y)", "torch.cross(x, y, dim=-1)", "2x3 2x3", 4),
    Rewrite(
        "cov",
        "torch.cov(x)",
        "(x - x.mean(1, keepdim=True)) @ (x - x.mean(1, keepdim=True)).transpose(0, 1) / (x.shape[1] - 1)",
        "3x4",
        8,
    ),
    # Distances.
    Rewrite(
        "cdist",
        "torch.cdist(x, y)",
        "torch.sqrt(((x[:, :, None] - y[:, None]) ** 2).sum(-1))",
        "2x3x4 2x5x4",
        64,
    ),
    Rewrite("dist", "torch.dist(x, y)", "torch.sqrt(((x - y) ** 2).sum())", "2x3 2x3", 4),
    Rewrite(
        "pairwise_distance",
        "F.pairwise_distance(x, y)",
        "torch.sqrt(((x - y + 1e-6) ** 2).sum(-1))",
        "2x3 2x3",
        4,
    ),
    # Layers.
    Rewrite(
        "adaptive_avg_pool3d",
        "F.adaptive_avg_pool3d(x, 2)",
        "F.avg_pool3d(x, [size // 2 for size in x.shape[2:]])",
        "1x2x4x6x8",
        8,
        "sizes that divide",
    ),
    Rewrite(
        "adaptive_max_pool3d",
        "F.adaptive_max_pool3d(x, 2)",
        "F.max_pool3d(x, 2, 2, 0, 1, False)",
        "1x2x4x4x4",
        given="sizes that divide",
    ),
    Rewrite("embedding_bag", "F.embedding_bag(x, y)", "F.embedding(x, y).mean(1)", "2x3i 5x4", 4, "the mode `mean`"),
    Rewrite(
        "bilinear",
        "F.bilinear(x, y, z)",
        "((x @ z.permute(1, 0, 2).reshape(3, -1)).reshape(-1, 5, 4) * y[:, None]).sum(-1)",
        "2x3 2x4 5x3x4",
        16,
    ),
    Rewrite(
        "upsample_nearest3d",
        'F.interpolate(x, scale_factor=2, mode="nearest")',
        "x.repeat_interleave(2, 2).repeat_interleave(2, 3).repeat_interleave(2, 4)",
        "1x2x3x4x5",
    ),
    Rewrite(
        "_upsample_nearest_exact2d",
        'F.interpolate(x, scale_factor=2, mode="nearest-exact")',
        'F.interpolate(x, scale_factor=2, mode="nearest")',
        "2x3x4x4",
        given="a scale that is a whole number",
    ),
    Rewrite("l1_loss", "F.l1_loss(x, y)", "torch.abs(x - y).mean()", "2x3 2x3", 4),
)
REWRITES = {operator: one for one in _ALL for operator in one.operators.split()}
"""By operator."""


@cache
def advice(operator: str) -> str | None:
    """What to write in the place of an operator (``aten::fmod``), if anything is known."""
    name = operator.rpartition("::")[2]
    found = REWRITES.get(name) or REWRITES.get(name.rstrip("_"))
    return None if found is None else found.advice
