"""A live model to the verdict on its conversion: converted, executed, and compared with PyTorch."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from modellint.coreml import runtime
from modellint.coreml.capture_routes import arguments
from modellint.coreml.conversion import Captured, Converted, NotConverted, captures, convert
from modellint.coreml.graph_run import NotRun
from modellint.coreml.mil.compare import LIMIT, SNR, Difference, compare
from modellint.coreml.mil.executor import ExecutionError, UnknownOperations
from modellint.coreml.predictor import Misfit, Predictor
from modellint.coreml.private_mil import PackageError, images, is_rounded, read_package
from modellint.coreml.reference import STEPS, Raised, Reference, copied, nudged
from modellint.coreml.untrained import untrained
from modellint.coreml.verification import (
    AGREES,
    DIFFERS,
    NOT_CONVERTED,
    UNDECIDED,
    Case,
    FirstDifference,
    Layer,
    Output,
    Verification,
    worst,
)
from modellint.coreml.where import (
    ABOVE_NOISE,
    Places,
    Recorded,
    compared,
    first_difference,
    left_in_training,
    of_capture,
    of_precision,
    overflows,
    plain_name,
)
from modellint.live.variants import Case as Given
from modellint.live.variants import variants
from modellint.settings import Destination

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs import InputSpec
    from modellint.live.place import Project
    from modellint.live.subject import Inputs

BUDGET = 60.0
"""Seconds after which no further inputs are begun."""
_NEARLY_ZERO = 1e-7
_STATE_ERROR = 5e-3
_HALF_ERROR = 0.03
"""The error over the scale at which a package that computes in float16, or has compressed weights, is looked at."""


class _Undecided(Exception):
    """Nothing can be said; the message says why."""


class _Mismatch(NamedTuple):
    """A comparison that failed."""

    case: Given
    label: str
    predictions: int
    """After how many in a row."""
    outputs: tuple[int, ...]
    """The positions of the outputs that differ; empty where the program could not be run."""
    expected: list[Tensor]


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
    progress: Callable[[str], None] | None = None,
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
        progress: Told what is done: ``converting``, ``comparing``.
    """
    work = _Verifier(model, inputs, destination, project, specs, seed, with_layers, budget, progress or _silent)
    try:
        found = work.result()
    except _Undecided as error:
        return work.told(UNDECIDED, str(error))
    if destination.frontend == "auto" and (found.route, found.verdict) == ("trace", DIFFERS) and budget:
        other = destination._replace(frontend="export", precision="fp32")
        if verify(model, inputs, other, project, specs=specs, seed=seed, budget=budget / 2).ok:
            return replace(
                found, notes=(*found.notes, "by torch.export (--frontend export) the float32 program agrees")
            )
    return found


def verify_package(
    model: nn.Module,
    inputs: Inputs,
    path: str,
    project: Project,
    *,
    specs: Sequence[InputSpec] = (),
    seed: int = 0,
    with_layers: bool = False,
    budget: float = BUDGET,
) -> Verification:
    """Compare a saved package with the model that it is said to be of; the rest is as for ``verify``."""
    work = _Verifier(model, inputs, Destination(), project, specs, seed, with_layers, budget, _silent)
    try:
        return work.result_of(path)
    except (_Undecided, PackageError) as error:
        return work.told(UNDECIDED, str(error))


