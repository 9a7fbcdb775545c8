"""What an export to Core AI supplies and mends: programs that coreai-torch refuses or gets wrong alone, and that agree then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from judging import judged
from torch import nn

from modellint.destinations.coreai.converter_process import ConverterProcess
from modellint.results.verification import AGREES, DIFFERS, NOT_CONVERTED

pytest.importorskip("coreai_torch", reason="coreai-torch is not installed: pip install '.[coreai]'")

MISSING = """
isnan | 3x4 | torch.isnan(x / x.relu())
remainder | 3x4 | torch.remainder(x, 0.7)
left_shift | 8i | (x - 1) << 4
right_shift | 8i | (x * 100003 - 100000) >> 3
right_shift_by_the_most | 8i | (x - 1).to(torch.int32) >> 31
shift_by_a_tensor | 8i 8i | torch.stack([torch.bitwise_left_shift(x - 1, y), torch.bitwise_right_shift(x - 9, y)])
shift_of_a_number | 8i | 5 << x
shift_of_two_types | 8i 8i | (x.to(torch.int32) << y).float()
remainder_of_integers | 8i | torch.remainder(x - 3, 4)
elu | 3x4 | F.elu(x)
selu | 3x4 | F.selu(x)
var | 3x4 | x.var(1)
std_of_all | 3x4 | x.std(correction=0)
var_mean | 2x3x4 | torch.cat(torch.var_mean(x, (0, 2)))
cumprod | 3x5 | torch.cumprod(x, 1)
sort | 3x5 | torch.sort(x, 1)[0]
sort_descending | 3x5 | x.sort(0, descending=True)[0]
argsort | 3x5 | torch.argsort(x, 1)
stable_places | 8i | torch.sort(x, stable=True)[1]
stable_downwards | 8i | torch.sort(x, stable=True, descending=True)[1]
stable_argsort | 3x5 | torch.argsort(x.round(), dim=0, stable=True)
stable_truths | 8i | torch.sort(x > 0, stable=True)[1]
stable_among_nan | 8 | torch.sort(torch.where(x > 0.5, torch.nan, x.round()), stable=True)[1]
squeeze_of_more | 3x5 | x.squeeze(1) * 2
argmin | 3x5 | torch.argmin(x, 1)
amax_of_all | 3x4 | torch.stack([x.amax(), x.sum().amax()])
amin_of_all_kept | 3x4 | torch.amin(x, keepdim=True)
aminmax | 3x4 | torch.stack(torch.aminmax(x))
median | 3x5 | torch.median(x, 1)[0]
kthvalue | 3x5 | torch.kthvalue(x, 2, 1)[0]
diagonal | 2x4x5 | torch.diagonal(x, 1, 1, 2)
diagonal_below | 4x5 | torch.diagonal(x, -2)
unfold | 2x9 | x.unfold(1, 3, 2)
unfold_first | 9x2 | x.unfold(0, 4, 1)
as_strided | 4x6 | torch.as_strided(x, (3, 2), (6, 2), 1)
fmax | 3x4 3x4 | torch.fmax(x, y)
addbmm | 2x3 4x2x5 4x5x3 | torch.addbmm(x, y, z, alpha=0.5)
addmv | 2 2x3 3 | torch.addmv(x, y, z)
bilinear | 2x3 2x4 | F.bilinear(x, y, torch.ones(5, 3, 4))
cdist | 3x4 5x4 | torch.cdist(x, y)
cdist_by_one | 3x4 5x4 | torch.cdist(x, y, p=1.0)
adaptive_avg_pool3d | 1x2x5x6x7 | F.adaptive_avg_pool3d(x, (2, 3, 4))
adaptive_max_pool2d | 1x2x5x7 | F.adaptive_max_pool2d(x, (2, 3))
max_pool3d | 1x2x4x4x4 | F.max_pool3d(x, 2)
grid_sample | 1x2x5x6 1x3x4x2 | F.grid_sample(x, torch.tanh(y), align_corners=False)
solve | 2x3x3 2x3x2 | torch.linalg.solve(x * 0.1 + torch.eye(3), y)
inv | 2x3x3 | torch.linalg.inv(x * 0.1 + torch.eye(3))
lu_factor | 3x3 | torch.linalg.lu_factor(x * 0.1 + torch.eye(3))[0]
cholesky | 3x3 | torch.linalg.cholesky(x @ x.T + torch.eye(3))
slogdet | 3x3 | torch.slogdet(x * 0.1 + torch.eye(3))[1]
det | 2x3x3 | torch.det(x)
qr | 4x3 | torch.linalg.qr(x)[1].abs()
erfinv | 3x4 | torch.erfinv(torch.tanh(x))
lgamma | 3x4 | torch.lgamma(x.abs() + 0.1)
i0e | 3x4 | torch.special.i0e(x)
cummax | 3x5 | torch.cummax(x, 1)[0]
hypot | 3x4 3x4 | torch.hypot(x, y)
bucketize | 8 | torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5]))
searchsorted | 2x5 2x3 | torch.searchsorted(x.sort(-1)[0], y)
mode | 3x5 | torch.mode((x * 2).round(), 1)[0]
embedding_bag | 6i | F.embedding_bag(x.reshape(2, 3), torch.arange(12.0).reshape(4, 3), mode="mean")
index_reduce | 4x3 2x3 | x.index_reduce(0, torch.tensor([2, 0]), y, "amax")
"""
REFUSED = """
max_pool_without_batch | 2x6x6 | F.max_pool2d(x, 2)
avg_pool_without_batch | 2x6x6 | F.avg_pool2d(x, 2)
avg_pool_over_the_end | 1x2x7x7 | F.avg_pool2d(x, 2, 3, 0, True)
avg_pool_over_the_padding | 1x2x6x8 | F.avg_pool2d(x, 3, 2, 1, True, False)
batch_norm_without_weight | 2x3x4x4 | F.batch_norm(x, torch.zeros(3), torch.ones(3))
sqrt_of_integers | 6i | torch.sqrt(x + 1)
exp_of_integers | 6i | torch.exp(x)
clamp_of_integers | 6i | x.clamp(min=0.5)
clamp_of_integers_by_a_tensor | 6i | x.clamp(torch.tensor(0.5))
clamp_of_integers_between | 6i | x.clamp(0.5, 1.5)
conv_transpose3d | 1x2x3x3x3 | F.conv_transpose3d(x, torch.ones(2, 3, 2, 2, 2), stride=2, padding=1, output_padding=1)
conv_transpose3d_groups | 1x4x3x3x3 | F.conv_transpose3d(x, torch.linspace(0, 1, 4 * 27 * 2).reshape(4, 2, 3, 3, 3), groups=2)
attention_of_other_size | 1x2x3x4 1x2x5x4 1x2x5x6 | F.scaled_dot_product_attention(x, y, z)
attention_with_mask | 1x2x3x4 1x2x3x4 1x2x3x6 | F.scaled_dot_product_attention(x, y, z, is_causal=True)
attention_of_hidden_row | 1x2x2x4 1x2x2x4 1x2x2x6 | F.scaled_dot_product_attention(x, y, z, torch.tensor([[True], [False]]).expand(2, 2))
order_of_truths | 3x4 3x4 | torch.stack([a < b for a in (x > 0, x < 1) for b in (y > 0, y < 1)]).float()
other_orders_of_truths | 3x4 3x4 | torch.stack([(x > 0) <= (y > 0), (x > 0) > (y > 0), (x > 0) >= (y > 0)]).float()
larger_truth | 3x4 3x4 | torch.maximum(x > 0, y > 0).float() - torch.minimum(x > 0, y > 0).float()
largest_truth | 3x4 | torch.cat([(x > 0).amax(1), (x > 0).amin((0, 1), keepdim=True)[0], (x > 3).max()[None]]).float()
truth_at_least | 3x4 | (x > 0).clamp(min=1) + (x > 0).clamp(max=0) * 2
truth_up_to_a_half | 3x4 | (x > 0).clamp(max=0.5)
largest_truths | 3x4 | torch.cat([(x > 0).max(1)[0], (x > 0).min(0)[0]]).float()
cat_of_nothing | 3x4 | torch.cat([torch.cat([x[:, :0], x[:, 2:2]], 1), x * 2], -1)
cat_of_nothing_of_two_ranks | 3x4 | torch.cat([torch.cat([torch.zeros(0), x[:, :0]], 1), x * 2], 1)
sorted_truths | 3x4 | (x > 0).sort(1)[0].float()
antialiased | 1x2x9x12 | F.interpolate(x, size=(4, 17), mode="bilinear", antialias=True)
antialiased_by_factors | 1x2x9x12 | F.interpolate(x, scale_factor=(0.45, 0.6), mode="bilinear", antialias=True)
antialiased_cubic | 1x2x9x12 | F.interpolate(x, size=(4, 5), mode="bicubic", antialias=True)
antialiased_to_corners | 1x2x9x12 | F.interpolate(x, size=(4, 15), mode="bilinear", antialias=True, align_corners=True)
scatter_add | 3x4 3x4 | torch.zeros(3, 6).scatter_add(1, (x * 10).long().clamp(0, 5), y)
scatter_mean | 3x4 3x4 | x.scatter_reduce(1, (y * 10).long().clamp(0, 3), y, "mean")
scatter_mean_of_others | 3x4 3x4 | x.scatter_reduce(1, (y * 10).long().clamp(0, 3), y, "mean", include_self=False)
scatter_amax | 3x4 3x4 | x.scatter_reduce(1, (y * 10).long().clamp(0, 3), y, "amax")
index_add | 4x3 2x3 | x.index_add(0, torch.tensor([2, 0]), y)
row_added_to_several_places | 3x2 | torch.index_put(x, (torch.tensor([0, 2]),), x[1:2] * 2, accumulate=True)
index_put_accumulate | 4x3 2x3 | x.index_put((torch.tensor([1, 1]),), y, accumulate=True)
"""
WRONG = """
add_alpha | 2x3 2x3 | torch.add(x, y, alpha=3)
sub_alpha | 2x3 2x3 | torch.sub(x, y, alpha=3)
rsub_alpha | 2x3 | torch.rsub(x, 2.0, alpha=3)
cast_pair | 2x3 | (x * 10).to(torch.int32).to(torch.float32)
cast_to_zero | 3x4 3x4 | y / (x * 0.5).int()
long_float | 2x3 | (x * 10).long().float()
int_plus_float | 4i | (x + 2049) + 0.5
int_above_float | 4i | (x + 2049) > 2048.5
count_include_pad_1d | 1x2x6 | F.avg_pool1d(x, 3, 1, 1, count_include_pad=False)
count_include_pad_2d | 1x2x6x6 | F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
count_include_pad_3d | 1x2x4x4x4 | F.avg_pool3d(x, 3, 1, 1, count_include_pad=False)
not_int32 | 4i | ~(x.to(torch.int32) + 16777217)
nearest | 1x2x5x5 | F.interpolate(x, size=(3, 3), mode="nearest")
nearest_third | 1x2x6x9 | F.interpolate(x, size=(2, 3), mode="nearest")
nearest_by_factor | 1x2x5x4 | F.interpolate(x, scale_factor=1.3, mode="nearest")
number_behind_a_slice | 2x3x3 | torch.ops.aten.index_put(x, [None, torch.arange(3), torch.arange(3)], torch.tensor(0.5))
number_at_a_grid | 4x3x5 | torch.ops.aten.index_put(x, [torch.tensor([[0], [2]]), torch.tensor([0, 1])], torch.tensor(0.5))
number_behind_axes | 2x3x4 | torch.ops.aten.index_put(x, [None, None, torch.tensor([1, 3])], torch.tensor(0.5))
row_for_several_places | 3x2 | torch.index_put(x, (torch.tensor([0, 2]),), x[1:2] * 2)
expm1 | 3x4 | torch.expm1(x * 1e-6)
log1p | 3x4 | torch.log1p(x.abs() * 1e-6)
"""


def programs(text: str) -> list[Any]:
    """Name, shapes (i: integers from 0 to 2) and expression of each."""
    return [pytest.param(*line.split(" | ")[1:], id=line.split(" | ")[0]) for line in text.strip().splitlines()]


def built(shapes: str, expression: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    inputs = []
    for shape in shapes.split():
        sizes = [int(size) for size in shape.rstrip("i").split("x")]
        of_integers = shape.endswith("i")
        made = (
            torch.randint(0, 3, sizes, generator=generator) if of_integers else torch.randn(sizes, generator=generator)
        )
        inputs.append(made)
    names = ", ".join("xyz"[: len(inputs)])
    scope: dict[str, Any] = {"torch": torch, "F": nn.functional}
    exec(f"def forward(self, {names}):\n    return {expression}", scope)
    return type("Net", (nn.Module,), {"forward": scope["forward"]})(), tuple(inputs)


@pytest.mark.parametrize(("shapes", "expression"), programs(MISSING + REFUSED.lstrip()))
def test_what_is_refused_is_supplied(process: ConverterProcess, tmp_path: Path, shapes: str, expression: str) -> None:
    assert judged(process, *built(shapes, expression), tmp_path)[0].verdict == NOT_CONVERTED
    verification, blockers = judged(process, *built(shapes, expression), tmp_path, supplies=True)
    assert not blockers
    assert verification.verdict == AGREES, verification


def test_sum_of_truth_values_is_mended(process: ConverterProcess, tmp_path: Path) -> None:
    program = "3x4 3x4", "((x > 0) + (y > 0)).float()"
    assert judged(process, *built(*program), tmp_path)[0].verdict == DIFFERS
    assert judged(process, *built(*program), tmp_path, supplies=True)[0].verdict == AGREES


@pytest.mark.parametrize(("shapes", "expression"), programs(WRONG))
def test_what_is_wrong_is_mended(process: ConverterProcess, tmp_path: Path, shapes: str, expression: str) -> None:
    wrong = judged(process, *built(shapes, expression), tmp_path)[0]
    assert wrong.verdict == DIFFERS
    # Which operation is the first to depart is known of each.
    assert wrong.first_difference is not None and wrong.first_difference.operator.startswith("aten::")
    assert judged(process, *built(shapes, expression), tmp_path, supplies=True)[0].verdict == AGREES
