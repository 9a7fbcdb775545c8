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
    with_inputs,
    with_plugins,
    with_settings,
)
from modellint.cli.output import Texts, absolute, colored, expect_output, locators, write

if TYPE_CHECKING:
    from modellint.results.diagnostic import Diagnostic
    from modellint.results.verification import Verification
    from modellint.run import Job


@click.command("verify", cls=Command)
@click.argument("target")
@with_inputs
@click.option("--reference", metavar="TARGET", help="Compare a saved .mlpackage with this live target.")
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

    With --reference the target is a saved .mlpackage. Exits with 1 where the model does not convert or does not agree.
    """
    exit_with(lambda: _verify(target, options))


def _verify(text: str, options: Mapping[str, Any]) -> int:
    from modellint import destinations
    from modellint.cli.live_target_checks import answered
    from modellint.destinations.destination import PackageError
    from modellint.run import UsageError
    from modellint.session import live_targets
    from modellint.session.messages import Verify
    from modellint.session.target import parse
    from modellint.settings import RUNTIMES

    expect_output(options)
    package = None
    live = text
    if options["reference"] is not None:
        package, live = Path(text).absolute(), options["reference"]
        if not os.path.lexists(package):
            raise click.UsageError(f"{text}: no such package")
        try:
            destinations.named(destinations.of_package(text)).check_package(text)
        except PackageError as error:
            raise UsageError(str(error)) from None
        unfit = [
            name for name in ("destination", "frontend", "precision", "deployment_target") if options[name] is not None
        ]
        if unfit:
            raise click.UsageError(
                f"--{unfit[0].replace('_', '-')} does not go with --reference: the package is converted"
            )
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
    request = live_targets.request_for(
        job, target, options["inputs"], options["checkpoint"], seed=options["seed"] or 0
    )._replace(action=action)
    requests = list(live_targets.requests_by_goal(job, [request])) if package is None else [request]
    if len(requests) > 1 and shown_format != "text":
        raise click.UsageError(f"--output-format {shown_format} shows one destination: give it with --destination")
    texts, agrees = [], True
    for wanted in requests:
        answer = answered(job, wanted, options)
        result, findings = answer.verification, answer.diagnostics
        head = f"{RUNTIMES[wanted.destination.name]}\n" if len(requests) > 1 else ""
        texts.append(head + _verification(job, text, result, findings, options))
        agrees &= result is not None and result.ok
    write("\n".join(texts), options, False)
    return 0 if agrees else 1


def _verification(
    job: Job, target: str, result: Verification | None, findings: Sequence[Diagnostic], options: Mapping[str, Any]
) -> str:
    from modellint.report import as_json, full, verification, verification_html
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
    shown_text = full.render(findings, texts, color) + "\n" if findings else ""
    if result is None:
        return shown_text
    return shown_text + verification.render(result, color, target=target, shown=name, line=line)
