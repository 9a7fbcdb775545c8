"""``modellint sweep``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
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
    with_color,
    with_inputs,
    with_plugins,
    with_settings,
)
from modellint.settings import FRONTENDS, PRECISIONS

if TYPE_CHECKING:
    from modellint.run import Job
    from modellint.session.messages import Request
    from modellint.sweep.sweep import Progress, Where


def _actions(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    from modellint.results.sweep_row import ACTIONS

    words = tuple(word.strip() for item in value for word in item.split(",") if word.strip())
    for word in words:
        if word not in ACTIONS:
            raise click.BadParameter(f"{word!r} is not one of {', '.join(ACTIONS)}.")
    return tuple(dict.fromkeys(words)) or ("check",)


def _catalogues(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    from modellint.sweep.plan import CATALOGUES

    for name in value:
        if name not in CATALOGUES:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(CATALOGUES)}.")
    return tuple(dict.fromkeys(value))


@click.command("sweep", cls=Command)
@click.argument("targets", nargs=-1)
@click.option(
    "--catalogue",
    "catalogues",
    multiple=True,
    callback=_catalogues,
    metavar="NAME",
    help="Take the models of this installed package, in small: transformers, timm, diffusers or torchvision.",
)
@click.option(
    "--do",
    "actions",
    multiple=True,
    callback=_actions,
    metavar="ACTIONS",
    help="What is done with each: check, verify, export, or several with commas (default: check).",
)
@with_inputs
@click.option(
    "--frontend", type=click.Choice(list(FRONTENDS)), help="The route that is looked at (default: auto: both)."
)
@click.option(
    "--precision", type=click.Choice(list(PRECISIONS)), help="What models compute in on Core ML (default: fp16)."
)
@destination
@deployment_target
@click.option(
    "--output",
    "-o",
    type=NamedPath(path_type=Path),
    required=True,
    metavar="FILE",
    help="The file for the rows: .parquet, or .sqlite, .sqlite3, .db.",
)
@click.option("--resume", is_flag=True, help="Go on with FILE: what it holds and still holds true is not run again.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Targets at once on this machine (default: half of its cores).",
)
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Run on so many dask workers on this machine instead."
)
@click.option("--scheduler", metavar="ADDRESS", help="Run on the workers of this dask scheduler: tls://host:8786.")
@click.option("--verbose", "-v", is_flag=True, help="Tell what each target came to, a line for each.")
@with_plugins
@with_settings
@with_color
def sweep_command(targets: tuple[str, ...], **options: Any) -> None:
    """Check, verify or export many live targets, each in a process of its own, and keep a row for each target and route.

    A target may be a function that yields (name, build) pairs; without any the targets of the settings are taken. Exits with 0 when
    every target has its rows, whatever they say.
    """
    exit_with(lambda: _sweep(targets, options))


def _sweep(targets: tuple[str, ...], options: Mapping[str, Any]) -> int:
    from modellint.report.sweep import summary
    from modellint.run import UsageError
    from modellint.session import request_dispatch
    from modellint.session.messages import Limits
    from modellint.sweep import dask_cluster, ledger, plan
    from modellint.sweep.sweep import Where, memory_for_each, swept, usual_jobs

    output: Path = options["output"]
    ledger.check_suffix(output, "--output")
    if not output.absolute().parent.is_dir():
        raise click.UsageError(f"--output {output}: there is no folder {output.absolute().parent}")
    if options["workers"] is not None and options["scheduler"] is not None:
        raise click.UsageError("--workers and --scheduler name two places to run on: give one of them")
    if options["jobs"] is not None and (options["workers"] is not None or options["scheduler"] is not None):
        raise click.UsageError("--jobs is about processes without dask: leave it out, or --workers and --scheduler")
    if options["inputs"] and not targets:
        raise click.UsageError(
            "--input goes with targets that are named: catalogues and settings have inputs of their own"
        )
    if options["scheduler"] is not None:
        dask_cluster.check_address(options["scheduler"])
    request_dispatch.expect_extras("live")
    jobs = options["workers"] or options["jobs"] or usual_jobs()
    where = Where(jobs, options["workers"], options["scheduler"])
    limits = Limits(options["timeout"] or Limits().timeout, _memory(options, where, memory_for_each))
    job = resolve(Path(file_of(targets[0])) if targets else Path(), options)
    requests = [*_requests(job, targets, options), *_catalogues_of(job, options)]
    if not requests:
        raise UsageError("no target: name some, such as zoo.py:models, a --catalogue, or models in the settings")
    ledger.expect(output, options["resume"])
    shown = _Shown(options["verbose"])
    try:
        tasks = plan.tasks(job, plan.expanded(job, requests, shown.told), options["actions"], limits)
        rows = swept(output, tasks, where, resume=options["resume"], progress=shown, told=shown.told)
    except BaseException:
        shown.close()
        if shown.rows:
            click.echo(f"{output} has what was done: --resume goes on with it", err=True)
        raise
    shown.close()
    click.echo(summary.render(rows, str(output)), nl=False)
    return 0


def _catalogues_of(job: Job, options: Mapping[str, Any]) -> list[Request]:
    from modellint.sweep import plan

    return [plan.catalogue(job, name, options["seed"] or 0) for name in options["catalogues"]]


def _memory(options: Mapping[str, Any], where: Where, share: Any) -> int | None:
    """The limit of a target: what is asked for, or an equal share of this machine; on other machines all that each has."""
    if options["memory"] is not None:
        limit: int = options["memory"] * 1024**2
        return limit
    return None if where.scheduler is not None else share(where.jobs)


def _requests(job: Job, targets: tuple[str, ...], options: Mapping[str, Any]) -> Iterator[Request]:
    """The targets that are named or, where none is and no catalogue, those of the settings."""
    from modellint.session import request_dispatch
    from modellint.session.target import parse

    for text in targets:
        target = parse(text)
        if target is None:
            raise click.UsageError(f"{text}: not a live target, such as model.py:Net")
        yield request_dispatch.request_for(job, target, options["inputs"], seed=options["seed"] or 0)
    top = job.resolver.top
    if not targets and not options["catalogues"] and top.models:
        yield from request_dispatch.requests_of_settings(
            job, top.models, Path(top.origins["models"]), seed=options["seed"] or 0
        )


class _Shown:
    """Progress of a sweep on standard error: a line that changes on a terminal, a line for each target where it is asked for."""

    def __init__(self, verbose: bool) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._verbose = verbose
        self.rows = 0
        """Rows that were written down."""

    def __call__(self, progress: Progress) -> None:
        """Tell how far the sweep is."""
        self.rows += len(progress.rows)
        if self._verbose:
            for row in progress.rows:
                route = f" by {row.route}" if row.route else ""
                reason = f": {row.reason}" if row.reason else ""
                self.told(f"{row.name}: {row.action}{route}: {row.status}{reason}")
        if self._on_terminal:
            kept = f", {progress.kept} as before" if progress.kept else ""
            last = f"; {progress.rows[0].name}: {progress.rows[0].status}" if progress.rows else ""
            click.echo(f"\r\033[K{progress.done}/{progress.total} done{kept}{last}"[:200], nl=False, err=True)

    def told(self, text: str) -> None:
        """Tell something in a line of its own; in a pipe only where it is asked for."""
        if self._on_terminal or self._verbose:
            self.close()
            click.echo(text, err=True)

    def close(self) -> None:
        """Leave the line as it was."""
        if self._on_terminal:
            click.echo("\r\033[K", nl=False, err=True)
