"""The worker's side of a live check: builds one target, asks the rules about it, and sends what they say."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import math
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.destinations.export_options import OptionError
from modellint.live.code import places as place
from modellint.live.inputs import example as inputs
from modellint.results.diagnostic import Diagnostic, Place
from modellint.session import processes, target, wire
from modellint.session import target_failure as failed
from modellint.session.building import Again, Building, Built, Channel, Failed

if TYPE_CHECKING:
    from modellint.live.capture.line_coverage import Executed
    from modellint.live.capture.records import Failure
    from modellint.live.subject import Subject
    from modellint.rule import Rule

_SPARE = 0.5
"""How much of the time-out a check may have taken when it is through with what else converts the model."""
_SHARE = 0.95
"""How much of the time-out a verification plans with; the rest goes to the start and the end of the process."""


def main() -> None:
    """Read a request from standard input, serve it, and end the process whatever the user's code has left running."""
    leave = os._exit
    request = json.loads(sys.stdin.buffer.read())
    channel = Channel(request["results"])
    _settle(request)
    try:
        answer = Work(request, channel).answer()
    except BaseException as error:
        answer = {"internal": f"{failed.described(error)} ({_place_of(error)})"}
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    channel.send(answer)
    leave(0)


def _place_of(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def _settle(request: Mapping[str, Any]) -> None:
    """Make the process harmless: no standard input, an end when the parent ends, a place in crashes."""
    with contextlib.suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
    processes.die_with_parent(request["parent"])
    processes.volunteer_for_the_oom_killer()
    faulthandler.enable(file=request["trace"])
    if sys.platform != "win32":
        faulthandler.register(signal.SIGUSR2, file=request["trace"])


class Work(Building):
    """What is asked of a model that stands."""

    def answer(self) -> dict[str, Any]:
        """What to tell the parent: ``usage`` for a wrong request, or ``diagnostics`` and what they rest on."""
        gc.disable()
        try:
            import torch  # noqa: F401
        except BaseException as error:
            return {"usage": f"PyTorch cannot be imported: {failed.described(error)}"}
        finally:
            gc.enable()
        from modellint.live.inputs import lazy_parameters as lazy

        # What PyTorch has made so far is no garbage, and is too much to be gone through again and again.
        gc.freeze()
        if self._request["memory"] is not None:
            processes.limit_data(self._request["memory"])
        if self._location.file is not None:
            place.remember(str(self._location.file))
        try:
            if self._request["verify"]:
                return self._verified()
            if self._request["export"] is not None:
                return self._exported()
            return self._shaped() if self._request["shapes"] else self._checked()
        except (target.TargetError, inputs.InputError, OptionError) as error:
            return {"usage": str(error)}
        except Again:
            return {"again": True}
        except lazy.Unshaped as error:
            return self._answer([self._lnt003(str(error), (), None, advice=error.advice)], failed=True)
        except Failed as error:
            return self._answer([self._cannot_run(error.__cause__ or error)], failed=True)

    def _checked(self) -> dict[str, Any]:
        from modellint.live.capture.line_coverage import Executed
        from modellint.live.check import examine, needs_of
        from modellint.live.incomplete_attributes import undecided
        from modellint.session.verdicts import told

        rules = self._rules()
        checkpoint = self._checkpoint()
        with Executed(self._project) as executed:
            # What cannot be built on a real device cannot be exported, whatever rules look at.
            built = self._build(bool({"values", "conversion"} & needs_of(rules)) or "LNT003" in rules)
            subject = self._subject(built, checkpoint)
            found = self._run(subject, rules)
        self._enter("checking")
        seen = examine(subject, rules)
        answer = self._answer(
            [*found, *self._with_twins(subject, seen.diagnostics, rules)],
            self._rows(executed, subject),
            seen.asked,
            undecided=undecided(subject),
        )
        self._enter("trying what else converts")
        return answer | {"verdict": told(subject, rules, [*found, *seen.diagnostics], end=self._end())}

    def _end(self) -> float:
        """When to begin nothing more that only adds to what is found."""
        return self._began + _SPARE * float(self._request["timeout"])

    def _shaped(self) -> dict[str, Any]:
        """The table of shapes, from a model without values unless its run asks for some."""
        from modellint.live.capture.run import capture, captured_run
        from modellint.live.check import findings_of, live_rules
        from modellint.live.shape_table import table_of
        from modellint.results import shape_table

        rules = self._rules()
        for needs_values in (False, True):
            built = self._build(needs_values)
            if built.inputs is None:
                raise self._without_inputs(built)
            subject = self._subject(built)
            self._enter("running forward of")
            run = capture(subject, symbolic=True)
            captured_run.supply(subject, run)
            if run.failure is None or run.failure.kind != "data" or built.has_values:
                break
        found = []
        if run.failure is not None and run.failure.kind == "shape":
            found = [finding for rule in live_rules(rules) for finding in findings_of(rule, subject)]
        elif run.failure is not None:
            found = [self._failed_run(run.failure)]
        return self._answer(found) | {"table": shape_table.to_json(table_of(subject, run))}

    def _verified(self) -> dict[str, Any]:
        """The comparison of the converted model with the model, and the findings that it confirms."""
        model, given, specs = self._with_values("verify")
        from modellint import destinations
        from modellint.destinations.destination import PackageError, VerifyOptions
        from modellint.live.conversion import execution
        from modellint.results import verification
        from modellint.session import confirmed_findings as confirmed
        from modellint.session.verdicts import noted
        from modellint.settings import Destination

        goal = Destination(*self._request["destination"])
        destination = destinations.named(goal.name)
        package = self._request["package"]
        options: VerifyOptions = {
            "specs": specs,
            "seed": self._request["seed"],
            "with_layers": self._request["verify"] == "layers",
            # Converting and judging take time as well.
            "budget": 0.4 * self._request["timeout"],
            "limit": _SHARE * self._request["timeout"] - (time.monotonic() - self._began),
            "partly": lambda known: self._channel.send({"partial": verification.to_json(known)}),
        }
        self._enter("verifying")
        subject = self._subject(Built(model, given, True))
        if package is None:
            found = destination.verify(
                model, given, goal, self._project, progress=self._enter, subject=subject, **options
            )
        else:
            try:
                found = destination.verify_package(model, given, package, self._project, **options)
            except PackageError as error:
                raise target.TargetError(str(error)) from None
        execution.supply(subject, found)
        self._enter("checking")
        rules = self._rules()
        diagnostics = confirmed.findings(subject, rules, found)
        found = noted(subject, found, self._end())
        if found.verdict == verification.UNDECIDED and not found.cases:
            diagnostics += self._run(subject, rules)
        return self._answer(diagnostics) | {"verification": verification.to_json(found)}

    def _exported(self) -> dict[str, Any]:
        """The package, as a file, and what the checks of the model as it is find."""
        model, given, specs = self._with_values("export")
        from modellint.destinations.export_options import from_json
        from modellint.live.capture.run import captured_run
        from modellint.live.check import examine
        from modellint.results import exported
        from modellint.session.verdicts import destination_of, told

        wanted = from_json(self._request["export"])
        self._enter("checking")
        rules = self._rules()
        subject = self._subject(Built(model, given, True))
        destination = destination_of(subject)
        destination.check_export(model, given, wanted, self._request["seed"])
        found = self._run(subject, rules)
        self._enter("checking")
        seen = examine(subject, rules)
        answer = self._answer([*found, *seen.diagnostics], asked=seen.asked)
        # What else converts it, the export itself tells.
        answer["verdict"] = told(subject, rules, [*found, *seen.diagnostics], end=-math.inf)
        run = captured_run(subject)
        failure = None if run is None else run.failure
        if failure is not None and failure.kind != "data":
            return answer
        made = Path(self._request["made"])
        result = destination.export(
            model,
            given,
            subject.destination,
            self._project,
            wanted,
            made.parent,
            made.name,
            specs=specs,
            seed=self._request["seed"],
            progress=self._enter,
        )
        return answer | {"exported": exported.to_json(result)}

    def _answer(
        self,
        findings: list[Diagnostic],
        executed: Mapping[str, Any] | None = None,
        asked: frozenset[str] = frozenset(),
        failed: bool = False,
        undecided: Mapping[str, frozenset[str]] | None = None,
    ) -> dict[str, Any]:
        return {
            "diagnostics": [wire.to_json(finding._replace(target=self._target.text)) for finding in findings],
            "executed": dict(executed or {}),
            "asked": sorted(asked),
            "failed": failed,
            "undecided": {name: sorted(given) for name, given in (undecided or {}).items()},
            "table": None,
            "verdict": None,
            "verification": None,
            "exported": None,
            "notes": self._notes,
        }

    def _with_twins(
        self, subject: Subject, found: Sequence[Diagnostic], rules: Mapping[str, Rule]
    ) -> Iterable[Diagnostic]:
        """The findings; those that a fixed copy of the model is rid of have a fix."""
        if not self._request["twins"] or subject.inputs is None or not subject.has_values:
            return found
        from modellint.live.fix import fixed_copy
        from modellint.session.source_fixes import with_twins
        from modellint.session.verdicts import judge

        self._enter("fixing")
        try:
            fixed = fixed_copy(subject.model, subject.inputs, subject.destination, self._project, judge=judge)
        except Exception:
            # What cannot even be copied is reported as it is.
            return found
        return with_twins(found, fixed.applied, rules)

    def _run(self, subject: Subject, rules: Mapping[str, Rule]) -> list[Diagnostic]:
        """Run the model where that is of use; LNT003 where it fails for another reason than its shapes."""
        from modellint.live.capture.run import captured_run
        from modellint.live.check import needs_of

        if subject.inputs is None or not ({"run", "conversion"} & needs_of(rules) or "LNT003" in rules):
            return []
        self._enter("running forward of")
        run = captured_run(subject)
        if run is None or run.failure is None:
            return []
        failure = run.failure
        if failure.kind == "shape" and "SHP008" in rules:
            return []
        if failure.kind == "data" and not subject.has_values:
            what = _raised(failure)
            self._notes.append(f"{self._target.text}: not run, as it {what}; its parameters have no values")
            return []
        return [self._failed_run(failure)]

    def _failed_run(self, failure: Failure) -> Diagnostic:
        return self._lnt003(_raised(failure), failure.frames, failure.place)

    def _cannot_run(self, error: BaseException) -> Diagnostic:
        frames = failed.user_frames(error, self._project)
        return self._lnt003(f"raised {failed.described(error)}", frames, None, advice=self._advice(error, frames))

    def _lnt003(
        self, what: str, frames: tuple[failed.Frame, ...], at: Place | None, advice: tuple[str, ...] = ()
    ) -> Diagnostic:
        file = self._location.file
        otherwise = at or (None if file is None else failed.definition(str(file), self._target.name))
        return failed.cannot_run(
            self._target.text, self._stage, what, frames, folder=self._folder, otherwise=otherwise, advice=advice
        )

    def _advice(self, error: BaseException, frames: tuple[failed.Frame, ...]) -> tuple[str, ...]:
        name = self._target.name.split(".")[-1]
        if isinstance(error, TypeError) and not frames and self._stage == "building" and "argument" in str(error):
            return (f"write a function without arguments that returns `{name}(...)`, and name that as the target",)
        return ()

    def _rows(self, executed: Executed, subject: Subject) -> dict[str, list[tuple[int, int]]]:
        from modellint.live.unregistered_state import unregistered_state

        hidden = [
            part
            for held in unregistered_state(subject)
            if held.kind == "module"
            for part in held.value.modules()  # type: ignore[union-attr]
        ]
        return executed.rows([*(entry.module for entry in subject.modules), *hidden])


def _raised(failure: Failure) -> str:
    return f"raised {failure.error}" + (f": {' '.join(failure.message.split())}" if failure.message else "")


if __name__ == "__main__":
    main()
