"""The worker's side of a live check: builds one target, asks the rules about it, and sends the answer."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from modellint.destinations.destination import PackageError
from modellint.destinations.export_options import OptionError
from modellint.live.code import places
from modellint.live.inputs import input_spec
from modellint.live.inputs.model_inputs import Inputs
from modellint.session import target
from modellint.session import target_failure as failed
from modellint.session.building import Again, Builder, Failed, seed_generators
from modellint.session.messages import (
    MESSAGE,
    START,
    Answer,
    Check,
    Export,
    ExportLanguageModel,
    ExportPipeline,
    InternalError,
    Message,
    Models,
    Partial,
    Provisional,
    Refusal,
    Restart,
    Shapes,
    Stage,
    Start,
    Verify,
    VerifyRecorded,
)
from modellint.session.resources import process_family

if TYPE_CHECKING:
    from modellint.live.capture.line_coverage import Executed
    from modellint.live.subject import Subject
    from modellint.session.requested_actions import Session

_SPARE = 0.5
"""How much of the time-out a check may have taken when it is through with what else converts the model."""
_SHARE = 0.95
"""How much of the time-out a verification plans with; the rest goes to the start and the end of the process."""


def main() -> None:
    """Read a request from standard input, serve it, and end the process whatever the user's code has left running."""
    leave = os._exit
    start = START.from_json(json.loads(sys.stdin.buffer.read()))
    channel = Channel(start.results)
    _settle(start)
    message: Message
    try:
        message = _served(start, channel)
    except BaseException as error:
        message = InternalError(f"{failed.described(error)} ({_place_of(error)})")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
    channel.send(message)
    leave(0)


