"""The live targets of one run: from the command line or settings to requests, and from answers to findings."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from modellint import destinations
from modellint.destinations import export_options
from modellint.destinations.export_options import OptionError
from modellint.live.inputs import input_spec as inputs
from modellint.results.diagnostic import Diagnostic
from modellint.run import Checker, Job, UsageError
from modellint.session.merge import LiveResult, merge
from modellint.session.messages import (
    Answer,
    Check,
    Export,
    ExportLanguageModel,
    ExportPipeline,
    Limits,
    Request,
    Shapes,
    Verify,
    VerifyRecorded,
)
from modellint.session.target import Location, Target, TargetError, locate, parse
from modellint.settings import Model

if TYPE_CHECKING:
    from modellint.session.answer_cache import AnswerCache

Progress = Callable[[str, str, float], None]
"""Told the target, the stage and the seconds, again and again."""
_EARLIER = "the result of an earlier run (--cache-live); files that it only opens and the environment may have changed"
SHAPES_RULES = ("SHP008", "LNT003")
"""Codes of the rules that say why there is no table of shapes."""


def split(targets: Iterable[str]) -> tuple[list[str], list[Target]]:
    """Command-line targets as files and folders, and live ones."""
    files: list[str] = []
    live: list[Target] = []
    for text in targets:
        target = parse(text)
        if target is None:
            files.append(text)
        else:
            live.append(target)
    return files, live


def request_for(
    job: Job,
    target: Target,
    specs: Sequence[str] = (),
    checkpoint: Path | None = None,
    *,
    seed: int = 0,
    folder: Path | None = None,
    constants: Sequence[str] = (),
    random_inputs: bool = False,
) -> Request:
    """Find what a target, its inputs and its checkpoint name, relative to ``folder``, by default the user's; nothing is run.

    Raises ``UsageError`` for what does not exist or cannot be understood.
    """
    folder = folder or job.folder
    try:
        location = locate(target, job.root, folder)
        inputs.parse_all(specs, folder)
    except (TargetError, inputs.InputError) as error:
        raise UsageError(str(error)) from None
    if checkpoint is not None:
        checkpoint = folder / checkpoint
        if not checkpoint.is_file():
            raise UsageError(f"{checkpoint}: no such checkpoint")
    return Request(
        target,
        location,
        job.root,
        job.folder,
        (),
        inputs=tuple(specs),
        input_folder=folder,
        constants=tuple(constants),
        random_inputs=random_inputs,
        checkpoint=checkpoint,
        plugins=job.plugins,
        seed=seed,
    )


def request_recorded(job: Job, package: Path, folder: Path) -> Request:
    """The comparison of a recorded case of a saved package, for which no model is built."""
    target, location = Target(str(package), "", package.stem), Location(None, "", (), False)
    return Request(target, location, job.root, job.folder, (), VerifyRecorded(package, folder))


def requests_of_settings(job: Job, models: Sequence[Model], config: Path, *, seed: int = 0) -> list[Request]:
    """The live targets that a settings file lists. Raises ``UsageError``."""
    requests = []
    for model in models:
        target = parse(model.target)
        if target is None:
            raise UsageError(f"{config}: models: {model.target!r} is no live target, such as 'model.py:Net'")
        try:
            checkpoint = None if model.checkpoint is None else Path(model.checkpoint)
            request = request_for(job, target, model.inputs, checkpoint, seed=seed, folder=config.parent)
        except UsageError as error:
            raise UsageError(f"{config}: models: {error}") from None
        requests.append(request)
    return requests


def answer(
    job: Job,
    request: Request,
    limits: Limits,
    progress: Progress | None = None,
    answers: AnswerCache | None = None,
) -> Answer:
    """What a worker answers to a request, under the settings of the target's folder, with files as source findings name them.

    With ``answers`` one that was kept will do. Findings of a verification or an export stand at the places and have the fixes that
    the check of the target's file gives. Raises ``UsageError`` for a target that names nothing or has no inputs, for options that do
    not fit it, or without what it needs.
    """
    converts = isinstance(request.action, (Verify, VerifyRecorded, Export, ExportLanguageModel, ExportPipeline))
    expect_extras("coreml" if converts else "live")
    # It is psutil's, which the base installation lacks.
    from modellint.session.parent import check_target

    def report(stage: str, seconds: float) -> None:
        if progress is not None:
            progress(request.target.text, stage, seconds)

    asked = under_settings(job, request)
    shown = _shown(
        job, check_target(asked, limits, report) if answers is None else _kept(answers, asked, limits, report)
    )
    if isinstance(request.action, (Verify, Export)):
        return shown._replace(diagnostics=_with_source(job, request, shown.diagnostics))
    if isinstance(request.action, ExportPipeline):
        return shown._replace(diagnostics=tuple(_of_stages(job, request, request.action, shown.diagnostics)))
    return shown


def _of_stages(
    job: Job, request: Request, action: ExportPipeline, diagnostics: Sequence[Diagnostic]
) -> Iterator[Diagnostic]:
    """What was found of each stage, and then of the chain, as ``_with_source`` has it."""
    stages = [request._replace(target=stage.target, location=stage.location) for stage in action.stages]
    for each in {asked.target.text: asked for asked in (*stages, request)}.values():
        own = tuple(finding for finding in diagnostics if finding.target == each.target.text)
        yield from _with_source(job, each, own)


def _kept(answers: AnswerCache, request: Request, limits: Limits, report: Callable[[str, float], None]) -> Answer:
    """The answer of an earlier run, said so; or that of a worker, which is kept."""
    from modellint.session.parent import check_target

    asked = request._replace(with_facts=True)
    if (known := answers.get(asked, limits)) is not None:
        return known._replace(notes=(*known.notes, f"{request.target.text}: {_EARLIER}"))
    answer = check_target(asked, limits, report)
    answers.put(asked, limits, answer)
    return answer


def expect_extras(extra: str) -> None:
    """Raise ``UsageError`` where what a live target needs is not installed."""
    for module, name in (("torch", "PyTorch"), ("psutil", "psutil")):
        if importlib.util.find_spec(module) is None:
            raise UsageError(f"a live target needs {name}: pip install 'modellint[{extra}]'")


def under_settings(job: Job, request: Request) -> Request:
    """A request with the rules that are to be asked, and where the model is to go."""
    file = request.location.file
    settings = job.resolver.of_folder(job.root if file is None else file.parent)
    goal = next((goal for goal in settings.goals if goal.name == request.destination.name), settings.goal)
    destination = destinations.named(goal.name)
    if goal.name != "coreml" and not destination.is_installed:
        raise UsageError(f"--destination {goal.name} needs {destination.requirement}")
    rules = [
        code for code, rule in job.rules.items() if settings.enables(code, rule.default) and rule.holds_for(goal.name)
    ]
    match request.action:
        case Shapes():
            rules = list(SHAPES_RULES)
        case Verify():
            ignored = job.resolver.top.ignore
            needed = (code for code, rule in job.rules.items() if "execution" in rule.live_needs)
            rules += [code for code in needed if code not in ignored and job.rules[code].holds_for(goal.name)]
        case Export(options=options) | ExportPipeline(options=options):
            try:
                export_options.check(options, goal)
            except OptionError as error:
                raise UsageError(str(error)) from None
    return request._replace(rules=rules, destination=goal)


def requests_by_goal(job: Job, requests: Iterable[Request]) -> Iterator[Request]:
    """Each request once for each destination that the settings of its target name."""
    for request in requests:
        file = request.location.file
        for goal in job.resolver.of_folder(job.root if file is None else file.parent).goals:
            yield request._replace(destination=goal)


class Checked(NamedTuple):
    """One live target's result, and what is told beside the findings."""

    result: LiveResult
    notes: tuple[str, ...]
    output: str
    seconds: float


