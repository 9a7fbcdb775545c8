"""``modellint init`` and ``clean``: into a project, and out of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modellint.cli.options import Command, NamedPath, exit_with

if TYPE_CHECKING:
    from modellint.adoption.project_files import Addition


@click.command("init", cls=Command)
@click.argument("folder", required=False, type=NamedPath(path_type=Path, exists=True, file_okay=False))
@click.option("--yes", "-y", is_flag=True, help="Write without asking.")
@click.option(
    "--only",
    "parts",
    multiple=True,
    type=click.Choice(["settings", "hook", "workflow"]),
    help="Set up this part alone; several may be named.",
)
@click.option(
    "--requirement",
    metavar="REQUIREMENT",
    help="What pip installs in the workflow (default: what this modellint was installed from).",
)
def init_command(folder: Path | None, yes: bool, parts: tuple[str, ...], requirement: str | None) -> None:
    """Add settings, a pre-commit hook and a GitHub workflow to a project (default: the current folder).

    What is there already stays as it is, to the byte. Each addition is shown, and written once you agree.
    """
    exit_with(lambda: _init(folder or Path(), yes, parts, requirement))


def _init(folder: Path, yes: bool, parts: tuple[str, ...], requirement: str | None) -> int:
    from modellint.adoption import project_files

    source = project_files.installed_from()
    plans: dict[str, Callable[[], Addition]] = {
        "settings": lambda: project_files.settings(folder),
        "hook": lambda: project_files.hook(folder, source),
        "workflow": lambda: project_files.workflow(folder, requirement or source.requirement),
    }
    # All of them are known before the first is written, so that a mistake in a file is told at once.
    additions = [plan() for part, plan in plans.items() if not parts or part in parts]
    for addition in additions:
        if addition.after is None:
            click.echo(f"{addition.path}: nothing is written: {addition.why_not}")
            continue
        click.echo(f"{addition.path}, {'a new file' if addition.before is None else 'to be added'}:")
        click.echo("".join(f"  + {line}\n" for line in addition.added.splitlines()), nl=False)
        if not yes:
            try:
                agreed = click.confirm(f"Write {addition.path}?", default=True)
            except click.Abort:
                click.echo(f"error: {addition.path}: nothing is written: nobody answered; --yes asks nobody", err=True)
                return 2
            if not agreed:
                click.echo(f"{addition.path}: nothing is written")
                continue
        _write(addition)
        click.echo(f"{addition.path}: written")
        if addition.part == "hook":
            click.echo("The hook runs once this is done: pre-commit install")
    return 0


def _write(addition: Addition) -> None:
    from modellint.atomic_write import ReplaceError, create_file, replace_file
    from modellint.run import UsageError

    assert addition.after is not None
    try:
        if addition.before is None:
            addition.path.parent.mkdir(parents=True, exist_ok=True)
            create_file(addition.path, addition.after)
        else:
            replace_file(addition.path, addition.before, addition.after)
    except ReplaceError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{addition.path}: cannot be written: {error.strerror}") from None


@click.command("clean", cls=Command)
@click.argument("folder", required=False, type=NamedPath(path_type=Path, exists=True, file_okay=False))
@click.option("--cache-dir", type=NamedPath(path_type=Path), metavar="FOLDER", help="Remove the cache that is here.")
def clean_command(folder: Path | None, cache_dir: Path | None) -> None:
    """Remove the caches that checks keep, at and below a folder (default: the current one), and nothing else."""
    exit_with(lambda: _clean(folder or Path(), cache_dir))


def _clean(folder: Path, cache_dir: Path | None) -> int:
    from modellint import cache
    from modellint.run import UsageError

    if cache_dir is not None and not cache_dir.is_dir():
        raise UsageError(f"{cache_dir}: no such folder")
    caches = list(cache.caches_below(folder)) if cache_dir is None else [cache_dir]
    for place in caches:
        try:
            gone = cache.remove(place)
        except OSError as error:
            raise UsageError(f"{error.filename or place}: cannot be removed: {error.strerror}") from None
        click.echo(f"Removed {place}" if gone else f"Emptied {place}; what else it holds is not modellint's, and stays")
    if not caches:
        click.echo(f"There is no cache at or below {folder.absolute()}")
    return 0
