"""Recording of a case: made beside its place by whoever verifies, and put there when it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modellint.atomic_output import NotPlaced, place, staged


@contextmanager
def recording(record: Path | None) -> Iterator[Path | None]:
    """Where a case is to be made; when the block is left it is put into its place, if it was made. Raises ``OSError``."""
    if record is None:
        yield None
        return
    with staged(record) as folder:
        case = folder / "case"
        yield case
        if case.is_dir():
            _put(case, record)


def _put(case: Path, record: Path) -> None:
    try:
        place(case, record, os.path.lexists(record))
    except NotPlaced as error:
        raise OSError(str(error)) from None


def next_step(record: Path, package: Path | None, is_recorded: bool) -> str:
    """What is to be done with a case, in words; ``package`` is the one that it was recorded of, unless that is in the case."""
    if not is_recorded:
        return "nothing is recorded, as no outputs could be compared"
    inside = next(record.glob("*.mlpackage"), None)
    name = package.name if package is not None else "" if inside is None else str(inside)
    script = record / "predict.py"
    return f"recorded in {record}: run python {script} on a Mac, then modellint verify {name} --recorded {record}"
