"""Export of a live model to a saved package: fixed, converted by the first route that holds, read back, executed and compared."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from modellint.destinations.capture.single_precision import InSinglePrecision, in_single_precision
from modellint.destinations.capture.written_parameters import settle
from modellint.destinations.comparison.reference_runs import OutputCache, Raised, Reference, copied
from modellint.destinations.coreml.capture.graph_interpreter import sanitized
from modellint.destinations.coreml.convert.conversion import Captured, Converted, NotConverted, captures, convert
from modellint.destinations.coreml.dry_run.verdicts import judge
from modellint.destinations.coreml.package import input_output_specification
from modellint.destinations.coreml.package.tensor_adapter import as_tensors, taking_pixels
from modellint.destinations.coreml.private.entry_points import ct, silence
from modellint.destinations.coreml.verify.difference_location import first_line
from modellint.destinations.coreml.verify.model import BUDGET, RANDOM
from modellint.destinations.coreml.verify.package import verify_package
from modellint.destinations.destination import PackageError
from modellint.destinations.export_options import SINGLE, STATES_SINCE, OptionError
from modellint.live.fix import fixed_copy
from modellint.live.inputs import constant_arguments
from modellint.results.applied_fix import BIT_EQUAL
from modellint.results.exported import Attempt, Change, Exported
from modellint.results.verification import AGREES, DIFFERS, UNDECIDED, Verification

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.coreml.capture.shared_captures import SharedCaptures
    from modellint.destinations.destination import Fault
    from modellint.destinations.export_options import Options
    from modellint.live.code.places import Project
    from modellint.live.inputs.input_spec import InputSpec
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.settings import Destination

Progress = Callable[[str], None]


class Fixed(NamedTuple):
    """A model that is ready to be captured, and what was changed for that."""

    model: nn.Module
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()


def fixed_model(model: nn.Module, inputs: Inputs, destination: Destination, project: Project) -> Fixed:
    """A copy of a model with what can be fixed in it; the model itself is left as it was."""
    copy = fixed_copy(model, inputs, destination, project, judge=judge)
    changes = (
        *(Change("fixed", fix.title, fix.modules, fix.exactness, fix.note, fix.code) for fix in copy.applied),
        *(Change("undone", fix.title, fix.modules, "", fix.note, fix.code) for fix in copy.undone),
    )
    settled = settle(copy.model, inputs)
    if settled:
        changes = (*changes, Change("fixed", "parameters are what every run makes of them", settled, BIT_EQUAL))
    return Fixed(copy.model, changes, copy.left)


def captured_by(
    route: str, model: nn.Module, inputs: Inputs, destination: Destination, shared: SharedCaptures | None = None
) -> Sequence[Captured]:
    """What a route captures of a fixed model; ``shared`` captures are of the same one. Raises ``NotConverted``, and so does what is
    taken of it.
    """
    with captures(model, inputs, destination, route, supplied=True, shared=shared) as sequence:
        return sequence


def converted(captured: Captured, destination: Destination, precision: str) -> tuple[Converted, tuple[Change, ...]]:
    """What was captured, converted with what we supply to coremltools. Raises ``NotConverted``."""
    result = convert(captured, destination, precision, supplied=True)
    return result, tuple(
        Change(use.kind, f"{use.operator}" + (f" at {use.places} places" if use.places > 1 else ""), (), use.exactness)
        for use in result.used
    )


def export(
    model: nn.Module,
    inputs: Inputs,
    destination: Destination,
    project: Project,
    options: Options,
    folder: Path,
    name: str,
    *,
    specs: Sequence[InputSpec] = (),
    seed: int = 0,
    budget: float = BUDGET,
    progress: Progress | None = None,
    faults: Sequence[Fault] = (),
    shared: SharedCaptures | None = None,
    partly: Callable[[Exported], None] | None = None,
) -> Exported:
    """Fix, convert, save and verify a model, which is left as it was.

    Args:
        model: Of any mode; it is captured and run in evaluation mode.
        inputs: The example; more are made after it.
        destination: Front end, deployment target and precision.
        project: Whose statements differences are placed at.
        options: Images, labels, states, names and metadata.
        folder: Where the package is made, and files beside it that are of no use afterwards.
        name: What the package is called.
        specs: What the example was made from, for the ranges of integers.
        seed: Where random numbers start.
        budget: Seconds after which no further inputs are begun, in each comparison.
        progress: Told what is done.
        faults: Findings by which the model as it is converts into something else.
        shared: Captures of the model as it is on these inputs.
        partly: Told of an export that leads to no package before other options are tried.

    The result says under which name the package is in ``folder``; it is there too where it does not agree, if any route converts.
    Raises ``OptionError`` for options that do not fit the model.
    """

    def export_of(model: nn.Module, inputs: Inputs, *rest: Any) -> Exported:
        destination, options, folder, budget, known = rest
        return _Export(
            model, inputs, destination, project, options, folder, name, specs, seed, budget, report, faults, known
        ).result()

    def attempt(*rest: Any) -> Exported:
        exported = export_of(model, taken, *rest, None if constants else shared)
        if exported.writable or not (single := narrowed()):
            return exported
        destination, options, folder, budget = rest
        aside = folder / "single"
        aside.mkdir()
        single_export = export_of(single.model, single.inputs, destination, options, aside, budget, None)
        if not single_export.writable:
            return exported
        if exported.package:
            shutil.rmtree(folder / exported.package)
        (aside / single_export.package).rename(folder / single_export.package)
        if (aside / SINGLE).is_dir():
            shutil.rmtree(folder / SINGLE, ignore_errors=True)
            (aside / SINGLE).rename(folder / SINGLE)
        return replace(single_export, changes=(single.change, *single_export.changes))

    @cache
    def narrowed() -> InSinglePrecision | None:
        return in_single_precision(model, taken)

    report = progress or _silent
    with constant_arguments.bound(model, inputs) as (taken, constants):
        changes = tuple(
            Change("fixed", f"argument {key}", (), BIT_EQUAL, f"always {value!r}") for key, value in constants.items()
        )

        def told(exported: Exported) -> None:
            if partly is not None:
                partly(replace(exported, changes=(*changes, *exported.changes)))

        exported = _advised(attempt, destination, options, folder, budget, report, told)
    return replace(exported, changes=(*changes, *exported.changes))


def _advised(
    attempt: Callable[[Destination, Options, Path, float], Exported],
    destination: Destination,
    options: Options,
    folder: Path,
    budget: float,
    progress: Progress,
    partly: Callable[[Exported], None],
) -> Exported:
    """What an attempt gives; where nothing can be written, with the options by which it can, tried."""
    exported = attempt(destination, options, folder, budget)
    if exported.writable:
        return exported
    if exported.converts and exported.verification.single == AGREES and destination.precision == "fp16":
        return replace(exported, advice=("--precision fp32: the float32 package agrees",))
    partly(exported)
    tried = folder / "tried"
    for words, alternative, wanted in _ways_on(exported, destination, options):
        progress(f"trying {words}")
        tried.mkdir()
        try:
            result = attempt(alternative, wanted, tried, min(budget, _TRIED))
        except OptionError:
            continue
        finally:
            shutil.rmtree(tried)
        if result.writable:
            outcome = "it agrees" if result.ok else "it agrees in float32, and is undecided in float16"
            return replace(exported, advice=(f"{words}: tried, {outcome}",))
        if result.converts and result.verification.single == AGREES and destination.precision == "fp16":
            return replace(exported, advice=(f"{words} --precision fp32: tried, it agrees in float32",))
    return exported


_TRIED = 20.0
"""Seconds after which no further inputs are begun in the comparison of what is tried as advice."""


def _ways_on(first: Exported, destination: Destination, options: Options) -> Iterator[tuple[str, Destination, Options]]:
    """Options under which a model may be exported that is not with those given."""
    if first.verification.reason.startswith(RANDOM):
        return
    if destination.frontend != "auto":
        yield "--frontend auto", destination._replace(frontend="auto"), options
    newer = destination._replace(target=f"iOS{STATES_SINCE}", frontend="auto")
    if first.updates and not options.states:
        words = "--state" if destination.ios >= STATES_SINCE else f"--state --deployment-target {newer.target}"
        yield words, newer if destination.ios < STATES_SINCE else destination, options._replace(states=True)
    if destination.ios < STATES_SINCE:
        yield f"--deployment-target {newer.target}", newer, options


def check(model: nn.Module, inputs: Inputs, options: Options, seed: int = 0) -> list[str]:
    """See that options fit the model, by one run of it at most; what is to be told of them. Raises ``OptionError``."""
    input_output_specification.check_images(model, inputs, options.images)
    if not options.labels and not options.output_names:
        return []
    try:
        outputs = Reference(model, seed)(inputs)
    except Raised:
        # The capture will say so.
        return []
    input_output_specification.check_outputs(outputs, options)
    return list(input_output_specification.about_labels(outputs, options))


class _Made(NamedTuple):
    """A package, and how it compares."""

    exported: Exported
    path: Path

    @property
    def differs(self) -> bool:
        """Whether it is known to compute something else."""
        return self.exported.verification.single == DIFFERS


class _Export:
    """One export in progress."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Inputs,
        destination: Destination,
        project: Project,
        options: Options,
        folder: Path,
        name: str,
        specs: Sequence[InputSpec],
        seed: int,
        budget: float,
        progress: Progress,
        faults: Sequence[Fault],
        shared: SharedCaptures | None,
    ) -> None:
        self._model = model
        self._inputs = input_output_specification.ordered(model, inputs)
        self._destination = destination
        self._project = project
        self._options = options
        self._folder = folder
        self._name = name
        self._specs = specs
        self._seed = seed
        self._budget = budget
        self._progress = progress
        self._faults = [fault for fault in faults if fault.hides]
        self._attempts: list[Attempt] = []
        self._tried: set[str] = set()
        self._notes: list[str] = []
        self._changes: tuple[Change, ...] = ()
        self._states: dict[str, Tensor] = {}
        self._count = 0
        self._outputs = OutputCache()
        self._shared = shared

    def result(self) -> Exported:
        """The package of the first route that converts and agrees, else of the first that converts, else none."""
        self._notes += check(self._model, self._inputs, self._options, self._seed)
        self._progress("fixing")
        fixed = fixed_model(self._model, self._copy(), self._destination, self._project)
        self._changes = fixed.changes
        if fixed.notes or any(change.kind == "fixed" for change in fixed.changes):
            # It is another model.
            self._shared = None
        self._notes += fixed.notes
        self._states = self._updated(fixed.model)
        best: _Made | None = None
        for captured in self._captured(fixed.model):
            package = self._made(fixed.model, captured)
            if package is None:
                continue
            agrees = package.exported.verification.single == AGREES
            if best is None or agrees or (best.differs and not package.differs):
                best = package
            if agrees:
                # Where float16 alone is not enough, it is not by another route.
                self._attempts += self._left()
                break
            self._attempts.append(_compared(captured.route, package.exported.verification))
        if self._states and not self._options.states and (best is None or not best.exported.writable):
            self._notes.append(
                f"forward updates {', '.join(self._states)}: --state makes such buffers states, from iOS18 on"
            )
        if best is None:
            return self._told()
        # The one that is taken needs no excuse.
        others = tuple(attempt for attempt in self._attempts if attempt.route != best.exported.route)
        target = self._folder / self._name
        single = best.path.with_name("fp32.mlpackage")
        if self._options.keeps_single and single != best.path and single.is_dir():
            single.rename(self._folder / SINGLE)
        best.path.rename(target)
        return replace(
            best.exported,
            attempts=others,
            notes=(*self._notes, *best.exported.notes),
            package=self._name,
            updates=tuple(self._states),
        )

    def _told(self, route: str = "", **rest: Any) -> Exported:
        return Exported(
            self._destination.target,
            self._destination.precision,
            route,
            rest.pop("changes", self._changes),
            tuple(self._attempts),
            notes=tuple(self._notes) if not route else (),
            updates=tuple(self._states),
            **rest,
        )

    def _copy(self) -> Inputs:
        args, kwargs = copied((self._inputs.args, dict(self._inputs.kwargs)))
        return self._inputs._replace(args=args, kwargs=kwargs)

    def _updated(self, model: nn.Module) -> dict[str, Tensor]:
        """The buffers that `forward` updates; what else it updates is told."""
        try:
            changed = Reference(model, self._seed).written(self._inputs)
        except Raised:
            return {}
        buffers = dict(model.named_buffers())
        names = [f"{change.module}.{change.attribute}" if change.module else change.attribute for change in changed]
        states = {name: buffers[name] for name in names if name in buffers and buffers[name].is_floating_point()}
        if self._options.states:
            self._about_states(states, [name for name in names if name not in states])
        return states

    def _about_states(self, states: Mapping[str, Tensor], others: Sequence[str]) -> None:
        if not states:
            self._notes.append("--state: forward updates no buffer, so that there is no state")
        if others:
            self._notes.append(
                f"--state: {', '.join(others)} changes as well, and is no buffer of floats: it stays as it is"
            )
        self._notes += input_output_specification.remarks_on_states(states)
        filled = [name for name, value in states.items() if bool(value.any())]
        if filled:
            self._notes.append(
                f"Core ML's states start at zero, and {', '.join(filled)} does not: write its values before the first prediction"
            )

    def _captured(self, model: nn.Module) -> Iterator[Captured]:
        """The routes that are to be tried, one after another; those of which a finding says that they compute something else come last."""
        frontend = self._destination.frontend
        for route in sorted(("trace", "export"), key=self._is_told) if frontend == "auto" else (frontend,):
            self._tried.add(route)
            self._progress(f"capturing ({route})")
            with Reference(model, self._seed).restored(self._inputs):
                try:
                    kept = captured_by(route, model, self._copy(), self._destination, self._shared)
                except NotConverted as error:
                    self._attempts.append(Attempt(route, error.stage, str(error)))
                    continue
            for at in range(len(kept)):
                try:
                    captured = kept[at]
                except NotConverted as error:
                    self._attempts.append(Attempt(error.route, error.stage, str(error)))
                else:
                    yield captured

    def _is_told(self, route: str) -> bool:
        """Whether a finding says of the model as it is that a route computes something else."""
        return any(route in fault.routes for fault in self._faults)

    def _left(self) -> Iterator[Attempt]:
        """The routes that were not tried, as they come last."""
        for fault in self._faults if self._destination.frontend == "auto" else ():
            for route in fault.routes:
                if route not in self._tried:
                    self._tried.add(route)
                    yield Attempt(route, "finding", fault.says(route))

    def _made(self, model: nn.Module, captured: Captured) -> _Made | None:
        """The package of one route, compared; None where it does not convert."""
        self._count += 1
        folder = self._folder / f"{self._count}"
        folder.mkdir()
        try:
            single = self._saved(model, captured, "fp32", folder)
            if single is None:
                return None
            compared = self._verified(single.path, folder, "fp32")
            chosen = single
            if self._destination.precision == "fp16" and compared.single == AGREES:
                half = self._saved(model, captured, "fp16", folder)
                if half is None:
                    return None
                chosen = half
                compared = _joined(compared, self._verified(half.path, folder, "fp16"))
        except NotConverted as error:
            shutil.rmtree(folder)
            self._attempts.append(Attempt(captured.route, error.stage, str(error)))
            return None
        compared = self._doubted(compared, captured.route, chosen.exported.changes)
        return _Made(replace(chosen.exported, verification=replace(compared, route=captured.route)), chosen.path)

    def _doubted(self, compared: Verification, route: str, changes: Sequence[Change]) -> Verification:
        """A comparison; undecided where a finding says that the route computes something else, and nothing has mended that."""
        if compared.single != AGREES:
            return compared
        mended = {change.code or change.what.partition(" ")[0] for change in changes if change.kind != "undone"}
        for fault in self._faults:
            by_route = "trace" if route == "trace" else "export"
            if by_route in fault.routes and fault.code not in mended and fault.operator not in mended:
                reason = fault.doubt(by_route)
                return replace(compared, verdict=UNDECIDED, single=UNDECIDED, reason=reason)
        return compared

    def _saved(self, model: nn.Module, captured: Captured, precision: str, folder: Path) -> _Made | None:
        self._progress(f"converting ({captured.route}, {precision})")
        # Anew each time, as coremltools writes to what it is given.
        options = input_output_specification.conversion_options(
            model, self._inputs, captured.captured, self._options, self._states
        )
        result, changes = converted(captured._replace(options=options), self._destination, precision)
        states = [state.name for state in result.mlmodel.get_spec().description.state]
        lost = [name for name in self._states if sanitized(name) not in states] if self._options.states else []
        if lost:
            self._attempts.append(
                Attempt(captured.route, "conversion", f"it loses what forward writes to {', '.join(lost)}")
            )
            return None
        if states and not self._options.states:
            self._attempts.append(
                Attempt(captured.route, "conversion", f"it keeps states ({', '.join(states)}): --state")
            )
            return None
        input_output_specification.describe(result.mlmodel, self._options.metadata)
        path = folder / f"{precision}.mlpackage"
        try:
            with silence():
                result.mlmodel.save(str(path))
        except Exception as error:
            # A program of several blocks, and whatever else the writer of packages does not take.
            raise NotConverted(captured.route, "saving", first_line(error)) from error
        # What coremltools keeps it in until the process ends.
        shutil.rmtree(result.mlmodel.package_path, ignore_errors=True)
        spec = ct.utils.load_spec(str(path))
        inputs, outputs, kept = input_output_specification.features(spec, result.program)
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        exported = self._told(
            captured.route,
            changes=(*self._changes, *changes),
            inputs=inputs,
            outputs=outputs,
            states=kept,
            size=size,
        )
        return _Made(replace(exported, notes=captured.notes), path)

    def _verified(self, package: Path, folder: Path, precision: str) -> Verification:
        """The package against the model as it was given."""
        self._progress(f"comparing ({precision})")
        with taking_pixels(self._model, self._inputs, self._options.images, self._specs) as (inputs, specs):
            try:
                return verify_package(
                    self._model,
                    inputs,
                    str(as_tensors(package, folder)),
                    self._project,
                    specs=specs,
                    seed=self._seed,
                    budget=self._budget,
                    precision=precision,
                    cache=self._outputs,
                )
            except PackageError as error:
                return Verification(UNDECIDED, str(error))


