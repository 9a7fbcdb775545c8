"""Complex numbers are pairs of real ones in an export: what a model computes with them, executed, is what PyTorch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import modellint
from modellint.destinations.capture import constant_scalars
from modellint.destinations.capture.complex_numbers.mode import NOTE, ComplexAsPairs
from modellint.destinations.capture.complex_numbers.pair import Pair
from modellint.destinations.capture.preparation import prepared
from modellint.live.inputs.model_inputs import Inputs

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(3, 4, generator=DRAW)
Z, W = (torch.view_as_complex(torch.randn(3, 4, 2, generator=DRAW)) for _ in range(2))
SOUND = torch.randn(2, 400, generator=DRAW)
HANN = torch.hann_window(64)


def drawn(*shape: int, is_complex: bool = False) -> Tensor:
    made = torch.randn(*shape, 2, generator=DRAW)
    return torch.view_as_complex(made) if is_complex else made[..., 0].clone()


def plain(value: Any) -> Tensor:
    """Numbers of any kind in one complex tensor."""
    if isinstance(value, Pair):
        return torch.complex(value.re.double(), value.im.double()).flatten()
    if isinstance(value, (list, tuple)):
        return torch.cat([plain(part) for part in value])
    return torch.as_tensor(value).flatten().to(torch.complex128)


def assert_same(function: Callable[..., Any], *inputs: Any) -> None:
    expected = function(*inputs)
    with ComplexAsPairs(fixed=True):
        found = function(*inputs)
    if isinstance(expected, Tensor):
        assert found.shape == expected.shape
        assert isinstance(found, Pair) is expected.is_complex()
    left, right = plain(expected), plain(found)
    assert float((left - right).abs().max()) <= 2e-6 * float(left.abs().max())


@pytest.mark.parametrize(
    "function",
    [
        lambda z, w, x: (z + w, z - w, z * w, z / w, torch.add(z, w, alpha=2), torch.sub(x, z, alpha=3)),
        lambda z, w, x: (z + x, x - z, x * z, x / z, z / x, 1 - z, 2 / z, z * (1 + 2j) - 3j, -z, z**3, z.square()),
        lambda z, w, x: (z @ w.T, z.mm(w.mH), torch.einsum("ij,kj->ik", z, w), nn.functional.linear(z, w, w[:, 0][:3])),
        lambda z, w, x: (z.abs(), abs(z), z.angle(), z.real, torch.imag(z), z.conj(), z.exp(), torch.reciprocal(z)),
        lambda z, w, x: (torch.view_as_real(z).flatten(1), torch.polar(x.abs(), x), torch.complex(x, x + 1)),
        lambda z, w, x: torch.view_as_complex(x.reshape(3, 2, 2)) * z[:, :2],
        lambda z, w, x: torch.where(x > 0, z, w),
        lambda z, w, x: torch.cat([z, w], 1),
        lambda z, w, x: torch.stack((z, x.to(torch.complex64))),
        lambda z, w, x: z[1:, None, ::2].expand(2, 2, 2),
        lambda z, w, x: z[x > 0],
        lambda z, w, x: (z.reshape(2, 6), z.permute(1, 0).contiguous(), z.view(-1, 2, 2), z.flatten(), z.roll(1, 0)),
        lambda z, w, x: (z.sum(0), z.mean(), z.cumsum(1), z.split(2, 1), z.unbind(0), torch.chunk(z, 2, 1)),
        lambda z, w, x: (*z.split_with_sizes([1, 3], 1), *z.hsplit(2), z.flatten().view_as(x), z.T.reshape_as(w)),
        lambda z, w, x: (torch.fft.fftshift(z), nn.functional.pad(z, (1, 1)), z.repeat(2, 1), z.type_as(w), z.type(torch.complex128)),
        lambda z, w, x: [len(z), z.dim(), z.size(1), *z.shape, z.is_complex(), z.dtype == torch.complex64, z.numel()],
        lambda z, w, x: (z.masked_fill(x > 0, 1 - 2j), z.masked_fill(x > 0, 0), z.masked_fill(x > 0, w[0, 0])),
        lambda z, w, x: nn.utils.rnn.pad_sequence([z[0], z[1, :2]], True, 1.0),
        lambda z, w, x: (torch.zeros_like(z), torch.ones_like(z), z.float(), x.type(torch.complex64) * 1j),
    ],
)  # fmt: skip
def test_functions(function: Callable[..., Any]) -> None:
    assert_same(function, Z, W, X)


C64 = torch.complex64


@pytest.mark.parametrize(
    "function",
    [
        lambda z, x: (torch.zeros(2, 3, dtype=C64), torch.ones(size=(2,), dtype=C64), x.new_zeros((2, 2), dtype=C64)),
        lambda z, x: (torch.full((2, 2), 1 + 2j, dtype=C64), x.new_full(size=(2,), fill_value=3, dtype=C64)),
        lambda z, x: (z.new_zeros(3), z.new_full((2,), 1j), z.new_ones((2, 2))),
        lambda z, x: torch.linspace(0, 3, 4, dtype=C64) * z,
    ],
)
def test_what_makes_them(function: Callable[..., Any]) -> None:
    assert_same(function, Z, X)


def test_parts_are_assigned() -> None:
    def assigned(z: Tensor, x: Tensor) -> Tensor:
        made = torch.zeros(3, 4, dtype=C64)
        made[1:, ::2] = z[1:, ::2]
        made[0], made[..., 3] = x[0], 2j
        return made

    assert_same(assigned, Z, X)


def test_their_class_is_one_of_torch() -> None:
    """By the module of an operand's class, opt_einsum chooses what multiplies it."""
    assert Pair.__module__ == "torch"


