"""``modellint verify``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
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
    resolve,
    with_capture,
    with_color,
    with_constants,
    with_inputs,
    with_plugins,
    with_random_inputs,
    with_settings,
)
from modellint.cli.output import Texts, absolute, colored, expect_output, locators, write

if TYPE_CHECKING:
    from modellint.results.diagnostic import Diagnostic
    from modellint.results.verification import Verification
    from modellint.run import Job
    from modellint.session.messages import Answer, Request


@click.command("verify", cls=Command)
@click.argument("target")
@with_inputs
@with_constants
@with_random_inputs
@click.option("--reference", metavar="TARGET", help="Compare a saved .mlpackage with this live target.")
@click.option(
    "--record",
    type=NamedPath(path_type=Path),
    metavar="DIR",
    help="Write the inputs and PyTorch's outputs there, with a script that predicts on a Mac.",
)
@click.option(
    "--recorded",
    type=NamedPath(path_type=Path),
    metavar="DIR",
    help="Compare a saved .mlpackage with what that script brought back from a Mac.",
)
@with_capture(
    checkpoint="Load these weights first.",
    frontend="How the model is captured for Core ML (default: auto: trace, then export).",
    precision="What the model computes in on Core ML (default: fp16; float32 is compared in any case).",
)
@destination
@deployment_target
@with_plugins
@with_settings
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    help="How the comparison is printed (default: text).",
)
@click.option("--output-file", "-o", type=NamedPath(path_type=Path), metavar="FILE", help="Write the report there.")
@with_color
def verify_command(target: str, **options: Any) -> None:
    """Convert a live target, execute the converted program here, and compare it with PyTorch.

    With --reference or --recorded the target is a saved .mlpackage. Exits with 1 where the model does not convert or does not agree.
    """
    exit_with(lambda: _verify(target, options))


def _verify(text: str, options: Mapping[str, Any]) -> int:
    from modellint.session import request_dispatch
    from modellint.session.messages import Verify
    from modellint.session.target import parse
    from modellint.settings import RUNTIMES

    expect_output(options)
    if options["record"] is not None and options["recorded"] is not None:
        raise click.UsageError("--record and --recorded do not go together: first record, then predict on a Mac")
    package = None
    live = text
    if options["reference"] is not None or options["recorded"] is not None:
        package = _package(text, options)
    if options["reference"] is not None:
        live = options["reference"]
    elif package is not None:
        return _verify_recorded(text, package, options)
    target = parse(live)
    if target is None:
        if package is None and text.rstrip("/").endswith((".mlpackage", ".mlmodel", ".aimodel")):
            raise click.UsageError(
                f"{text}: name the PyTorch model that it is to be compared with: --reference model.py:Net"
            )
        raise click.UsageError(f"{live}: not a live target, such as model.py:Net")
    shown_format = options["output_format"]
    job = resolve(Path(file_of(live)), {**options, "output_format": None})
    action = Verify("outputs" if shown_format == "text" else "layers", package)
    request = request_dispatch.request_for(
        job,
        target,
        options["inputs"],
        options["checkpoint"],
        seed=options["seed"] or 0,
        constants=options["constants"],
        random_inputs=options["random_inputs"],
    )._replace(action=action)
    requests = list(request_dispatch.requests_by_goal(job, [request])) if package is None else [request]
    if len(requests) > 1 and shown_format != "text":
        raise click.UsageError(f"--output-format {shown_format} shows one destination: give it with --destination")
    _check_record([wanted.destination.name for wanted in requests], options)
    texts, agrees = [], True
    for wanted in requests:
        answer = _answered(job, wanted, options)
        result, findings = answer.verification, answer.diagnostics
        if package is not None and options["recorded"] is not None and result is not None:
            told = _of_recorded(job, package, options).verification
            result = result if told is None else result.with_recorded(told)
        head = f"{RUNTIMES[wanted.destination.name]}\n" if len(requests) > 1 else ""
        texts.append(head + _verification(job, text, result, findings, options))
        agrees &= result is not None and result.ok
    write("\n".join(texts), options, False)
    return 0 if agrees else 1


def _package(text: str, options: Mapping[str, Any]) -> Path:
    """The saved package that the target is, and a case of it where one is named. Raises ``UsageError``."""
    from modellint import destinations
    from modellint.destinations.destination import PackageError
    from modellint.run import UsageError

    package = Path(text).absolute()
    if not os.path.lexists(package):
        raise click.UsageError(f"{text}: no such package")
    destination = destinations.named(destinations.of_package(text))
    try:
        destination.check_package(text)
        if options["recorded"] is not None:
            destination.check_recorded(Path(text), options["recorded"])
    except PackageError as error:
        raise UsageError(str(error)) from None
    with_case = options["reference"] is None
    own = ("inputs", "constants", "random_inputs", "checkpoint", "seed") if with_case else ()
    for name in ("destination", "frontend", "precision", "deployment_target", *own):
        if options[name]:
            shown = {"inputs": "input", "constants": "constant"}.get(name, name).replace("_", "-")
            why = "the case has its inputs" if name in own else "the package is converted"
            raise click.UsageError(f"--{shown} does not go with {'--recorded' if with_case else '--reference'}: {why}")
    return package


def _verify_recorded(text: str, package: Path, options: Mapping[str, Any]) -> int:
    """Compare a recorded case without its model."""
    job = resolve(Path(text), {**options, "output_format": None})
    answer = _of_recorded(job, package, options)
    write(_verification(job, text, answer.verification, answer.diagnostics, options), options, False)
    return 0 if answer.verification is not None and answer.verification.ok else 1


def _of_recorded(job: Job, package: Path, options: Mapping[str, Any]) -> Answer:
    from modellint.cli.live_target_checks import answered
    from modellint.session import request_dispatch

    return answered(job, request_dispatch.request_recorded(job, package, options["recorded"].absolute()), options)


def _check_record(goals: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` where the case that is wanted cannot be recorded."""
    from modellint import destinations
    from modellint.destinations.destination import PackageError
    from modellint.run import UsageError

    try:
        for goal in goals if options["record"] is not None else ():
            destinations.named(goal).check_record(options["record"])
    except PackageError as error:
        raise UsageError(str(error)) from None


