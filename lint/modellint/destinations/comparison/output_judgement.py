"""Test oracle of a comparison: each output of a program judged against PyTorch's, kept from where it is worst, and what stays undecided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from modellint.destinations.comparison.program import Misfit, Program, RunError
from modellint.destinations.comparison.rounding_tolerance import Judgement, Typical, Yardstick
from modellint.destinations.comparison.tensor_difference import LIMIT, SNR, Difference, compare
from modellint.results.verification import Output, worst

if TYPE_CHECKING:
    from modellint.destinations.comparison.reference_runs import Reference, Row
    from modellint.live.inputs.variants import Case as Given

EXAMPLE = "the example"
MOST_UNEQUAL = 0.1
"""The share of integers or truth values that float16 may change before it counts as not precise enough."""
_BEYOND = "made by casting numbers beyond the range of the integers"
_UNORDERED = "which depend on an order that `topk` or `sort` leaves open, as that of equal elements"


class OutputJudge:
    """The outputs of a float32 and a float16 program so far, each from where it is worst.

    Args:
        doubts: Added to: why outputs that do not differ cannot be said to agree.
    """

    def __init__(self, doubts: list[str]) -> None:
        self.single: dict[int, Output] = {}
        """Of the float32 program, by position."""
        self.half: dict[int, Output] = {}
        """Of the float16 program."""
        self.half_failure = ""
        """Why the float16 program could not be run."""
        self._doubts = doubts
        self._undefined: dict[int, tuple[int, str]] = {}
        self._tied: dict[int, tuple[int, str]] = {}
        self._open: dict[tuple[int, str], tuple[int, str]] = {}
        """Elements that PyTorch leaves open, by the output and why: how many, and on what inputs."""
        self._scaled: dict[int, str] = {}
        self._typical = Typical()

    def judge(
        self,
        reference: Reference,
        predictor: Program,
        returned: Sequence[Tensor],
        expected: Sequence[Tensor],
        case: Given,
        row: Row,
        weights_rounded: bool,
    ) -> list[Output]:
        """What the float32 program returned after predictions on the inputs of a row, held against PyTorch's outputs.

        ``weights_rounded``: the weights of the program are kept in float16.
        """
        outputs: list[Output] = []
        count = len(row.each)
        yardstick = Yardstick(
            reference, row, list(expected), count, weights_rounded, self._typical, predictor.adds_in_order
        )
        undefined: list[Tensor] | None = None
        orders: list[list[Tensor]] | None = None
        if predictor.casts_beyond:
            undefined = reference.undefined(row, expected, count)
        for at, (value, right) in enumerate(zip(returned, expected, strict=False)):
            value = value if undefined is None else but_for(undefined[at], value, right)
            difference = compare(value, right)
            name = predictor.output_names[at]
            seen = Judgement() if difference.got is not None else yardstick.judge(at, value)
            if seen.wrong and not predictor.casts_beyond:
                # Casts of PyTorch's to narrower types than the program has.
                undefined = undefined or reference.undefined(row, expected, count)
                if undefined is not None:
                    value = but_for(undefined[at], value, right)
                    difference, seen = compare(value, right), yardstick.judge(at, value)
            in_order: Tensor | None = None
            if seen.wrong:
                orders = reference.in_other_orders(row, count) if orders is None else orders
                others = (run[at] for run in orders if len(run) == len(expected))
                in_order = next((x for x in others if x.shape == right.shape and _is_equal(value, x)), None)
                if in_order is not None:
                    # As right as what PyTorch gave: nothing else differs.
                    difference, seen = compare(value, in_order), Judgement()
            wrong = seen.wrong
            if _is_evidence(case):
                wrong += seen.undefined
            elif seen.undefined:
                self._undefined.setdefault(at, (seen.undefined, case.label))
                # What is no evidence is no error either.
                difference = compare(but_for(right.isnan(), value, right), right)
            if yardstick.is_scaled:
                self._scaled.setdefault(at, case.label)
            shown = output(name, difference, difference.got is None and not wrong, case.label)
            path = _path(reference, at)
            outputs.append(shown._replace(path=path, wrong=wrong, ties=seen.ties))
            if difference.got is None and not wrong:
                self._doubt(at, path, seen, case, right.numel())
                if undefined is not None and (lost := int(undefined[at].sum())):
                    self._doubt_open(at, path, lost, _BEYOND, case, right.numel())
                if in_order is not None:
                    self._doubt_open(at, path, int((in_order != right).sum()), _UNORDERED, case, right.numel())
        for at, shown in enumerate(outputs):
            known = self.single.get(at)
            if known is None or (known.ok, -known.error) > (shown.ok, -shown.error):
                self.single[at] = shown
        return outputs

    def _doubt_open(self, at: int, path: str, count: int, why: str, case: Given, size: int) -> None:
        if case.usual:
            name = f"the output {path}" if path else "the output"
            self._doubts.append(f"{name} on {case.label}: undefined elements: {count} of {size}, {why}")
        else:
            self._open.setdefault((at, why), (count, case.label))

    def _doubt(self, at: int, path: str, seen: Judgement, case: Given, size: int) -> None:
        name = f"the output {path}" if path else "the output"
        if seen.ties and case.usual:
            self._doubts.append(
                f"{name} on {case.label}: {seen.ties} of {size} integers or truth values differ, which rounding decides in "
                "PyTorch too"
            )
        elif seen.ties:
            self._tied.setdefault(at, (seen.ties, case.label))
        if seen.unsure and case.usual:
            self._doubts.append(
                f"{name} on {case.label}: the model magnifies rounding, so that PyTorch's own float32 is as far from its float64"
            )

    def judge_half(
        self,
        reference: Reference,
        predictor: Program,
        leaves: Sequence[Sequence[Any]],
        expected: Sequence[Tensor],
        case: Given,
        row: Row,
    ) -> float | None:
        """Run a float16 program on the inputs of a row, whose leaves are given, and hold the last outputs against PyTorch's."""
        try:
            returned = predictor.in_a_row(leaves)[-1]
        except Misfit:
            return None
        except RunError as error:
            self.half_failure = self.half_failure or f"the float16 program cannot be run on {case.label}: {error}"
            return math.inf
        if predictor.casts_beyond:
            undefined = reference.undefined(row, expected, len(leaves))
            if undefined is not None:
                returned = [but_for(*parts) for parts in zip(undefined, returned, expected, strict=False)]
        outputs = [
            coarse(name, compare(value, right), case.label)._replace(path=_path(reference, at))
            for at, (name, value, right) in enumerate(zip(predictor.output_names, returned, expected, strict=False))
        ]
        for at, shown in enumerate(outputs):
            known = self.half.get(at)
            if known is None or (shown.ok, shown.snr) < (known.ok, known.snr):
                self.half[at] = shown
        return worst(outputs)

    def remarks(self) -> list[str]:
        """Remarks on outputs that agree."""
        remarks = [
            f"{self.named(at)} on {shown.case}: the error is that of rounding, which the model magnifies; PyTorch's own float32 is as "
            "far from its float64"
            for at, shown in sorted(self.single.items())
            if shown.ok and not shown.ties and LIMIT < shown.error < math.inf
        ]
        remarks += [
            f"{self.named(at)} on {case}: PyTorch itself gives nan for {count} elements where the program does not: "
            "that says nothing of either"
            for at, (count, case) in sorted(self._undefined.items())
            if at in self.single
        ]
        remarks += [
            f"{self.named(at)} on {case}: undefined elements: {count}, {why}: that says nothing of either"
            for (at, why), (count, case) in sorted(self._open.items())
            if at in self.single
        ]
        remarks += [
            f"{self.named(at)} on {case}: {count} integers or truth values differ, among numbers that are equal but for rounding: "
            "that says nothing of either"
            for at, (count, case) in sorted(self._tied.items())
            if at in self.single
        ]
        remarks += [
            f"{self.named(at)} on {case}: the model does not run in float64, so that errors are held against {LIMIT:g} of the "
            "largest element of their row"
            for at, case in sorted(self._scaled.items())
            if at in self.single
        ]
        return remarks

    def named(self, at: int) -> str:
        """How a remark calls an output."""
        return f"the output {self.single[at].path or self.single[at].name}"


