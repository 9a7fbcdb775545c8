"""Discrete Fourier transforms of real and complex tensors, as products with constant matrices.

A transform of a composite size is made of two smaller ones and of rotations between them (Cooley and Tukey, 1965), so that neither cost
nor rounding grow as they do in one product. Sizes are constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch.nn import functional

from modellint.destinations.capture.complex_numbers.pair import Pair, handles, is_complex, pair_of

DIRECT = 32
"""The largest size that is one product."""
_SPACES = (torch.fft,)


def transform(value: Any, size: int | None, dim: int, norm: str | None, inverse: bool = False) -> Pair:
    """Transform along one axis, of ``size`` elements: what is there is cut, or filled up with zeros."""
    z = value if isinstance(value, Pair) or not is_complex(value) else pair_of(value)
    size = _size(z, dim) if size is None else int(size)
    scale = _scale(size, norm, inverse)
    sign = 1 if inverse else -1
    if isinstance(z, Pair):
        re, im = (_last(_fitted(part, size, dim), dim) for part in (z.re, z.im))
        re, im = _dft(re, im, sign)
    else:
        re, im = _dft(_last(_fitted(_real(z), size, dim), dim), None, sign)
    return Pair(*(_back(part * scale if scale != 1 else part, dim) for part in (re, im)))


def half_of(value: Any, size: int | None, dim: int, norm: str | None) -> Pair:
    """One-sided transform of a real tensor: the first half, from which the second follows by symmetry."""
    whole = transform(value, size, dim, norm)
    return Pair(*(part.narrow(dim, 0, _size(part, dim) // 2 + 1) for part in (whole.re, whole.im)))


def from_half(value: Any, size: int | None, dim: int, norm: str | None) -> torch.Tensor:
    """Inverse of a one-sided transform: the real tensor that has it."""
    z = pair_of(value)
    size = 2 * (_size(z, dim) - 1) if size is None else int(size)
    kept = size // 2 + 1
    re, im = (_fitted(part, kept, dim) for part in (z.re, z.im))
    rest = size - kept
    if rest:
        tails = [part.narrow(dim, 1, rest).flip(dim) for part in (re, im)]
        re, im = torch.cat((re, tails[0]), dim), torch.cat((im, -tails[1]), dim)
    return transform(Pair(re, im), size, dim, norm, inverse=True).re


def _real(value: Any) -> Any:
    return value if value.is_floating_point() else value.to(torch.get_default_dtype())


def _size(value: Any, dim: int) -> int:
    return int(value.shape[dim])


def _scale(size: int, norm: str | None, inverse: bool) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(size)
    return 1 / size if (norm == "forward") is not inverse else 1.0


def _fitted(part: torch.Tensor, size: int, dim: int) -> torch.Tensor:
    had = _size(part, dim)
    if had > size:
        return part.narrow(dim, 0, size)
    if had < size:
        after = part.dim() - 1 - dim % part.dim()
        return functional.pad(part, (0, 0) * after + (0, size - had))
    return part


def _last(part: torch.Tensor, dim: int) -> torch.Tensor:
    return part if dim % part.dim() == part.dim() - 1 else part.movedim(dim, -1)


def _back(part: torch.Tensor, dim: int) -> torch.Tensor:
    return part if dim % part.dim() == part.dim() - 1 else part.movedim(-1, dim)


def _dft(re: torch.Tensor, im: torch.Tensor | None, sign: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Transform along the last axis, not scaled."""
    size = int(re.shape[-1])
    factor = _factor(size)
    if factor == 1:
        return _product(re, im, *_matrix(size, sign, re.dtype))
    shape = [int(each) for each in re.shape[:-1]]
    # The element n of the result's first factor and k of its second: n = size / factor * a + b.
    rows = size // factor
    parts = [None if part is None else part.reshape([-1, factor, rows]).transpose(1, 2) for part in (re, im)]
    assert parts[0] is not None
    re, im = _dft(parts[0], parts[1], sign)
    cos, sin = _rotations(rows, factor, sign, re.dtype)
    re, im = re * cos - im * sin, re * sin + im * cos
    re, im = _dft(re.transpose(1, 2), im.transpose(1, 2), sign)
    return re.transpose(1, 2).reshape([*shape, size]), im.transpose(1, 2).reshape([*shape, size])


