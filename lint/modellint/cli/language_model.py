"""``modellint export --as language-model``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modellint.cli.options import limits
from modellint.cli.output import Texts, Waiting, colored

if TYPE_CHECKING:
    from modellint.destinations.export_options import LanguageModel, Options
    from modellint.live.inputs.input_spec import Dimension
    from modellint.run import Job
    from modellint.session.target import Target

TIMEOUT = 3600.0
"""Seconds that it may take where nobody says else: two or three exports, and 64 tokens."""
_SOURCE = "source"
_TOKENS = (None, "ids", "input_ids")


def export(job: Job, target: Target, output: Path, wanted: Options, options: Mapping[str, Any]) -> bool:
    """Export a language model, and tell of it; whether the package is written."""
    import sys

    from modellint.atomic_output import NotPlaced, place, staged
    from modellint.report import findings_with_source
    from modellint.report import language_model_export_text as report
    from modellint.run import UsageError
    from modellint.session import request_dispatch
    from modellint.session.messages import ExportLanguageModel

    if job.resolver.top.goal.name != "coreml" or len(job.resolver.top.goals) > 1:
        raise click.UsageError("--as language-model is for Core ML alone: --destination coreml")
    lengths = _wanted(wanted, options)
    request = request_dispatch.request_for(job, target, (), options["checkpoint"], seed=options["seed"] or 0)
    waiting = Waiting()
    try:
        with staged(output) as folder:
            package = folder / output.name
            asked = request._replace(action=ExportLanguageModel(lengths, package))
            try:
                answer = request_dispatch.answer(
                    job, asked, limits({**options, "timeout": options["timeout"] or TIMEOUT}), waiting
                )
            finally:
                waiting.close()
            exported = answer.language_model
            if exported is not None and exported.writable:
                place(package, output, options["force"])
    except NotPlaced as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror or error}") from None
    for note in answer.notes:
        click.echo(f"note: {note}", err=True)
    color = colored(sys.stdout)
    if exported is None:
        shown = (
            findings_with_source.render(answer.diagnostics, Texts(job.folder, None), color)
            + f"\n{output}: not exported\n"
        )
    else:
        shown = report.render(exported, str(output), color)
    click.echo(shown, nl=False, color=True)
    return exported is not None and exported.writable


def _wanted(wanted: Options, options: Mapping[str, Any]) -> LanguageModel:
    """Lengths as options say them; those that a language model does not take are wrong."""
    from modellint.destinations.export_options import LanguageModel
    from modellint.live.inputs import input_spec

    if wanted.images or wanted.labels or wanted.states or wanted.output_names:
        raise click.UsageError("--image, --labels, --state and --output-name do not go with --as language-model")
    model = LanguageModel(
        options["context"], keeps_target=options["deployment_target"] is not None, metadata=wanted.metadata
    )
    if not options["inputs"]:
        return model
    try:
        specs = [input_spec.parse(text, Path.cwd()) for text in options["inputs"]]
    except input_spec.InputError as error:
        raise click.UsageError(str(error)) from None
    for spec in specs:
        if (
            spec.name == _SOURCE
            and spec.shape
            and all(size.low == size.high and not size.listed for size in spec.shape)
        ):
            model = model._replace(source=tuple(size.low for size in spec.shape))
        elif spec.name in _TOKENS and len(spec.shape) == 2 and spec.shape[0].high == 1:
            model = _with_prefill(model, spec.shape[1])
        else:
            raise click.UsageError(
                "--input of a language model says how many tokens prefill takes: ids=1x64, 1x1..64 or 1x16/64/256; and, of an "
                "encoder-decoder, the shape of what the encoder reads: source=1x80x3000"
            )
    return model


def _with_prefill(model: LanguageModel, size: Dimension) -> LanguageModel:
    if size.listed:
        return model._replace(prefill=size.listed)
    if size.high > size.low:
        return model._replace(prefill=(size.low, size.high), is_range=True)
    return model._replace(prefill=(size.low,))