def _is_equal(value: Tensor, other: Tensor) -> bool:
    difference = compare(value, other)
    return difference.got is None and difference.agrees()


def _path(reference: Reference, at: int) -> str:
    return reference.paths[at] if at < len(reference.paths) else ""


def _is_evidence(case: Given) -> bool:
    """Whether a NaN of PyTorch's has to be the program's too: not on inputs that we drew, of a kind the model may not be for."""
    return case.label.partition(",")[0] == EXAMPLE or (case.usual and not case.masks)


def coarse(name: str, difference: Difference, case: str) -> Output:
    """An output of a program that does not compute in float32, judged by its ratio of signal to noise."""
    # A class that is as likely as another may change with the precision.
    enough = difference.unequal <= MOST_UNEQUAL if difference.discrete else difference.snr >= SNR
    return output(name, difference, difference.got is None and enough, case)


def output(name: str, difference: Difference, ok: bool, case: str) -> Output:
    """A difference as it is shown."""
    return Output(
        name,
        difference.shape,
        difference.dtype,
        difference.max_abs_error,
        difference.max_rel_error,
        difference.error,
        difference.scale,
        difference.snr,
        difference.cosine,
        difference.non_finite,
        ok,
        case,
        difference.got,
        unequal=difference.unequal,
    )


def but_for(undefined: Tensor, value: Tensor, right: Tensor) -> Tensor:
    """A program's output with PyTorch's elements in the undefined places, where PyTorch's type could hold the program's element."""
    if value.numel() != right.numel() or not bool(undefined.any()):
        return value
    if not right.is_floating_point() and not right.is_complex() and right.dtype is not torch.bool:
        # An undefined cast to `uint8` may give any number but 300.
        limits = torch.iinfo(right.dtype)
        whole = value.reshape(right.shape)
        whole = whole.to(torch.float64 if whole.is_floating_point() else torch.int64)
        undefined = undefined & (whole >= limits.min) & (whole <= limits.max)
    return torch.where(undefined, right, value.reshape(right.shape).to(torch.promote_types(value.dtype, right.dtype)))
