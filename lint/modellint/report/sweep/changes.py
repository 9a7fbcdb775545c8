"""Changes between two sweeps: regressions, gains, and models that only one of them has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from modellint.report.sweep.summary import column_of, decisive
from modellint.results.sweep_row import REACHED, SweepRow


class Change(NamedTuple):
    """One model of which an action came to something else than before."""

    target: str
    column: str
    """The action with its destination."""
    before: str
    """The status; empty where the earlier sweep does not have it."""
    after: str
    """The same of the later one."""
    reason: str
    """Of the later one."""


class Changes(NamedTuple):
    """What is another in the later sweep."""

    lost: tuple[Change, ...]
    """Regressions: they came where they were to come, and no longer do."""
    gained: tuple[Change, ...]
    other: tuple[Change, ...]
    """Another status, on the same side."""
    new: tuple[Change, ...]
    gone: tuple[Change, ...]


def changes(earlier: Iterable[SweepRow], later: Iterable[SweepRow]) -> Changes:
    """Compare two sweeps by target, action and destination; of several routes the best counts."""
    before, after = _by_key(earlier), _by_key(later)
    compared = Changes((), (), (), (), ())
    for key in sorted({*before, *after}):
        old, now = before.get(key), after.get(key)
        was, new = "" if old is None else old.status, "" if now is None else now.status
        if was == new:
            continue
        change = Change(*key, was, new, "" if now is None else now.reason)
        side = _side(was, new)
        compared = compared._replace(**{side: (*getattr(compared, side), change)})
    return compared


def _side(before: str, after: str) -> str:
    if not before:
        return "new"
    if not after:
        return "gone"
    if (before in REACHED) == (after in REACHED):
        return "other"
    return "gained" if after in REACHED else "lost"


def _by_key(rows: Iterable[SweepRow]) -> dict[tuple[str, str], SweepRow]:
    return {(row.target, column_of(row)): row for row in decisive(rows)}


def render(compared: Changes, names: Sequence[str] = ("lost", "gained")) -> str:
    """Regressions and gains as lines of text."""
    lines = []
    for name in names:
        for change in getattr(compared, name):
            reason = f": {change.reason}" if change.reason else ""
            lines.append(f"{name}: {change.target} ({change.column}): {change.before} → {change.after}{reason}")
    return "".join(f"{line}\n" for line in lines)
