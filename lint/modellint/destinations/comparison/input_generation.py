"""Test generation: further inputs for a comparison, by how little outputs have told, by branch coverage and by boundary values."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from modellint.destinations.comparison.program import Misfit, Program, RunError
from modellint.destinations.comparison.reference_runs import STEPS
from modellint.live.inputs.branch_boundary_sizes import sizes, thresholds
from modellint.live.inputs.variants import Case as Given
from modellint.live.inputs.variants import further, lengths, scaled

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs.input_spec import InputSpec
    from modellint.live.inputs.model_inputs import Inputs

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


class CaseTimes:
    """How long sets of inputs took; the first one takes more than those that follow.

    Args:
        end: The time, of ``time.monotonic``, by which to be done.
    """

    def __init__(self, end: float) -> None:
        self._end = end
        self.longest = 0.0
        self.shortest = math.inf

    def add(self, took: float) -> None:
        """Take note of one."""
        self.longest, self.shortest = max(self.longest, took), min(self.shortest, took)

    def allow(self, count: int) -> bool:
        """Whether as many more sets of inputs can be compared before the end."""
        return time.monotonic() + count * self.longest <= self._end


class OutputVariety:
    """How much the model's outputs have told so far: of how many elements, and of how many values, they were."""

    def __init__(self) -> None:
        self.first: list[Tensor] = []
        """The outputs on the first inputs."""
        self._varied: Counter[int] = Counter()
        """On how many inputs each output is another than on the first."""
        self._seen: Counter[int] = Counter()
        """How many elements of each output were compared."""
        self._distinct: defaultdict[int, set[float]] = defaultdict(set)
        """Distinct elements of each float output, up to a number that tells enough."""

    def look(self, outputs: list[Tensor]) -> None:
        """Take note of the outputs on one set of inputs."""
        self.first = self.first or outputs
        for at, (old, new) in enumerate(zip(self.first, outputs, strict=False)):
            self._seen[at] += new.numel()
            if new.is_floating_point() and len(self._distinct[at]) < FEW:
                self._distinct[at].update(new.reshape(-1)[:_LOOKED_AT].tolist())
            self._varied[at] += old.shape != new.shape or not torch.equal(old, new)

    @property
    def is_little(self) -> bool:
        """Whether an output of few elements, or of few values, has told little."""
        return any(
            self._seen[at] < FEW
            or (len(self._distinct[at]) < FEW if first.is_floating_point() else self._varied[at] < STEPS)
            for at, first in enumerate(self.first)
        )

    @property
    def constant(self) -> list[int]:
        """The outputs that are the same on all inputs."""
        return [at for at in range(len(self.first)) if not self._varied[at]]


class InputGenerator:
    """Inputs beside those of the same sizes as the example's, made as long as they may tell something.

    Args:
        inputs: The example.
        specs: What the example was made from, for the ranges of integers.
        seed: Where random numbers start.
        variety: What the outputs have told.
        times: How long sets of inputs took.
    """

    def __init__(
        self,
        inputs: Inputs,
        specs: Sequence[InputSpec],
        seed: int,
        variety: OutputVariety,
        times: CaseTimes,
    ) -> None:
        self._inputs = inputs
        self._specs = specs
        self._seed = seed
        self._variety = variety
        self._times = times

    def other_sizes(self, model: nn.Module, program: Program, left: list[str]) -> Iterator[Given]:
        """Other sizes of what is flexible, chosen by what the model and the program hold sizes against."""
        if not self._inputs.flexible:
            return
        known = thresholds(model).joined(program.thresholds)
        yield from lengths(self._inputs, self._specs, self._seed, lambda low, high: sizes(low, high, known), left)

    def further(
        self, predictor: Program, leaves: Callable[[Inputs], list[Any]], is_over: Callable[[], bool]
    ) -> Iterator[Given]:
        """Further inputs, as long as an output of few elements, or of few values, has told little, or as they reach more branches.

        Args:
            predictor: The program.
            leaves: Inputs, flat, as it takes them.
            is_over: Whether nothing more has to be found out.
        """
        until = time.monotonic() + FURTHER_SECONDS
        unreached, idle = predictor.unreached, 0
        chooses = predictor.sides > 0 or any(not first.is_floating_point() for first in self._variety.first)
        for case in further(self._inputs, self._specs, self._seed):
            if is_over() or time.monotonic() + self._times.longest > until:
                return
            is_cheap = chooses and self._times.shortest < CHEAP
            if not is_cheap and not self._variety.is_little and not (unreached and idle < IDLE):
                return
            yield case
            idle = 0 if predictor.unreached < unreached else idle + 1
            unreached = predictor.unreached
        yield from self._near_boundaries(predictor, leaves, is_over, until)

    def _near_boundaries(
        self,
        predictor: Program,
        leaves: Callable[[Inputs], list[Any]],
        is_over: Callable[[], bool],
        until: float,
    ) -> Iterator[Given]:
        """Inputs on both sides of where a bound or a comparison turns, and close to it, of programs that are quickly run.

        Between two scales of the example at which another number of elements passes a bound, it turns at some scale, which is
        found by bisection: a bound that is a little off is seen there, and hardly elsewhere.
        """
        if not predictor.sides or predictor.is_stateful:
            return

        def counted(scale: float) -> Mapping[Any, tuple[int, ...]]:
            return predictor.counted(leaves(scaled(self._inputs, scale, self._specs)))

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
                        if is_over() or time.monotonic() + self._times.longest > until:
                            return
                        yield Given(f"the example times {scale:.4g}", scaled(self._inputs, scale, self._specs), False)
        except (Misfit, RunError):
            # The inputs of such a scale are not for this program.
            return

    def further_rows(self, is_over: Callable[[], bool]) -> Iterator[list[Given]]:
        """Rows of further inputs: what a state does to a later prediction may show on few sequences only."""
        until = time.monotonic() + FURTHER_SECONDS
        cases = further(self._inputs, self._specs, self._seed)
        for _ in range(FURTHER_ROWS):
            row = list(islice(cases, STEPS))
            is_late = time.monotonic() + STEPS * self._times.longest > until
            if is_over() or self._times.shortest > CHEAP or is_late or not self._times.allow(STEPS):
                return
            yield row
