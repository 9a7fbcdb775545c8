"""Summary of a sweep: how many targets came to what, by action, destination and route; shared by text and site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from modellint.report.style import visible
from modellint.results.sweep_row import ACTIONS, FAILS, NOT_RUN, REACHED, STATUSES, SweepRow
from modellint.settings import RUNTIMES

_MOST_BLOCKERS = 10


class Group(NamedTuple):
    """What one action came to by one route."""

    action: str
    destination: str
    route: str
    """Empty for rows that came to no route, and for all routes together."""
    counts: tuple[tuple[str, int], ...]
    """Each status that there is with its number, from the best to the worst."""

    @property
    def total(self) -> int:
        """How many rows these are."""
        return sum(count for _, count in self.counts)


class Obstacle(NamedTuple):
    """What stands in the way of models."""

    name: str
    """An operator with the kind of the obstacle, or the message where there is no operator."""
    models: tuple[str, ...]
    alone: tuple[str, ...]
    """The models that have no other."""


def by_route(rows: Iterable[SweepRow]) -> list[Group]:
    """The numbers of statuses by action, destination and route."""
    counted: dict[tuple[str, str, str], Counter[str]] = {}
    for row in rows:
        counted.setdefault((row.action, row.destination, row.route), Counter())[row.status] += 1
    return [Group(*key, _ordered(counts)) for key, counts in sorted(counted.items())]


def _ordered(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple((status, counts[status]) for status in STATUSES if counts[status])


def decisive(rows: Iterable[SweepRow]) -> list[SweepRow]:
    """For each target and destination the row that counts of each action: the best one and, of equals, that with the fewest obstacles."""
    best: dict[tuple[str, str, str], SweepRow] = {}
    for row in rows:
        known = best.setdefault((row.target, row.action, row.destination), row)
        if _rank(row) < _rank(known):
            best[row.target, row.action, row.destination] = row
    return list(best.values())


def _rank(row: SweepRow) -> tuple[int, int, bool]:
    # A refusal without obstacles says less than one with some; a trace is the route that is tried first.
    return STATUSES.index(row.status), len(row.blockers) or 10**6, row.route != "trace"


def obstacles(rows: Iterable[SweepRow], action: str) -> list[Obstacle]:
    """What keeps an action from bringing models where they are to come, from the one that stands alone before most of them."""
    by_obstacle: dict[str, dict[str, None]] = {}
    before: dict[str, set[str]] = {}
    for row in decisive(rows):
        if row.action != action or row.status in REACHED:
            continue
        for blocker in row.blockers:
            name = f"{blocker.operator} ({blocker.kind})" if blocker.operator else blocker.message
            by_obstacle.setdefault(name, {})[row.target] = None
            before.setdefault(row.target, set()).add(name)
    listed = [
        Obstacle(name, tuple(models), tuple(model for model in models if before[model] == {name}))
        for name, models in by_obstacle.items()
    ]
    return sorted(listed, key=lambda entry: (-len(entry.alone), -len(entry.models), entry.name))


class Coverage(NamedTuple):
    """How far the models of one library, or one family, come."""

    name: str
    models: int
    runs: int
    """Models that build and run."""
    reached: tuple[tuple[str, int], ...]
    """For each action the models that it brought where they were to come, by any route."""


def coverage(rows: Sequence[SweepRow], names: Iterable[str], key: str) -> list[Coverage]:
    """The coverage by a column, ``library`` or ``family``, for these names of actions with their destinations."""
    groups: dict[str, dict[str, list[SweepRow]]] = {}
    for row in rows:
        groups.setdefault(getattr(row, key), {}).setdefault(row.target, []).append(row)
    return [_coverage(name, groups[name], list(names)) for name in sorted(groups)]


def _coverage(name: str, models: dict[str, list[SweepRow]], columns: Sequence[str]) -> Coverage:
    runs = sum(any(row.status not in (FAILS, NOT_RUN) for row in rows) for rows in models.values())
    reached = tuple(
        (
            column,
            sum(any(column_of(row) == column and row.status in REACHED for row in rows) for rows in models.values()),
        )
        for column in columns
    )
    return Coverage(name, len(models), runs, reached)


def column_of(row: SweepRow) -> str:
    """The action of a row with its destination, as a table's head has it."""
    return f"{row.action}, {RUNTIMES[row.destination]}"


def columns_of(rows: Iterable[SweepRow]) -> list[str]:
    """The heads of all rows, actions in the order in which they are run."""
    ordered = sorted(rows, key=lambda row: (ACTIONS.index(row.action), row.destination))
    return list(dict.fromkeys(map(column_of, ordered)))


def render(rows: Sequence[SweepRow], file: str) -> str:
    """The summary as text: numbers by route, and what stands in the way of most models."""
    if not rows:
        return f"no targets; {visible(file)} is empty\n"
    targets = len({row.target for row in rows})
    lines = [f"{targets} {'target' if targets == 1 else 'targets'}, {len(rows)} rows in {visible(file)}"]
    groups = by_route(rows)
    heads = [
        f"{RUNTIMES[group.destination]}, {group.action}" + (f" by {group.route}" if group.route else "")
        for group in groups
    ]
    width = max(map(len, heads))
    for head, group in zip(heads, groups, strict=True):
        counts = " · ".join(f"{status} {count}" for status, count in group.counts)
        lines.append(f"  {head:{width}}  {counts}")
    action = next(name for name in reversed(ACTIONS) if any(row.action == name for row in rows))
    listed = obstacles(rows, action)
    if listed:
        lines.append(f"in the way of {action}: models that nothing else stops, of all that it stops")
        lines += [
            f"  {len(entry.alone):4} of {len(entry.models):4}  {visible(entry.name)[:120]}"
            for entry in listed[:_MOST_BLOCKERS]
        ]
        if len(listed) > _MOST_BLOCKERS:
            lines.append(f"  and {len(listed) - _MOST_BLOCKERS} more: modellint report {visible(file)} -o DIR")
    return "\n".join(lines) + "\n"
