"""``modellint export`` of several targets: a package for each, and the chain of all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modellint.cli.options import limits
from modellint.cli.output import Texts, Waiting, absolute, colored, findings_line, locators

if TYPE_CHECKING:
    from modellint.destinations.export_options import Options
    from modellint.results.diagnostic import Diagnostic
    from modellint.run import Job
    from modellint.session.messages import Answer, Request, StageTarget
    from modellint.session.target import Target

_ONE_MODEL = {
    "images": "--image",
    "labels": "--labels",
    "output_names": "--output-name",
    "checkpoint": "--checkpoint",
    "input_description": "--input-description",
    "output_description": "--output-description",
    "form": "--as",
}
"""Options that are about one model."""


def export(job: Job, targets: Sequence[Target], wanted: Options, options: Mapping[str, Any], timeout: float) -> bool:
    """Export a pipeline, and tell of it; whether its packages agree. ``timeout`` is for each stage."""
    from modellint.atomic_output import NotPlaced, place_all, staged
    from modellint.run import UsageError
    from modellint.session import request_dispatch
    from modellint.session.messages import ExportPipeline

    request, stages = _request(job, targets, options)
    folder: Path = options["output"]
    suffix = ".mlpackage"
    names = [f"{stage.name}{suffix}" for stage in stages]
    _check_folder(folder, names, options["force"])
    waiting = Waiting()
    allowed = limits({**options, "timeout": options["timeout"] or timeout * len(stages)})
    try:
        with staged(folder / names[0] if folder.is_dir() else folder) as making:
            action = ExportPipeline(stages, options["chain"] is not None, wanted, making)
            try:
                answer = request_dispatch.answer(job, request._replace(action=action), allowed, waiting)
            finally:
                waiting.close()
            pipeline = answer.pipeline
            written = pipeline is not None and (pipeline.writable or (pipeline.converts and options["force"]))
            if written:
                place_all(
                    [making / stage.name / name for stage, name in zip(stages, names, strict=True)],
                    folder,
                    options["force"],
                )
    except NotPlaced as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror or error}") from None
    for note in answer.notes:
        click.echo(f"note: {note}", err=True)
    report = _json if options["output_format"] == "json" else _text
    click.echo(report(job, answer, folder, written), nl=False, color=True)
    return pipeline is not None and pipeline.writable


def _request(
    job: Job, targets: Sequence[Target], options: Mapping[str, Any]
) -> tuple[Request, tuple[StageTarget, ...]]:
    """What is asked about the chain, or about the first stage without one, and the stages. Raises ``click.UsageError``."""
    from modellint.session import request_dispatch
    from modellint.session.messages import StageTarget
    from modellint.session.target import parse

    if job.resolver.top.goal.name != "coreml" or len(job.resolver.top.goals) > 1:
        raise click.UsageError("a pipeline is exported for Core ML alone: --destination coreml")
    for key, option in _ONE_MODEL.items():
        if options[key]:
            raise click.UsageError(f"{option} is about one model: it does not go with several targets")
    seed = options["seed"] or 0
    requests = [request_dispatch.request_for(job, target, seed=seed) for target in targets]
    stages = tuple(
        StageTarget(name, each.target, each.location) for name, each in zip(_names(targets), requests, strict=True)
    )
    if options["chain"] is None:
        if options["inputs"]:
            raise click.UsageError(
                "--input: the inputs of several targets are what their functions return; with --chain it gives an argument of that"
            )
        return requests[0], stages
    chain = parse(options["chain"])
    if chain is None or chain.item:
        raise click.UsageError(f"--chain {options['chain']}: not a function, such as pipeline.py:run")
    return request_dispatch.request_for(job, chain, options["inputs"], seed=seed), stages


def _names(targets: Sequence[Target]) -> Iterator[str]:
    """What each stage is called: the last part of its target's name, or its own of a collection. Raises ``click.UsageError``."""
    known: dict[str, Target] = {}
    for target in targets:
        name = target.item or target.name.rpartition(".")[2]
        if not name.isidentifier():
            raise click.UsageError(f"{target.text}: {name!r} cannot be the name of a parameter, as a stage's has to be")
        if name in known:
            raise click.UsageError(
                f"{known[name].text} and {target.text} are both called {name}: name the stages apart"
            )
        known[name] = target
        yield name


def _check_folder(folder: Path, names: Sequence[str], force: bool) -> None:
    if folder.suffix in (".mlpackage", ".aimodel"):
        raise click.UsageError(f"--output {folder}: for several targets it is a folder, which the packages go into")
    if not folder.absolute().parent.is_dir():
        raise click.UsageError(f"--output {folder}: there is no folder {folder.absolute().parent}")
    if os.path.lexists(folder) and not folder.is_dir():
        raise click.UsageError(f"--output {folder}: it is no folder")
    for name in names:
        if os.path.lexists(folder / name) and not force:
            raise click.UsageError(f"--output {folder}: {folder / name} exists: --force replaces it")


def _json(job: Job, answer: Answer, folder: Path, written: bool) -> str:
    from modellint.report import as_json, pipeline_text
    from modellint.version import version

    entries = as_json.objects(answer.diagnostics, job.resolver.top.docs_url, absolute)
    return as_json.dump(pipeline_text.objects(answer.pipeline, str(folder), written, version(), entries))


def _text(job: Job, answer: Answer, folder: Path, written: bool) -> str:
    from modellint.report import findings_with_source, pipeline_text
    from modellint.results.diagnostic import Severity

    color = colored(sys.stdout)
    texts = Texts(job.folder, None)
    name, line = locators(job, texts)
    pipeline = answer.pipeline
    findings = [finding for finding in answer.diagnostics if finding.severity >= Severity.WARNING]
    if pipeline is None:
        return findings_with_source.render(findings, texts, color) + f"\n{folder}: not exported\n"
    summary = pipeline_text.render(pipeline, str(folder), written, color, shown=name, line=line)
    if not pipeline.writable:
        return (findings_with_source.render(findings, texts, color) + "\n" if findings else "") + summary
    return summary + "".join(_noted(findings))


def _noted(findings: Sequence[Diagnostic]) -> Iterator[str]:
    """What the checks of the stages as they are have found, in a line for each."""
    for target in dict.fromkeys(finding.target for finding in findings):
        yield findings_line([finding for finding in findings if finding.target == target], target or "")
