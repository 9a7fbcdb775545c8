"""Comparison of a model with its converted programs, on one set of inputs after another."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modellint.destinations.comparison.program import Misfit, Program, RunError
from modellint.destinations.comparison.reference_runs import STEPS, OutputCache, Raised, Reference, Row, copied
from modellint.destinations.comparison.rounding_tolerance import Judgement, Typical, Yardstick
from modellint.destinations.comparison.stochastic_arithmetic import UNITS
from modellint.destinations.comparison.tensor_difference import LIMIT, SNR, Difference, compare
from modellint.destinations.comparison.untrained_weights import untrained
from modellint.live.inputs.size_boundaries import sizes, thresholds
from modellint.live.inputs.variants import Case as Given
from modellint.live.inputs.variants import further, lengths, scaled, variants
from modellint.results.verification import AGREES, DIFFERS, UNDECIDED, Case, Output, worst

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs.example import InputSpec
    from modellint.live.inputs.model_inputs import Inputs

EXAMPLE = "the example"
MOST_UNEQUAL = 0.1
"""The share of integers or truth values that float16 may change before it counts as not precise enough."""
FEW = 48
"""Elements of an output, and distinct ones of a float output, on all inputs together, below which it is compared on more inputs."""
_LOOKED_AT = 1024
"""Elements of an output, on one set of inputs, among which distinct ones are counted."""
IDLE = 16
"""Further inputs in a row that reach no branch that none before has reached, after which no more are tried for that."""
CHEAP = 0.02
"""Seconds for a set of inputs below which all further ones are tried, of programs that choose."""
BISECTED = (-3.0, -1.0, -0.3, -0.05, 0.05, 0.3, 1.0, 3.0, 10.0)
"""Multiples of the example between which bounds are looked for."""
BISECTIONS = 7
FURTHER_SECONDS = 3.0
"""How long that may take."""
FURTHER_ROWS = 12
"""Further rows of predictions, at most, of programs that keep a state and are quickly run."""
OF_STATES = 1e-2
"""The share of the largest number in a row of a state that predictions in a row, rounded to float16 each time, may be off."""
_BEYOND = "made by casting numbers beyond the range of the integers"


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
        self._end = end
        self.half_doubt = ""
        self._half_failure = ""
        """Why float16 cannot be judged."""
        self.after: Callable[[], None] | None = None
        """Called after each set of inputs."""
        self.on_compared: Callable[[ComparedRow], None] | None = None
        """Told each set of inputs on which a program was run, with PyTorch's outputs."""
        self._longest, self._shortest = 0.0, math.inf
        """Seconds that a set of inputs took: the first one takes more than those that follow."""
        self._outputs: dict[int, Output] = {}
        self._half: dict[int, Output] = {}
        self._undefined: dict[int, tuple[int, str]] = {}
        self._tied: dict[int, tuple[int, str]] = {}
        self._cast: dict[int, tuple[int, str]] = {}
        self._scaled: dict[int, str] = {}
        self._first: list[Tensor] = []
        self._typical = Typical()
        self._varied: Counter[int] = Counter()
        """On how many inputs each output is another than on the first."""
        self._constant: list[int] = []
        """Outputs that depend on inputs, and are the same on all of them."""
        self._seen: Counter[int] = Counter()
        """How many elements of each output were compared."""
        self._distinct: defaultdict[int, set[float]] = defaultdict(set)
        """Distinct elements of each float output, up to a number that tells enough."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Of the float32 program, each from where it is worst."""
        return tuple(self._outputs[at] for at in sorted(self._outputs))

    @property
    def half(self) -> tuple[Output, ...]:
        """Of the float16 program, each from where it is worst."""
        return tuple(self._half[at] for at in sorted(self._half))

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
        further = () if predictor is None else self._more(predictor, route)
        for case in chain(self._given, further, self._other_sizes(program, left)) if self._budget else self._given:
            began = time.monotonic()
            if predictor is None and not case.usual:
                continue
            if self.cases and (began > deadline or not self._has_time_for(1)):
                if self._budget:
                    self.notes.append(f"only {_counted(len(self.cases))} compared, for want of time")
                return
            try:
                expected = self.reference(case.inputs)
            except Raised as error:
                self.cases.append(Case(case.label, None, note=str(error)))
                if case.resized:
                    self.doubts.append(f"the model raises at {case.label} ({error}): give sizes that it takes")
                continue
            self._look(expected)
            leaves = self.leaves(case.inputs, route)
            largest, note, half = None, "", None
            if predictor is not None:
                largest, note = self._compared(predictor, leaves, case, expected)
            if halved is not None and case.usual:
                half = self._half_compared(halved, [leaves], case, expected, Row((case.inputs,)))
            self.cases.append(Case(case.label, largest, half, note))
            if largest is not None or half is not None:
                self._tell(case, (case.inputs,), [expected])
            took = time.monotonic() - began
            self._longest, self._shortest = max(self._longest, took), min(self._shortest, took)
            if self.after is not None:
                self.after()
        if predictor is not None and self._budget:
            self._look_for_constants()
        if left:
            self.notes.append(
                f"not run, as too large for a comparison here: {', '.join(left)}; what is said is about the sizes that were run"
            )

    def _tell(self, case: Given, row: tuple[Inputs, ...], expected: Sequence[Sequence[Tensor]]) -> None:
        if self.on_compared is not None:
            self.on_compared(ComparedRow(case.label, case.usual, row, tuple(expected)))

    def _other_sizes(self, program: Program, left: list[str]) -> Iterator[Given]:
        """Other sizes of what is flexible, chosen by what the model and the program hold sizes against."""
        if not self.inputs.flexible or self._fixed_sizes:
            return
        known = thresholds(self.model).joined(program.thresholds)
        yield from lengths(self.inputs, self._specs, self.seed, lambda low, high: sizes(low, high, known), left)

    def _more(self, predictor: Program, route: str) -> Iterator[Given]:
        """Further inputs, as long as an output of few elements, or of few values, has told little, or as they reach more branches."""
        if self._fixed_sizes:
            return
        until = time.monotonic() + FURTHER_SECONDS
        unreached, idle = predictor.unreached, 0
        chooses = predictor.sides > 0 or any(not first.is_floating_point() for first in self._first)
        for case in further(self.inputs, self._specs, self.seed):
            if self.mismatch is not None or time.monotonic() + self._longest > until:
                return
            is_cheap = chooses and self._shortest < CHEAP
            if not is_cheap and not self._tells_little() and not (unreached and idle < IDLE):
                return
            yield case
            idle = 0 if predictor.unreached < unreached else idle + 1
            unreached = predictor.unreached
        yield from self._near_boundaries(predictor, route, until)

    def _near_boundaries(self, predictor: Program, route: str, until: float) -> Iterator[Given]:
        """Inputs on both sides of where a bound or a comparison turns, and close to it, of programs that are quickly run.

        Between two scales of the example at which another number of elements passes a bound, it turns at some scale, which is
        found by bisection: a bound that is a little off is seen there, and hardly elsewhere.
        """
        if not predictor.sides or predictor.is_stateful:
            return

        def counted(scale: float) -> Mapping[Any, tuple[int, ...]]:
            return predictor.counted(self.leaves(scaled(self.inputs, scale, self._specs), route))

        try:
            at = [(scale, counted(scale)) for scale in BISECTED]
            seen = set()
            for (low, below), (high, above) in pairwise(at):
                for operation in above:
                    if (operation in seen) or below.get(operation) in (None, above[operation]):
                        continue
                    seen.add(operation)
                    lower, upper, before = low, high, below[operation]
                    for _ in range(BISECTIONS):
                        middle = (lower + upper) / 2
                        if counted(middle).get(operation) == before:
                            lower = middle
                        else:
                            upper = middle
                    for scale in (lower, upper):
                        if self.mismatch is not None or time.monotonic() + self._longest > until:
                            return
                        yield Given(f"the example times {scale:.4g}", scaled(self.inputs, scale, self._specs), False)
        except (Misfit, RunError):
            # The inputs of such a scale are not for this program.
            return

    def _tells_little(self) -> bool:
        return any(
            self._seen[at] < FEW
            or (len(self._distinct[at]) < FEW if first.is_floating_point() else self._varied[at] < STEPS)
            for at, first in enumerate(self._first)
        )

    def _look_for_constants(self) -> None:
        """Outputs that depend on inputs, and are the same on all of them."""
        same = [at for at in range(len(self._first)) if at in self._outputs and not self._varied[at]]
        if same and sum(case.error is not None for case in self.cases) > 1:
            depending = self.reference.depending(self.inputs)
            self._constant += [at for at in same if depending[at]]

    def _look(self, expected: list[Tensor]) -> None:
        self._first = self._first or expected
        for at, (old, new) in enumerate(zip(self._first, expected, strict=False)):
            self._seen[at] += new.numel()
            if new.is_floating_point() and len(self._distinct[at]) < FEW:
                self._distinct[at].update(new.reshape(-1)[:_LOOKED_AT].tolist())
            self._varied[at] += old.shape != new.shape or not torch.equal(old, new)

    def remarks(self) -> list[str]:
        """Remarks on outputs that agree."""
        remarks = [
            f"{self._named(at)} on {shown.case}: the error is that of rounding, which the model magnifies; PyTorch's own float32 is as "
            "far from its float64"
            for at, shown in sorted(self._outputs.items())
            if shown.ok and not shown.ties and LIMIT < shown.error < math.inf
        ]
        remarks += [
            f"{self._named(at)} on {case}: PyTorch itself gives nan for {count} elements where the program does not: "
            "that says nothing of either"
            for at, (count, case) in sorted(self._undefined.items())
            if at in self._outputs
        ]
        remarks += [
            f"{self._named(at)} on {case}: undefined elements: {count}, {_BEYOND}: that says nothing of either"
            for at, (count, case) in sorted(self._cast.items())
            if at in self._outputs
        ]
        remarks += [
            f"{self._named(at)} on {case}: {count} integers or truth values differ, among numbers that are equal but for rounding: "
            "that says nothing of either"
            for at, (count, case) in sorted(self._tied.items())
            if at in self._outputs
        ]
        remarks += [
            f"{self._named(at)} on {case}: the model does not run in float64, so that errors are held against {LIMIT:g} of the "
            "largest element of their row"
            for at, case in sorted(self._scaled.items())
            if at in self._outputs
        ]
        remarks += [
            f"{self._named(at)} is the same on all inputs, so that its agreement says little" for at in self._constant
        ]
        return remarks

    def _named(self, at: int) -> str:
        return f"the output {self._outputs[at].path or self._outputs[at].name}"

    def _has_time_for(self, count: int) -> bool:
        """Whether as many more sets of inputs can be compared before the end."""
        return time.monotonic() + count * self._longest <= self._end

    def _compared(
        self, predictor: Program, leaves: Sequence[Any], case: Given, expected: list[Tensor]
    ) -> tuple[float | None, str]:
        try:
            (returned,) = predictor.in_a_row([leaves])
        except Misfit as error:
            if case.inputs is self.inputs:
                raise Undecided(str(error)) from None
            if case.resized:
                self.doubts.append(f"at {case.label} nothing is compared: {error}")
            return None, str(error)
        except RunError as error:
            self._fail(case, expected, str(error))
            return math.inf, str(error)
        outputs = list(self._judged(predictor, returned, expected, case))
        self._keep(self._outputs, outputs)
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

    def _path(self, at: int) -> str:
        return self.reference.paths[at] if at < len(self.reference.paths) else ""

    @staticmethod
    def _keep(known: dict[int, Output], outputs: Sequence[Output]) -> None:
        """Keep the worst comparison of each output."""
        for at, shown in enumerate(outputs):
            if at not in known or (known[at].ok, -known[at].error) > (shown.ok, -shown.error):
                known[at] = shown

    def _judged(
        self,
        predictor: Program,
        returned: Sequence[Tensor],
        expected: Sequence[Tensor],
        case: Given,
        row: Row | None = None,
    ) -> Iterator[Output]:
        row = row or Row((case.inputs,))
        yardstick = Yardstick(self.reference, row, list(expected), len(row.each), self.weights_rounded, self._typical)
        undefined: list[Tensor] | None = None
        if predictor.casts_beyond:
            undefined = self.reference.undefined(row, expected, len(row.each))
        for at, (value, right) in enumerate(zip(returned, expected, strict=False)):
            value = value if undefined is None else but_for(undefined[at], value, right)
            difference = compare(value, right)
            name = predictor.output_names[at]
            seen = Judgement() if difference.got is not None else yardstick.judge(at, value)
            if seen.wrong and not predictor.casts_beyond:
                # Casts of PyTorch's to narrower types than the program has.
                undefined = undefined or self.reference.undefined(row, expected, len(row.each))
                if undefined is not None:
                    value = but_for(undefined[at], value, right)
                    difference, seen = compare(value, right), yardstick.judge(at, value)
            wrong = seen.wrong
            if self._is_evidence(case):
                wrong += seen.undefined
            elif seen.undefined:
                self._undefined.setdefault(at, (seen.undefined, case.label))
                # What is no evidence is no error either.
                difference = compare(but_for(right.isnan(), value, right), right)
            if yardstick.is_scaled:
                self._scaled.setdefault(at, case.label)
            shown = output(name, difference, difference.got is None and not wrong, case.label)
            yield shown._replace(path=self._path(at), wrong=wrong, ties=seen.ties)
            if difference.got is None and not wrong:
                self._doubt(at, seen, case, right.numel())
                self._doubt_casts(at, 0 if undefined is None else int(undefined[at].sum()), case, right.numel())

    def _doubt_casts(self, at: int, count: int, case: Given, size: int) -> None:
        if count and case.usual:
            path = self._path(at)
            name = f"the output {path}" if path else "the output"
            self.doubts.append(f"{name} on {case.label}: undefined elements: {count} of {size}, {_BEYOND}")
        elif count:
            self._cast.setdefault(at, (count, case.label))

    @staticmethod
    def _is_evidence(case: Given) -> bool:
        """Whether a NaN of PyTorch's has to be the program's too: not on inputs that we drew, of a kind the model may not be for."""
        return case.label.partition(",")[0] == EXAMPLE or (case.usual and not case.masks)

    def _doubt(self, at: int, seen: Judgement, case: Given, size: int) -> None:
        path = self._path(at)
        name = f"the output {path}" if path else "the output"
        if seen.ties and case.usual:
            self.doubts.append(
                f"{name} on {case.label}: {seen.ties} of {size} integers or truth values differ, which rounding decides in "
                "PyTorch too"
            )
        elif seen.ties:
            self._tied.setdefault(at, (seen.ties, case.label))
        if seen.unsure and case.usual:
            self.doubts.append(
                f"{name} on {case.label}: the model magnifies rounding, so that PyTorch's own float32 is as far from its float64"
            )

    def _half_compared(
        self,
        predictor: Program,
        row: Sequence[Sequence[Any]],
        case: Given,
        expected: Sequence[Tensor],
        inputs: Row,
    ) -> float | None:
        try:
            returned = predictor.in_a_row(row)[-1]
        except Misfit:
            return None
        except RunError as error:
            self._half_failure = self._half_failure or f"the float16 program cannot be run on {case.label}: {error}"
            return math.inf
        if predictor.casts_beyond:
            undefined = self.reference.undefined(inputs, expected, len(row))
            if undefined is not None:
                returned = [but_for(*parts) for parts in zip(undefined, returned, expected, strict=False)]
        outputs = [
            coarse(name, compare(value, right), case.label)._replace(path=self._path(at))
            for at, (name, value, right) in enumerate(zip(predictor.output_names, returned, expected, strict=False))
        ]
        for at, shown in enumerate(outputs):
            known = self._half.get(at)
            if known is None or (shown.ok, shown.snr) < (known.ok, known.snr):
                self._half[at] = shown
        return worst(outputs)

    def over_steps(self, predictor: Program | None, halved: Program | None, route: str) -> None:
        """Compare several predictions in a row, where the model or the program keeps a state."""
        if self.mismatch is not None or not self._budget:
            return
        if not self._has_time_for(STEPS):
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
            for row in self._further_rows(predictor):
                self._over_row(predictor, None, route, row, is_further=True)
        if self.mismatch is None and program is not None:
            self._over_writes(program, {f"{path}.{name}".lstrip(".") for path, name in written})

    def _further_rows(self, predictor: Program | None) -> Iterator[list[Given]]:
        """Rows of further inputs: what a state does to a later prediction may show on few sequences only."""
        if predictor is None or not predictor.is_stateful or self._fixed_sizes:
            return
        until = time.monotonic() + FURTHER_SECONDS
        cases = further(self.inputs, self._specs, self.seed)
        for _ in range(FURTHER_ROWS):
            row = list(islice(cases, STEPS))
            is_late = time.monotonic() + STEPS * self._longest > until
            if self.mismatch is not None or self._shortest > CHEAP or is_late or not self._has_time_for(STEPS):
                return
            yield row

    def _over_writes(self, predictor: Program, written: set[str]) -> None:
        """Hold the buffers that ``forward`` writes, also where they are the same afterwards, against the states that are written."""
        lost = predictor.buffers.keys() - predictor.updated
        names = sorted({predictor.buffers[state] for state in lost} & written)
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
            except RunError as error:
                self._fail(row[0], runs[0], str(error))
                return
        for count, (case, values, expected) in enumerate(zip(row, returned, runs, strict=True), 1):
            step = case._replace(label=f"{case.label}, prediction {count}")
            outputs: list[Output] = []
            if values is not None and predictor is not None:
                outputs = list(self._judged(predictor, values, expected, step, Row(inputs.each[:count])))
                self._keep(self._outputs, outputs)
            half = (
                None
                if halved is None
                else self._half_compared(halved, leaves[:count], step, expected, Row(inputs.each[:count]))
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
        before = dict(self.model.named_buffers())
        after = self.reference.buffers_after(inputs, predictor.buffers.values())
        for state, name in predictor.buffers.items():
            if name not in after or _is_kept(predictor.states[state], before[name], after[name]):
                continue
            label = f"{case.label.partition(',')[0]}, prediction {len(inputs.each)}"
            if self._is_decided_by_rounding(inputs, name, before[name], after[name]):
                self.doubts.append(f"the state {state} on {label}: rounding decides it in PyTorch too")
                continue
            self._fail(case, expected, f"the state {state} is not what forward leaves in the buffer {name}, on {label}")
            return

    def _is_decided_by_rounding(self, inputs: Row, name: str, before: Tensor, after: Tensor) -> bool:
        """Whether PyTorch itself leaves something else in a buffer where its results are rounded otherwise."""
        others = (self.reference.buffers_after(inputs, [name], seed).get(name) for seed in range(1, STEPS + 1))
        return any(value is not None and not _is_kept(value, before, after) for value in others)

    def judged_half(self) -> bool | None:
        """Whether float16 is precise enough; with random weights that says nothing against it."""
        if self._half_failure:
            return False
        if not self._half:
            return None
        if all(shown.ok for shown in self._half.values()):
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
            return DIFFERS, self._half_failure or "float16 is not precise enough", single
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


def _is_kept(state: Tensor, before: Tensor, after: Tensor) -> bool:
    """Whether a state, kept in float16, is what a buffer has become: by rounding, and within a share of its row."""
    if state.numel() != after.numel() or after.is_complex():
        return True
    value, right, start = (tensor.detach().to(torch.float64).reshape(after.shape) for tensor in (state, after, before))
    # What float16 does not hold is infinite there.
    kept = right.abs() < torch.finfo(torch.float16).max
    if bool((kept & ~value.isfinite() | (right.isnan() & ~value.isnan())).any()):
        return False
    size = torch.maximum(right.abs(), start.abs()).where(kept & start.isfinite(), 0.0)
    row = size.amax(-1, keepdim=True) if size.dim() and size.shape[-1] else size
    allowed = torch.maximum(size * 4 * UNITS[torch.float16], row * OF_STATES)
    return not bool((kept & ((value - right).abs() > allowed)).any())


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
        undefined = undefined & (whole >= limits.min) & (whole <= limits.max)
    return torch.where(undefined, right, value.reshape(right.shape).to(torch.promote_types(value.dtype, right.dtype)))


def _counted(count: int) -> str:
    return "one set of inputs was" if count == 1 else f"{count} sets of inputs were"


def _nothing() -> Program:
    raise Undecided("there is no program to run")


def _same(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and bool(torch.equal(first.nan_to_num(), second.nan_to_num()))
