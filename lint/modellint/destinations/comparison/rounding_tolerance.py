"""Tolerance of a comparison: PyTorch's own rounding error on the same inputs, element by element.

The value is that of the model in double precision; how far single precision is from it, in the model as it is and in stochastic
arithmetic, is the error that rounding alone makes. A converted program adds in another order, so it may be off by a few times as
much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from modellint.destinations.comparison.tensor_difference import LIMIT

if TYPE_CHECKING:
    from modellint.destinations.comparison.reference_runs import Reference, Row
    from modellint.live.inputs.model_inputs import Inputs

TIMES = 10.0
"""How many times PyTorch's own error a program may be off."""
RELATIVE = 1e-6
"""The share of an element that a program may be off in any case: about 17 roundings of float32."""
OF_WEIGHTS = 2.0**-9
"""The same for a program whose weights are kept in float16: four roundings of float16."""
SYSTEMATIC = 1e-4
"""The share of an element up to which a distance between single and double precision is put down to rounding without further
evidence. What is more, and is not seen in stochastic arithmetic, is another function, as of `torch.finfo(x.dtype).eps`."""
UNSURE = 1e-2
"""The share of the largest element of a row from which on PyTorch's own error says that the model gives no number to compare."""
CARRIED = 1e-5
"""The most, as a share of the largest element of a row, that rounding on other inputs, or of other elements, stands for."""
_LEVELS = (3, 9, 20)
"""Runs in stochastic arithmetic, each time some elements are still off by more."""
_LEAST = TIMES * torch.finfo(torch.float32).tiny
"""Below the normal numbers of float32 devices keep zero."""
_DEEP = -2000
"""The exponent that stands for zero."""


class Judgement(NamedTuple):
    """How the elements of an output compare with PyTorch's."""

    wrong: int = 0
    """Elements that are off by more than rounding explains."""
    ties: int = 0
    """Whole numbers or truth values that differ, and that rounding decides in PyTorch too."""
    unsure: int = 0
    """Elements that are off by a visible share of their row, where PyTorch's own error is as large."""
    undefined: int = 0
    """Elements that are NaN in PyTorch and not in the program."""
    nonfinite: int = 0
    """Of those that are wrong, how many are infinite or NaN on one side."""


class Typical:
    """The rounding error of outputs by the size of their elements, as runs that round otherwise gave it on other inputs.

    Sizes and errors are relative to the largest element of a row. It only spares runs: what is off by more is held against the
    rounding on its own inputs.
    """

    def __init__(self) -> None:
        self._known: dict[int, dict[int, float]] = {}

    def learn(self, at: int, spread: Tensor, right: Tensor, known: Tensor) -> None:
        """Learn the errors of the output at the position ``at``: for each size of elements, the largest median of all runs."""
        scale = _row_scale(right).expand_as(right)
        known = known & (right != 0)
        if not bool(known.any()):
            return
        _, exponents = torch.frexp((right / scale)[known])
        errors = (spread / scale)[known]
        medians = self._known.setdefault(at, {})
        for kind in torch.unique(exponents).tolist():
            median = min(float(errors[exponents == kind].median()), CARRIED)
            medians[kind] = max(median, medians.get(kind, 0.0))

    def errors(self, at: int, right: Tensor) -> Tensor | None:
        """Expected rounding error of each element, by its size; 0 for zeros and for sizes below all that were seen."""
        if at not in self._known:
            return None
        known = sorted(self._known[at].items())
        kinds = torch.tensor([kind for kind, _ in known], dtype=torch.int32)
        medians = torch.tensor([error for _, error in known], dtype=torch.float64)
        scale = _row_scale(right).expand_as(right)
        _, exponents = torch.frexp((right / scale).nan_to_num(0.0, 0.0, 0.0))
        place = torch.searchsorted(kinds, exponents.contiguous(), right=True) - 1
        errors = medians[place.clamp_min(0)] * scale
        return errors.where((place >= 0) & (right != 0) & right.isfinite(), 0.0)


