"""The live targets of one run: from what the user typed to findings as those of source look."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from modellint.destinations import export_options
from modellint.destinations.export_options import OptionError, Options
from modellint.live.inputs import example as inputs
from modellint.results.diagnostic import Diagnostic
from modellint.run import Checker, Job, UsageError
from modellint.session.merge import LiveResult, merge
from modellint.session.parent import Answer, Limits, Request, check_target
from modellint.session.parent import UsageError as WorkerUsageError
from modellint.session.target import Location, Target, TargetError, locate, parse
from modellint.settings import Model


class Wanted(NamedTuple):
    """A live target that is to be checked, with what it is called with."""

    target: Target
    location: Location
    inputs: tuple[str, ...] = ()
    checkpoint: Path | None = None
    folder: Path = Path()
    """What files in ``inputs`` are relative to."""


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


def wanted(
    target: Target, root: Path, folder: Path, specs: Sequence[str] = (), checkpoint: Path | None = None
) -> Wanted:
    """Find what a target, its inputs and its checkpoint name, relative to ``folder``; nothing is run.

    Raises ``UsageError`` for what does not exist or cannot be understood.
    """
    try:
        location = locate(target, root, folder)
        inputs.parse_all(specs, folder)
    except (TargetError, inputs.InputError) as error:
        raise UsageError(str(error)) from None
    if checkpoint is not None:
        checkpoint = folder / checkpoint
        if not checkpoint.is_file():
            raise UsageError(f"{checkpoint}: no such checkpoint")
    return Wanted(target, location, tuple(specs), checkpoint, folder)


def wanted_by_settings(models: Sequence[Model], root: Path, config: Path) -> list[Wanted]:
    """The live targets that a settings file lists. Raises ``UsageError``."""
    found = []
    for model in models:
        target = parse(model.target)
        if target is None:
            raise UsageError(f"{config}: models: {model.target!r} is no live target, such as 'model.py:Net'")
        try:
            checkpoint = None if model.checkpoint is None else Path(model.checkpoint)
            found.append(wanted(target, root, config.parent, model.inputs, checkpoint))
        except UsageError as error:
            raise UsageError(f"{config}: models: {error}") from None
    return found


class Checked(NamedTuple):
    """One live target's result, and what is told beside the findings."""

    result: LiveResult
    notes: tuple[str, ...]
    output: str
    seconds: float


def check(
    job: Job,
    targets: Sequence[Wanted],
    limits: Limits,
    seed: int,
    plugin_base: Path,
    progress: Callable[[str, str, float], None] | None = None,
    *,
    twins: bool = False,
) -> Iterator[Checked]:
    """What the live checks of the targets show, one after another, with files named as source findings name them.

    With ``twins`` findings have fixes that a fixed copy of the model proves.

    ``progress`` is told the target, the stage and the seconds, again and again. Raises ``UsageError`` for a target that names
    nothing, or without torch.
    """
    if importlib.util.find_spec("torch") is None:
        raise UsageError("a live target needs PyTorch: pip install 'modellint[live]'")
    for one in targets:
        name = one.target.text

        def told(stage: str, seconds: float, name: str = name) -> None:
            if progress is not None:
                progress(name, stage, seconds)

        began = time.monotonic()
        try:
            answer = check_target(_request(job, one, seed, plugin_base)._replace(twins=twins), limits, told)
        except WorkerUsageError as error:
            raise UsageError(str(error)) from None
        found = tuple(_shown(job, finding) for finding in answer.diagnostics)
        executed = {job.shown(Path(path)): rows for path, rows in answer.executed.items()}
        result = LiveResult(name, found, executed, answer.failed, answer.asked, answer.verdict, answer.undecided)
        yield Checked(result, answer.notes, answer.output, time.monotonic() - began)


def _request(job: Job, one: Wanted, seed: int, plugin_base: Path) -> Request:
    folder = job.root if one.location.file is None else one.location.file.parent
    settings = job.resolver.of_folder(folder)
    return Request(
        one.target,
        one.location,
        job.root,
        job.folder,
        [code for code, rule in job.rules.items() if settings.enables(code, rule.default)],
        settings.destination,
        one.inputs,
        one.folder,
        one.checkpoint,
        job.resolver.top.plugins,
        plugin_base,
        seed,
    )


