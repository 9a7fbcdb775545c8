"""``check --watch``: check again whenever a file changes, until somebody ends it."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from modellint.cache import FOLDER
from modellint.cli.options import file_of
from modellint.discover import SKIPPED
from modellint.rule import RuleError
from modellint.run import UsageError
from modellint.settings import SettingsError

_SETTINGS = ("pyproject.toml", "modellint.toml", ".gitignore")
_ENDINGS = (".py", ".pyi", ".ipynb")
_PATIENCE = 250
"""Milliseconds after which it is looked whether somebody wants to end it."""


def watch(targets: Sequence[str], options: Mapping[str, Any], check: Callable[[], int]) -> int:
    """Check now and after each change below the targets; several changes at once are one. Ends by an interrupt."""
    try:
        from watchfiles import watch as changes_of
    except ImportError:
        raise UsageError("--watch needs watchfiles: pip install 'modellint[watch]'") from None
    places = [Path(file_of(target)).absolute() for target in targets]
    for place in places:
        if not place.exists():
            raise UsageError(f"{place}: no such file or folder")
    files = {str(place) for place in places if place.is_file()}
    # An editor replaces a file by another one: it is the folder that tells.
    folders = {place if place.is_dir() else place.parent for place in places}
    walks = len(files) < len(places)

    def counts(_: object, path: str) -> bool:
        inside = next((Path(path).relative_to(folder) for folder in folders if Path(path).is_relative_to(folder)), None)
        if inside is None or FOLDER in inside.parts or not SKIPPED.isdisjoint(inside.parts):
            return False
        name = os.path.basename(path)  # noqa: PTH119
        return name in _SETTINGS or path in files or (walks and name.endswith(_ENDINGS))

    is_first = True
    for changes in changes_of(
        *folders,
        watch_filter=counts,
        recursive=walks,
        yield_on_timeout=True,
        rust_timeout=_PATIENCE,
        raise_interrupt=True,
    ):
        if changes or is_first:
            _run(check, is_first, options)
            is_first = False
    return 0


def _run(check: Callable[[], int], is_first: bool, options: Mapping[str, Any]) -> None:
    """One check. What is wrong with the request ends the program; what goes wrong later may be mended by the next change."""
    if sys.stdout.isatty():
        click.clear()
    try:
        check()
    except (SettingsError, UsageError, RuleError, click.UsageError) as error:
        if is_first:
            raise
        click.echo(f"error: {error.format_message() if isinstance(error, click.UsageError) else error}", err=True)
    except SystemExit:
        if is_first:
            raise
    sys.stdout.flush()
    if not options["quiet"]:
        click.echo(f"{time.strftime('%H:%M:%S')} watching for changes", err=True)
    # A check lets the collector rest, which is well for one that is followed by the end.
    gc.collect()