class Yardstick:
    """Rounding error of a model's outputs on one set of inputs; each run is made when it is first needed.

    Args:
        reference: The model.
        inputs: What it is run on.
        expected: Its outputs in its own precision.
        count: After how many predictions in a row.
        rounded: Whether the program's weights are kept in float16; what rounding them does is the yardstick then, and the value is
            the model's own.
        typical: What rounding did on other inputs.
        in_order: Whether the program makes its sums element after element, so that what this does to the model is rounding, too.
    """

    def __init__(
        self,
        reference: Reference,
        inputs: Inputs | Row,
        expected: list[Tensor],
        count: int = 1,
        rounded: bool = False,
        typical: Typical | None = None,
        in_order: bool = False,
    ) -> None:
        self._in_order = in_order
        self._typical = typical or Typical()
        self._rounded = rounded
        self._relative = OF_WEIGHTS if rounded else RELATIVE
        self._reference = reference
        self._inputs = inputs
        self._expected = expected
        self._count = count
        self._double: list[Tensor] | None = None
        self._has_double = False
        self._ordered: list[list[Tensor] | None] = []
        self._runs: dict[float, list[list[Tensor]]] = {}
        self._failed: set[float] = set()
        self.is_scaled = False
        """Whether an error was held against the scale of its row, as the model does not run in double precision."""

    def judge(self, at: int, value: Tensor) -> Judgement:
        """Compare a program's output with the model's at the position ``at``; both have as many elements."""
        right = self._expected[at]
        value = value.detach().reshape(right.shape)
        if not right.is_floating_point() and not right.is_complex():
            return self._judged_whole(at, value, right)
        left, right = _doubled(value), _doubled(right)
        apart = (left - right).abs() > (self._relative * right.abs()).clamp_min(_LEAST)
        strange = ~(left.isfinite() & right.isfinite())
        off = torch.where(strange, ~_same(left, right), apart)
        if not bool(off.any()):
            return Judgement()
        return self._judged_floats(at, left, right, off)

    def _judged_whole(self, at: int, value: Tensor, right: Tensor) -> Judgement:
        off = value.to(torch.float64) != right.to(torch.float64)
        if not bool(off.any()):
            return Judgement()
        tied = torch.zeros_like(off)
        runs = self._stochastic(_LEVELS[1], TIMES)
        double = None if self._rounded else self._in_double()
        for outputs in (*runs, *(() if double is None else (double,))):
            output = outputs[at]
            if output.shape == right.shape:
                tied |= output.to(torch.float64) != right.to(torch.float64)
        return Judgement(wrong=int((off & ~tied).sum()), ties=int((off & tied).sum()))

    def _judged_floats(self, at: int, left: Tensor, right: Tensor, off: Tensor) -> Judgement:
        if not self._rounded and self._is_usual_rounding(at, left, right, off):
            return Judgement()
        truth = self._truth(at, right)
        distance = (left - right).abs()
        own = torch.zeros_like(right)
        if self._rounded:
            truth = None
        elif truth is None:
            # The scale of its row stands in for what is not known.
            self.is_scaled = True
            own = LIMIT / TIMES * _row_scale(right).expand_as(right)
        else:
            distance = torch.fmin(distance, (left - truth).abs())
            bias = (right - truth).abs()
            known = bias.isfinite()
            capped = torch.minimum(bias, SYSTEMATIC * right.abs()).where(known, 0.0)
            own = torch.maximum(capped, _median(capped, right, known))
        still = off & ~self._within(distance, own, right)
        if self._in_order and bool(still.any()):
            # One element may be spared by luck in a run.
            for spread, known in self._spreads_of_order(at, right, _LEVELS[0]):
                own = torch.maximum(own, torch.maximum(spread, _median(spread, right, known)))
            still = off & ~self._within(distance, own, right)
        for count in _LEVELS:
            if not bool(still.any()):
                break
            runs = [outputs[at] for outputs in self._stochastic(count, 1.0)]
            for run in runs:
                if run.shape != right.shape:
                    continue
                wide = _doubled(run)
                spread = (wide - right).abs()
                own = torch.maximum(own, spread.where(spread.isfinite(), 0.0))
                # An overflow that rounding decides.
                still &= ~(_same(left, wide) & ~right.isfinite())
            if truth is not None and runs:
                capped = torch.minimum(bias, torch.maximum(SYSTEMATIC * right.abs(), TIMES * own)).where(known, 0.0)
                own = torch.maximum(own, capped)
            # One element may be spared by luck in all runs.
            usual = torch.minimum(own, CARRIED * _row_scale(right))
            own = torch.maximum(own, _median(usual, right, right.isfinite()))
            still &= ~self._within(distance, own, right)
            if not self._rounded and not bool(still.any()):
                self._typical.learn(at, own, right, own <= SYSTEMATIC * _row_scale(right))
        excused = off & ~still & right.isfinite() & left.isfinite()
        unsure = excused & (distance > UNSURE * _row_scale(right))
        undefined = still & right.isnan() & ~left.isnan()
        strange = still & ~(right.isfinite() & left.isfinite())
        return Judgement(
            wrong=int((still & ~undefined).sum()),
            unsure=int(unsure.sum()),
            undefined=int(undefined.sum()),
            nonfinite=int((strange & ~undefined).sum()),
        )

    def _is_usual_rounding(self, at: int, left: Tensor, right: Tensor, off: Tensor) -> bool:
        """Whether rounding explains all: no element is off by more than ten times what a run changes it, or those of its size.

        A run with sums in order, of a program that makes them so, which takes as long as one of the model, and one in stochastic
        arithmetic. Most outputs of most models are settled so, and a run in double precision, which takes several times as long, is
        saved; so are these where those on other inputs allow as much.
        """
        distance = (left - right).abs()
        own = self._typical.errors(at, right)
        if own is not None and not bool((off & ~self._within(distance, own, right)).any()):
            return True
        own = torch.zeros_like(right)
        for spread, known in self._spreads(at, right):
            known = known & (spread <= SYSTEMATIC * _row_scale(right))
            spread = spread.where(known, 0.0)
            self._typical.learn(at, spread, right, known)
            own = torch.maximum(own, torch.maximum(spread, _median(spread, right, known)))
            if not bool((off & ~self._within(distance, own, right)).any()):
                return True
        return False

    def _spreads(self, at: int, right: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """How far single runs that round otherwise are off, and where that is known; the quickest first."""
        if self._in_order:
            yield from self._spreads_of_order(at, right, 1)
        runs = self._stochastic(1, 1.0)
        if runs and runs[0][at].shape == right.shape:
            spread = (_doubled(runs[0][at]) - right).abs()
            yield spread, spread.isfinite()

    def _within(self, distance: Tensor, own: Tensor, right: Tensor) -> Tensor:
        return right.isfinite() & (
            distance <= torch.maximum(TIMES * own, self._relative * right.abs()).clamp_min(_LEAST)
        )

    def _truth(self, at: int, right: Tensor) -> Tensor | None:
        double = None if self._rounded else self._in_double()
        if double is None or double[at].shape != right.shape or not double[at].is_floating_point():
            return None
        return double[at].to(torch.float64)

    def _spreads_of_order(self, at: int, right: Tensor, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """How far the model is off with sums made in order, element by element, and where that is known, in several runs.

        All but the first are on inputs that are changed by a rounding.
        """
        while len(self._ordered) < count:
            self._ordered.append(self._reference.with_sums_in_order(self._inputs, self._count, len(self._ordered)))
        for outputs in self._ordered[:count]:
            if outputs is not None and len(outputs) == len(self._expected) and outputs[at].shape == right.shape:
                spread = (_doubled(outputs[at]) - right).abs()
                known = spread.isfinite()
                yield spread.where(known, 0.0), known

    def _in_double(self) -> list[Tensor] | None:
        if not self._has_double:
            outputs = self._reference.in_double(self._inputs, self._count)
            self._double = outputs if outputs is not None and len(outputs) == len(self._expected) else None
            self._has_double = True
        return self._double

    def _stochastic(self, count: int, size: float) -> list[list[Tensor]]:
        runs = self._runs.setdefault(size, [])
        while len(runs) < count and size not in self._failed:
            if self._rounded:
                outputs = self._reference.with_rounded_weights(self._inputs, self._count, len(runs))
            else:
                outputs = self._reference.in_stochastic_arithmetic(self._inputs, self._count, len(runs), size)
            if outputs is None or len(outputs) != len(self._expected):
                self._failed.add(size)
            else:
                runs.append(outputs)
        return runs[:count]


def _doubled(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor.to(torch.complex128)) if tensor.is_complex() else tensor.to(torch.float64)


def _same(left: Tensor, right: Tensor) -> Tensor:
    return (left == right) | (left.isnan() & right.isnan())


def _row_scale(right: Tensor) -> Tensor:
    """The largest finite magnitude of each row along the last axis."""
    finite = right.abs().where(right.isfinite(), 0.0)
    return finite.amax(-1, keepdim=True) if right.dim() and right.shape[-1] else finite


def _median(bias: Tensor, right: Tensor, known: Tensor) -> Tensor:
    """Median error of the elements of the same magnitude, for each element: one run may be exact by luck."""
    _, exponents = torch.frexp(right.where(known, 0.0))
    exponents = exponents.where(right != 0, _DEEP).reshape(-1)
    kinds, which = torch.unique(exponents, return_inverse=True)
    flat = bias.reshape(-1)
    medians = torch.stack([flat[which == kind].median() for kind in range(len(kinds))])
    return medians[which].reshape(right.shape)