def _place_of(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


class Channel:
    """The pipe to the parent: one JSON object a line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._process = os.getpid()
        # Bound now: the user's code may replace what other modules hold.
        self._encode = json.JSONEncoder().encode
        self._write = os.write
        self._exit = os._exit
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def send(self, message: Message) -> None:
        """Write a message. A process that the user's code forked and let come here ends instead."""
        if os.getpid() != self._process:
            self._exit(0)
        data = self._encode(MESSAGE.to_json(message)).encode("utf-8") + b"\n"
        while data:
            data = data[self._write(self._descriptor, data) :]


def _settle(start: Start) -> None:
    """Make the process harmless: no standard input, an end when the parent ends, a place in crashes; what it prints is UTF-8."""
    with contextlib.suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
    for stream in (sys.stdout, sys.stderr):
        # The parent reads UTF-8, and nothing that a model prints is to end it, whatever the locale or code page.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    process_family.die_with_parent(start.parent)
    process_family.volunteer_for_the_oom_killer()
    faulthandler.enable(file=start.trace)
    if sys.platform != "win32":
        faulthandler.register(signal.SIGUSR2, file=start.trace)


def _served(start: Start, channel: Channel) -> Message:
    """What to tell the parent: an answer, or why there is none."""
    gc.disable()
    try:
        import torch  # noqa: F401
    except BaseException as error:
        return Refusal(f"PyTorch cannot be imported: {failed.described(error)}")
    finally:
        gc.enable()
    from modellint.session.requested_actions import Session

    # What PyTorch has made so far is no garbage, and is too much to be gone through again and again.
    gc.freeze()
    request = start.request
    process_family.limit_data(start.memory)
    if request.location.file is not None:
        places.remember(str(request.location.file))

    def entered(stage: str) -> None:
        channel.send(Stage(stage))
        seed_generators(request.seed)

    began, since = time.monotonic(), time.time()
    session = Session(request, lambda: began + _SPARE * start.timeout, entered)
    builder = Builder(session, start.on_meta)
    message = _worked(_Work(session, builder, channel, start.timeout, began), session)
    if request.with_facts and isinstance(message, Answer):
        from modellint.session.target_facts import facts_of

        # The user's code may have left anything behind; the answer holds without them.
        with contextlib.suppress(Exception):
            return message._replace(facts=facts_of(builder.model, since))
    return message


def _worked(work: _Work, session: Session) -> Message:
    """The answer of a request, or why there is none."""
    from modellint.live.inputs import lazy_parameters

    try:
        return work.answer()
    except (target.TargetError, input_spec.InputError, OptionError, PackageError) as error:
        return Refusal(str(error))
    except Again:
        return Restart()
    except lazy_parameters.Unshaped as error:
        return session.answer([session.cannot_run(str(error), advice=error.advice)], failed=True)
    except Failed as error:
        return session.answer([session.raised(error.__cause__ or error)], failed=True)


class _Work:
    """One request at work: the model built, and the action on it."""

    def __init__(self, session: Session, build: Builder, channel: Channel, timeout: float, began: float) -> None:
        self._session = session
        self._build = build
        self._channel = channel
        self._timeout = timeout
        self._began = began

    def answer(self) -> Answer:
        """What the request's action shows."""
        action = self._session.request.action
        match action:
            case Check():
                return self._checked()
            case Shapes():
                return self._shaped()
            case Verify():
                return self._verified(action)
            case VerifyRecorded():
                return self._session.verify_recorded(action)
            case Export():
                return self._exported(action)
            case ExportLanguageModel():
                model = self._build.model_with_values("export")
                exported = self._session.export_language_model(model, action.wanted, action.package)
                return self._session.answer([], language_model=exported)
            case ExportPipeline():
                return self._pipeline(action)
            case Models():
                return self._session.answer([], models=self._build.collection())

    def _checked(self) -> Answer:
        from modellint.live.capture.line_coverage import Executed
        from modellint.live.check import needs_of
        from modellint.live.placeholder_attributes import undecided

        session, rules = self._session, self._build.rules()
        checkpoint = self._build.checkpoint(values=False)
        with Executed(session.project) as executed:
            # What cannot be built on a real device cannot be exported, whatever rules look at.
            built = self._build.built(bool({"values", "conversion"} & needs_of(rules)) or "LNT003" in rules)
            subject = session.subject(*built, checkpoint)
            failures = session.run(subject, rules)
        answer = session.check(subject, rules, failures)
        return answer._replace(executed=_rows(executed, subject), undecided=undecided(subject))

    def _shaped(self) -> Answer:
        """The table of shapes, from a model without values unless its run asks for some."""
        from modellint.live.capture.fake_tensor_run import captured_run

        rules = self._build.rules()
        for needs_values in (False, True):
            built = self._build.built(needs_values, only_shapes=True)
            if built.inputs is None:
                raise self._build.without_inputs(built)
            subject = self._session.subject(*built)
            answer = self._session.shapes(subject, rules)
            run = captured_run(subject)
            if run is None or run.failure is None or run.failure.kind != "data" or built.has_values:
                break
        return answer

    def _verified(self, action: Verify) -> Answer:
        model, inputs = self._build.with_values("verify")
        return self._session.verify(
            model,
            inputs,
            self._build.rules(),
            action,
            specs=self._build.compared_specs,
            # Converting and judging take time as well.
            budget=0.4 * self._timeout,
            limit=_SHARE * self._timeout - (time.monotonic() - self._began),
            partly=lambda known: self._channel.send(Partial(known)),
        )

    def _exported(self, action: Export) -> Answer:
        """The package, as a file, and what the checks of the model as it is find."""
        model, inputs = self._build.with_values("export")
        return self._session.checked_export(
            model,
            inputs,
            action.options,
            action.package,
            self._build.rules(),
            self._build.compared_specs,
            provisionally=lambda answer: self._channel.send(Provisional(answer)),
        )

    def _pipeline(self, action: ExportPipeline) -> Answer:
        """A package of each stage, and the chain of them; or why a stage cannot be built."""
        from modellint.live.inputs import lazy_parameters
        from modellint.session.pipelines.stages import BuiltStage, export_pipeline

        function = self._build.function() if action.has_chain else None
        stages = []
        for stage in action.stages:
            session = self._session.of_target(stage.target, stage.location, f"{stage.name}: ")
            build = Builder(session, self._build.on_meta, self._build.modules)
            try:
                built = build.built_with_values("export")
            except lazy_parameters.Unshaped as error:
                return session.answer([session.cannot_run(str(error), advice=error.advice)], failed=True)
            except Failed as error:
                return session.answer([session.raised(error.__cause__ or error)], failed=True)
            stages.append(BuiltStage(stage.name, session, built.model, built.inputs, build.rules()))
        inputs = self._build.inputs_alone() if action.has_chain else Inputs()
        return export_pipeline(self._session, stages, function, inputs, action.options, action.folder)


def _rows(executed: Executed, subject: Subject) -> dict[str, frozenset[int]]:
    """For each file the rows that ran for every instance, those that PyTorch does not know of too."""
    from modellint.live.unregistered_state import unregistered_state

    unregistered = [
        part
        for hidden in unregistered_state(subject)
        if hidden.kind == "module"
        for part in hidden.value.modules()  # type: ignore[union-attr]
    ]
    stretches = executed.rows([*(entry.module for entry in subject.modules), *unregistered])
    return {
        path: frozenset(row for first, last in pairs for row in range(first, last + 1))
        for path, pairs in stretches.items()
    }


if __name__ == "__main__":
    main()