def _product(re: Any, im: Any, cos: Any, sin: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if im is None:
        return torch.matmul(re, cos), torch.matmul(re, sin)
    return (
        torch.matmul(re, cos) - torch.matmul(im, sin),
        torch.matmul(re, sin) + torch.matmul(im, cos),
    )


def _factor(size: int) -> int:
    """Factor by which a size is split: its largest divisor up to the square root; 1 where it is transformed at once."""
    if size <= DIRECT:
        return 1
    return max(at for at in range(1, math.isqrt(size) + 1) if size % at == 0)


@lru_cache(64)
def _turns(rows: int, columns: int, size: int, sign: int) -> tuple[list[list[float]], list[list[float]]]:
    """Twiddle factors: cosines and sines of ±2π·row·column / size, each of an angle below a full turn."""
    angles = [[sign * math.tau * (a * b % size) / size for b in range(columns)] for a in range(rows)]
    return [[*map(math.cos, row)] for row in angles], [[*map(math.sin, row)] for row in angles]


def _matrix(size: int, sign: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = _turns(size, size, size, sign)
    return torch.tensor(cos, dtype=dtype), torch.tensor(sin, dtype=dtype)


def _rotations(rows: int, columns: int, sign: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    cos, sin = _turns(rows, columns, rows * columns, sign)
    return torch.tensor(cos, dtype=dtype), torch.tensor(sin, dtype=dtype)


# The functions of PyTorch.


@handles("fft", spaces=_SPACES)
def _fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Pair:  # noqa: A002
    return transform(input, n, dim, norm)


@handles("ifft", spaces=_SPACES)
def _ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Pair:  # noqa: A002
    return transform(input, n, dim, norm, inverse=True)


@handles("rfft", spaces=_SPACES)
def _rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Pair:  # noqa: A002
    return half_of(input, n, dim, norm)


@handles("irfft", spaces=_SPACES)
def _irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> torch.Tensor:  # noqa: A002
    return from_half(input, n, dim, norm)


def _axes(value: Any, s: Sequence[int] | None, dim: Any) -> list[tuple[int | None, int]]:
    """The sizes that are wanted of axes, and the axes."""
    if dim is None:
        dim = range(-(value.dim() if s is None else len(s)), 0)
    dims = [dim] if isinstance(dim, int) else [*dim]
    sizes = [None] * len(dims) if s is None else [None if size == -1 else size for size in s]
    return list(zip(sizes, dims, strict=True))


def _over(value: Any, axes: Sequence[tuple[int | None, int]], norm: str | None, inverse: bool) -> Any:
    for size, dim in axes:
        value = transform(value, size, dim, norm, inverse)
    return value


def _over_all(inverse: bool, axes: Any) -> Callable[..., Any]:
    def transformed(input: Any, s: Any = None, dim: Any = axes, norm: str | None = None) -> Any:  # noqa: A002
        return _over(input, _axes(input, s, dim)[::-1], norm, inverse)

    return transformed


def _halved(axes: Any) -> Callable[..., Any]:
    def transformed(input: Any, s: Any = None, dim: Any = axes, norm: str | None = None) -> Any:  # noqa: A002
        *others, (size, last) = _axes(input, s, dim)
        return _over(half_of(input, size, last, norm), others[::-1], norm, False)

    return transformed


def _whole(axes: Any) -> Callable[..., Any]:
    def transformed(input: Any, s: Any = None, dim: Any = axes, norm: str | None = None) -> Any:  # noqa: A002
        *others, (size, last) = _axes(input, s, dim)
        return from_half(_over(input, others, norm, True), size, last, norm)

    return transformed


for _suffix, _default in (("2", (-2, -1)), ("n", None)):
    handles(f"fft{_suffix}", spaces=_SPACES)(_over_all(False, _default))
    handles(f"ifft{_suffix}", spaces=_SPACES)(_over_all(True, _default))
    handles(f"rfft{_suffix}", spaces=_SPACES)(_halved(_default))
    handles(f"irfft{_suffix}", spaces=_SPACES)(_whole(_default))


@handles("stft")
def _stft(
    input: Any,  # noqa: A002
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """Short-time transform: of windows that begin ``hop_length`` samples after each other."""
    if align_to_window:
        raise NotImplementedError("stft with align_to_window is not computed as pairs of real numbers")
    hop = n_fft // 4 if hop_length is None else hop_length
    signal = input.unsqueeze(0) if input.dim() == 1 else input
    if center:
        signal = functional.pad(signal.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode).squeeze(1)
    frames = signal.unfold(-1, n_fft, hop)
    shape = _window(window, win_length, n_fft)
    if shape is not None:
        frames = frames * shape
    sided = not is_complex(input) if onesided is None else onesided
    norm = "ortho" if normalized else None
    spectrum = (half_of if sided else transform)(frames, None, -1, norm)
    parts = [part.transpose(-1, -2) for part in (spectrum.re, spectrum.im)]
    if input.dim() == 1:
        parts = [part.squeeze(0) for part in parts]
    return Pair(*parts) if return_complex else torch.stack(parts, -1)


def _window(window: torch.Tensor | None, length: int | None, size: int) -> torch.Tensor | None:
    """The window in the middle of what is transformed."""
    if window is None:
        if length is None or length == size:
            return None
        window = torch.ones(length)
    missing = size - int(window.shape[0])
    return functional.pad(window, (missing // 2, missing - missing // 2)) if missing else window


@handles("istft")
def _istft(
    input: Any,  # noqa: A002
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: torch.Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> torch.Tensor:
    """Inverse of the short-time transform: windows are added where they overlap, and divided by the sum of their squares."""
    z = pair_of(input)
    if return_complex or onesided is False:
        raise NotImplementedError("istft of both sides is not computed as pairs of real numbers")
    hop = n_fft // 4 if hop_length is None else hop_length
    batched = z.re.dim() == 3
    spectrum = z if batched else Pair(z.re.unsqueeze(0), z.im.unsqueeze(0))
    frames = from_half(spectrum, n_fft, -2, "ortho" if normalized else None)
    shape = _window(window, win_length, n_fft)
    weight = (torch.ones(n_fft) if shape is None else shape).reshape(1, n_fft, 1)
    count = int(frames.shape[-1])
    whole = n_fft + hop * (count - 1)

    def added(parts: torch.Tensor) -> torch.Tensor:
        return functional.fold(parts, (1, whole), (1, n_fft), stride=(1, hop)).reshape(-1, whole)

    begin = n_fft // 2 if center else 0
    end = whole - begin if length is None else min(begin + length, whole)
    signal, squares = (
        part[:, begin:end] for part in (added(frames * weight), added((weight * weight).expand(1, n_fft, count)))
    )
    result = signal / squares
    if length is not None and length > end - begin:
        result = functional.pad(result, (0, length - (end - begin)))
    return result if batched else result.squeeze(0)


_NAMES = ("fft", "ifft", "rfft", "irfft")
NEED_FIXED_SIZES = frozenset(
    [getattr(torch.fft, f"{name}{suffix}") for name in _NAMES for suffix in ("", "2", "n")]
    + [torch.stft, torch.Tensor.stft, torch.istft, torch.Tensor.istft]
)
"""Functions whose constants follow from a size."""