@pytest.mark.parametrize("size", [1, 2, 7, 30, 33, 48, 64, 97, 100, 1000])
def test_transforms_of_any_size(size: int) -> None:
    real, whole = drawn(2, size), drawn(2, size, is_complex=True)
    for name in ("fft", "ifft", "rfft"):
        assert_same(getattr(torch.fft, name), real)
    for name in ("fft", "ifft"):
        assert_same(getattr(torch.fft, name), whole)
    if size > 1:
        assert_same(torch.fft.irfft, whole)
    assert_same(lambda z: torch.fft.irfft(z, 2 * size - 1), whole)


@pytest.mark.parametrize("norm", ["ortho", "forward", "backward"])
def test_transforms_of_several_axes(norm: str) -> None:
    real, whole = drawn(3, 8, 10), drawn(3, 8, 10, is_complex=True)
    for name in ("fft2", "ifft2", "fftn", "ifftn", "rfft2", "rfftn"):
        assert_same(lambda x, name=name: getattr(torch.fft, name)(x, norm=norm), real)
    for name in ("irfft2", "irfftn"):
        assert_same(lambda x, name=name: getattr(torch.fft, name)(x, norm=norm), whole)
    assert_same(lambda x: torch.fft.fftn(x, s=(4, 12), norm=norm), real)
    assert_same(lambda x: torch.fft.rfftn(x, dim=(0, 1), norm=norm), real)
    assert_same(lambda x: torch.fft.fft(x, 5, 1, norm), real)


# PyTorch says so once a process.
@pytest.mark.filterwarnings("ignore:stft with return_complex=False")
def test_short_time_transforms() -> None:
    assert_same(lambda x: torch.stft(x, 64, 16, window=HANN, normalized=True, return_complex=False), SOUND)
    assert_same(lambda x: torch.stft(x[0], 64, 16, window=HANN, return_complex=True), SOUND)
    assert_same(lambda x: torch.stft(x, 64, 16, 64, HANN, False, onesided=False, return_complex=True), SOUND)
    assert_same(lambda x: torch.stft(x, 64, win_length=40, window=HANN[:40], return_complex=True), SOUND)
    spectrum = torch.stft(SOUND, 64, 16, window=HANN, return_complex=True)
    assert_same(lambda z: torch.istft(z, 64, 16, window=HANN), spectrum)
    assert_same(lambda z: torch.istft(z[0], 64, 16, window=HANN, length=390), spectrum)


