"""Comparison of a model with its converted programs, on one set of inputs after another."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modellint.destinations.comparison.input_generation import CaseTimes, InputGenerator, OutputVariety
from modellint.destinations.comparison.output_judgement import EXAMPLE, OutputJudge
from modellint.destinations.comparison.program import Misfit, Program, RunError, Unanswered
from modellint.destinations.comparison.reference_runs import STEPS, OutputCache, Raised, Reference, Row, copied
from modellint.destinations.comparison.states import lost_writes, state_differences
from modellint.destinations.comparison.untrained_weights import untrained
from modellint.live.inputs.random_numbers import DrawsOtherwise
from modellint.live.inputs.variants import Case as Given
from modellint.live.inputs.variants import float_masks, may_vary, of_one_input, variants
from modellint.results.verification import AGREES, DIFFERS, UNDECIDED, Case, Output, worst

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs.input_spec import InputSpec
    from modellint.live.inputs.model_inputs import Inputs


class Undecided(Exception):
    """The comparison is undecided; the message says why."""


class Mismatch(NamedTuple):
    """A comparison that failed."""

    case: Given
    label: str
    predictions: int
    """After how many in a row."""
    outputs: tuple[int, ...]
    """The positions of the outputs that differ; empty where the program could not be run."""
    expected: list[Tensor]


class ComparedRow(NamedTuple):
    """A set of inputs that was compared, or several that were predicted in a row."""

    label: str
    usual: bool
    """Whether values are of the example's kind, so that float16 may be judged on them."""
    row: tuple[Inputs, ...]
    expected: tuple[Sequence[Tensor], ...]
    """PyTorch's outputs, of each prediction."""