def _compared(route: str, verification: Verification) -> Attempt:
    worst = max((output.error for output in verification.outputs if not output.ok), default=0.0)
    far = f", by {worst:.1e} of an output's scale" if worst else ""
    what = "it computes something else"
    if verification.verdict == UNDECIDED:
        what = "whether it agrees cannot be said" if verification.cases else "it cannot be compared"
    why = f": {verification.reason}" if verification.reason and not far else ""
    return Attempt(route, "comparison", f"{what}{far}{why}")


def _joined(single: Verification, package: Verification) -> Verification:
    """The comparison of a package in float16, with that of the same conversion in float32."""
    errors = {case.label: case.half for case in package.cases}
    # On numbers a hundred times the example's nothing is asked of float16, and the conversion is known to be right.
    return replace(
        single,
        verdict=package.verdict,
        reason=package.reason,
        half=package.half,
        half_ok=package.half_ok,
        first_difference=None if package.half_ok is not False else package.first_difference,
        cases=tuple(case._replace(half=errors.get(case.label)) for case in single.cases),
        departures=tuple(dict.fromkeys((*single.departures, *package.departures))),
        notes=tuple(dict.fromkeys((*single.notes, *package.notes))),
    ).on_devices()


def _silent(stage: str) -> None:
    """Report no progress."""