class _Verifier:
    """One model on its way."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Inputs,
        destination: Destination,
        project: Project,
        specs: Sequence[InputSpec],
        seed: int,
        with_layers: bool,
        budget: float,
        progress: Callable[[str], None],
    ) -> None:
        self._progress = progress
        self._model = model
        self._inputs = inputs
        self._destination = destination
        self._project = project
        self._specs = specs
        self._seed = seed
        self._with_layers = with_layers
        self._budget = budget
        self._deadline = 0.0
        self._reference = Reference(model, seed)
        self._route = ""
        self._notes: list[str] = []
        self._cases: list[Case] = []
        self._outputs: dict[int, Output] = {}
        self._half: dict[int, Output] = {}
        self._scales: list[float] = []
        self._mismatch: _Mismatch | None = None
        self._failure = ""
        self._limit = LIMIT

    def told(self, verdict: str, reason: str = "", **rest: Any) -> Verification:
        """A result with what is known so far."""
        return Verification(
            verdict,
            reason,
            self._route,
            tuple(self._outputs[at] for at in sorted(self._outputs)),
            tuple(self._half[at] for at in sorted(self._half)),
            cases=tuple(self._cases),
            notes=tuple(self._notes),
            **rest,
        )

    def result(self) -> Verification:
        """Convert, run and compare."""
        self._progress("converting")
        is_random = self._is_random()
        try:
            captured, single, half = self._converted()
        except NotConverted as error:
            return self.told(NOT_CONVERTED, str(error))
        self._route = single.route
        places = Places(captured.captured, self._project, self._model)
        try:
            predictor = self._predictor(single)
            halved = None if half is None else self._predictor(half)
        except UnknownOperations as error:
            raise _Undecided(f"the program cannot be executed: {error}") from None
        if is_random and self._reference.drops:
            first = self._random_step(captured, places)
            reason = "the model draws random numbers in evaluation mode, so that its outputs cannot be compared"
            return self.told(UNDECIDED, reason, first_difference=first)
        self._progress("comparing")
        self._deadline = time.monotonic() + self._budget
        self._compare_cases(predictor, halved, captured.route)
        self._compare_steps(predictor, captured.route)
        first, layers = self._located(captured, predictor, halved, places)
        spilled = self._overflows(captured, predictor, halved, places)
        verdict, reason = AGREES, ""
        if self._mismatch is not None:
            verdict, reason = DIFFERS, self._failure or "the converted program computes something else"
        elif is_random:
            first = self._random_step(captured, places)
            verdict = DIFFERS
            reason = "dropout is on in evaluation mode, and coremltools leaves it out; without it the program agrees"
        elif (hidden := left_in_training(self._model, self._inputs, self._project)) is not None:
            first, verdict, reason = hidden, DIFFERS, "a part of the model is converted in training mode"
        half_ok = self._judged_half()
        by_core_ml = self._by_core_ml(single if half is None else half, predictor)
        if any(not one.ok for one in by_core_ml) and verdict == AGREES:
            verdict, reason = DIFFERS, "Core ML computes something else"
        if first is None and half_ok is False:
            first = of_precision(spilled, layers)
            reason = reason or "float16 is not precise enough"
        return self.told(
            verdict,
            reason,
            runtime=tuple(by_core_ml),
            half_ok=half_ok,
            first_difference=first,
            layers=tuple(layers) if self._with_layers else (),
            overflows=tuple(spilled),
        )

    def result_of(self, path: str) -> Verification:
        """Run the program of a package, and compare."""
        program, spec = read_package(path)
        self._route = "package"
        taken = images(spec)
        if taken:
            raise _Undecided(f"the package takes images ({', '.join(taken)}), whose scaling the model does not tell")
        is_random = self._is_random()
        if is_random and self._reference.drops:
            raise _Undecided(
                "the model draws random numbers in evaluation mode, so that its outputs cannot be compared"
            )
        try:
            predictor = Predictor(program, dict(self._model.named_buffers()), self._names())
        except UnknownOperations as error:
            raise _Undecided(f"the program cannot be executed: {error}") from None
        self._deadline = time.monotonic() + self._budget
        is_half = is_rounded(program)
        self._limit = _HALF_ERROR if is_half else LIMIT
        self._compare_cases(predictor, predictor if is_half else None, "trace")
        self._compare_steps(predictor, "trace")
        half_ok = self._judged_half()
        if half_ok is None and is_half and self._mismatch is not None and not self._failure:
            self._mismatch = None
        first, layers = self._located_by_name(predictor)
        if is_half:
            self._outputs.clear()
        if first is None and self._mismatch is not None:
            self._notes.append(
                "where they first differ is not known: the package's names are not those of a conversion"
            )
        verdict, reason = AGREES, ""
        if self._mismatch is not None or half_ok is False:
            verdict, reason = DIFFERS, self._failure or "the package computes something else"
        shown = tuple(layers) if self._with_layers else ()
        return self.told(verdict, reason, half_ok=half_ok, first_difference=first, layers=shown)

    def _names(self) -> list[str]:
        """The arguments that the inputs are for, as far as each is one tensor."""
        names = list(inspect.signature(self._model.forward).parameters)
        given = [*names[: len(self._inputs.args)], *self._inputs.kwargs]
        values = [*self._inputs.args, *self._inputs.kwargs.values()]
        return given if len(given) == len(values) and all(isinstance(one, Tensor) for one in values) else []

    def _located_by_name(self, predictor: Predictor) -> tuple[FirstDifference | None, list[Layer]]:
        """The first difference in a package, by the names that a conversion by trace or export gives its variables."""
        if self._mismatch is None and not self._with_layers:
            return None, []
        best: tuple[FirstDifference | None, list[Layer]] = (None, [])
        for route in ("trace", "export"):
            try:
                with (
                    self._reference.restored(self._inputs),
                    captures(self._model, self._copy(self._inputs), self._destination, route) as found,
                ):
                    captured = found[0]
            except NotConverted:
                continue
            places = Places(captured.captured, self._project, self._model)
            seen = self._located(captured, predictor, None, places, by_name=True)
            if len(seen[1]) > len(best[1]):
                best = seen
        return best

    def _is_random(self) -> bool:
        """Whether outputs depend on random numbers; where dropout alone draws them, it is switched off from here on."""
        reference = self._reference
        if not self._varies():
            return False
        reference.drops = False
        if self._varies():
            reference.drops = True
        return True

    def _varies(self) -> bool:
        try:
            first, second = (self._reference(self._inputs, seed) for seed in (0, 1))
        except Raised as error:
            raise _Undecided(f"the model does not run: {error}") from None
        if not first:
            raise _Undecided("the model returns no tensor")
        return len(first) != len(second) or any(not _same(a, b) for a, b in zip(first, second, strict=True))

    def _converted(self) -> tuple[Captured, Converted, Converted | None]:
        """The programs in float32, and in float16 where that is asked for, by the first route that gives them."""
        asked = self._destination.frontend
        failures: list[NotConverted] = []
        for route in ("trace", "export") if asked == "auto" else (asked,):
            with self._reference.restored(self._inputs):
                try:
                    with captures(self._model, self._copy(self._inputs), self._destination, route) as found:
                        for captured in found:
                            try:
                                single = convert(captured, self._destination, "fp32")
                                half = None
                                if self._destination.precision == "fp16":
                                    half = convert(captured, self._destination, "fp16")
                            except NotConverted as error:
                                failures.append(error)
                                continue
                            return captured, single, half
                except NotConverted as error:
                    failures.append(error)
        said = [f"{one.route}: {one}" for one in failures]
        raise NotConverted(failures[-1].route, failures[-1].stage, "; ".join(dict.fromkeys(said)))

    @staticmethod
    def _copy(inputs: Inputs) -> Inputs:
        args, kwargs = copied((inputs.args, dict(inputs.kwargs)))
        return inputs._replace(args=args, kwargs=kwargs)

    def _predictor(self, converted: Converted) -> Predictor:
        predictor = Predictor(converted.program, dict(self._model.named_buffers()))
        if predictor.is_stateful and not self._notes:
            self._notes.append("states start with the values of the model's buffers here; Core ML starts them at zero")
            # Core ML keeps states in float16, whatever the program computes in.
            self._limit = _STATE_ERROR
        return predictor

    def _leaves(self, inputs: Inputs, route: str) -> list[Any]:
        leaves: list[Any] = copied(arguments(self._model, inputs, "trace" if route == "trace" else "export"))
        return leaves

    def _compare_cases(self, predictor: Predictor, halved: Predictor | None, route: str) -> None:
        for case in variants(self._inputs, self._specs, self._seed):
            if self._cases and time.monotonic() > self._deadline:
                if self._budget:
                    self._notes.append(f"only {len(self._cases)} sets of inputs were compared, for want of time")
                return
            try:
                expected = self._reference(case.inputs)
            except Raised as error:
                self._cases.append(Case(case.label, None, note=str(error)))
                continue
            leaves = self._leaves(case.inputs, route)
            largest, note = self._compared(predictor, leaves, case, expected)
            half = None
            if halved is not None and case.usual:
                half = self._half_compared(halved, leaves, case, expected)
            self._cases.append(Case(case.label, largest, half, note))

    def _compared(
        self, predictor: Predictor, leaves: Sequence[Any], case: Given, expected: list[Tensor]
    ) -> tuple[float | None, str]:
        try:
            (found,) = predictor(leaves)
        except Misfit as error:
            if case.inputs is self._inputs:
                raise _Undecided(str(error)) from None
            return None, str(error)
        except ExecutionError as error:
            self._failed(case, expected, str(error))
            return math.inf, str(error)
        outputs = list(self._judged(predictor, found, expected, case.label, case.inputs))
        self._keep(self._outputs, outputs)
        bad = tuple(at for at, one in enumerate(outputs) if not one.ok)
        if len(found) != len(expected):
            self._failed(case, expected, f"the model returns {len(expected)} tensors, the program {len(found)}")
        elif bad and self._mismatch is None:
            self._mismatch = _Mismatch(case, case.label, 1, bad, expected)
        return worst(outputs), ""

    def _failed(self, case: Given, expected: list[Tensor], reason: str) -> None:
        if self._mismatch is None:
            self._mismatch = _Mismatch(case, case.label, 1, (), expected)
            self._failure = reason

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
        label: str,
        inputs: Inputs,
        count: int = 1,
    ) -> Iterator[Output]:
        differences = [compare(value, right) for value, right in zip(found, expected, strict=False)]
        if not self._scales:
            self._scales = [one.scale for one in differences]
        noise: list[float] | None = None
        for at, one in enumerate(differences):
            ok = one.agrees(self._limit) or (
                at < len(self._scales) and one.max_abs_error <= _NEARLY_ZERO * self._scales[at]
            )
            if not ok and one.got is None and not math.isinf(one.max_abs_error):
                if noise is None:
                    noise = self._reference.noise(inputs, expected, count)
                # Of indices that rounding moves, the distance says nothing.
                ok = noise[at] > 0 if one.discrete else one.max_abs_error <= ABOVE_NOISE * noise[at]
            yield _output(predictor.output_names[at], one, ok, label)

    def _half_compared(
        self, predictor: Predictor, leaves: Sequence[Any], case: Given, expected: Sequence[Tensor]
    ) -> float | None:
        try:
            (found,) = predictor(leaves)
        except Misfit:
            return None
        except ExecutionError as error:
            note = f"the float16 program cannot be run: {error}"
            if note not in self._notes:
                self._notes.append(note)
            return math.inf
        outputs = []
        for at, (value, right) in enumerate(zip(found, expected, strict=False)):
            one = compare(value, right)
            # A class that is as likely as another may change with the precision.
            ok = one.got is None and (one.discrete or one.snr >= SNR)
            outputs.append(_output(predictor.output_names[at], one, ok, case.label))
        for at, output in enumerate(outputs):
            known = self._half.get(at)
            if known is None or (output.ok, output.snr) < (known.ok, known.snr):
                self._half[at] = output
        return worst(outputs)

    def _compare_steps(self, predictor: Predictor, route: str) -> None:
        """Several predictions in a row, where the model or the program keeps a state."""
        if self._mismatch is not None or not self._budget:
            return
        try:
            runs = self._reference.steps(self._inputs, STEPS)
        except Raised as error:
            self._notes.append(f"a second run in a row raises {error}")
            return
        varies = any(not _same(a, b) for run in runs[1:] for a, b in zip(runs[0], run, strict=False))
        if not varies and not predictor.is_stateful:
            return
        case = Given("the example", self._inputs, True)
        try:
            found = predictor(self._leaves(self._inputs, route), STEPS)
        except ExecutionError as error:
            self._failed(case, runs[0], str(error))
            return
        for count, (values, expected) in enumerate(zip(found, runs, strict=True), 1):
            label = f"the example, prediction {count}"
            outputs = list(self._judged(predictor, values, expected, label, self._inputs, count))
            self._keep(self._outputs, outputs)
            self._cases.append(Case(label, worst(outputs)))
            bad = tuple(at for at, one in enumerate(outputs) if not one.ok)
            if bad:
                self._mismatch = _Mismatch(case, label, count, bad, expected)
                return

    def _located(
        self, captured: Captured, predictor: Predictor, halved: Predictor | None, places: Places, by_name: bool = False
    ) -> tuple[FirstDifference | None, list[Layer]]:
        """Where the programs depart first, and the errors of all operations."""
        found = self._mismatch
        if found is None and not self._with_layers and all(one.ok for one in self._half.values()):
            return None, []
        case = Given("the example", self._inputs, True) if found is None else found.case
        count = 1 if found is None else found.predictions
        leaves = self._leaves(case.inputs, captured.route)
        try:
            recorded = self._recorded(captured, case.inputs, count, by_name)
            noise = None if found is None else self._recorded(captured, nudged(case.inputs), count, by_name)
        except (NotRun, RuntimeError, ValueError, TypeError, IndexError) as error:
            self._notes.append(f"the captured program was not run node by node: {_first_line(error)}")
            return (None if found is None else self._of_capture(captured, found)), []
        seen = compared(predictor, leaves, recorded, places, count, noise, self._limit)
        layers = seen.layers
        if halved is not None:
            layers = _with_half(layers, compared(halved, leaves, recorded, places, count, limit=math.inf).layers)
        if found is None:
            return None, layers
        first = None
        if self._is_captured_otherwise(recorded, found):
            first = self._of_capture(captured, found)
        first = first or first_difference(seen, recorded, places, predictor, found.label, found.outputs)
        return first, layers

    def _by_core_ml(self, converted: Converted, predictor: Predictor) -> list[Output]:
        """What Core ML itself computes of the example, where it is installed."""
        if not runtime.is_available() or predictor.is_stateful:
            return []
        try:
            expected = self._reference(self._inputs)
            given = predictor.named(self._leaves(self._inputs, converted.route))
            found = runtime.predicted(converted.mlmodel, given, predictor.output_names)
        except Exception as error:
            # Whatever the system's own compiler and runtime say.
            self._notes.append(f"Core ML did not run the model: {_first_line(error)}")
            return []
        outputs = []
        for name, value, right in zip(predictor.output_names, found, expected, strict=False):
            one = compare(value, right)
            outputs.append(_output(name, one, one.got is None and (one.discrete or one.snr >= SNR), "the example"))
        return outputs

    def _overflows(
        self, captured: Captured, predictor: Predictor, halved: Predictor | None, places: Places
    ) -> list[Layer]:
        if halved is None:
            return []
        try:
            return overflows(predictor, halved, self._leaves(self._inputs, captured.route), captured.captured, places)
        except (ExecutionError, Misfit):
            return []

    def _recorded(self, captured: Captured, inputs: Inputs, count: int, by_name: bool = False) -> Recorded:
        with self._reference.restored(inputs):
            torch.manual_seed(self._seed)
            return Recorded(captured.captured, self._leaves(inputs, captured.route), count, by_name)

    def _is_captured_otherwise(self, recorded: Recorded, found: _Mismatch) -> bool:
        """Whether what was captured already computes something else than the model."""
        if len(recorded.outputs) != len(found.expected):
            return False
        pairs = zip(recorded.outputs, found.expected, strict=True)
        return any(
            not compare(value, right).agrees()
            for at, (value, right) in enumerate(pairs)
            if not found.outputs or at in found.outputs
        )

    def _of_capture(self, captured: Captured, found: _Mismatch) -> FirstDifference | None:
        try:
            changed = self._reference.changed(found.case.inputs)
        except Raised:
            changed = []
        of_values = captured.taken if found.case.inputs is not self._inputs or not changed else ()
        if of_values and found.predictions == 1:
            changed = []
        return of_capture(changed, of_values, self._model, self._project, found.label)

    def _random_step(self, captured: Captured, places: Places) -> FirstDifference | None:
        try:
            recorded = self._recorded(captured, self._inputs, 1)
        except (NotRun, RuntimeError, ValueError, TypeError, IndexError):
            return None
        step = next((one for one in recorded.steps if one.is_random), None)
        if step is None:
            return None
        place, module = places.of(step.node)
        message = f"{step.operator} draws random numbers"
        return FirstDifference("random", message, None, None, step.operator, place, module, 0.0, (), "the example")

    def _judged_half(self) -> bool | None:
        """Whether float16 is precise enough; with random weights that says nothing against it."""
        if not self._half:
            return None
        bad = [one for one in self._half.values() if not one.ok]
        if not bad:
            return True
        why = untrained(self._model)
        if why:
            self._notes.append(
                f"float16 is not precise enough here, but the weights look untrained ({why}): ask again with trained ones"
            )
            return None
        return False


def _silent(stage: str) -> None:
    """Nobody asked."""


def _output(name: str, one: Difference, ok: bool, case: str) -> Output:
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


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(torch.equal(one.nan_to_num(), other.nan_to_num()))


def _with_half(layers: Sequence[Layer], halves: Sequence[Layer]) -> list[Layer]:
    errors = {plain_name(one): one.error for one in halves}
    return [one._replace(half=errors.get(plain_name(one))) for one in layers]


def _first_line(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}"[:200]
