"""Verification of a live model's conversion: converted, executed, and compared with PyTorch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.destinations.comparison.comparison import Undecided
from modellint.destinations.comparison.output_judgement import EXAMPLE, coarse
from modellint.destinations.comparison.reference_runs import copied_inputs
from modellint.destinations.comparison.tensor_difference import compare
from modellint.destinations.coreml.capture.difference_causes import left_in_training
from modellint.destinations.coreml.capture.shared_captures import SharedCaptures
from modellint.destinations.coreml.convert.conversion import Captured, Converted, NotConverted, captures, convert
from modellint.destinations.coreml.mil.executor import UnknownOperations
from modellint.destinations.coreml.package import core_ml_runtime as runtime
from modellint.destinations.coreml.package.emulated_predictor import computes_in_half, keeps_states
from modellint.destinations.coreml.recorded_case.recorder import Recorder
from modellint.destinations.coreml.verify.difference_location import Locator, first_line
from modellint.destinations.coreml.verify.first_difference import of_precision
from modellint.destinations.coreml.verify.program_comparison import ProgramComparison
from modellint.results.verification import AGREES, DIFFERS, NOT_CONVERTED, UNDECIDED, Output, Verification

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.coreml.package.emulated_predictor import Predictor
    from modellint.live.code.places import Project
    from modellint.live.inputs.input_spec import InputSpec
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.settings import Destination

BUDGET = 60.0
"""Seconds after which no further inputs are begun."""
_DIFFERS = "the converted program computes something else"
_AND_COMPARE = 2.5
"""Of the time that one conversion took what there must be for the other one, and for comparing."""
DROPOUT = "dropout is on in evaluation mode, and coremltools leaves it out; without it the program agrees"
RANDOM = "the model draws random numbers in evaluation mode, so that its outputs cannot be compared"


def verify(
    model: nn.Module,
    inputs: Inputs,
    destination: Destination,
    project: Project,
    *,
    specs: Sequence[InputSpec] = (),
    seed: int = 0,
    with_layers: bool = False,
    budget: float = BUDGET,
    limit: float = math.inf,
    progress: Callable[[str], None] | None = None,
    partly: Callable[[Verification], None] | None = None,
    captures: SharedCaptures | None = None,
    record: Path | None = None,
) -> Verification:
    """Convert a model, execute its programs, and compare them with PyTorch; the model is left as it was.

    Args:
        model: Of any mode; it is captured and run in evaluation mode.
        inputs: The example; more are made after it.
        destination: Front end, deployment target and precision.
        project: Whose statements differences are placed at.
        specs: What the example was made from, for the ranges of integers.
        seed: Where random numbers start.
        with_layers: Whether the errors of all operations are wanted where the programs agree too.
        budget: Seconds after which no further inputs are begun.
        limit: Seconds that there are: what would take longer, as far as that can be told, is left out.
        progress: Told what is done, as in ``comparing``.
        partly: Told what is known so far, after each set of inputs.
        captures: Of the model as it is, shared with its dry run.
        record: The folder that a case for a device is written to, the converted package with it.
    """
    began = time.monotonic()
    captures = captures or SharedCaptures()
    comparison = ProgramComparison(model, inputs, specs, seed, budget, end=began + limit)
    work = _Verifier(comparison, destination, project, with_layers, began + limit, progress, captures, record)
    if partly is not None:
        comparison.after = lambda: partly(so_far(comparison, work.route))
    result = work.result()
    took = time.monotonic() - began
    if destination.frontend == "auto" and (result.route, result.single) == ("trace", DIFFERS) and budget:
        if 2 * took > limit:
            return result
        if partly is not None:
            partly(result)
        by_export = destination._replace(frontend="export", precision="fp32")
        again = verify(
            model,
            inputs,
            by_export,
            project,
            specs=specs,
            seed=seed,
            budget=budget / 2,
            limit=limit - took,
            captures=captures,
        )
        if again.ok:
            return replace(
                result, notes=(*result.notes, "by torch.export (--frontend export) the float32 program agrees")
            )
    return result


def verification_of(comparison: ProgramComparison, verdict: str, reason: str, route: str, **rest: Any) -> Verification:
    """A result with what has been compared so far."""
    return Verification(
        verdict,
        reason,
        route,
        comparison.outputs,
        comparison.half,
        cases=tuple(comparison.cases),
        notes=(*comparison.notes, *comparison.remarks(), *comparison.turned()),
        **rest,
    )


def so_far(comparison: ProgramComparison, route: str) -> Verification:
    """The result if nothing more comes."""
    if comparison.mismatch is None:
        return verification_of(comparison, UNDECIDED, "not everything was compared", route)
    return verification_of(comparison, DIFFERS, comparison.failure or _DIFFERS, route)


class _Verifier:
    """One verification in progress."""

    def __init__(
        self,
        comparison: ProgramComparison,
        destination: Destination,
        project: Project,
        with_layers: bool,
        end: float,
        progress: Callable[[str], None] | None,
        captures: SharedCaptures,
        record: Path | None = None,
    ) -> None:
        self._record = record
        self._captures = captures
        self._comparison = comparison
        self._destination = destination
        self._project = project
        self._with_layers = with_layers
        self._end = end
        self._progress = progress or _silent
        self._half_missing = ""
        self.route = ""
        """How the model was captured, once that is known."""

    def result(self) -> Verification:
        """Convert, run and compare."""
        try:
            return self._judged()
        except NotConverted as error:
            return self._verification(NOT_CONVERTED, str(error))
        except Undecided as error:
            return self._verification(UNDECIDED, str(error))

    def _verification(self, verdict: str, reason: str, **rest: Any) -> Verification:
        return verification_of(self._comparison, verdict, reason, self.route, **rest)

    def _judged(self) -> Verification:
        comparison = self._comparison
        self._progress("running")
        is_random = comparison.is_random()
        captured, single, half = self._converted()
        self.route = single.route
        locator = Locator(comparison, captured, self._project)
        try:
            predictor = comparison.predictor(single.program)
            halved = None if half is None else comparison.predictor(half.program)
            if keeps_states(single.program) and not computes_in_half(single.program):
                halved = halved or predictor
                predictor = predictor.unrounded()
        except UnknownOperations as error:
            raise Undecided(f"the program cannot be executed: {error}") from None
        if is_random and comparison.reference.drops:
            return self._verification(UNDECIDED, RANDOM, first_difference=locator.random_step())
        recorder = None if self._record is None else Recorder(comparison, halved or predictor, captured.route)
        self._progress("comparing")
        comparison.over_cases(predictor, halved, captured.route)
        comparison.over_steps(predictor, halved, captured.route)
        if recorder is not None and recorder.has_outputs:
            self._write(recorder, single if half is None else half)
        first, layers = locator.located(predictor, halved, self._with_layers)
        spilled = locator.overflows(predictor, halved)
        half_ok = comparison.judged_half()
        verdict, reason, alone = comparison.verdict(half_ok, self._half_missing)
        if verdict == DIFFERS and comparison.mismatch is not None:
            reason = reason or _DIFFERS
        elif is_random:
            first, verdict, alone = locator.random_step(), DIFFERS, DIFFERS
            reason = DROPOUT
        elif (hidden := left_in_training(comparison.model, comparison.inputs, self._project)) is not None:
            first, verdict, alone, reason = (
                hidden,
                DIFFERS,
                DIFFERS,
                "a part of the model is converted in training mode",
            )
        by_core_ml = self._by_core_ml(single if half is None else half, predictor)
        if any(not shown.ok for shown in by_core_ml) and verdict == AGREES:
            verdict, reason = DIFFERS, "Core ML computes something else"
        if first is None and half_ok is False:
            first = of_precision(spilled, layers)
        return self._verification(
            verdict,
            reason,
            runtime=tuple(by_core_ml),
            half_ok=half_ok,
            single=alone,
            first_difference=first,
            layers=tuple(layers) if self._with_layers else (),
            overflows=tuple(spilled),
            departures=locator.departed(predictor, halved),
        ).on_devices()

    def _write(self, recorder: Recorder, converted: Converted) -> None:
        """Write the case, with the package that was converted."""
        assert self._record is not None
        folder = self._record
        folder.mkdir()
        package = folder / f"{type(self._comparison.model).__name__}.mlpackage"
        converted.mlmodel.save(str(package))
        recorder.write(folder, package, converted.mlmodel.get_spec())

    def _converted(self) -> tuple[Captured, Converted, Converted | None]:
        """The programs in float32, and in float16 where that is asked for, by the first route that gives them."""
        comparison = self._comparison
        frontend = self._destination.frontend
        failures: list[NotConverted] = []
        for route in ("trace", "export") if frontend == "auto" else (frontend,):
            with comparison.reference.restored(comparison.inputs):
                try:
                    inputs = copied_inputs(comparison.inputs)
                    with captures(comparison.model, inputs, self._destination, route, shared=self._captures) as forms:
                        for captured in forms:
                            try:
                                return captured, *self._both(captured)
                            except NotConverted as error:
                                failures.append(error)
                except NotConverted as error:
                    failures.append(error)
        said = [f"{failure.route}: {failure}" for failure in failures]
        raise NotConverted(failures[-1].route, failures[-1].stage, "; ".join(dict.fromkeys(said)))

    def _both(self, captured: Captured) -> tuple[Converted, Converted | None]:
        self._progress("converting to float32")
        began = time.monotonic()
        single = convert(captured, self._destination, "fp32")
        took = time.monotonic() - began
        if self._destination.precision == "fp32":
            return single, None
        if time.monotonic() + _AND_COMPARE * took > self._end:
            self._half_missing = (
                f"float16 was not compared for want of time, as the float32 conversion took {took:.0f} s: "
                "give more with --timeout"
            )
            return single, None
        self._progress("converting to float16")
        return single, convert(captured, self._destination, "fp16")

    def _by_core_ml(self, converted: Converted, predictor: Predictor) -> list[Output]:
        """What Core ML itself computes of the example, where it is installed."""
        if not runtime.is_available() or predictor.is_stateful:
            return []
        comparison = self._comparison
        try:
            expected = comparison.reference(comparison.inputs)
            arguments = predictor.named(comparison.leaves(comparison.inputs, converted.route))
            predicted = runtime.predicted(converted.mlmodel, arguments, predictor.output_names)
        except Exception as error:
            # Whatever the system's own compiler and runtime say.
            comparison.notes.append(f"Core ML did not run the model: {first_line(error)}")
            return []
        return [
            coarse(name, compare(value, right), EXAMPLE)
            for name, value, right in zip(predictor.output_names, predicted, expected, strict=False)
        ]


def _silent(stage: str) -> None:
    """Report no progress."""
