"""What each supplied converter is tried on: an expression, and inputs drawn at random.

A line is ``operator | inputs | expression``. An input is a shape, one letter for each size that is drawn and digits as they are,
and what its elements are: nothing (numbers, infinite ones and such that are none among them), ``p`` (plain numbers), ``u`` (numbers
between 0.1 and 0.9), ``i`` (integers), ``n`` (integers from 0 to 30), ``b`` (truth values). ``*`` is any shape; ``?`` one that is
broadcast with it. In an expression ``{d}`` is an axis of the first input, counted from either end, and ``{a}``, ``{b}``, … a size.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

TEXT = """
alias | * | torch.ops.aten.alias(x)
addcmul | * ? ? | torch.addcmul(x, y, z, value=0.7)
addcdiv | * ? ?u | torch.addcdiv(x, y, z)
add | * ? | torch.add(x, y, alpha=1.7)
sub | * ? | torch.sub(x, y, alpha=-0.3)
rsub | * ? | torch.rsub(x, y, alpha=2)
reciprocal | * | torch.reciprocal(x)
gelu | *p | F.gelu(x, approximate="tanh")
softplus | *p | F.softplus(x, beta=1.3, threshold=2.0)
masked_fill | 1a ba:b | x.masked_fill(y, 2.0)
trunc | * | torch.trunc(x)
fix | * | torch.fix(x)
fmod | *p ?u | torch.fmod(x, y)
signbit | *p | torch.signbit(x)
copysign | *p ?p | torch.copysign(x, y)
isinf | * | torch.isinf(x)
isposinf | * | torch.isposinf(x)
isneginf | * | torch.isneginf(x)
isfinite | * | torch.isfinite(x)
isclose | * ? | torch.isclose(x, y, rtol=0.3)
sgn | *p | torch.sgn(x)
angle | *p | torch.angle(x)
fmax | * ? | torch.fmax(x, y)
fmin | * ? | torch.fmin(x, y)
hypot | * ? | torch.hypot(x, y)
lerp | *p ?p | torch.lerp(x, y, 0.3)
lerp | *p ?p ?u | torch.lerp(x, y, z)
ldexp | *p ?:n | torch.ldexp(x, y)
asinh | *p | torch.asinh(x)
acosh | *u | torch.acosh(x + 1)
float_power | *u | torch.float_power(x, 1.5).float()
gcd | *:i ?:i | torch.gcd(x, y)
lcm | *:n ?:n | torch.lcm(x, y)
bitwise_and | *:i ?:i | x & y
bitwise_or | *:i ?:i | x | y
bitwise_xor | *:i ?:i | x ^ y
bitwise_and | *:b ?:b | x & y
bitwise_or | *:b ?:b | x | y
bitwise_xor | *:b ?:b | x ^ y
bitwise_left_shift | *:i ?:n | x << (y % 8)
bitwise_right_shift | *:i ?:n | x >> y
diff | a5b | torch.diff(x, dim=-2)
diff | 5ab | torch.diff(x, n=2, dim=0)
diff | a3:b | torch.diff(x)
new_ones | ab | x + x.new_ones(({b},))
unfold | a6 | x.unfold(-1, 3, 2)
as_strided | 46 | x.as_strided((2, 3), (6, 2), 1)
as_strided | 468 | x.permute(2, 0, 1).as_strided((3, 5, 8), (24, 8, 1))
where | *:b ?p | torch.where(x, y, 0.5)
where | *:b ?p | torch.where(x, -1.0, y)
sort | * | torch.sort(x, stable=True, dim={d})[0]
sort | abc | torch.sort(x, 0)[0]
msort | ab | torch.msort(x)
argsort | ap | torch.argsort(x, stable=True, descending=True)
log_sigmoid | *p | F.logsigmoid(x)
var | *p | torch.var(x, dim={d}, correction=0)
var | ab4 | x.var()
std | ab4p | x.std()
std | abcp | x.std(dim=(0, 2), correction=0, keepdim=True)
var_mean | abcp | torch.var_mean(x, dim=(0, 2), correction=0)
std_mean | abcp | torch.std_mean(x, dim=1, correction=0)
argmax | *p | torch.argmax(x)
argmin | *p | torch.argmin(x, keepdim=True)
prod | *p | torch.prod(x)
prod | *p | torch.prod(x, {d})
cummax | *p | torch.cummax(x, {d})
cummin | *p | torch.cummin(x, {d})
logcumsumexp | *p | torch.logcumsumexp(x, {d})
kthvalue | *p | torch.kthvalue(x, 1, {d})[0]
median | *p | torch.median(x, {d})[0]
median | *p | torch.median(x)
nanmean | *p | torch.nanmean(x)
instance_norm | ab34p b:u b:u | F.instance_norm(x, y, z, y, z, use_input_stats=False)
rms_norm | abcp | F.rms_norm(x, ({c},), eps=0.1)
renorm | abcp | torch.renorm(x, 2, 1, 1.0)
addmv | ap abp bp | torch.addmv(x, y, z, alpha=0.5)
addbmm | abp cadp cdbp | torch.addbmm(x, y, z)
cdist | abp cbp | torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
dist | abp abp | torch.dist(x, y)
pdist | 4ap | F.pdist(x)
linalg_det | a33p | torch.linalg.det(x)
scatter_reduce | a5p a3:n a3p | x.scatter_reduce(1, (y % 5).long(), z, "amax")
scatter_reduce | a5p a3:n a3p | x.scatter_reduce(1, (y % 5).long(), z, "sum", include_self=False)
diagonal | abcp | torch.diagonal(x, 0, 2, 0)
diagonal | abp | torch.diagonal(x, 0)
diag | abp | torch.diag(x)
bucketize | *p | torch.bucketize(x, torch.tensor([-1.0, 0.5, 2.0]), right=True)
searchsorted | *p | torch.searchsorted(torch.tensor([-1.0, 0.5, 2.0]), x)
cov | 3bp | torch.cov(torch.cat([x, x * x], 1))
corrcoef | 35p | torch.corrcoef(x)
narrow | a5 | x.narrow(1, -2, 2)
zeros_like | *:b | torch.zeros_like(x, dtype=torch.float32)
ones_like | *:i | torch.ones_like(x, dtype=torch.float32) + x
full_like | *:b | torch.full_like(x, 1.5, dtype=torch.float32)
put | 4ap 2:n 2p | x.put((y % 4).long(), z, accumulate=True)
diagonal_scatter | 34p 3p | torch.diagonal_scatter(x, y)
upsample_bicubic2d | abcdp | F.interpolate(x, size=(5, 7), mode="bicubic", align_corners=True)
upsample_bicubic2d | abcdp | F.interpolate(x, scale_factor=1.7, mode="bicubic")
_upsample_bicubic2d_aa | ab45p | F.interpolate(x, size=(3, 2), mode="bicubic", antialias=True)
upsample_trilinear3d | abcd3p | F.interpolate(x, size=(3, 5, 4), mode="trilinear", align_corners=False)
upsample_nearest3d | abcd3 | F.interpolate(x, size=(3, 5, 4))
_upsample_nearest_exact2d | abcd | F.interpolate(x, size=(5, 3), mode="nearest-exact")
max_pool2d | ab77p | F.max_pool2d(x, 2, stride=2, dilation=2)
max_pool2d | ab88p | F.max_pool2d(x, 1, stride=2, ceil_mode=True)
max_pool2d_with_indices | ab67p | F.max_pool2d(x, 2, padding=1, return_indices=True)
avg_pool2d | ab67p | F.avg_pool2d(x, 2, divisor_override=3)
avg_pool2d | ab88p | F.avg_pool2d(x, 1, stride=2, ceil_mode=True)
adaptive_avg_pool3d | ab457p | F.adaptive_avg_pool3d(x, (2, 3, 1))
adaptive_max_pool3d | ab345p | F.adaptive_max_pool3d(x, 2)
adaptive_max_pool2d | ab57p | F.adaptive_max_pool2d(x, 3, return_indices=True)
convolution | a2bcp | nn.ConvTranspose2d(2, 3, 2, stride=2, output_padding=1)
convolution | a2bp | nn.ConvTranspose1d(2, 4, 3, stride=3, output_padding=2, groups=2)
histc | *p | torch.histc(x, bins=4, min=-1, max=2)
col2im | a83p | F.fold(x, (3, 4), 2, stride=(2, 1))
col2im | a8bp | F.fold(x, (2, {b} + 1), 2).abs()
constant_pad_nd | ab5 | F.pad(x, (-1, 2, 1, 0))
pad | ab45 | F.pad(x, (1, 2, 3, 1), mode="circular")
pad | a3456 | F.pad(x, (1, 1, 2, 1, 1, 2), mode="reflect")
lstm | abcp | nn.LSTM({c}, 3, bidirectional=True, batch_first=True)
gru | abcp | nn.GRU({c}, 3, 2)
swapaxes | abc | x.swapaxes(0, -1) * 2
movedim | abc | x.movedim(0, -1) * 2
tensor_split | a7 | torch.tensor_split(x, 3, dim=1)
block_diag | ab cd | torch.block_diag(x, y)
cartesian_prod | a b | torch.cartesian_prod(x, y)
channel_shuffle | a4bc | F.channel_shuffle(x, 2)
column_stack | ab ac | torch.column_stack([x, y])
kron | abp cdp | torch.kron(x, y)
trapezoid | abp | torch.trapezoid(x)
cumulative_trapezoid | a5p | torch.cumulative_trapezoid(x)
take | ab 3:n | torch.take(x, (y % ({a} * {b})).long())
take_along_dim | a5 a2:n | torch.take_along_dim(x, (y % 5).long(), 1)
rot90 | ab | torch.rot90(x)
roll | abc | torch.fft.fftshift(x)
linalg_cross | a3p a3p | torch.linalg.cross(x, y)
tensordot | abp bcp | torch.tensordot(x, y, dims=1)
inner | abp cbp | torch.inner(x, y)
heaviside | *p ?p | torch.heaviside(x, y)
hardshrink | *p | F.hardshrink(x)
softshrink | *p | F.softshrink(x)
celu | *p | F.celu(x)
logit | *u | torch.logit(x)
sinc | *p | torch.sinc(x)
xlogy | *u ?u | torch.xlogy(x, y)
logaddexp | *p ?p | torch.logaddexp(x, y)
smooth_l1_loss | *p | F.smooth_l1_loss(x, x * 0.5, reduction="none")
count_nonzero | *p | torch.count_nonzero(x, {d})
index_fill | a5 | x.index_fill(1, torch.tensor([0, 3]), 0.5)
index_copy | 5a 2a | x.index_copy(0, torch.tensor([3, 0]), y)
index_add | 5ap 2ap | x.index_add(0, torch.tensor([3, 0]), y)
gru_cell | abp a3p | nn.GRUCell({b}, 3)
lstm_cell | abp | nn.LSTMCell({b}, 3)
einsum | a3p | torch.einsum("...i->...", x)
erfc | *p | torch.erfc(x)
special_chebyshev_polynomial_t | *p | torch.special.chebyshev_polynomial_t(x, 3)
special_hermite_polynomial_h | *p | torch.special.hermite_polynomial_h(x, 3)
special_laguerre_polynomial_l | *p | torch.special.laguerre_polynomial_l(x, 3)
special_legendre_polynomial_p | *p | torch.special.legendre_polynomial_p(x, 3)
logdet | 33p | torch.logdet(x @ x.T + torch.eye(3))
linalg_slogdet | 33p | torch.linalg.slogdet(x @ x.T + torch.eye(3))
topk | a7 | torch.topk(x, 3, dim=1, sorted=False)[0].sort(1)[0]
wide | abp | x.reshape({a}, 1, {b}, 1, 1, 1).expand({a}, 2, {b}, 1, 2, 1).sum(4)
wide | 4a6bp | x.reshape(2, 2, {a}, 2, 3, {b}).permute(0, 3, 2, 1, 4, 5)[:, :, :, 1].relu()
wide | 4a6bp | torch.softmax(x.reshape(2, 2, {a}, 2, 3, {b}), 3).permute(4, 1, 2, 0, 3, 5).flatten(0, 2)
"""


class Line(NamedTuple):
    """One line of the table."""

    operator: str
    inputs: tuple[str, ...]
    expression: str


class Case(NamedTuple):
    """A signature with sizes."""

    expression: str
    words: tuple[tuple[tuple[int, ...], str], ...]
    """The shape of each input, and what its elements are."""


def lines() -> list[Line]:
    """All signatures."""
    found = []
    for line in TEXT.strip().splitlines():
        operator, inputs, expression = line.split(" | ", 2)
        found.append(Line(operator, tuple(inputs.split()), expression))
    return found


@st.composite
def cases(draw: Any, line: Line) -> Case:
    """A signature with sizes drawn."""
    sizes = {letter: draw(st.integers(1, 5)) for letter in "abcd"}
    whole = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    words = []
    for word in line.inputs:
        text, kind = _parsed(word)
        if text == "*":
            shape = whole
        elif text == "?":
            keep = draw(st.integers(0, len(whole)))
            shape = tuple(1 if draw(st.booleans()) else size for size in whole[keep:])
        else:
            shape = tuple(int(one) if one.isdigit() else sizes[one] for one in text)
        words.append((shape, kind))
    rank = max(1, len(words[0][0]))
    expression = line.expression.replace("{d}", str(draw(st.integers(-rank, rank - 1))))
    for letter, size in sizes.items():
        expression = expression.replace(f"{{{letter}}}", str(size))
    return Case(expression, tuple(words))


def _parsed(word: str) -> tuple[str, str]:
    text, _, kind = word.partition(":")
    if not kind and len(text) > 1 and text[-1] in "pu":
        text, kind = text[:-1], text[-1]
    return text, kind


class Several(nn.Module):
    """Some cases of one signature as one model, each with inputs of its own."""

    def __init__(self, found: list[Case]) -> None:
        super().__init__()
        self.counts = [len(case.words) for case in found]
        self.run = []
        self.layers = nn.ModuleList()
        for case in found:
            if case.expression.startswith("nn."):
                self.layers.append(eval(case.expression, {"nn": nn}))
                self.run.append(self.layers[-1])
            else:
                code = compile(f"lambda x, y=None, z=None: {case.expression}", "<case>", "eval")
                self.run.append(eval(code, {"torch": torch, "F": functional, "math": math}))

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        outputs: list[Tensor] = []
        for count, run in zip(self.counts, self.run, strict=True):
            mine, given = given[:count], given[count:]
            result = run(*mine)
            outputs += _tensors(result)
        # What is an input as it is, or a boolean, is no output of a program of any kind.
        return tuple(one + 0 if one.dtype != torch.bool else one.to(torch.int32) for one in outputs)


def _tensors(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    return [one for part in result for one in _tensors(part)]


_SPECIAL = (0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 1e-38, 3e38, -0.5)


def values(case: Case, chance: torch.Generator) -> list[Tensor]:
    """Inputs of a case."""
    return [_drawn(shape, kind, chance) for shape, kind in case.words]


def _drawn(shape: tuple[int, ...], kind: str, chance: torch.Generator) -> Tensor:
    match kind:
        case "b":
            return torch.randint(0, 2, shape, generator=chance).bool()
        case "i":
            return torch.randint(-100, 100, shape, generator=chance, dtype=torch.int32)
        case "n":
            return torch.randint(0, 30, shape, generator=chance, dtype=torch.int32)
        case "u":
            return torch.rand(shape, generator=chance) * 0.8 + 0.1
    found = torch.randn(shape, generator=chance) * 2
    if kind == "p":
        return found
    some = torch.rand(shape, generator=chance) < 0.15
    which = torch.randint(0, len(_SPECIAL), shape, generator=chance)
    return torch.where(some, torch.tensor(_SPECIAL)[which], found)