SHAPES_RULES = ("SHP008", "LNT003")


def shapes(
    job: Job,
    one: Wanted,
    limits: Limits,
    seed: int,
    plugin_base: Path,
    progress: Callable[[str, str, float], None] | None = None,
) -> Answer:
    """The table of a target's shapes, and why its run failed if it did, with files named as source findings name them.

    Raises ``UsageError`` for a target that names nothing or has no inputs, or without torch.
    """
    if importlib.util.find_spec("torch") is None:
        raise UsageError("a live target needs PyTorch: pip install 'modellint[live]'")

    def told(stage: str, seconds: float) -> None:
        if progress is not None:
            progress(one.target.text, stage, seconds)

    request = _request(job, one, seed, plugin_base)._replace(shapes=True, rules=SHAPES_RULES)
    try:
        answer = check_target(request, limits, told)
    except WorkerUsageError as error:
        raise UsageError(str(error)) from None
    return answer._replace(diagnostics=tuple(_shown(job, finding) for finding in answer.diagnostics))


def verify(
    job: Job,
    one: Wanted,
    limits: Limits,
    seed: int,
    detail: str,
    package: Path | None = None,
    progress: Callable[[str, str, float], None] | None = None,
) -> Answer:
    """What a target's conversion, or a saved package, computes against it, with files of findings as source findings name them.

    ``detail`` is ``outputs``, or ``layers`` where the errors of all operations are wanted. Raises ``UsageError`` for a target that
    names nothing or has no inputs, or without torch.
    """
    if importlib.util.find_spec("torch") is None:
        raise UsageError("a live target needs PyTorch: pip install 'modellint[coreml]'")

    def told(stage: str, seconds: float) -> None:
        if progress is not None:
            progress(one.target.text, stage, seconds)

    request = _request(job, one, seed, job.root)
    ignored = job.resolver.top.ignore
    rules = [code for code, rule in job.rules.items() if "execution" in rule.live_needs and code not in ignored]
    request = request._replace(verify=detail, package=package, rules=[*request.rules, *rules])
    try:
        answer = check_target(request, limits, told)
    except WorkerUsageError as error:
        raise UsageError(str(error)) from None
    return answer._replace(diagnostics=_with_source(job, one, answer))


def export(
    job: Job,
    one: Wanted,
    limits: Limits,
    seed: int,
    options: Options,
    made: Path,
    progress: Callable[[str, str, float], None] | None = None,
    *,
    texts: Mapping[str, str] | None = None,
) -> Answer:
    """Export a target to a package at ``made``, and tell how; findings are those of a check of the model as it is.

    ``texts`` are run in the place of what files hold.

    Whatever the worker writes is in the folder that ``made`` is in. Raises ``UsageError`` for a target that names nothing or has no
    inputs, for options that do not fit it, or without torch.
    """
    if importlib.util.find_spec("torch") is None:
        raise UsageError("a live target needs PyTorch: pip install 'modellint[coreml]'")

    def told(stage: str, seconds: float) -> None:
        if progress is not None:
            progress(one.target.text, stage, seconds)

    request = _request(job, one, seed, job.root)._replace(export=export_options.to_json(options), made=made)
    request = request._replace(texts=texts or {})
    try:
        export_options.check(options, request.destination)
    except OptionError as error:
        raise UsageError(str(error)) from None
    try:
        answer = check_target(request, limits, told)
    except WorkerUsageError as error:
        raise UsageError(str(error)) from None
    return answer._replace(diagnostics=_with_source(job, one, answer))


def _with_source(job: Job, one: Wanted, answer: Answer) -> tuple[Diagnostic, ...]:
    """What a live check found, at the places and with the fixes that the check of the target's file gives."""
    found = tuple(_shown(job, finding) for finding in answer.diagnostics)
    file = one.location.file
    if file is None or all(finding.path != job.shown(file) for finding in found):
        return found
    try:
        guesses = Checker(job).check(file)
    except OSError:
        return found
    merged = merge(guesses, [LiveResult(one.target.text, found)], job.rules)
    return tuple(finding for finding in merged if finding.evidence != "source")


def _shown(job: Job, finding: Diagnostic) -> Diagnostic:
    return finding if finding.path is None else finding._replace(path=job.shown(Path(finding.path)))