class Comparison:
    """Comparison of one model with its programs: the cases so far, and their outcome.

    Args:
        model: Of any mode; it is run in evaluation mode, and left as it was.
        inputs: The example; more are made after it.
        specs: What the example was made from, for the ranges of integers.
        seed: Where random numbers start.
        budget: Seconds after which no further inputs are begun; with 0 only the example is compared.
        cases: The sets of inputs, the example first; default: those of ``variants``.
        end: The time, of ``time.monotonic``, by which to be done: what would take longer is left out.
        cache: Outputs of the model that other comparisons have seen.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Inputs,
        specs: Sequence[InputSpec] = (),
        seed: int = 0,
        budget: float = 0.0,
        cases: Iterable[Given] | None = None,
        end: float = math.inf,
        cache: OutputCache | None = None,
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.seed = seed
        self.reference = Reference(model, seed, cache)
        self.notes: list[str] = []
        self.cases: list[Case] = []
        self.mismatch: Mismatch | None = None
        """The first."""
        self.failure = ""
        """What is wrong with a program that has no outputs to compare."""
        self.doubts: list[str] = []
        """Why outputs that do not differ cannot be said to agree."""
        self.weights_rounded = False
        """Whether the weights of the program are kept in float16, so that outputs are held against what that does to them."""
        self._given = variants(inputs, specs, seed, wide=True) if cases is None else cases
        self._fixed_sizes = cases is not None
        self._specs = specs
        self._budget = budget
        self.half_doubt = ""
        """Why float16 cannot be judged."""
        self.after: Callable[[], None] | None = None
        """Called after each set of inputs."""
        self.on_compared: Callable[[ComparedRow], None] | None = None
        """Told each set of inputs on which a program was run, with PyTorch's outputs."""
        self._judge = OutputJudge(self.doubts)
        self._times = CaseTimes(end)
        self._variety = OutputVariety()
        self._generator = InputGenerator(inputs, specs, seed, self._variety, self._times)
        self._unvaried = {*may_vary(inputs, specs)}
        """The places of inputs that are the example's in all that was compared."""
        self._constant: list[int] = []
        """Outputs that depend on inputs, and are the same on all of them."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Of the float32 program, each from where it is worst."""
        return tuple(shown for _, shown in sorted(self._judge.single.items()))

    @property
    def half(self) -> tuple[Output, ...]:
        """Of the float16 program, each from where it is worst."""
        return tuple(shown for _, shown in sorted(self._judge.half.items()))

    def is_random(self) -> bool:
        """Whether outputs depend on random numbers; where dropout alone draws them, it is switched off from here on.

        Raises ``Undecided`` for a model that does not run.
        """
        if not self._varies():
            return False
        self.reference.drops = False
        if self._varies():
            self.reference.drops = True
        return True

    def _varies(self) -> bool:
        try:
            first, second = (self.reference(self.inputs, seed) for seed in (0, 1))
        except Raised as error:
            raise Undecided(f"the model does not run: {error}") from None
        if not first:
            raise Undecided("the model returns no tensor")
        return len(first) != len(second) or any(not _same(a, b) for a, b in zip(first, second, strict=True))

    def leaves(self, inputs: Inputs, route: str) -> list[Any]:
        """The inputs, flat, as a program takes them that was captured by that route."""
        leaves: list[Any] = copied(pytree.tree_leaves((tuple(inputs.args), dict(inputs.kwargs))))
        return leaves

    def over_cases(self, predictor: Program | None, halved: Program | None, route: str) -> None:
        """Compare on the example, on inputs like it, and on other sizes. Raises ``Undecided`` where the program takes others.

        ``predictor`` is of the float32 program, ``halved`` of the float16 one; the latter alone is run on usual inputs only.
        """
        program = predictor or halved or _nothing()
        deadline = time.monotonic() + self._budget
        left: list[str] = []
        self.notes.extend(
            f"{self._name(at)} is taken for a mask, as the example has 0 and 1 there alone: it was compared on such"
            for at in float_masks(self.inputs, self._specs)
        )
        cases = self._given
        if self._budget and not self._fixed_sizes:
            others = self._generator.other_sizes(self.model, program, left)
            if predictor is not None:
                further = self._generator.further(
                    predictor, lambda inputs: self.leaves(inputs, route), lambda: self.mismatch is not None
                )
                others = chain(further, others)
            cases = chain(cases, others)
        for case in cases:
            began = time.monotonic()
            if predictor is None and not case.usual:
                continue
            if self.cases and (began > deadline or not self._times.allow(1)):
                if self._budget:
                    self.notes.append(f"only {_counted(len(self.cases))} compared, for want of time")
                return
            try:
                expected = self.reference(case.inputs)
            except Raised as error:
                self.cases.append(Case(case.label, None, note=str(error)))
                if isinstance(error.__cause__, DrawsOtherwise):
                    self.doubts.append(f"on {case.label}: {error.__cause__}")
                elif case.resized:
                    self.doubts.append(f"the model raises at {case.label} ({error}): give sizes that it takes")
                continue
            self._variety.look(expected)
            leaves = self.leaves(case.inputs, route)
            largest, note, half = None, "", None
            if predictor is not None:
                largest, note = self._compared(predictor, leaves, case, expected)
            if halved is not None and case.usual:
                half = self._judge.judge_half(self.reference, halved, [leaves], expected, case, Row((case.inputs,)))
            self.cases.append(Case(case.label, largest, half, note))
            if largest is not None or half is not None:
                self._tell(case, (case.inputs,), [expected])
                self._look_for_others(case.inputs)
            self._times.add(time.monotonic() - began)
            if self.after is not None:
                self.after()
        if predictor is not None and self._budget:
            if not self._fixed_sizes:
                self._over_unvaried(predictor, route, deadline)
            self._look_for_constants()
        if left:
            self.notes.append(
                f"not run, as too large for a comparison here: {', '.join(left)}; what is said is about the sizes that were run"
            )

    def _tell(self, case: Given, row: tuple[Inputs, ...], expected: Sequence[Sequence[Tensor]]) -> None:
        if self.on_compared is not None:
            self.on_compared(ComparedRow(case.label, case.usual, row, tuple(expected)))

    def _look_for_others(self, inputs: Inputs) -> None:
        if not self._unvaried:
            return
        first, now = (pytree.tree_leaves((tuple(each.args), dict(each.kwargs))) for each in (self.inputs, inputs))
        self._unvaried = {at for at in self._unvaried if _same(first[at], now[at])}

    def _over_unvaried(self, predictor: Program, route: str, deadline: float) -> None:
        """Compare with other values of inputs on whose others the model has raised so far; doubt what no others are to be had for.

        A program may hold what such an input is in the example.
        """
        leaves = pytree.tree_leaves((tuple(self.inputs.args), dict(self.inputs.kwargs)))
        for at in sorted(self._unvaried):
            last = ""
            for case in of_one_input(self.inputs, at, self._specs, self.seed):
                if self.mismatch is not None:
                    return
                if time.monotonic() > deadline or not self._times.allow(1):
                    self.notes.append(f"{self._name(at)} is the example's in all that was compared, for want of time")
                    return
                try:
                    expected = self.reference(case.inputs)
                except Raised as error:
                    last = str(error)
                    continue
                labelled = case._replace(label=f"the example with {self._name(at)} {case.label}")
                largest, note = self._compared(predictor, self.leaves(case.inputs, route), labelled, expected)
                self.cases.append(Case(labelled.label, largest, None, note))
                last = note or last
                if largest is not None:
                    self._look_for_others(case.inputs)
                    self._tell(labelled, (case.inputs,), [expected])
                if at not in self._unvaried:
                    break
            if at in self._unvaried and last and self.mismatch is None:
                told = f"{self._name(at)} is the example's in all that was compared, as the model raises on others ({last})"
                if leaves[at].numel() > 1:
                    self.doubts.append(f"{told}: give it a range of values, or make it a constant")
                else:
                    # One number, and the model raises on those beside it: there may be no other.
                    self.notes.append(told)

    def _name(self, at: int) -> str:
        """What the input at a place among all leaves is called."""
        parameters = [*inspect.signature(self.model.forward).parameters]
        arguments = [(*parameters[index : index + 1], value) for index, value in enumerate(self.inputs.args)]
        names = [
            argument[0] if len(argument) > 1 else "an input"
            for argument in [*arguments, *self.inputs.kwargs.items()]
            for _ in pytree.tree_leaves(argument[-1])
        ]
        return str(names[at])

    def _look_for_constants(self) -> None:
        """Outputs that depend on inputs, and are the same on all of them."""
        same = [at for at in self._variety.constant if at in self._judge.single]
        if same and sum(case.error is not None for case in self.cases) > 1:
            depending = self.reference.depending(self.inputs)
            self._constant += [at for at in same if depending[at]]

    def remarks(self) -> list[str]:
        """Remarks on outputs that agree."""
        constant = [
            f"{self._judge.named(at)} is the same on all inputs, so that its agreement says little"
            for at in self._constant
        ]
        return [*self._judge.remarks(), *constant]

    def _compared(
        self, predictor: Program, leaves: Sequence[Any], case: Given, expected: list[Tensor]
    ) -> tuple[float | None, str]:
        try:
            (returned,) = predictor.in_a_row([leaves])
        except Unanswered as error:
            if case.inputs is self.inputs:
                raise Undecided(str(error)) from None
            self.doubts.append(f"on {case.label}: {error}")
            return None, str(error)
        except Misfit as error:
            if case.inputs is self.inputs:
                raise Undecided(str(error)) from None
            if case.resized:
                self.doubts.append(f"at {case.label} nothing is compared: {error}")
            return None, str(error)
        except RunError as error:
            self._fail(case, expected, str(error))
            return math.inf, str(error)
        outputs = self._judge.judge(
            self.reference, predictor, returned, expected, case, Row((case.inputs,)), self.weights_rounded
        )
        bad = tuple(at for at, shown in enumerate(outputs) if not shown.ok)
        if len(returned) != len(expected):
            self._fail(case, expected, f"the model returns {len(expected)} tensors, the program {len(returned)}")
        elif bad and self.mismatch is None:
            self.mismatch = Mismatch(case, case.label, 1, bad, expected)
        return worst(outputs), ""

    def _fail(self, case: Given, expected: list[Tensor], reason: str) -> None:
        if self.mismatch is None:
            self.mismatch = Mismatch(case, case.label, 1, (), expected)
            self.failure = reason

    def over_steps(self, predictor: Program | None, halved: Program | None, route: str) -> None:
        """Compare several predictions in a row, where the model or the program keeps a state."""
        if self.mismatch is not None or not self._budget:
            return
        if not self._times.allow(STEPS):
            self.notes.append("several predictions in a row were not compared, for want of time")
            return
        try:
            written = self.reference.written(self.inputs)
        except Raised as error:
            self.notes.append(f"a second run in a row raises {error}")
            return
        program = predictor or halved
        if written or (program is not None and program.is_stateful):
            self._over_row(predictor, halved, route, [Given(EXAMPLE, self.inputs, True)] * STEPS)
            others = list(islice(variants(self.inputs, self._specs, self.seed), STEPS + 1))[1:]
            if self.mismatch is None and all(case.usual for case in others):
                self._over_row(predictor, halved, route, others)
            if predictor is not None and predictor.is_stateful and not self._fixed_sizes:
                for row in self._generator.further_rows(lambda: self.mismatch is not None):
                    self._over_row(predictor, None, route, row, is_further=True)
        if self.mismatch is None and program is not None:
            self._over_writes(program, {f"{path}.{name}".lstrip(".") for path, name in written})

    def _over_writes(self, predictor: Program, written: set[str]) -> None:
        """Hold the buffers that ``forward`` writes, also where they are the same afterwards, against the states that are written."""
        names = lost_writes(predictor, written)
        if names:
            reason = f"what forward writes to {', '.join(names)} is lost: the program has the state, and no write to it"
            self._fail(Given(EXAMPLE, self.inputs, True), self.reference(self.inputs), reason)

    def _over_row(
        self,
        predictor: Program | None,
        halved: Program | None,
        route: str,
        row: Sequence[Given],
        is_further: bool = False,
    ) -> None:
        """Compare predictions in a row, the state of which goes from one to the next.

        Of further inputs those on which the model raises are left out without a word.
        """
        inputs = Row(tuple(case.inputs for case in row))
        try:
            runs = self.reference.steps(inputs, len(row))
        except Raised as error:
            if not is_further:
                self.notes.append(f"a second run in a row raises {error}")
            return
        self._tell(row[-1], inputs.each, runs)
        leaves = [self.leaves(case.inputs, route) for case in row]
        returned: Sequence[list[Tensor] | None] = [None] * len(row)
        if predictor is not None:
            try:
                returned = predictor.in_a_row(leaves)
            except Unanswered as error:
                self.doubts.append(f"on {row[0].label}, in a row: {error}")
                return
            except RunError as error:
                self._fail(row[0], runs[0], str(error))
                return
        for count, (case, values, expected) in enumerate(zip(row, returned, runs, strict=True), 1):
            step = case._replace(label=f"{case.label}, prediction {count}")
            outputs: list[Output] = []
            if values is not None and predictor is not None:
                outputs = self._judge.judge(
                    self.reference, predictor, values, expected, step, Row(inputs.each[:count]), self.weights_rounded
                )
            half = (
                None
                if halved is None
                else self._judge.judge_half(
                    self.reference, halved, leaves[:count], expected, step, Row(inputs.each[:count])
                )
            )
            self.cases.append(Case(step.label, None if values is None else worst(outputs), half))
            bad = tuple(at for at, shown in enumerate(outputs) if not shown.ok)
            if bad:
                self.mismatch = Mismatch(case, step.label, count, bad, expected)
                return
        self._over_states(predictor or halved, inputs, row[-1], runs[-1])

    def _over_states(self, predictor: Program | None, inputs: Row, case: Given, expected: list[Tensor]) -> None:
        """Compare what predictions in a row leave in the states with what they leave in the model's buffers."""
        if predictor is None or not predictor.buffers:
            return
        label = f"{case.label.partition(',')[0]}, prediction {len(inputs.each)}"
        for state, name, is_rounding in state_differences(self.model, self.reference, predictor, inputs):
            if is_rounding:
                self.doubts.append(f"the state {state} on {label}: rounding decides it in PyTorch too")
                continue
            self._fail(case, expected, f"the state {state} is not what forward leaves in the buffer {name}, on {label}")
            return

    def judged_half(self) -> bool | None:
        """Whether float16 is precise enough; with random weights that says nothing against it."""
        if self._judge.half_failure:
            return False
        if not self._judge.half:
            return None
        if all(shown.ok for shown in self._judge.half.values()):
            return True
        why = untrained(self.model)
        if why:
            self.half_doubt = f"float16 is not precise enough here, but the weights look untrained ({why}): ask again with trained ones"
            return None
        return False

    def verdict(self, half_ok: bool | None, half_missing: str = "") -> tuple[str, str, str]:
        """The verdict, its reason, and the verdict without regard to float16.

        Args:
            half_ok: Whether float16 is precise enough; None where it cannot be said.
            half_missing: Why it was not compared although it was asked for.
        """
        single, reason = self._single()
        if single != AGREES:
            return single, reason, single
        if half_ok is False:
            return DIFFERS, self._judge.half_failure or "float16 is not precise enough", single
        if half_ok is None and (self.half_doubt or half_missing):
            return UNDECIDED, self.half_doubt or half_missing, single
        return AGREES, "", single

    def _single(self) -> tuple[str, str]:
        if self.mismatch is not None:
            return DIFFERS, self.failure
        if all(case.error is None and case.half is None for case in self.cases):
            return UNDECIDED, next((case.note for case in self.cases if case.note), "nothing was compared")
        if self.doubts:
            more = f", and {len(self.doubts) - 1} more such" if len(self.doubts) > 1 else ""
            return UNDECIDED, self.doubts[0] + more
        return AGREES, ""

    def turned(self) -> list[str]:
        """Remarks on integers and truth values that float16 changes."""
        return [
            f"in float16 {shown.unequal:.2g} of the integers or truth values of {shown.path or shown.name} are others on {shown.case}"
            for shown in self.half
            if shown.unequal
        ]


def _counted(count: int) -> str:
    return "one set of inputs was" if count == 1 else f"{count} sets of inputs were"


def _nothing() -> Program:
    raise Undecided("there is no program to run")


def _same(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and bool(torch.equal(first.nan_to_num(), second.nan_to_num()))
