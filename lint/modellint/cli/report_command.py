"""``modellint report``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from modellint.cli.options import Command, NamedPath, exit_with, with_color


@click.command("report", cls=Command)
@click.argument("sweep", type=NamedPath(path_type=Path), metavar="FILE")
@click.option(
    "--output",
    "-o",
    type=NamedPath(path_type=Path),
    metavar="DIR",
    help="The folder for the site; without it only the summary.",
)
@click.option(
    "--against",
    type=NamedPath(path_type=Path),
    metavar="OLD",
    help="Tell what changed since this sweep; 1 where something is lost.",
)
@click.option("--title", metavar="TEXT", help="The head of the site (default: the name of FILE).")
@with_color
def report_command(sweep: Path, **options: Any) -> None:
    """Tell what a sweep came to, as a summary and as a static site.

    Exits with 1 where --against names a sweep in which a model came where it no longer does.
    """
    exit_with(lambda: _report(sweep, options))


def _report(file: Path, options: Mapping[str, Any]) -> int:
    from modellint.report.sweep import changes, summary
    from modellint.sweep import ledger

    for path, name in ((file, "FILE"), (options["against"], "--against")):
        if path is not None:
            ledger.check_suffix(path, name)
    output: Path | None = options["output"]
    if output is None and options["title"] is not None:
        raise click.UsageError("--title is the head of a site: give its folder with --output")
    if output is not None:
        _expect(output)
    rows = ledger.read(file)
    compared = None
    if options["against"] is not None:
        compared = changes.changes(ledger.read(options["against"]), rows)
    if output is not None:
        from modellint.report.sweep import site
        from modellint.version import version

        title = options["title"] or file.name
        earlier = "" if options["against"] is None else options["against"].name
        _write(output, dict(site.files(rows, title, version(), compared, earlier)))
    click.echo(summary.render(rows, str(file)), nl=False)
    if compared is not None:
        click.echo(changes.render(compared), nl=False)
    if output is not None:
        click.echo(f"{output / 'index.html'}")
    return 1 if compared is not None and compared.lost else 0


def _expect(output: Path) -> None:
    """Refuse a folder that is not to be replaced, before any work."""
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise click.UsageError("a site needs jinja2: pip install 'modellint[html]'") from None
    if not output.absolute().parent.is_dir():
        raise click.UsageError(f"--output {output}: there is no folder {output.absolute().parent}")
    if os.path.lexists(output) and not _is_ours(output):
        raise click.UsageError(f"--output {output} exists, and is no report of modellint: name another folder")


def _is_ours(output: Path) -> bool:
    from modellint.report.sweep.site import MARK

    return output.is_dir() and not output.is_symlink() and ((output / MARK).is_file() or not any(output.iterdir()))


def _write(output: Path, files: Mapping[str, bytes]) -> None:
    """Write the whole site or nothing, in the place of an earlier one."""
    from modellint.atomic_output import NotPlaced, place, staged
    from modellint.run import UsageError

    try:
        with staged(output) as folder:
            site = folder / output.name
            for name, data in files.items():
                path = site / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            place(site, output, True)
    except NotPlaced as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror or error}") from None
