"""Progress of calls from Python: told to a function, shown by tqdm, or written to standard error, a line for each stage."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from modellint.results.progress import Progress

Entered: TypeAlias = Callable[[str], None]
"""Told each stage that begins."""
Asked: TypeAlias = Callable[[Progress], None] | bool | None
"""What a caller wants: a function that is told, whether progress is shown, or nothing."""


def silent(stage: str) -> None:
    """Tell nobody."""


@contextmanager
def reporting(asked: Asked, model: object) -> Iterator[Entered]:
    """What to tell stages while a call lasts.

    An exception of the caller's function ends the telling, not the work that it could leave half done; it is raised at the end.
    """
    if asked is None or asked is False:
        yield silent
        return
    show, close = _shown() if asked is True else (asked, _nothing)
    if not callable(show):
        raise TypeError(f"progress must be a function, True, False or None, not {asked!r}")
    began = time.monotonic()
    raised: list[Exception] = []

    def entered(stage: str) -> None:
        if not raised:
            try:
                show(Progress(stage, type(model).__name__, time.monotonic() - began))
            except Exception as error:
                raised.append(error)

    try:
        yield entered
    finally:
        close()
    if raised:
        raise raised[0]


def _nothing() -> None:
    pass


def _shown() -> tuple[Callable[[Progress], None], Callable[[], None]]:
    """A bar of tqdm where that is installed, which notebooks show as one of theirs; else lines."""
    try:
        with warnings.catch_warnings():
            # Without ipywidgets it says that it falls back to text.
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm

            bar: Any = tqdm(bar_format="{desc} {elapsed}", leave=False)
    except ImportError:
        return lambda progress: print(progress, file=sys.stderr, flush=True), _nothing
    return lambda progress: bar.set_description_str(str(progress)), bar.close