def check(
    job: Job,
    requests: Iterable[Request],
    limits: Limits,
    progress: Progress | None = None,
    *,
    proves_fixes: bool = False,
    answers: AnswerCache | None = None,
) -> Iterator[Checked]:
    """What the live checks of targets show, one after another.

    A target that is to go to several destinations is checked for each.

    With ``proves_fixes`` findings have fixes that a fixed copy of the model proves; with ``answers`` those of earlier runs are used, and
    new ones kept. Raises ``UsageError`` as ``answer`` does.
    """
    told: dict[str, set[Diagnostic]] = {}
    for request in requests_by_goal(job, requests):
        began = time.monotonic()
        reply = answer(job, request._replace(action=Check(proves_fixes)), limits, progress, answers)
        # What does not depend on the destination is told once.
        known = told.setdefault(request.target.text, set())
        reply = reply._replace(diagnostics=tuple(finding for finding in reply.diagnostics if finding not in known))
        known.update(reply.diagnostics)
        result = LiveResult(
            request.target.text,
            reply.diagnostics,
            reply.executed,
            reply.failed,
            reply.asked,
            reply.conversion,
            reply.undecided,
        )
        yield Checked(result, reply.notes, reply.output, time.monotonic() - began)


def _with_source(job: Job, request: Request, diagnostics: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    """What a live check found, at the places and with the fixes that the check of the target's file gives."""
    file = request.location.file
    if file is None or all(finding.path != job.shown(file) for finding in diagnostics):
        return diagnostics
    try:
        guesses = Checker(job).check(file)
    except OSError:
        return diagnostics
    merged = merge(guesses, [LiveResult(request.target.text, diagnostics)], job.rules)
    return tuple(finding for finding in merged if finding.evidence != "source")


def _shown(job: Job, reply: Answer) -> Answer:
    diagnostics = tuple(
        finding if finding.path is None else finding._replace(path=job.shown(Path(finding.path)))
        for finding in reply.diagnostics
    )
    executed = {job.shown(Path(path)): rows for path, rows in reply.executed.items()}
    return reply._replace(diagnostics=diagnostics, executed=executed)
