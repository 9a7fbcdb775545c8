"""Error measures of a tensor against its reference: absolute, relative, signal to noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

LIMIT = 1e-5
"""The largest error over the reference's scale that float32 programs of right conversions show (2.1e-5 in 700 programs, the
99th percentile 1.3e-6), so that what lies above is looked at again."""
SNR = 30.0
"""Decibels below which the precision of a float16 program is not enough; right ones have 56 and more, but for one in twenty."""


class Difference(NamedTuple):
    """A tensor against its reference, in figures over the elements that are finite in both.

    An element that is infinite or NaN in one of them has to be the same in the other, else the error is infinite.
    """

    shape: tuple[int, ...]
    """The reference's."""
    dtype: str
    max_abs_error: float
    """Infinite where what is not finite is not the same, or where the shapes differ."""
    max_rel_error: float
    """The largest error of an element over that element; elements below a millionth of the scale do not count."""
    scale: float
    """The largest magnitude in the reference."""
    snr: float
    """Decibels: the reference's energy over the error's; infinite where there is no error."""
    cosine: float
    """Of the angle between both, as vectors; 1 where both are zero."""
    non_finite: tuple[int, int]
    """How many elements are NaN or infinite in the reference, and in the tensor."""
    got: tuple[int, ...] | None = None
    """The tensor's own shape, where it is another."""
    discrete: bool = False
    """Whether these are integers or truth values, which have to be equal."""
    unequal: float = 0.0
    """The share of integers or truth values that are not equal."""

    @property
    def error(self) -> float:
        """The largest error over the scale; for integers and truth values 1 where any differs."""
        if self.discrete:
            return float(self.max_abs_error > 0)
        if self.max_abs_error == 0:
            return 0.0
        return self.max_abs_error / self.scale if self.scale else math.inf

    def agrees(self, limit: float = LIMIT) -> bool:
        """Whether the error is at most ``limit`` of the scale."""
        return self.error <= limit


def compare(value: Tensor, reference: Tensor) -> Difference:
    """Measure ``value`` against ``reference``; a scalar and a vector of one element are of the same shape, as to Core ML."""
    shape = tuple(reference.shape)
    discrete = not reference.is_floating_point()
    dtype = str(reference.dtype).removeprefix("torch.")
    if not _is_of_shape(value, reference):
        bad = 0 if discrete else int((~reference.isfinite()).sum())
        nothing = (math.inf, math.inf, 0.0, -math.inf, 0.0)
        return Difference(shape, dtype, *nothing, (bad, 0), tuple(value.shape), discrete)
    right = reference.detach().to(torch.float64).reshape(-1)
    left = value.detach().to(torch.float64).reshape(-1)
    strange = ~(right.isfinite() & left.isfinite())
    same = (left == right) | (left.isnan() & right.isnan())
    lost = bool((strange & ~same).any())
    unequal = float((~same).to(torch.float64).mean()) if discrete and right.numel() else 0.0
    counts = int((~right.isfinite()).sum()), int((~left.isfinite()).sum())
    if bool(strange.any()):
        left, right = left[~strange], right[~strange]
    if not right.numel():
        error = (math.inf, math.inf, 0.0, -math.inf, math.nan) if lost else (0.0, 0.0, 0.0, math.inf, 1.0)
        return Difference(shape, dtype, *error, counts, None, discrete, unequal)
    scale = float(right.abs().max())
    if lost:
        return Difference(shape, dtype, math.inf, math.inf, scale, -math.inf, math.nan, counts, None, discrete)
    errors = (left - right).abs()
    largest = float(errors.max())
    weighty = right.abs() > scale * 1e-6
    relative = float((errors[weighty] / right[weighty].abs()).max()) if bool(weighty.any()) else 0.0
    noise, energy = float(errors.square().sum()), float(right.square().sum())
    norm = math.sqrt(energy) * float(left.norm())
    return Difference(
        shape,
        dtype,
        largest,
        relative if largest else 0.0,
        scale,
        _decibels(energy, noise),
        1.0 if energy == 0 == float(left.abs().max()) else float(left @ right) / norm if norm else 0.0,
        counts,
        None,
        discrete,
        unequal,
    )


def _is_of_shape(value: Tensor, reference: Tensor) -> bool:
    return value.shape == reference.shape or (
        value.numel() == reference.numel() == 1 and value.dim() + reference.dim() == 1
    )


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def error_over_scale(value: Tensor, reference: Tensor) -> float:
    """The same as ``compare(value, reference).error``, without what a report wants beside it: for every operation of a run."""
    if not _is_of_shape(value, reference):
        return math.inf
    if not reference.numel():
        return 0.0
    if not reference.is_floating_point():
        same = bool((value.reshape(-1).to(torch.float64) == reference.reshape(-1).to(torch.float64)).all())
        return 0.0 if same else 1.0
    left, right = value.detach().reshape(-1), reference.detach().reshape(-1)
    if left.dtype != right.dtype:
        left, right = left.to(torch.float64), right.to(torch.float64)
    finite = right.isfinite()
    if not bool(finite.all()):
        left, right = left[finite], right[finite]
        if not right.numel():
            return 0.0
    scale = float(right.abs().max())
    largest = float((left - right).abs().max())
    if math.isnan(largest):
        return math.inf
    return 0.0 if largest == 0 else largest / scale if scale else math.inf


def loses_infinity(value: Tensor, reference: Tensor) -> bool:
    """Whether something else stands where a reference, of as many elements, is infinite, which no scale measures."""
    infinite = reference.isinf()
    if value.numel() != reference.numel():
        return False
    return bool(infinite.any()) and bool((value.reshape(reference.shape) != reference)[infinite].any())
