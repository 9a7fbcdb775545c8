"""Location of a difference: the captured model run in PyTorch, node by node, beside its programs."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from modellint.destinations.comparison.comparison import Mismatch
from modellint.destinations.comparison.output_judgement import EXAMPLE
from modellint.destinations.comparison.program import Misfit
from modellint.destinations.comparison.reference_runs import Raised, nudged
from modellint.destinations.comparison.tensor_difference import compare
from modellint.destinations.coreml.capture.difference_causes import of_capture
from modellint.destinations.coreml.capture.graph_interpreter import NotRun
from modellint.destinations.coreml.capture.node_values import Places, Recorded, plain_name
from modellint.destinations.coreml.mil.executor import ExecutionError
from modellint.destinations.coreml.verify.device_departures import on_devices
from modellint.destinations.coreml.verify.first_difference import compared, first_difference, overflows
from modellint.live.inputs.variants import Case as Given
from modellint.results.verification import Departed, FirstDifference, Layer

if TYPE_CHECKING:
    from modellint.destinations.comparison.comparison import Comparison
    from modellint.destinations.coreml.convert.conversion import Captured
    from modellint.destinations.coreml.package.emulated_predictor import Predictor
    from modellint.live.code.places import Project
    from modellint.live.inputs.model_inputs import Inputs

_NO_RUN = (NotRun, RuntimeError, ValueError, TypeError, IndexError)


class Locator:
    """Search for the first difference: a captured model run beside its programs.

    Args:
        comparison: What has been compared.
        captured: What the programs were made from.
        project: Whose statements differences are placed at.
        by_name: Whether operations are known by the names of their results alone, as in a package.
    """

    def __init__(self, comparison: Comparison, captured: Captured, project: Project, *, by_name: bool = False) -> None:
        self._comparison = comparison
        self._captured = captured
        self._project = project
        self._by_name = by_name
        # Before a run: what is captured may change what modules there are.
        self._places = Places(captured.captured, project, comparison.model)

    def located(
        self, predictor: Predictor, halved: Predictor | None, with_layers: bool
    ) -> tuple[FirstDifference | None, list[Layer]]:
        """Where the programs depart first, and the errors of all operations; these are left out where all is well.

        With ``with_layers`` they are wanted in any case.
        """
        comparison = self._comparison
        mismatch = comparison.mismatch
        if mismatch is None and not with_layers and all(shown.ok for shown in comparison.half):
            return None, []
        case = Given(EXAMPLE, comparison.inputs, True) if mismatch is None else mismatch.case
        count = 1 if mismatch is None else mismatch.predictions
        leaves = comparison.leaves(case.inputs, self._captured.route)
        try:
            recorded = self._recorded(case.inputs, count)
            noise = None if mismatch is None else self._recorded(nudged(case.inputs), count)
        except _NO_RUN as error:
            comparison.notes.append(f"the captured program was not run node by node: {first_line(error)}")
            return (None if mismatch is None else self._of_capture(mismatch)), []
        seen = compared(predictor, leaves, recorded, self._places, count, noise)
        layers = seen.layers
        if halved is not None:
            rounded = compared(halved, leaves, recorded, self._places, count, limit=math.inf)
            layers = _with_half(layers, rounded.layers)
        if mismatch is None:
            return None, layers
        if self._is_captured_otherwise(recorded, mismatch) and (first := self._of_capture(mismatch)) is not None:
            return first, layers
        return first_difference(seen, recorded, self._places, predictor, mismatch.label, mismatch.outputs), layers

    def overflows(self, predictor: Predictor, halved: Predictor | None) -> list[Layer]:
        """Operations of the float16 program whose values float16 cannot hold, on the example."""
        if halved is None:
            return []
        leaves = self._comparison.leaves(self._comparison.inputs, self._captured.route)
        try:
            return overflows(predictor, halved, leaves, self._captured.captured, self._places)
        except (ExecutionError, Misfit):
            return []

    def departed(self, *programs: Predictor | None) -> tuple[Departed, ...]:
        """What devices are known to compute otherwise, of what the programs have run."""
        met = [program.executor.departures for program in programs if program is not None]
        return tuple(on_devices(ChainMap(*met), self._captured.captured, self._places))

    def random_step(self) -> FirstDifference | None:
        """The first node that draws random numbers."""
        try:
            recorded = self._recorded(self._comparison.inputs, 1)
        except _NO_RUN:
            return None
        step = next((step for step in recorded.steps if step.is_random), None)
        if step is None:
            return None
        place, module = self._places.of(step.node)
        message = f"{step.operator} draws random numbers"
        return FirstDifference("random", message, None, None, step.operator, place, module, 0.0, (), EXAMPLE)

    def _recorded(self, inputs: Inputs, count: int) -> Recorded:
        comparison = self._comparison
        with comparison.reference.restored(inputs):
            torch.manual_seed(comparison.seed)
            leaves = comparison.leaves(inputs, self._captured.route)
            return Recorded(self._captured.captured, leaves, count, self._by_name)

    def _is_captured_otherwise(self, recorded: Recorded, mismatch: Mismatch) -> bool:
        """Whether what was captured already computes something else than the model."""
        if len(recorded.outputs) != len(mismatch.expected):
            return False
        pairs = zip(recorded.outputs, mismatch.expected, strict=True)
        return any(
            not compare(value, right).agrees()
            for at, (value, right) in enumerate(pairs)
            if not mismatch.outputs or at in mismatch.outputs
        )

    def _of_capture(self, mismatch: Mismatch) -> FirstDifference | None:
        comparison = self._comparison
        try:
            changed = comparison.reference.written(mismatch.case.inputs)
        except Raised:
            changed = []
        of_values = self._captured.taken if mismatch.case.inputs is not comparison.inputs or not changed else ()
        if of_values and mismatch.predictions == 1:
            changed = []
        return of_capture(changed, of_values, comparison.model, self._project, mismatch.label)


def _with_half(layers: Sequence[Layer], halves: Sequence[Layer]) -> list[Layer]:
    errors = {plain_name(layer): layer.error for layer in halves}
    return [layer._replace(half=errors.get(plain_name(layer))) for layer in layers]


def first_line(error: BaseException) -> str:
    """An exception in short."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}"[:200]