class Rotary(nn.Module):
    """A rotary embedding with a complex buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.ones(4))
        angles = torch.outer(torch.arange(8.0), torch.tensor([1.0, 0.1]))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)
        self.plain = torch.polar(torch.ones_like(angles), -angles)
        self.register_buffer("last", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        z = torch.view_as_complex((x * self.first).float().reshape(*x.shape[:-1], -1, 2))
        y = torch.view_as_real(z * self.turns[None, :, None] + self.plain[None, :, None]).flatten(3)
        return y.type_as(x) * self.last


class GlobalFilter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 3 * 8 * 5 * 2).reshape(3, 8, 5, 2))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(self.weight)
        return torch.fft.irfft2(spectrum, s=(8, 8), norm="ortho")


class FourierOperator(nn.Module):
    """The lowest frequencies are weighed, and put into zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(drawn(3, 3, 4, 3, is_complex=True))

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft2(x)
        kept = torch.zeros(1, 3, 8, 5, dtype=torch.cfloat)
        kept[:, :, :4, :3] = torch.einsum("bihw,iohw->bohw", spectrum[:, :, :4, :3], self.weight)
        return torch.fft.irfft2(kept, s=(8, 8))


class Remembering(nn.Module):
    """A complex buffer that every run writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(4, dtype=torch.cfloat))

    def forward(self, x: Tensor) -> Tensor:
        before = self.last.abs()
        self.last[:] = torch.fft.fft(x)
        return before + x


class Spectrogram(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.stft(x, 64, 16, window=HANN, return_complex=True).abs()


@pytest.mark.parametrize("route", ["trace", "export"])
@pytest.mark.parametrize(
    ("make", "example"),
    [
        (Rotary, drawn(1, 8, 2, 4)),
        (GlobalFilter, drawn(1, 3, 8, 8)),
        (FourierOperator, drawn(1, 3, 8, 8)),
        (Spectrogram, drawn(1, 200)),
    ],
)
def test_models(make: Callable[[], nn.Module], example: Tensor, route: Any) -> None:
    model = make().eval()
    before = [*model.state_dict(keep_vars=True).values(), *model.buffers(), vars(model).get("plain")]
    found = modellint.export(model, (example,), frontend=route)
    assert found.verification.ok
    assert NOTE in str(found)
    after = [*model.state_dict(keep_vars=True).values(), *model.buffers(), vars(model).get("plain")]
    # The model is as it was, in the same order.
    assert len(after) == len(before)
    assert all(one is other for one, other in zip(before, after, strict=True))


def test_a_complex_state_is_refused_and_kept() -> None:
    model = Remembering().eval()
    before = model.last.clone()
    with pytest.raises(modellint.ExportError):
        modellint.export(model, (drawn(4),), frontend="export")
    assert torch.equal(model.last, before)


def test_what_is_not_known_is_refused() -> None:
    class Unknown(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.fft.fft(x).log().real

    class Flexible(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.fft.rfft(x).abs()

    with pytest.raises(modellint.ExportError):
        modellint.export(Unknown().eval(), (drawn(2, 8),))
    with pytest.raises(modellint.ExportError):
        modellint.export(Flexible().eval(), (drawn(2, 8),), flexible={0: {1: (8, 16)}}, frontend="export")


class Turning(nn.Module):
    """Turned by complex numbers that are no buffers, and stopped by a branch on an input behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.held = [torch.polar(torch.ones(6, 4), torch.arange(24.0).reshape(6, 4))]

    def forward(self, x: Tensor) -> Tensor:
        z = torch.view_as_complex(x.reshape(2, 6, 4, 2)) * self.held[0]
        if x.mean() > 100:
            z = z * 2
        return torch.view_as_real(z).flatten(2)


def test_a_capture_that_a_branch_stops_behind_complex_constants_comes_to_an_end() -> None:
    """PyTorch writes down its nodes as it raises, and asks complex ones for their types: each answer was a node more."""
    model, inputs = Turning().eval(), Inputs((torch.randn(2, 6, 8),))
    with torch.no_grad(), prepared(model, inputs), pytest.raises(Exception, match="data-dependent"):
        constant_scalars.exported(model, inputs)
