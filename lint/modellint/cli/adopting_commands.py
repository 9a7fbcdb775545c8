"""``modellint init``, ``clean`` and ``new-rule``: into a project, out of it, and a rule of one's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modellint.adoption.new_rule import KINDS
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


@click.command("new-rule", cls=Command)
@click.argument("code")
@click.option(
    "--plugin", metavar="NAME", help="The plug-in that gets the rule: a folder, or one that is installed as a link."
)
@click.option("--name", "rule_name", metavar="NAME", help="The rule's name, such as no-todo (default: CODE-rule).")
@click.option(
    "--about",
    "kind",
    type=click.Choice(KINDS),
    default="class",
    help="What it asks: module classes, what functions do, nodes of libcst, or live models (default: class).",
)
def new_rule_command(code: str, plugin: str | None, rule_name: str | None, kind: str) -> None:
    """Write a rule with its page, examples and test into a plug-in (default: the current folder).

    It works as it is, and is meant to be changed. Nothing that is there is written to.
    """
    exit_with(lambda: _new_rule(code.upper(), plugin, rule_name, kind))


def _new_rule(code: str, plugin: str | None, rule_name: str | None, kind: str) -> int:
    from modellint.adoption import new_rule
    from modellint.atomic_write import ReplaceError, create_file
    from modellint.rule import FAMILIES
    from modellint.run import UsageError, all_rules

    if not re.fullmatch(r"[A-Z]{3}[0-9]{3}", code):
        raise UsageError(f"{code!r} is no code: three letters and three digits")
    if code in all_rules() or code[:3] in (*FAMILIES, "LNT"):
        raise UsageError(f"{code}: {code[:3]} is a family of modellint's own rules; take three other letters")
    name = rule_name or f"{code.lower()}-rule"
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise UsageError(f"--name: {name!r} is no name: words in small letters, with - between them")
    if namesake := next((rule for rule in all_rules().values() if rule.name == name), None):
        raise UsageError(f"--name: {name} is the name of {namesake.code}")
    folder = Path() if plugin is None else _plugin_folder(plugin)
    try:
        written = new_rule.files(folder, code, name, kind)
        for path, text in written:
            path.parent.mkdir(parents=True, exist_ok=True)
            create_file(path, text.encode("utf-8"))
            click.echo(f"{path}: written")
    except (new_rule.CannotCreate, ReplaceError) as error:
        raise UsageError(f"nothing is overwritten: {error}") from None
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    shown = plugin or "."
    click.echo(f"Try it: modellint check --plugin {shown} --select {code}")
    click.echo(f"Test it: pytest {written[-1].path}")
    return 0


def _plugin_folder(name: str) -> Path:
    """The folder of a plug-in's source, by its name."""
    from importlib.util import find_spec

    from modellint.plugins import PluginError, locate
    from modellint.run import UsageError

    try:
        plugin = locate(name)
    except PluginError:
        if Path(name).exists():
            raise
        return Path(name)
    if plugin.path is not None and plugin.path.is_dir():
        return Path(name).expanduser()
    if plugin.path is not None:
        raise UsageError(f"--plugin {name}: a file holds its rules already; name a folder")
    spec = find_spec(plugin.module)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise UsageError(f"--plugin {name}: {plugin.module} is no package, so that no file can be added")
    if {"site-packages", "dist-packages"} & {*Path(places[0]).parts}:
        raise UsageError(f"--plugin {name}: {places[0]} is a copy that pip made; name the folder of its source")
    return Path(places[0])