def _answered(job: Job, request: Request, options: Mapping[str, Any]) -> Answer:
    """The worker's answer, with the case that it has recorded put where it is wanted."""
    from modellint.cli.live_target_checks import answered
    from modellint.run import UsageError
    from modellint.session.messages import Verify
    from modellint.session.recording import next_step, recording

    record: Path | None = options["record"]
    if record is None or not isinstance(request.action, Verify):
        return answered(job, request, options)
    try:
        with recording(record) as case:
            answer = answered(job, request._replace(action=request.action._replace(record=case)), options)
            is_recorded = case is not None and case.is_dir()
    except OSError as error:
        why = f"{record}: cannot be written: {error.strerror}" if error.strerror else str(error)
        raise UsageError(why) from None
    note = next_step(record, request.action.package, is_recorded)
    return answer._replace(verification=answer.verification and answer.verification.noting(note))


def _verification(
    job: Job, target: str, result: Verification | None, findings: Sequence[Diagnostic], options: Mapping[str, Any]
) -> str:
    from modellint.report import as_json, findings_with_source, verification, verification_html
    from modellint.results.verification import UNDECIDED, Verification

    shown = result or Verification(UNDECIDED, findings[0].message if findings else "")
    if options["output_format"] == "json":
        from modellint.version import version

        entries = as_json.objects(findings, job.resolver.top.docs_url, absolute)
        return verification.render_json(shown, target, version(), entries) + "\n"
    color = options["output_file"] is None and colored(sys.stdout)
    texts = Texts(job.folder, None)
    name, line = locators(job, texts)
    if options["output_format"] == "html":
        return verification_html.page(shown, target, name, findings, line)
    shown_text = findings_with_source.render(findings, texts, color) + "\n" if findings else ""
    if result is None:
        return shown_text
    return shown_text + verification.render(result, color, target=target, shown=name, line=line)
