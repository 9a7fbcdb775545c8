"""Modules of one operator each, as text: what converts and what does not, in about equal parts."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Iterator
from typing import Any, NamedTuple

_TEXT = """\
import math

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
{init}
    def forward(self, {names}):
        {forward}
"""

PROBES = """
add | 2x3 2x3 | x + y
add_alpha_one | 2x3 2x3 | torch.add(x, y, alpha=1)
addmm | 2x3 2x4 4x3 | torch.addmm(x, y, z)
amax | 2x3x4 | torch.amax(x, dim=1)
arange_of_size | 2x3 | x + torch.arange(x.shape[1])
argmax | 2x5 | torch.argmax(x, dim=1)
argmin | 2x5 | x.argmin(1)
argsort | 2x5 | torch.argsort(x, dim=1)
atan2 | 2x3 2x3 | torch.atan2(x, y)
baddbmm | 2x3x5 2x3x4 2x4x5 | torch.baddbmm(x, y, z)
batch_norm | 2x3x4x4 | self.layer(x) | nn.BatchNorm2d(3)
batch_norm_1d | 2x3x4 | self.layer(x) | nn.BatchNorm1d(3)
batch_norm_3d | 2x3x4x4x4 | self.layer(x) | nn.BatchNorm3d(3)
bmm | 2x3x4 2x4x5 | torch.bmm(x, y)
broadcast_tensors | 2x1 1x3 | torch.broadcast_tensors(x, y)[0] * 2
cat | 2x3 2x3 | torch.cat([x, y], dim=1)
clamp | 2x3 | x.clamp(0.0, 1.0)
clamp_tensor | 2x3 1x3u | torch.clamp(x, min=y)
conv1d_same | 2x3x8 | self.layer(x) | nn.Conv1d(3, 4, 3, padding="same")
conv2d | 2x3x8x8 | self.layer(x) | nn.Conv2d(3, 4, 3, stride=2, groups=1)
conv2d_depthwise | 2x4x8x8 | self.layer(x) | nn.Conv2d(4, 4, 3, groups=4, dilation=2)
conv2d_zeros | 2x3x8x8 | self.layer(x) | nn.Conv2d(3, 4, 3, padding=1, padding_mode="zeros")
conv2d_reflect | 2x3x8x8 | self.layer(x) | nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect")
conv2d_replicate | 2x3x8x8 | self.layer(x) | nn.Conv2d(3, 4, 3, padding=1, padding_mode="replicate")
conv_transpose1d | 2x3x8 | self.layer(x) | nn.ConvTranspose1d(3, 4, 3, stride=2)
conv_transpose2d | 2x3x8x8 | self.layer(x) | nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1)
conv_transpose3d | 2x3x4x4x4 | self.layer(x) | nn.ConvTranspose3d(3, 4, 3)
cosine_similarity | 2x3 2x3 | F.cosine_similarity(x, y)
cumsum | 2x3 | torch.cumsum(x, dim=1)
div | 2x3 2x3u | x / y
div_floor | 2x3 2x3u | torch.div(x, y, rounding_mode="floor")
div_trunc | 2x3 2x3u | torch.div(x, y, rounding_mode="trunc")
dot | 5 5 | torch.dot(x, y)
dropout | 2x3 | self.layer(x) | nn.Dropout(0.5)
einsum_mm | 2x3 3x4 | torch.einsum("ij,jk->ik", x, y)
einsum_batched | 2x3x4 2x4x5 | torch.einsum("bij,bjk->bik", x, y)
einsum_attention | 2x3x4x5 2x6x4x5 | torch.einsum("bqhd,bkhd->bhqk", x, y)
embedding | 2x3i | self.layer(x) | nn.Embedding(5, 4)
exp2 | 2x3 | torch.exp2(x)
expand | 2x1 | x.expand(2, 4) * 2
flip | 2x3 | torch.flip(x, dims=[1])
floor_divide | 2x3 2x3u | torch.floor_divide(x, y)
gather | 2x3 2x2i | torch.gather(x, 1, y)
gelu | 2x3 | F.gelu(x)
gelu_tanh | 2x3 | F.gelu(x, approximate="tanh")
glu | 2x6 | F.glu(x, dim=1)
grid_sample | 2x3x4x4 2x5x5x2u | F.grid_sample(x, y, align_corners=True)
grid_sample_nearest | 2x3x4x4 2x5x5x2u | F.grid_sample(x, y, mode="nearest", align_corners=True)
grid_sample_border | 2x3x4x4 2x5x5x2u | F.grid_sample(x, y, padding_mode="border", align_corners=False)
group_norm | 2x4x5x5 | self.layer(x) | nn.GroupNorm(2, 4)
gru | 5x2x3 | self.layer(x)[0] | nn.GRU(3, 4)
index_select | 2x3 | torch.index_select(x, 1, torch.tensor([0, 2]))
instance_norm | 2x3x4x4 | self.layer(x) | nn.InstanceNorm2d(3)
instance_norm_affine | 2x3x4x4 | self.layer(x) | nn.InstanceNorm2d(3, affine=True)
interpolate_nearest | 2x3x4x4 | F.interpolate(x, scale_factor=2)
interpolate_nearest_mode | 2x3x4x4 | F.interpolate(x, scale_factor=2, mode="nearest")
interpolate_bilinear | 2x3x4x4 | F.interpolate(x, size=(8, 8), mode="bilinear", align_corners=False)
interpolate_bilinear_corners | 2x3x4x4 | F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True)
interpolate_linear | 2x3x4 | F.interpolate(x, scale_factor=2, mode="linear")
layer_norm | 2x3x4 | self.layer(x) | nn.LayerNorm(4)
leaky_relu | 2x3 | F.leaky_relu(x, 0.1)
linear | 2x3 | self.layer(x) | nn.Linear(3, 4)
log1p | 2x3u | torch.log1p(x)
logcumsumexp | 2x3 | torch.logcumsumexp(x, dim=1)
logsumexp | 2x3 | torch.logsumexp(x, dim=1)
lstm | 5x2x3 | self.layer(x)[0] | nn.LSTM(3, 4)
lstm_bidirectional | 5x2x3 | self.layer(x)[0] | nn.LSTM(3, 4, bidirectional=True, batch_first=True)
masked_fill | 2x3 | x.masked_fill(x > 0, 0.0)
matmul | 2x3 3x4 | x @ y
max | 2x3 | torch.max(x, dim=1)[0]
max_pool1d | 2x3x8 | F.max_pool1d(x, 2)
max_pool2d | 2x3x8x8 | F.max_pool2d(x, 2)
max_pool2d_ceil | 2x3x7x7 | self.layer(x) | nn.MaxPool2d(2, ceil_mode=True)
max_pool3d | 2x3x4x4x4 | self.layer(x) | nn.MaxPool3d(2)
avg_pool2d | 2x3x8x8 | self.layer(x) | nn.AvgPool2d(2)
adaptive_avg_pool2d | 2x3x8x8 | self.layer(x) | nn.AdaptiveAvgPool2d(1)
adaptive_avg_pool2d_uneven | 2x3x8x8 | self.layer(x) | nn.AdaptiveAvgPool2d(3)
adaptive_max_pool2d | 2x3x8x8 | self.layer(x) | nn.AdaptiveMaxPool2d(2)
maximum | 2x3 2x3 | torch.maximum(x, y)
mean | 2x3x4 | x.mean(dim=(1, 2))
meshgrid | 3 4 | torch.meshgrid(x, y, indexing="ij")[0] * 2
multihead_attention | 2x5x8 | self.layer(x, x, x, need_weights=True)[0] | nn.MultiheadAttention(8, 2, batch_first=True)
norm | 2x3 | torch.norm(x, dim=1)
one_hot | 2x3i | F.one_hot(x, 5).float()
pad_constant | 2x3x4x4 | F.pad(x, (1, 2, 3, 4))
pad_constant_value | 2x3x4x4 | F.pad(x, (1, 1), mode="constant", value=2.0)
pad_reflect | 2x3x4x4 | F.pad(x, (1, 1, 1, 1), mode="reflect")
pad_replicate | 2x3x4x4 | F.pad(x, (1, 1, 1, 1), mode="replicate")
pixel_shuffle | 2x8x4x4 | F.pixel_shuffle(x, 2)
pow | 2x3u | x ** 1.5
prelu_one | 2x3x4 | self.layer(x) | nn.PReLU()
reflection_pad2d | 2x3x8x8 | self.layer(x) | nn.ReflectionPad2d(2)
relu6 | 2x3 | F.relu6(x)
remainder | 2x3 2x3u | torch.remainder(x, y)
repeat | 2x3 | x.repeat(2, 1)
repeat_interleave | 2x3 | torch.repeat_interleave(x, 2, dim=1)
replication_pad2d | 2x3x8x8 | self.layer(x) | nn.ReplicationPad2d(2)
reshape | 2x6 | x.reshape(3, 4) * 2
roll | 2x3 | torch.roll(x, 1, dims=1)
scatter | 2x5 2x3i 2x3 | x.scatter(1, y, z)
scatter_add | 2x5 2x3i 2x3 | x.scatter_add(1, y, z)
sdpa | 2x2x5x4 2x2x5x4 2x2x5x4 | F.scaled_dot_product_attention(x, y, z)
slice_step | 2x6 | x[:, ::2] * 2
softplus | 2x3 | F.softplus(x)
std | 2x3 | x.std(dim=1)
sum | 2x3 | x.sum(dim=1)
tanhshrink | 2x3 | F.tanhshrink(x)
threshold | 2x3 | F.threshold(x, 0.1, 20.0)
to_float | 2x3i | x.float() * 2
topk | 2x5 | torch.topk(x, 2, dim=1)[0]
tril | 3x3 | torch.tril(x)
unbind | 2x3 | torch.unbind(x, dim=1)[0] * 2
unflatten | 2x6 | x.unflatten(1, (2, 3)) * 2
upsample | 2x3x4x4 | self.layer(x) | nn.Upsample(scale_factor=2)
upsample_bilinear | 2x3x4x4 | self.layer(x) | nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
var | 2x3 | x.var(dim=1)
view | 2x6 | x.view(3, 4) * 2
where | 2x3 2x3 | torch.where(x > 0, x, y)
acosh | 2x3u | torch.acosh(x + 1)
adaptive_avg_pool3d | 2x3x4x4x4 | self.layer(x) | nn.AdaptiveAvgPool3d(2)
adaptive_max_pool3d | 2x3x4x4x4 | self.layer(x) | nn.AdaptiveMaxPool3d(2)
addbmm | 3x5 2x3x4 2x4x5 | torch.addbmm(x, y, z)
addcdiv | 2x3 2x3 2x3u | torch.addcdiv(x, y, z)
addcmul | 2x3 2x3 2x3 | torch.addcmul(x, y, z)
addmv | 3 3x4 4 | torch.addmv(x, y, z)
addr | 3x4 3 4 | torch.addr(x, y, z)
add_alpha | 2x3 2x3 | torch.add(x, y, alpha=2.0)
angle | 2x3 | torch.angle(x)
as_strided | 2x6 | x.as_strided((2, 3), (6, 2)) * 2
asinh | 2x3 | torch.asinh(x)
bilinear | 2x3 2x4 | self.layer(x, y) | nn.Bilinear(3, 4, 5)
bitwise_or | 2x3i 2x3i | torch.bitwise_or(x, y)
bitwise_xor | 2x3i 2x3i | x ^ y
bitwise_left_shift | 2x3i 2x3i | x << y
block_diag | 2x3 2x3 | torch.block_diag(x, y)
broadcast_to | 1x3 | torch.broadcast_to(x, (2, 3)) * 2
bucketize | 2x3 | torch.bucketize(x, torch.tensor([0.0, 1.0]))
cartesian_prod | 3 4 | torch.cartesian_prod(x, y)
cdist | 2x3x4 2x5x4 | torch.cdist(x, y)
celu | 2x3 | F.celu(x)
channel_shuffle | 2x4x3x3 | self.layer(x) | nn.ChannelShuffle(2)
cholesky | 3x3s | torch.linalg.cholesky(x)
column_stack | 2x3 2x3 | torch.column_stack([x, y])
copysign | 2x3 2x3 | torch.copysign(x, y)
corrcoef | 3x4 | torch.corrcoef(x)
count_nonzero | 2x3 | torch.count_nonzero(x, dim=1)
cov | 3x4 | torch.cov(x)
cross | 2x3 2x3 | torch.linalg.cross(x, y)
cummax | 2x3 | torch.cummax(x, dim=1)[0]
cummin | 2x3 | torch.cummin(x, dim=1)[0]
cumulative_trapezoid | 2x3 | torch.cumulative_trapezoid(x)
deg2rad | 2x3 | torch.deg2rad(x)
det | 3x3s | torch.det(x)
diag | 3x3 | torch.diag(x)
diag_embed | 2x3 | torch.diag_embed(x)
diagonal_scatter | 3x3 3 | torch.diagonal_scatter(x, y)
diff | 2x5 | torch.diff(x)
digamma | 2x3u | torch.digamma(x)
dist | 2x3 2x3 | torch.dist(x, y)
dstack | 2x3 2x3 | torch.dstack([x, y])
embedding_bag | 2x3i | self.layer(x) | nn.EmbeddingBag(5, 4)
entr | 2x3u | torch.special.entr(x)
erfc | 2x3 | torch.erfc(x)
erfinv | 2x3u | torch.erfinv(x)
fft2 | 4x4 | torch.fft.fft2(x).real
fftshift | 2x4 | torch.fft.fftshift(x)
fix | 2x3 | torch.fix(x)
flipud | 2x3 | torch.flipud(x)
float_power | 2x3u | torch.float_power(x, 2.0)
fmax | 2x3 2x3 | torch.fmax(x, y)
fmin | 2x3 2x3 | torch.fmin(x, y)
fmod | 2x3 2x3u | torch.fmod(x, y)
frexp | 2x3 | torch.frexp(x)[0]
gcd | 2x3i 2x3i | torch.gcd(x, y)
gru_cell | 2x3 | self.layer(x) | nn.GRUCell(3, 4)
hardshrink | 2x3 | F.hardshrink(x)
heaviside | 2x3 2x3 | torch.heaviside(x, y)
histc | 2x3 | torch.histc(x, bins=4)
hsplit | 2x6 | torch.hsplit(x, 2)[0] * 2
hypot | 2x3 2x3 | torch.hypot(x, y)
i0 | 2x3 | torch.i0(x)
index_add | 4x3 | x.index_add(0, torch.tensor([0, 1]), x[:2])
index_copy | 4x3 | x.index_copy(0, torch.tensor([0, 1]), x[:2])
index_fill | 4x3 | x.index_fill(0, torch.tensor([0, 1]), 0.5)
inner | 2x3 4x3 | torch.inner(x, y)
isclose | 2x3 2x3 | torch.isclose(x, y).float()
isfinite | 2x3 | torch.isfinite(x).float()
isin | 2x3 | torch.isin(x, torch.tensor([0.0, 1.0])).float()
isinf | 2x3 | torch.isinf(x).float()
kl_div | 2x3 2x3u | F.kl_div(x, y, reduction="none")
kron | 2x3 2x3 | torch.kron(x, y)
kthvalue | 2x5 | torch.kthvalue(x, 2, dim=1)[0]
ldexp | 2x3 2x3 | torch.ldexp(x, y)
lerp | 2x3 2x3 | torch.lerp(x, y, 0.5)
lgamma | 2x3u | torch.lgamma(x)
linalg_eigh | 3x3s | torch.linalg.eigh(x)[0]
linalg_pinv | 3x4 | torch.linalg.pinv(x)
linalg_qr | 3x3s | torch.linalg.qr(x)[0]
linalg_slogdet | 3x3s | torch.linalg.slogdet(x)[1]
linalg_solve | 3x3s 3x2 | torch.linalg.solve(x, y)
linalg_svdvals | 3x4 | torch.linalg.svdvals(x)
local_response_norm_cross | 2x4x5x5 | self.layer(x) | nn.CrossMapLRN2d(2)
logaddexp | 2x3 2x3 | torch.logaddexp(x, y)
logaddexp2 | 2x3 2x3 | torch.logaddexp2(x, y)
logit | 2x3u | torch.logit(x)
logsigmoid | 2x3 | F.logsigmoid(x)
lstm_cell | 2x3 | self.layer(x)[0] | nn.LSTMCell(3, 4)
masked_scatter | 2x3 2x3 | x.masked_scatter(x > 0, y)
masked_select | 2x3 | torch.masked_select(x, x > 0)
matrix_exp | 3x3 | torch.matrix_exp(x)
matrix_power | 3x3 | torch.matrix_power(x, 3)
max_unpool2d | 2x3x4x4 2x3x4x4i | F.max_unpool2d(x, y, 2)
median | 2x5 | torch.median(x, dim=1)[0]
mode | 2x5 | torch.mode(x, dim=1)[0]
moveaxis | 2x3x4 | torch.moveaxis(x, 0, 2) * 2
movedim | 2x3x4 | x.movedim(0, 2) * 2
msort | 2x5 | torch.msort(x)
nanmean | 2x5 | torch.nanmean(x)
nanmedian | 2x5 | torch.nanmedian(x)
nansum | 2x5 | torch.nansum(x)
new_ones | 2x3 | x + x.new_ones(2, 3)
nextafter | 2x3 2x3 | torch.nextafter(x, y)
outer | 3 4 | torch.outer(x, y)
pairwise_distance | 2x3 2x3 | F.pairwise_distance(x, y)
pdist | 4x3 | F.pdist(x)
poisson | 2x3u | torch.poisson(x)
polar | 2x3u 2x3 | torch.polar(x, y).real
prod | 2x3 | torch.prod(x, dim=1)
quantile | 2x5 | torch.quantile(x, 0.5, dim=1)
ravel | 2x3 | torch.ravel(x) * 2
renorm | 2x3 | torch.renorm(x, 2, 0, 1.0)
rot90 | 3x4 | torch.rot90(x)
scatter_reduce | 2x5 2x3i 2x3 | x.scatter_reduce(1, y, z, reduce="sum")
sgn | 2x3 | torch.sgn(x)
signbit | 2x3 | torch.signbit(x).float()
sinc | 2x3 | torch.sinc(x)
smooth_l1 | 2x3 2x3 | F.smooth_l1_loss(x, y, reduction="none")
softshrink | 2x3 | F.softshrink(x)
special_i1 | 2x3 | torch.special.i1(x)
special_zeta | 2x3u 2x3u | torch.special.zeta(x + 2, y)
std_mean | 2x3 | torch.std_mean(x, dim=1)[0]
take | 2x3 | torch.take(x, torch.tensor([0, 2]))
take_along_dim | 2x3 2x2i | torch.take_along_dim(x, y, 1)
tensor_split | 2x6 | torch.tensor_split(x, 3, dim=1)[0] * 2
tensordot | 2x3 3x4 | torch.tensordot(x, y, dims=1)
tensor_unfold | 2x8 | x.unfold(1, 3, 2) * 2
trapezoid | 2x3 | torch.trapezoid(x)
triangular_solve | 3x3s 3x2 | torch.linalg.solve_triangular(x, y, upper=True)
tril_indices | 3x3 | x[torch.tril_indices(3, 3)[0]]
trunc | 2x3 | torch.trunc(x)
unique_consecutive | 6 | torch.unique_consecutive(x)
vander | 3 | torch.linalg.vander(x)
var_mean | 2x3 | torch.var_mean(x, dim=1)[0]
vdot | 5 5 | torch.vdot(x, y)
vstack | 2x3 2x3 | torch.vstack([x, y])
xlogy | 2x3 2x3u | torch.xlogy(x, y)
conv2d_circular | 2x3x8x8 | self.layer(x) | nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")
circular_pad2d | 2x3x8x8 | self.layer(x) | nn.CircularPad2d(1)
pad_circular | 2x3x4x4 | F.pad(x, (1, 1, 1, 1), mode="circular")
pad_circular_1d | 2x3x4 | F.pad(x, (1, 1), mode="circular")
pad_reflect_3d | 1x2x4x4x4 | F.pad(x, (1, 1, 1, 1, 1, 1), mode="reflect")
reflection_pad3d | 1x2x4x4x4 | self.layer(x) | nn.ReflectionPad3d(1)
replication_pad3d | 1x2x4x4x4 | self.layer(x) | nn.ReplicationPad3d(1)
interpolate_bicubic | 2x3x4x4 | F.interpolate(x, scale_factor=2, mode="bicubic")
interpolate_area | 2x3x4x4 | F.interpolate(x, scale_factor=0.5, mode="area")
interpolate_trilinear | 1x2x4x4x4 | F.interpolate(x, scale_factor=2, mode="trilinear")
interpolate_nearest_exact | 2x3x4x4 | F.interpolate(x, scale_factor=2, mode="nearest-exact")
interpolate_nearest_1d | 2x3x4 | F.interpolate(x, scale_factor=2, mode="nearest")
interpolate_nearest_3d | 1x2x4x4x4 | F.interpolate(x, scale_factor=2, mode="nearest")
upsample_bicubic | 2x3x4x4 | self.layer(x) | nn.Upsample(scale_factor=2, mode="bicubic")
upsample_trilinear | 1x2x4x4x4 | self.layer(x) | nn.Upsample(scale_factor=2, mode="trilinear")
grid_sample_bicubic | 2x3x4x4 2x5x5x2u | F.grid_sample(x, y, mode="bicubic", align_corners=True)
grid_sample_5d | 1x2x4x4x4 1x3x3x3x3u | F.grid_sample(x, y, align_corners=True)
max_pool2d_indices | 2x3x8x8 | F.max_pool2d(x, 2, return_indices=True)[1].float()
max_pool2d_indices_layer | 2x3x8x8 | self.layer(x)[1].float() | nn.MaxPool2d(2, return_indices=True)
max_pool2d_indices_unused | 2x3x8x8 | self.layer(x)[0] | nn.MaxPool2d(2, return_indices=True)
max_pool2d_dilation | 2x3x8x8 | self.layer(x) | nn.MaxPool2d(2, dilation=2)
max_pool1d_indices | 2x3x8 | self.layer(x)[1].float() | nn.MaxPool1d(2, return_indices=True)
adaptive_max_pool2d_indices | 2x3x8x8 | self.layer(x)[1].float() | nn.AdaptiveMaxPool2d(2, return_indices=True)
avg_pool2d_divisor | 2x3x8x8 | self.layer(x) | nn.AvgPool2d(2, divisor_override=3)
lstm_proj | 5x2x3 | self.layer(x)[0] | nn.LSTM(3, 4, proj_size=2)
lstm_two_layers | 5x2x3 | self.layer(x)[0] | nn.LSTM(3, 4, num_layers=2)
rnn_relu | 5x2x3 | self.layer(x)[0] | nn.RNN(3, 4, nonlinearity="relu")
rnn_tanh | 5x2x3 | self.layer(x)[0] | nn.RNN(3, 4)
einsum_trace | 3x3 | torch.einsum("ii->", x)
einsum_diagonal | 3x3 | torch.einsum("ii->i", x)
einsum_sum | 2x3 | torch.einsum("ij->i", x)
einsum_transpose | 2x3 | torch.einsum("ij->ji", x)
einsum_three | 2x3 3x4 4x5 | torch.einsum("ij,jk,kl->il", x, y, z)
einsum_ellipsis | 2x3x4 2x4x5 | torch.einsum("...ij,...jk->...ik", x, y)
einsum_outer | 3 4 | torch.einsum("i,j->ij", x, y)
norm_p3 | 2x3 | torch.norm(x, p=3, dim=1)
norm_nuc | 3x4 | torch.norm(x, p="nuc")
linalg_norm_nuc | 3x4 | torch.linalg.matrix_norm(x, ord="nuc")
linalg_norm_inf | 3x4 | torch.linalg.vector_norm(x, ord=math.inf, dim=1)
linalg_inv | 3x3s | torch.linalg.inv(x)
cumprod | 2x3 | torch.cumprod(x, dim=1)
sort_stable | 2x5 | torch.sort(x, dim=1, stable=True)[0]
prelu_slopes | 2x3x4 | self.layer(x) | nn.PReLU(3, init=0.1)
pixel_unshuffle | 2x3x4x4 | F.pixel_unshuffle(x, 2)
unfold_layer | 2x3x6x6 | self.layer(x) | nn.Unfold(2)
unfold_stride | 2x3x6x6 | F.unfold(x, 3, stride=3)
fold | 2x16x9 | F.fold(x, (6, 6), 2, stride=2)
instance_norm_running | 2x3x4x4 | self.layer(x) | nn.InstanceNorm2d(3, track_running_stats=True)
rank_six | 2x3x4 | x.reshape(1, 2, 1, 3, 1, 4).sum(dim=2)
rank_six_output | 2x3x4 | x.reshape(1, 2, 1, 3, 1, 4) * 2
complex_output | 4 | torch.fft.fft(x)
weight_norm | 2x3 | self.layer(x) | nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
spectral_norm | 2x3 | self.layer(x) | nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4))
index_boolean | 2x3 | x[x > 0]
nonzero | 2x3 | torch.nonzero(x).float()
setitem_slice | 2x3 | x = x.clone(); x[:, 0] = 1.0; return x
setitem_mask | 2x3 | x = x.clone(); x[x > 0] = 0.0; return x
inplace_relu | 2x3 | self.layer(x) | nn.ReLU(inplace=True)
randn_like | 2x3 | x + torch.randn_like(x)
rand | 2x3 | x + torch.rand(2, 3)
bernoulli | 2x3u | torch.bernoulli(x)
multinomial | 2x3u | torch.multinomial(x, 2)
dropout_functional | 2x3 | F.dropout(x, 0.5)
baddbmm_beta | 2x3x5 2x3x4 2x4x5 | torch.baddbmm(x, y, z, beta=0.5, alpha=2.0)
addmm_beta | 2x3 2x4 4x3 | torch.addmm(x, y, z, beta=0.5)
sub_alpha | 2x3 2x3 | torch.sub(x, y, alpha=2)
any_dim | 2x3 | torch.any(x > 0, dim=1).float()
logical_xor | 2x3 2x3 | torch.logical_xor(x > 0, y > 0).float()
bitwise_and | 2x3i 2x3i | torch.bitwise_and(x, y)
nan_to_num | 2x3 | torch.nan_to_num(x)
input_returned | 2x3 | return x
constant_output | 2x3 | return torch.ones(2, 3)
dict_output | 2x3 | return {"y": x * 2}
tuple_output | 2x3 | return x * 2, x + 1
rms_norm | 2x3 | self.layer(x) | nn.RMSNorm(3)
einsum_batch_trace | 2x3x3 | torch.einsum("bii->b", x)
einsum_repeated_implicit | 3x3 | torch.einsum("ii", x)
einsum_implicit | 2x3 3x4 | torch.einsum("ij,jk", x, y)
einsum_to_scalar | 2x3 2x3 | torch.einsum("ij,ij->", x, y)
einsum_elementwise | 2x3 2x3 | torch.einsum("ij,ij->ij", x, y)
einsum_row_dot | 2x3 2x3 | torch.einsum("ij,ij->i", x, y)
einsum_broadcast | 2x3 3 | torch.einsum("ij,j->ij", x, y)
einsum_spaces | 2x3 3x4 | torch.einsum("i j, j k -> i k", x, y)
einsum_sum_one | 2x3x4 2x4 | torch.einsum("bij,bj->bi", x, y)
einsum_drop | 2x3 4x5 | torch.einsum("ij,kl->ik", x, y)
einsum_permuted | 2x3x4 4x5x3 | torch.einsum("bij,jki->bk", x, y)
einsum_scalar_sum | 2x3 | torch.einsum("ij->", x)
einsum_ellipsis_one | 2x3x4 | torch.einsum("...ij->...ji", x)
einsum_ellipsis_vector | 2x3x4 4 | torch.einsum("...j,j->...", x, y)
einsum_list | 2x3 3x4 | torch.einsum("ij,jk->ik", [x, y])
sort_not_stable | 2x5 | torch.sort(x, dim=1, stable=False)[0]
sort_method_stable | 2x5 | x.sort(stable=True)[0]
argsort_stable | 2x5 | torch.argsort(x, dim=1, stable=True)
sort_plain | 2x5 | torch.sort(x, dim=1, descending=True)[0]
matrix_norm_fro | 3x4 | torch.linalg.matrix_norm(x)
matrix_norm_two | 3x4 | torch.linalg.matrix_norm(x, ord=2)
matrix_norm_one | 3x4 | torch.linalg.matrix_norm(x, ord=1)
linalg_norm | 3x4 | torch.linalg.norm(x)
linalg_norm_two_matrix | 3x4 | torch.linalg.norm(x, ord=2)
linalg_norm_vector | 3x4 | torch.linalg.norm(x, ord=2, dim=1)
linalg_norm_nuclear | 3x4 | torch.linalg.norm(x, ord="nuc")
linalg_norm_fro | 3x4 | torch.linalg.norm(x, ord="fro")
norm_fro | 3x4 | torch.norm(x, p="fro")
norm_inf | 3x4 | torch.norm(x, p=float("inf"), dim=1)
norm_zero | 3x4 | torch.norm(x, p=0, dim=1)
inverse | 3x3s | torch.inverse(x)
inverse_method | 3x3s | x.inverse()
inverse_constant | 2x3 | x @ torch.linalg.inv(torch.eye(3) * 2)
multinomial_one | 2x3u | torch.multinomial(x, 1)
multinomial_replacement | 2x3u | torch.multinomial(x, 2, replacement=True)
sdpa_dropout | 2x2x5x4 2x2x5x4 2x2x5x4 | F.scaled_dot_product_attention(x, y, z, dropout_p=0.5)
sdpa_causal | 2x2x5x4 2x2x5x4 2x2x5x4 | F.scaled_dot_product_attention(x, y, z, is_causal=True)
sdpa_grouped | 2x4x5x4 2x2x5x4 2x2x5x4 | F.scaled_dot_product_attention(x, y, z, enable_gqa=True)
embedding_max_norm | 2x3i | self.layer(x) | nn.Embedding(5, 4, max_norm=1.0)
lstm_no_bias | 5x2x3 | self.layer(x)[0] | nn.LSTM(3, 4, bias=False)
lstm_dropout | 5x2x3 | self.layer(x)[0] | nn.LSTM(3, 4, 2, dropout=0.5)
gru_bidirectional | 5x2x3 | self.layer(x)[0] | nn.GRU(3, 4, bidirectional=True)
gru_no_bias | 5x2x3 | self.layer(x)[0] | nn.GRU(3, 4, bias=False)
gru_two_layers | 5x2x3 | self.layer(x)[0] | nn.GRU(3, 4, 2)
rnn_bidirectional | 5x2x3 | self.layer(x)[0] | nn.RNN(3, 4, bidirectional=True)
conv2d_same_even | 2x3x8x8 | self.layer(x) | nn.Conv2d(3, 4, 4, padding="same")
conv2d_same_dilation | 2x3x8x8 | self.layer(x) | nn.Conv2d(3, 4, 3, padding="same", dilation=2)
conv3d_replicate | 1x2x4x4x4 | self.layer(x) | nn.Conv3d(2, 3, 3, padding=1, padding_mode="replicate")
conv3d_circular | 1x2x4x4x4 | self.layer(x) | nn.Conv3d(2, 3, 3, padding=1, padding_mode="circular")
conv1d_circular | 1x2x8 | self.layer(x) | nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular")
conv1d_reflect | 1x2x8 | self.layer(x) | nn.Conv1d(2, 3, 3, padding=1, padding_mode="reflect")
conv2d_circular_unpadded | 2x3x8x8 | self.layer(x) | nn.Conv2d(3, 4, 3, padding_mode="circular")
circular_pad1d | 2x3x8 | self.layer(x) | nn.CircularPad1d(1)
circular_pad3d | 1x2x4x4x4 | self.layer(x) | nn.CircularPad3d(1)
conv_transpose1d_output_padding | 2x3x8 | self.layer(x) | nn.ConvTranspose1d(3, 4, 3, stride=2, output_padding=1)
conv_transpose3d_output_padding | 1x2x4x4x4 | self.layer(x) | nn.ConvTranspose3d(2, 3, 3, stride=2, output_padding=1)
conv_transpose2d_dilation | 2x3x8x8 | self.layer(x) | nn.ConvTranspose2d(3, 4, 3, dilation=2)
conv_transpose2d_output_size | 2x3x8x8 | self.layer(x, output_size=(18, 18)) | nn.ConvTranspose2d(3, 4, 3, stride=2)
topk_unsorted | 2x5 | torch.topk(x, 2, sorted=False)[0]
topk_smallest | 2x5 | torch.topk(x, 2, largest=False)[0]
threshold_same | 2x3 | F.threshold(x, 0.5, 0.5)
threshold_layer | 2x3 | self.layer(x) | nn.Threshold(0.1, 20.0)
softplus_beta | 2x3 | F.softplus(x, beta=2)
softplus_threshold | 2x3 | F.softplus(x, threshold=5)
elu_alpha | 2x3 | F.elu(x, alpha=0.5)
hardtanh_limits | 2x3 | F.hardtanh(x, -2.0, 2.0)
var_correction | 2x3 | torch.var(x, dim=1, correction=0)
var_correction_two | 2x3 | torch.var(x, dim=1, correction=2)
std_biased | 2x3 | torch.std(x, dim=1, unbiased=False)
fold_overlapping | 2x12x25 | F.fold(x, (6, 6), 2)
fold_dilation | 2x12x16 | F.fold(x, (6, 6), 2, dilation=2)
unfold_dilation | 2x3x6x6 | F.unfold(x, 2, dilation=2)
unfold_padding | 2x3x6x6 | F.unfold(x, 3, padding=1)
local_response_norm | 2x4x5x5 | self.layer(x) | nn.LocalResponseNorm(2)
meshgrid_xy | 3 4 | torch.meshgrid(x, y, indexing="xy")[0] * 2
one_hot_open | 2x3i | F.one_hot(x).float()
repeat_interleave_tensor | 2x3 | torch.repeat_interleave(x, torch.tensor([1, 2, 1]), dim=1)
searchsorted | 5 2x3 | torch.searchsorted(torch.sort(x)[0], y)
searchsorted_right | 5 2x3 | torch.searchsorted(torch.sort(x)[0], y, right=True)
scatter_reduce_amax | 2x5 2x3i 2x3 | x.scatter_reduce(1, y, z, reduce="amax")
scatter_multiply | 2x5 2x3i 2x3 | x.scatter(1, y, z, reduce="multiply")
scatter_scalar | 2x5 2x3i | x.scatter(1, y, 1.0)
unique | 6 | torch.unique(x)
unique_dim | 3x4 | torch.unique(x, dim=0)
unique_inverse | 6 | torch.unique(x, return_inverse=True)[1].float()
pow_scalar_base | 2x3 | 2.0 ** x
adaptive_avg_pool2d_none | 2x3x8x8 | self.layer(x) | nn.AdaptiveAvgPool2d((None, 1))
adaptive_avg_pool1d | 2x3x8 | self.layer(x) | nn.AdaptiveAvgPool1d(2)
adaptive_max_pool1d | 2x3x8 | self.layer(x) | nn.AdaptiveMaxPool1d(2)
adaptive_max_pool2d_indices_unused | 2x3x8x8 | self.layer(x)[0] | nn.AdaptiveMaxPool2d(2, return_indices=True)
lp_pool2d | 2x3x8x8u | self.layer(x) | nn.LPPool2d(2, 2)
lp_pool2d_three | 2x3x8x8u | self.layer(x) | nn.LPPool2d(3, 2)
avg_pool2d_ceil | 2x3x7x7 | self.layer(x) | nn.AvgPool2d(2, ceil_mode=True)
avg_pool2d_ceil_padded | 2x3x7x7 | self.layer(x) | nn.AvgPool2d(2, padding=1, ceil_mode=True)
avg_pool2d_ceil_included | 2x3x7x7 | self.layer(x) | nn.AvgPool2d(3, 2, padding=1, ceil_mode=True, count_include_pad=False)
avg_pool3d | 1x2x4x4x4 | self.layer(x) | nn.AvgPool3d(2)
avg_pool3d_divisor | 1x2x4x4x4 | self.layer(x) | nn.AvgPool3d(2, divisor_override=3)
max_pool1d_dilation | 2x3x8 | self.layer(x) | nn.MaxPool1d(2, dilation=2)
max_pool3d_dilation | 1x2x5x5x5 | self.layer(x) | nn.MaxPool3d(2, dilation=2)
max_pool2d_dilation_functional | 2x3x8x8 | F.max_pool2d(x, 2, dilation=2)
max_pool3d_indices | 1x2x4x4x4 | self.layer(x)[0] | nn.MaxPool3d(2, return_indices=True)
where_one | 2x3 | torch.where(x > 0)[0].float()
index_put_accumulate | 4x3 2x3 | x = x.clone(); x.index_put_((torch.tensor([0, 1]),), y, accumulate=True); return x
setitem_mask_index | 4x3 | x = x.clone(); x[x[:, 0] > 0, torch.tensor([1])] = 0.0; return x
view_dtype | 2x4 | x.view(torch.int32).float()
group_norm_1d | 2x4x5 | F.group_norm(x, 2)
group_norm_3d | 2x4x2x2x2 | F.group_norm(x, 2)
normalize_one | 2x3 | F.normalize(x, p=1)
normalize | 2x3 | F.normalize(x)
attention_bias_kv | 2x5x8 | self.layer(x, x, x, need_weights=True)[0] | nn.MultiheadAttention(8, 2, add_bias_kv=True, batch_first=True)
attention_zero | 2x5x8 | self.layer(x, x, x, need_weights=True)[0] | nn.MultiheadAttention(8, 2, add_zero_attn=True, batch_first=True)
attention_fast | 2x5x8 | self.layer(x, x, x, need_weights=False)[0] | nn.MultiheadAttention(8, 2, batch_first=True)
packed_sequence | 5x2x3 | y = nn.utils.rnn.pack_sequence([x[:, 0], x[:3, 1]]); return self.layer(y)[0].data | nn.LSTM(3, 4)
interpolate_bilinear_antialias | 2x3x8x8 | F.interpolate(x, size=(4, 4), mode="bilinear", antialias=True)
interpolate_bicubic_antialias | 2x3x8x8 | F.interpolate(x, size=(4, 4), mode="bicubic", antialias=True)
interpolate_recompute | 2x3x8x8 | F.interpolate(x, scale_factor=1.5, mode="bilinear", recompute_scale_factor=True)
interpolate_fraction | 2x3x8x8 | F.interpolate(x, scale_factor=0.5, mode="nearest")
interpolate_area_size | 2x3x8x8 | F.interpolate(x, size=(3, 3), mode="area")
upsample_nearest_exact | 2x3x4x4 | self.layer(x) | nn.Upsample(scale_factor=2, mode="nearest-exact")
upsample_linear | 2x3x4 | self.layer(x) | nn.Upsample(scale_factor=2, mode="linear")
grid_sample_reflection | 2x3x4x4 2x5x5x2u | F.grid_sample(x, y, padding_mode="reflection", align_corners=True)
stft | 64 | torch.stft(x, 16, window=torch.ones(16), return_complex=True).real
stft_real | 64 | torch.stft(x, 16, window=torch.ones(16), return_complex=False)
fft_ortho | 8 | torch.fft.fft(x, norm="ortho").real
fft | 8 | torch.fft.fft(x).real
rfft | 8 | torch.fft.rfft(x).real
irfft | 8 | torch.fft.irfft(torch.fft.rfft(x))
to_double | 2x3 | x.double() * 2
to_half | 2x3 | x.half() * 2
to_bfloat16 | 2x3 | (x.bfloat16() * 2).float()
to_complex | 2x3 | torch.complex(x, x).real
full_pad_negative | 2x3x8x8 | F.pad(x, (-1, -1))
pad_reflect_negative | 2x3x8 | F.pad(x, (-1, -1), mode="reflect")
pad_batch | 2x3x4 | F.pad(x, (0, 0, 0, 0, 1, 1))
cumsum_dtype | 2x3 | torch.cumsum(x, 1, dtype=torch.float32)
bessel_j0 | 2x3 | torch.special.bessel_j0(x)
bessel_y1 | 2x3u | torch.special.bessel_y1(x)
airy | 2x3 | torch.special.airy_ai(x)
erfcx | 2x3 | torch.special.erfcx(x)
i0e | 2x3 | torch.special.i0e(x)
i1e | 2x3 | torch.special.i1e(x)
log_ndtr | 2x3 | torch.special.log_ndtr(x)
ndtri | 2x3u | torch.special.ndtri(x)
gammainc | 2x3u 2x3u | torch.special.gammainc(x, y)
gammaincc | 2x3u 2x3u | torch.special.gammaincc(x, y)
polygamma | 2x3u | torch.polygamma(1, x)
mvlgamma | 2x3u | torch.mvlgamma(x + 3, 2)
multigammaln | 2x3u | torch.special.multigammaln(x + 3, 2)
chebyshev | 2x3 | torch.special.chebyshev_polynomial_t(x, 3)
hermite | 2x3 | torch.special.hermite_polynomial_h(x, 3)
laguerre | 2x3 | torch.special.laguerre_polynomial_l(x, 3)
legendre | 2x3 | torch.special.legendre_polynomial_p(x, 3)
spherical_bessel | 2x3u | torch.special.spherical_bessel_j0(x)
lcm | 2x3i 2x3i | torch.lcm(x + 1, y + 1)
logdet | 3x3s | torch.logdet(x)
slogdet | 3x3s | torch.slogdet(x)[1]
lu | 3x3s | torch.linalg.lu_factor(x)[0]
cholesky_solve | 3x2 3x3s | torch.cholesky_solve(x, torch.linalg.cholesky(y))
cholesky_inverse | 3x3s | torch.cholesky_inverse(x)
eigvalsh | 3x3s | torch.linalg.eigvalsh(x)
matrix_rank | 3x3s | torch.linalg.matrix_rank(x).float()
lstsq | 4x3 4x2 | torch.linalg.lstsq(x, y)[0]
pinverse | 3x4 | torch.pinverse(x)
bincount | 6i | torch.bincount(x).float()
put | 2x3 | x.put(torch.tensor([0, 1]), torch.ones(2))
narrow_copy | 2x5 | torch.narrow_copy(x, 1, 0, 2)
signbit_where | 2x3 | torch.where(torch.signbit(x), x, -x)
fractional_max_pool2d | 2x3x8x8 | self.layer(x) | nn.FractionalMaxPool2d(2, output_size=4)
adaptive_max_pool3d_functional | 1x2x4x4x4 | F.adaptive_max_pool3d(x, 2)
as_strided_scatter | 2x6 2x3 | torch.as_strided_scatter(x, y, (2, 3), (6, 2))
hinge_embedding | 2x3 2x3 | F.hinge_embedding_loss(x, torch.sign(y))
cosine_embedding | 2x3 2x3 | F.cosine_embedding_loss(x, y, torch.ones(2))
histogram | 2x3 | torch.histogram(x, bins=4)[0]
native_channel_shuffle | 2x4x3x3 | torch.native_channel_shuffle(x, 2)
index_reduce | 4x3 | x.index_reduce(0, torch.tensor([0, 1]), x[:2], "amax")
"""


HIDDEN = {
    "bitwise_and": "a dtype: booleans convert",
    "grid_sample_5d": "a rank: images of two dimensions convert",
    "group_norm_3d": "a rank: images of two dimensions convert",
    "interpolate_nearest_3d": "a rank: images of two dimensions convert",
    "linalg_norm_two_matrix": "a rank: vectors convert",
    "searchsorted": "two ranks: equal ones convert",
    "searchsorted_right": "two ranks: equal ones convert",
}
"""What fails by neither an operator nor an argument that is written there, and so cannot be seen in source; why."""
MISSED = {
    "adaptive_max_pool2d_indices": "only what is done with the indices fails; without it the layer converts",
    "add_alpha": "OPS007 says so of live models",
    "attention_fast": "OPS005 says so of live models: a matter of torch's modes, not of the layer",
    "conv_transpose2d_output_size": "an argument of the layer's call, which is not looked at",
    "dict_output": "SIG001 says so of live models",
    "inplace_relu": "MUT007: what is written to is an input",
    "max_pool2d": "left alone on purpose: common, and it converts from torch.jit.trace",
    "multihead_attention": "OPS005 says so of live models: a matter of torch's modes, not of the layer",
    "rand": "left alone on purpose: common in training, and it converts from torch.jit.trace; OPS010 says so of live models",
    "setitem_mask_index": "a kind of assignment, MUT003",
    "spectral_norm": "what a parametrization runs is not looked at",
    "sub_alpha": "OPS007 says so of live models",
}
"""What source checks could see and are silent about; why."""


class Probe(NamedTuple):
    """A module of one operator, and what it is called with."""

    name: str
    text: str
    inputs: str
    target: str | None = None

    def make(self) -> Any:
        """Build the module, and its inputs."""
        # Code that torch cannot read the source of is not captured alike.
        path = f"<probe {self.name}>"
        linecache.cache[path] = len(self.text), None, self.text.splitlines(keepends=True), path
        scope: dict[str, Any] = {"__name__": "probe"}
        exec(compile(self.text, path, "exec"), scope)
        return scope["Net"](), tuple(_tensor(word) for word in self.inputs.split())


def probes() -> Iterator[Probe]:
    """All of them."""
    names: set[str] = set()
    for line in PROBES.strip().splitlines():
        # An expression may hold a bar of its own.
        name, inputs, forward, *layer = line.split(" | ")
        assert name not in names, name
        names.add(name)
        init = f"        self.layer = {layer[0]}\n" if layer else ""
        body = "\n        ".join(forward.split("; ")) if "return " in forward else f"return {forward}"
        arguments = ", ".join(itertools.islice("xyz", len(inputs.split())))
        yield Probe(name, _TEXT.format(init=init, names=arguments, forward=body), inputs)


def _tensor(word: str) -> Any:
    import torch

    kind = word[-1] if word[-1].isalpha() else ""
    shape = [int(size) for size in word.rstrip("ius").split("x")]
    match kind:
        case "i":
            return torch.randint(0, 3, shape)
        case "u":
            return torch.rand(shape) * 0.8 + 0.1
        case "s":
            # A matrix that every decomposition takes.
            square = torch.randn(shape)
            return square @ square.mT + torch.eye(shape[-1])
        case _:
            return torch.randn(shape)
