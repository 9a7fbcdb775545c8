"""``modellint shapes``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from modellint.cli.options import Command, NamedPath, exit_with, file_of, resolve, with_color, with_inputs
from modellint.cli.output import Texts, absolute, colored, expect_output, write


@click.command("shapes", cls=Command)
@click.argument("target")
@with_inputs
@click.option(
    "--depth", type=click.IntRange(min=0), metavar="N", help="Show modules down to this depth (default: all)."
)
@click.option("--flat/--nested", default=True, help="Every layer with its path (default), or below what is around it.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="How the table is printed (default: text).",
)
@click.option("--output-file", "-o", type=NamedPath(path_type=Path), metavar="FILE", help="Write the table there.")
@with_color
def shapes_command(target: str, **options: Any) -> None:
    """Show what every layer of a live target takes and gives, its parameters and its memory; no tensor is allocated."""
    exit_with(lambda: _shapes(target, options))


def _shapes(text: str, options: Mapping[str, Any]) -> int:
    from modellint.cli.live_target_checks import answered
    from modellint.report import shapes
    from modellint.session import request_dispatch
    from modellint.session.messages import Shapes
    from modellint.session.target import parse

    expect_output(options)
    target = parse(text)
    if target is None:
        raise click.UsageError(f"{text}: not a live target, such as model.py:Net")
    job = resolve(Path(file_of(text)), options)
    request = request_dispatch.request_for(job, target, options["inputs"], seed=options["seed"] or 0)
    answer = answered(job, request._replace(action=Shapes()), options)
    findings = answer.diagnostics
    nested = not options["flat"]
    if options["output_format"] == "json":
        from modellint.report import as_json

        entries = as_json.objects(findings, job.resolver.top.docs_url, absolute)
        shown = shapes.to_json(answer.table, text, entries, nested=nested, depth=options["depth"]) + "\n"
    else:
        color = options["output_file"] is None and colored(sys.stdout)
        shown = ""
        if answer.table is not None:
            table, depth = answer.table, options["depth"]
            shown = shapes.render(table, color, nested=nested, depth=depth, shown=lambda path: job.shown(Path(path)))
        if findings:
            from modellint.report import findings_with_source

            shown += "\n" + findings_with_source.render(findings, Texts(job.folder, None), color)
    write(shown, options, False)
    return int(bool(findings))
