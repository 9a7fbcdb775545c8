"""A model against its converted programs, on one set of inputs after another."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from modellint.coreml.capture_routes import arguments
from modellint.coreml.mil.compare import LIMIT, SNR, Difference, compare
from modellint.coreml.mil.executor import ExecutionError
from modellint.coreml.predictor import Misfit, Predictor
from modellint.coreml.reference import NUDGE, STEPS, Raised, Reference, copied
from modellint.coreml.untrained import untrained
from modellint.coreml.verification import Case, Output, worst
from modellint.coreml.where import ABOVE_NOISE
from modellint.live.variants import Case as Given
from modellint.live.variants import variants

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs import InputSpec
    from modellint.live.subject import Inputs

EXAMPLE = "the example"
_NEARLY_ZERO = 1e-7
_OF_STATES = "states start with the values of the model's buffers here; Core ML starts them at zero"
_DRAWS = 6
_WIDE = 10 * NUDGE
"""What rounding may become on inputs that are nothing like the example: there a softmax is a choice, and any step may tip it."""


class Undecided(Exception):
    """Nothing can be said; the message says why."""


class Mismatch(NamedTuple):
    """A comparison that failed."""

    case: Given
    label: str
    predictions: int
    """After how many in a row."""
    outputs: tuple[int, ...]
    """The positions of the outputs that differ; empty where the program could not be run."""
    expected: list[Tensor]


class Comparison:
    """What has been compared, and how it came out.

    Args:
        model: Of any mode; it is run in evaluation mode, and left as it was.
        inputs: The example; more are made after it.
        specs: What the example was made from, for the ranges of integers.
        seed: Where random numbers start.
        budget: Seconds after which no further inputs are begun; with 0 only the example is compared.
        cases: The sets of inputs, the example first; default: those of ``variants``.
        end: The time, of ``time.monotonic``, by which to be done: what would take longer is left out.
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
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.seed = seed
        self.reference = Reference(model, seed)
        self.notes: list[str] = []
        self.cases: list[Case] = []
        self.mismatch: Mismatch | None = None
        """The first."""
        self.failure = ""
        """What is wrong with a program that has no outputs to compare."""
        self.limit = LIMIT
        """The error over the scale at which an output is looked at again."""
        self._given = variants(inputs, specs, seed) if cases is None else cases
        self._budget = budget
        self._end = end
        self.after: Callable[[], None] | None = None
        """Called after each set of inputs."""
        self._longest = 0.0
        self._outputs: dict[int, Output] = {}
        self._half: dict[int, Output] = {}
        self._scales: list[float] = []
        self._magnified: set[int] = set()
        self._first: list[Tensor] = []
        self._varied: set[int] = set()

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

    def predictor(self, program: Any) -> Predictor:
        """What runs a converted program. Raises ``UnknownOperations``."""
        predictor = Predictor(program, dict(self.model.named_buffers()))
        if predictor.is_stateful and _OF_STATES not in self.notes:
            self.notes.append(_OF_STATES)
        return predictor

    def leaves(self, inputs: Inputs, route: str) -> list[Any]:
        """The inputs, flat, as a program takes them that was captured by that route."""
        leaves: list[Any] = copied(arguments(self.model, inputs, "trace" if route == "trace" else "export"))
        return leaves

    def over_cases(self, predictor: Predictor, halved: Predictor | None, route: str) -> None:
        """Compare on the example and on inputs like it. Raises ``Undecided`` where the program takes others."""
        deadline = time.monotonic() + self._budget
        for case in self._given:
            began = time.monotonic()
            if self.cases and (began > deadline or not self._has_time_for(1)):
                if self._budget:
                    self.notes.append(f"only {_counted(len(self.cases))} compared, for want of time")
                return
            try:
                expected = self.reference(case.inputs)
            except Raised as error:
                self.cases.append(Case(case.label, None, note=str(error)))
                continue
            self._look(expected)
            leaves = self.leaves(case.inputs, route)
            largest, note = self._compared(predictor, leaves, case, expected)
            half = None
            if halved is not None and case.usual:
                half = self._half_compared(halved, leaves, case, expected)
            self.cases.append(Case(case.label, largest, half, note))
            self._longest = max(self._longest, time.monotonic() - began)
            if self.after is not None:
                self.after()

    def _look(self, expected: list[Tensor]) -> None:
        self._first = self._first or expected
        pairs = enumerate(zip(self._first, expected, strict=False))
        self._varied.update(at for at, (one, other) in pairs if one.shape != other.shape or not torch.equal(one, other))

    def remarks(self) -> list[str]:
        """What is to be known about outputs that agree."""
        found = [
            f"{self._named(at)} on {self._outputs[at].case}: the error is that of rounding, which the model magnifies; "
            "on inputs changed by rounding PyTorch is as far from itself"
            for at in sorted(self._magnified)
            if at in self._outputs and self._outputs[at].ok
        ]
        if sum(one.error is not None for one in self.cases) > 1:
            found += [
                f"{self._named(at)} is the same on all inputs, so that its agreement says little"
                for at in range(len(self._first))
                if at not in self._varied and at in self._outputs
            ]
        return found

    def _named(self, at: int) -> str:
        return f"the output {self._outputs[at].path or self._outputs[at].name}"

    def _has_time_for(self, count: int) -> bool:
        """Whether as many more sets of inputs can be compared before the end."""
        return time.monotonic() + count * self._longest <= self._end

    def _compared(
        self, predictor: Predictor, leaves: Sequence[Any], case: Given, expected: list[Tensor]
    ) -> tuple[float | None, str]:
        try:
            (found,) = predictor(leaves)
        except Misfit as error:
            if case.inputs is self.inputs:
                raise Undecided(str(error)) from None
            return None, str(error)
        except ExecutionError as error:
            self._fail(case, expected, str(error))
            return math.inf, str(error)
        outputs = list(self._judged(predictor, found, expected, case))
        self._keep(self._outputs, outputs)
        bad = tuple(at for at, one in enumerate(outputs) if not one.ok)
        if len(found) != len(expected):
            self._fail(case, expected, f"the model returns {len(expected)} tensors, the program {len(found)}")
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
        """Of each output the comparison that is worst."""
        for at, one in enumerate(outputs):
            if at not in known or (known[at].ok, -known[at].error) > (one.ok, -one.error):
                known[at] = one

    def _judged(
        self,
        predictor: Predictor,
        found: Sequence[Tensor],
        expected: Sequence[Tensor],
        case: Given,
        count: int = 1,
    ) -> Iterator[Output]:
        differences = [compare(value, right) for value, right in zip(found, expected, strict=False)]
        if not self._scales:
            self._scales = [one.scale for one in differences]
        noises: list[list[float]] = []
        for at, one in enumerate(differences):
            ok = one.agrees(self.limit) or (
                at < len(self._scales) and one.max_abs_error <= _NEARLY_ZERO * self._scales[at]
            )
            if not ok and one.got is None and not math.isinf(one.max_abs_error):
                ok = self._is_rounding(at, one, expected, case, count, noises)
            yield output(predictor.output_names[at], one, ok, case.label)._replace(path=self._path(at))

    def _is_rounding(
        self, at: int, one: Difference, expected: Sequence[Tensor], case: Given, count: int, noises: list[list[float]]
    ) -> bool:
        """Whether the model itself is no surer of its output ``at``; ``noises`` keeps what was found about all of them."""
        size = NUDGE if case.usual else _WIDE
        for level, (draws, wide) in enumerate(((1, NUDGE), (_DRAWS, size))):
            if level == len(noises):
                noises.append(self.reference.noise(case.inputs, expected, count, draws, wide))
            noise = noises[level][at]
            # Of indices that rounding moves, the distance says nothing.
            if noise > 0 if one.discrete else one.max_abs_error <= ABOVE_NOISE * noise:
                self._magnified.add(at)
                return True
        return False

    def _half_compared(
        self, predictor: Predictor, leaves: Sequence[Any], case: Given, expected: Sequence[Tensor], count: int = 1
    ) -> float | None:
        try:
            found = predictor(leaves, count)[-1]
        except Misfit:
            return None
        except ExecutionError as error:
            note = f"the float16 program cannot be run: {error}"
            if note not in self.notes:
                self.notes.append(note)
            return math.inf
        outputs = [
            coarse(name, value, right, case.label)._replace(path=self._path(at))
            for at, (name, value, right) in enumerate(zip(predictor.output_names, found, expected, strict=False))
        ]
        for at, one in enumerate(outputs):
            known = self._half.get(at)
            if known is None or (one.ok, one.snr) < (known.ok, known.snr):
                self._half[at] = one
        return worst(outputs)

    def over_steps(self, predictor: Predictor, halved: Predictor | None, route: str) -> None:
        """Compare several predictions in a row, where the model or the program keeps a state."""
        if self.mismatch is not None or not self._budget:
            return
        if not self._has_time_for(STEPS):
            self.notes.append("several predictions in a row were not compared, for want of time")
            return
        try:
            runs = self.reference.steps(self.inputs, STEPS)
        except Raised as error:
            self.notes.append(f"a second run in a row raises {error}")
            return
        varies = any(not _same(a, b) for run in runs[1:] for a, b in zip(runs[0], run, strict=False))
        if not varies and not predictor.is_stateful:
            return
        case = Given(EXAMPLE, self.inputs, True)
        leaves = self.leaves(self.inputs, route)
        try:
            found = predictor(leaves, STEPS)
        except ExecutionError as error:
            self._fail(case, runs[0], str(error))
            return
        for count, (values, expected) in enumerate(zip(found, runs, strict=True), 1):
            label = f"{EXAMPLE}, prediction {count}"
            outputs = list(self._judged(predictor, values, expected, case._replace(label=label), count))
            self._keep(self._outputs, outputs)
            half = None
            if halved is not None:
                half = self._half_compared(halved, leaves, case._replace(label=label), expected, count)
            self.cases.append(Case(label, worst(outputs), half))
            bad = tuple(at for at, one in enumerate(outputs) if not one.ok)
            if bad:
                self.mismatch = Mismatch(case, label, count, bad, expected)
                return

    def judged_half(self) -> bool | None:
        """Whether float16 is precise enough; with random weights that says nothing against it."""
        if not self._half:
            return None
        if all(one.ok for one in self._half.values()):
            return True
        why = untrained(self.model)
        if why:
            self.notes.append(
                f"float16 is not precise enough here, but the weights look untrained ({why}): ask again with trained ones"
            )
            return None
        return False

    def forget_single(self) -> None:
        """What was compared is a float16 program: there is no float32 one."""
        self._outputs.clear()


def coarse(name: str, value: Tensor, right: Tensor, case: str) -> Output:
    """An output of a program that does not compute in float32, judged by its ratio of signal to noise."""
    one = compare(value, right)
    # A class that is as likely as another may change with the precision.
    return output(name, one, one.got is None and (one.discrete or one.snr >= SNR), case)


def output(name: str, one: Difference, ok: bool, case: str) -> Output:
    """A difference as it is shown."""
    return Output(
        name,
        one.shape,
        one.dtype,
        one.max_abs_error,
        one.max_rel_error,
        one.error,
        one.scale,
        one.snr,
        one.cosine,
        one.non_finite,
        ok,
        case,
        one.got,
    )


def _counted(count: int) -> str:
    return "one set of inputs was" if count == 1 else f"{count} sets of inputs were"


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(torch.equal(one.nan_to_num(), other.nan_to_num()))
