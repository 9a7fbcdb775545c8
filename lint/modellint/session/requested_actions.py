"""Actions on a built model: check, shapes, verify and export, the same in a worker and in the caller's process."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint import destinations
from modellint.live.capture.fake_tensor_run import capture, captured_run
from modellint.live.check import examine, findings_of, live_rules, needs_of
from modellint.live.code.places import Project
from modellint.live.conversion_analyses import execution
from modellint.live.fix import fixed_copy
from modellint.live.inputs.constant_arguments import ranged, with_constants
from modellint.live.inputs.random_numbers import random_inputs_of, with_random_inputs
from modellint.live.inputs.required_inputs import wanted
from modellint.live.shape_table import table_of
from modellint.live.subject import Subject
from modellint.results.exported import Change
from modellint.results.verification import UNDECIDED
from modellint.session import target_failure
from modellint.session.destination_verdicts import conversion_of, destination_of, doubted, execute, faults, judge, noted
from modellint.session.messages import Answer, Check, Request, Verify, VerifyRecorded
from modellint.session.verification_findings import findings

if TYPE_CHECKING:
    from torch import nn
    from typing_extensions import Unpack

    from modellint.destinations.destination import VerifyOptions
    from modellint.destinations.export_options import LanguageModel, Options
    from modellint.live.capture.records import Failure
    from modellint.live.inputs.input_spec import InputSpec
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.results.diagnostic import Diagnostic, Place
    from modellint.results.exported import Exported
    from modellint.results.exported_language_model import ExportedLanguageModel
    from modellint.rule import Rule
    from modellint.session.target import Location, Target


_SINGLE = "--precision fp32"


def _adapted(model: nn.Module, inputs: Inputs) -> Iterator[tuple[str, str, tuple[nn.Module, Inputs]]]:
    """A model with other inputs, by options that make it: the words, when they hold, and the model with its inputs."""
    from modellint.destinations.capture.constant_scalars import inputs_taken
    from modellint.destinations.comparison.side_effect_free_runs import at_rest

    if not random_inputs_of(model):
        adapted = None
        with at_rest(model, inputs), suppress(Exception):
            adapted = with_random_inputs(model, inputs)
        if adapted is not None:
            yield "--random-inputs", "if the caller can draw them", adapted
    with at_rest(model, inputs):
        sets = inputs_taken(model, inputs)
    for names in sets:
        words = " ".join(f"--constant {name}" for name in names)
        yield words, "if always what the example has there", with_constants(model, inputs, names)


class Session:
    """One request in the process that serves it: the stage that it is in, what is to be noted, and what it is asked for."""

    def __init__(
        self, request: Request, end: Callable[[], float], entered: Callable[[str], None] = lambda stage: None
    ) -> None:
        self.request = request
        self._end = end
        """When to begin nothing more that only adds to what is found, by the clock of ``time.monotonic``."""
        self.project = Project(request.root)
        self.stage = "starting"
        self.notes: list[str] = []
        self._entered = entered

    def enter(self, stage: str) -> None:
        """Begin with a stage."""
        self.stage = stage
        self._entered(stage)

    def of_target(self, target: Target, location: Location, prefix: str = "") -> Session:
        """A session of another target of the same request, whose stages are told behind ``prefix``."""
        request = self.request._replace(target=target, location=location, inputs=())
        return Session(request, self._end, lambda stage: self._entered(prefix + stage))

    def subject(
        self,
        model: nn.Module,
        inputs: Inputs | None,
        has_values: bool = True,
        checkpoint: Any = None,
        is_exported: bool = False,
    ) -> Subject:
        """A model as rules see it; ``is_exported``: an export of it follows."""
        return Subject(
            model,
            inputs,
            self.project.root,
            self.request.destination,
            has_values=has_values,
            checkpoint=checkpoint,
            judge=judge,
            execute=execute,
            is_exported=is_exported,
        )

    # What is answered

    def answer(self, diagnostics: Iterable[Diagnostic], **rest: Any) -> Answer:
        """An answer with these findings, and what there is to note."""
        target = self.request.target.text
        shown = tuple(finding._replace(target=target) for finding in diagnostics)
        return Answer(shown, notes=tuple(self.notes), **rest)

    def run(self, subject: Subject, rules: Mapping[str, Rule]) -> list[Diagnostic]:
        """Run the model where that is of use; LNT003 where it fails for another reason than its shapes."""
        if subject.inputs is None or not ({"run", "conversion"} & needs_of(rules) or "LNT003" in rules):
            return []
        self.enter("running forward of")
        run = captured_run(subject)
        if run is None or run.failure is None or (run.failure.kind == "shape" and "SHP008" in rules):
            return []
        if run.failure.kind == "data" and not subject.has_values:
            text = self.request.target.text
            self.notes.append(f"{text}: not run, as it {_raised(run.failure)}; its parameters have no values")
            return []
        return [self._failed_run(run.failure)]

    def check(
        self,
        subject: Subject,
        rules: Mapping[str, Rule],
        known: Sequence[Diagnostic],
        *,
        asks: Callable[[nn.Module], str] = wanted,
        tries: bool = True,
    ) -> Answer:
        """What the rules find after what is ``known``, and what is said of the conversion.

        ``asks`` says in words what to give where the model has no inputs; with ``tries`` it is tried what else converts the model.
        """
        self.enter("checking")
        examined = examine(subject, rules)
        diagnostics = list(self._proven(subject, examined.diagnostics, rules))
        if tries:
            self.enter("trying what else converts")
        end = self._end() if tries else -math.inf
        conversion = conversion_of(subject, rules, [*known, *examined.diagnostics], asks=asks, end=end)
        return self.answer([*known, *diagnostics], asked=examined.asked, conversion=conversion)

    def shapes(self, subject: Subject, rules: Mapping[str, Rule]) -> Answer:
        """The table of shapes, and why the run failed if it did."""
        self.enter("running forward of")
        run = capture(subject, symbolic=True)
        captured_run.supply(subject, run)
        diagnostics: list[Diagnostic] = []
        if run.failure is not None and run.failure.kind == "shape":
            diagnostics = [finding for rule in live_rules(rules) for finding in findings_of(rule, subject)]
        elif run.failure is not None:
            diagnostics = [self._failed_run(run.failure)]
        return self.answer(diagnostics, table=table_of(subject, run))

    def verify(
        self,
        model: nn.Module,
        inputs: Inputs,
        rules: Mapping[str, Rule],
        action: Verify,
        **options: Unpack[VerifyOptions],
    ) -> Answer:
        """The comparison of the converted model, or of a saved package, with the model, and the findings that it confirms.

        Raises ``PackageError``.
        """
        goal = self.request.destination
        subject = self.subject(model, inputs)
        destination = destination_of(subject)
        options["with_layers"] = action.detail == "layers"
        options["seed"] = self.request.seed
        making = None if action.record is None else action.record.with_suffix(".part")
        options["record"] = making
        self.enter("verifying")
        if action.package is None:
            verification = destination.verify(
                model, inputs, goal, self.project, progress=self.enter, subject=subject, **options
            )
        else:
            verification = destination.verify_package(model, inputs, str(action.package), self.project, **options)
        if making is not None and action.record is not None and making.is_dir():
            # What is there under its name is whole.
            making.rename(action.record)
        execution.supply(subject, verification)
        self.enter("checking")
        diagnostics = findings(subject, rules, verification)
        if action.package is None:
            verification = doubted(subject, rules, diagnostics, verification)
        verification = noted(subject, verification, self._end())
        if verification.verdict == UNDECIDED and not verification.cases:
            diagnostics += self.run(subject, rules)
        return self.answer(diagnostics, verification=verification)

    def verify_recorded(self, action: VerifyRecorded) -> Answer:
        """The comparison of a recorded case. Raises ``PackageError``."""
        self.enter("comparing")
        destination = destinations.named(destinations.of_package(str(action.package)))
        return self.answer([], verification=destination.verify_recorded(action.package, action.folder))

    def export(
        self,
        model: nn.Module,
        inputs: Inputs,
        options: Options,
        package: Path,
        rules: Mapping[str, Rule],
        known: Sequence[Diagnostic],
        specs: Sequence[InputSpec] = (),
        checked: Subject | None = None,
        partly: Callable[[Exported], None] | None = None,
    ) -> Exported:
        """Fix, convert, save and verify a model, of which the rules' findings are ``known``. Raises ``OptionError``.

        ``checked`` is the subject that they were found of, if that is of these inputs. ``partly`` is told of an export that leads to no
        package before other options are tried.
        """
        subject = checked or self.subject(model, inputs)
        destination, told = destination_of(subject), faults(subject, rules, known)

        def attempt(
            model: nn.Module,
            inputs: Inputs,
            folder: Path,
            specs: Sequence[InputSpec] = (),
            checked: Subject | None = None,
            partly: Callable[[Exported], None] | None = None,
        ) -> Exported:
            exported = destination.export(
                model,
                inputs,
                self.request.destination,
                self.project,
                options,
                folder,
                package.name,
                specs=specs,
                seed=self.request.seed,
                progress=self.enter,
                faults=told,
                subject=checked,
                partly=partly,
            )
            drawn = (
                Change("fixed", f"random numbers are the input {name}", (), "", numbers)
                for name, numbers in random_inputs_of(model).items()
            )
            return replace(exported, changes=(*drawn, *exported.changes))

        exported = attempt(model, inputs, package.parent, specs, checked, partly)
        if exported.writable or exported.advice or time.monotonic() > self._end():
            return exported
        if partly is not None:
            partly(exported)
        try:
            advice = self._advised_on_trial(model, ranged(inputs, specs), attempt, package.parent / "tried")
        except Exception:
            # What cannot be tried is no advice.
            return exported
        return replace(exported, advice=advice)

    def _advised_on_trial(
        self,
        model: nn.Module,
        inputs: Inputs,
        attempt: Callable[[nn.Module, Inputs, Path], Exported],
        folder: Path,
    ) -> tuple[str, ...]:
        """What has to become an input, or a constant, for a model to be exported, as options; none where that does not do it either."""
        in_single: tuple[str, ...] = ()
        for words, condition, (adapted, others) in _adapted(model, inputs):
            if time.monotonic() > self._end():
                break
            self.enter(f"trying {words}")
            folder.mkdir()
            try:
                exported = attempt(adapted, others, folder)
            except Exception:
                # What cannot be tried is no advice.
                continue
            finally:
                shutil.rmtree(folder)
            if exported.writable:
                outcome = "it agrees" if exported.ok else "it agrees in float32, and is undecided in float16"
                return (f"{words}, {condition}: tried, {outcome}",)
            if not in_single and any(way.startswith(_SINGLE) for way in exported.advice):
                in_single = (f"{words} {_SINGLE}, {condition}: tried, the float32 package agrees",)
        return in_single

    def checked_export(
        self,
        model: nn.Module,
        inputs: Inputs,
        options: Options,
        package: Path,
        rules: Mapping[str, Rule],
        specs: Sequence[InputSpec] = (),
        provisionally: Callable[[Answer], None] = lambda answer: None,
    ) -> Answer:
        """The export of a model, and what the checks of the model as it is find; no export of one that does not run.

        ``provisionally`` is told of an export that leads to no package before other options are tried. Raises ``OptionError``.
        """
        self.enter("checking")
        subject = self.subject(model, inputs, is_exported=True)
        destination_of(subject).check_export(model, inputs, options, self.request.seed)
        # What else converts it, the export itself tells.
        answer = self.check(subject, rules, self.run(subject, rules), tries=False)
        run = captured_run(subject)
        if run is not None and run.failure is not None and run.failure.kind != "data":
            return answer

        def partly(exported: Exported) -> None:
            provisionally(answer._replace(exported=exported))

        exported = self.export(model, inputs, options, package, rules, answer.diagnostics, specs, subject, partly)
        return answer._replace(exported=exported)

    def export_language_model(self, model: nn.Module, wanted: LanguageModel, package: Path) -> ExportedLanguageModel:
        """Make a package with prefill and decode, and compare how it generates. Raises ``OptionError``."""
        return destinations.named(self.request.destination.name).export_language_model(
            model,
            wanted,
            self.request.destination,
            self.project,
            package.parent,
            package.name,
            seed=self.request.seed,
            progress=self.enter,
        )

    def _proven(
        self, subject: Subject, diagnostics: Sequence[Diagnostic], rules: Mapping[str, Rule]
    ) -> Iterable[Diagnostic]:
        """The findings; those that a fixed copy of the model is rid of have a fix, where such are wanted."""
        action = self.request.action
        if not (isinstance(action, Check) and action.proves_fixes) or subject.inputs is None or not subject.has_values:
            return diagnostics
        from modellint.session.live_fixes_in_source import with_proven_fixes

        self.enter("fixing")
        try:
            fixed = fixed_copy(subject.model, subject.inputs, subject.destination, self.project, judge=judge)
        except Exception:
            # What cannot even be copied is reported as it is.
            return diagnostics
        return with_proven_fixes(diagnostics, fixed.applied, rules)

    # Failures

    def _failed_run(self, run: Failure) -> Diagnostic:
        return self.cannot_run(_raised(run), run.frames, run.place)

    def raised(self, error: BaseException) -> Diagnostic:
        """LNT003 for an exception of the user's code."""
        frames = target_failure.user_frames(error, self.project)
        advice: tuple[str, ...] = ()
        if isinstance(error, TypeError) and not frames and self.stage == "building" and "argument" in str(error):
            name = self.request.target.name.split(".")[-1]
            advice = (f"write a function without arguments that returns `{name}(...)`, and name that as the target",)
        return self.cannot_run(f"raised {target_failure.described(error)}", frames, advice=advice)

    def cannot_run(
        self,
        what: str,
        frames: tuple[target_failure.Frame, ...] = (),
        place: Place | None = None,
        advice: tuple[str, ...] = (),
    ) -> Diagnostic:
        """LNT003: what happened to the target in the stage that it is in."""
        target, file = self.request.target, self.request.location.file
        otherwise = place or (None if file is None else target_failure.definition(str(file), target.name))
        return target_failure.cannot_run(
            target.text, self.stage, what, frames, folder=self.request.folder, otherwise=otherwise, advice=advice
        )


def _raised(run: Failure) -> str:
    return f"raised {run.error}" + (f": {' '.join(run.message.split())}" if run.message else "")
