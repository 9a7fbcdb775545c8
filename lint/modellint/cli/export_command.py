"""``modellint export``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modellint.cli.options import (
    Command,
    NamedPath,
    deployment_target,
    destination,
    exit_with,
    file_of,
    limits,
    resolve,
    with_capture,
    with_color,
    with_constants,
    with_inputs,
    with_plugins,
    with_random_inputs,
    with_settings,
)
from modellint.cli.output import Texts, Waiting, colored, findings_line, locators

if TYPE_CHECKING:
    from modellint.destinations.export_options import Options
    from modellint.run import Job
    from modellint.session.messages import Answer, Request

TIMEOUT = 1800.0
"""Seconds that an export may take where nobody says else: large models take minutes to convert, more than once."""


@click.command("export", cls=Command)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@with_inputs
@with_constants
@with_random_inputs
@click.option(
    "--output",
    "-o",
    type=NamedPath(path_type=Path),
    required=True,
    metavar="OUT.mlpackage",
    help="The package that is to be written: .mlpackage, or .aimodel for Core AI; for both, or several targets, the folder.",
)
@click.option(
    "--chain",
    metavar="TARGET",
    help="A function that calls the targets by name and returns tensors: it is run with PyTorch and with the packages.",
)
@click.option("--force", is_flag=True, help="Replace what is there, and write a package that does not agree too.")
@with_capture(
    checkpoint="Load these weights first.",
    frontend="How the model is captured (default: auto: trace, then export, until the package agrees).",
    precision="What the package computes in (default: fp16).",
)
@destination
@deployment_target
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="SPEC",
    help="Take this input as an image: NAME[:rgb|bgr|grayscale][,scale=1/255][,bias=R,G,B]; the model gets scale * pixel + bias.",
)
@click.option(
    "--labels", type=NamedPath(path_type=Path), metavar="FILE", help="Make a classifier, with a label on each line."
)
@click.option(
    "--as",
    "form",
    type=click.Choice(["language-model"]),
    help="Make prefill and decode of a language model, its caches as states (iOS18); of an encoder-decoder encode too.",
)
@click.option("--context", type=click.IntRange(min=1), metavar="N", help="Tokens that a language model's caches hold.")
@click.option("--state", "states", is_flag=True, help="Keep buffers that forward updates as states (iOS18).")
@click.option("--output-name", "output_names", multiple=True, metavar="NAME", help="Name the outputs, in their order.")
@click.option("--author", metavar="TEXT", help="Who made the model.")
@click.option("--license", metavar="TEXT", help="Its licence.")
@click.option("--description", metavar="TEXT", help="What it does.")
@click.option("--model-version", metavar="TEXT", help="Its version.")
@click.option("--input-description", multiple=True, metavar="NAME=TEXT", help="What an input is.")
@click.option("--output-description", multiple=True, metavar="NAME=TEXT", help="What an output is.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="How the report of several targets is printed (default: text).",
)
@with_plugins
@with_settings
@with_color
def export_command(targets: tuple[str, ...], **options: Any) -> None:
    """Check a live target, fix what can be fixed in it, convert it, execute the package here, and write it if it agrees.

    Several targets are the stages of a pipeline: a package for each, all of them or none. A time-out is 1800 s for each unless
    --timeout says else. Exits with 1 where the model does not convert or does not agree.
    """
    exit_with(lambda: _export(targets, options))


def _export(words: Sequence[str], options: Mapping[str, Any]) -> int:
    from modellint.destinations.export_options import OptionError
    from modellint.session import request_dispatch
    from modellint.session.target import parse

    targets = []
    for text in words:
        target = parse(text)
        if target is None:
            raise click.UsageError(f"{text}: not a live target, such as model.py:Net")
        targets.append(target)
    text, target = words[0], targets[0]
    job = resolve(Path(file_of(text)), {**options, "output_format": None})
    try:
        wanted = _options(options)
    except OptionError as error:
        raise click.UsageError(str(error)) from None
    if options["form"] is None and options["context"] is not None:
        raise click.UsageError("--context goes with --as language-model")
    is_pipeline = len(targets) > 1 or options["chain"] is not None
    if options["constants"] and (is_pipeline or options["form"] is not None):
        raise click.UsageError("--constant goes with one target, and not with --chain or --as")
    if options["random_inputs"] and (is_pipeline or options["form"] is not None):
        raise click.UsageError("--random-inputs goes with one target, and not with --chain or --as")
    if is_pipeline:
        from modellint.cli import pipeline

        return 0 if pipeline.export(job, targets, wanted, options, TIMEOUT) else 1
    if options["output_format"] != "text":
        raise click.UsageError("--output-format json is the report of several targets, or of one with --chain")
    outputs = list(_outputs([goal.name for goal in job.resolver.top.goals], target.name, options))
    if options["form"] is not None:
        from modellint.cli import language_model

        return 0 if language_model.export(job, target, outputs[0], wanted, options) else 1
    request = request_dispatch.request_for(
        job,
        target,
        options["inputs"],
        options["checkpoint"],
        seed=options["seed"] or 0,
        constants=options["constants"],
        random_inputs=options["random_inputs"],
    )
    written = [
        _export_one(job, text, request._replace(destination=goal), wanted, output, options)
        for goal, output in zip(job.resolver.top.goals, outputs, strict=True)
    ]
    return 0 if all(written) else 1


def _outputs(names: Sequence[str], model: str, options: Mapping[str, Any]) -> Iterator[Path]:
    """The package for each destination: what ``--output`` says or, for several, one in the folder that it names."""
    from modellint import destinations

    output: Path = options["output"]
    for name in names:
        suffix = destinations.named(name).suffix
        if len(names) > 1 and not output.is_dir():
            raise click.UsageError(f"--output {output}: for several destinations it is a folder, and there is none")
        package = output / f"{model.rpartition('.')[2]}{suffix}" if len(names) > 1 else output
        _check_output(package, suffix, options["force"])
        yield package


def _export_one(
    job: Job, text: str, request: Request, wanted: Options, output: Path, options: Mapping[str, Any]
) -> bool:
    """Export for one destination; whether the package agrees."""
    from modellint.atomic_output import NotPlaced, place, staged
    from modellint.run import UsageError
    from modellint.session import request_dispatch
    from modellint.session.failed_export_advice import Refused, ways_on
    from modellint.session.messages import Export

    allowed = limits({**options, "timeout": options["timeout"] or TIMEOUT})
    waiting = Waiting()
    advice: list[str] = []
    try:
        with staged(output) as folder:
            package = folder / output.name
            began = time.monotonic()
            try:
                action = Export(wanted, package)
                answer = request_dispatch.answer(job, request._replace(action=action), allowed, waiting)
                exported = answer.exported
                written = exported is not None and (exported.writable or (exported.converts and options["force"]))
                if not written and request.destination.name == "coreml":
                    seconds = time.monotonic() - began
                    refused = Refused(job, request, action, allowed, answer, seconds)
                    advice = list(ways_on(refused, folder, waiting))
            finally:
                waiting.close()
            if written:
                place(package, output, options["force"])
    except NotPlaced as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror or error}") from None
    for note in answer.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(_shown(job, text, answer, output, written), nl=False, color=True)
    for way in advice:
        click.echo(f"go on with {way}")
    return exported is not None and exported.writable


def _check_output(output: Path, suffix: str, force: bool) -> None:
    if output.suffix != suffix:
        raise click.UsageError(f"--output {output}: the name of a package ends in {suffix}")
    if not output.absolute().parent.is_dir():
        raise click.UsageError(f"--output {output}: there is no folder {output.absolute().parent}")
    if os.path.lexists(output) and not force:
        raise click.UsageError(f"--output {output} exists: --force replaces it")


def _options(options: Mapping[str, Any]) -> Options:
    from modellint.destinations import export_options
    from modellint.destinations.export_options import Metadata, Options

    metadata = Metadata(
        options["author"] or "",
        options["license"] or "",
        options["description"] or "",
        options["model_version"] or "",
        export_options.parse_described(options["input_description"], "--input-description"),
        export_options.parse_described(options["output_description"], "--output-description"),
    )
    return Options(
        tuple(map(export_options.parse_image, options["images"])),
        () if options["labels"] is None else export_options.read_labels(options["labels"]),
        options["states"],
        options["output_names"],
        metadata,
    )


def _shown(job: Job, target: str, answer: Answer, output: Path, written: bool) -> str:
    from modellint.report import export_text, findings_with_source
    from modellint.results.diagnostic import Severity

    color = colored(sys.stdout)
    texts = Texts(job.folder, None)
    name, line = locators(job, texts)
    exported = answer.exported
    findings = [finding for finding in answer.diagnostics if finding.severity >= Severity.WARNING]
    if exported is None:
        return findings_with_source.render(findings, texts, color) + f"\n{output}: not exported\n"
    summary = export_text.render(exported, str(output), written, color, shown=name, line=line)
    if exported.writable:
        return summary + findings_line(findings, target)
    return (findings_with_source.render(findings, texts, color) + "\n" if findings else "") + summary
