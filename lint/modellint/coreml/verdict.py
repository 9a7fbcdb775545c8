"""What a dry run says of a model, in data, in JSON and in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from modellint.live.place import Place

ROUTES = ("trace", "export")
"""How a model is captured, in the order in which the routes are tried."""


class Blocker(NamedTuple):
    """One reason why a model does not convert."""

    kind: str
    """``missing``: no converter; ``refused``: the converter refuses this use; ``target``: it needs a newer deployment target;
    ``rank``: more than five dimensions are left; ``argument``: `ct.convert` refuses an input; ``output``: it refuses an output;
    ``crash``: the converter itself crashes; ``capture``: the capture fails."""
    operator: str | None
    """As in ``aten::fmod``."""
    message: str
    """coremltools' own first line."""
    place: Place | None
    """The user's statement."""
    modules: tuple[str, ...] = ()
    """The paths of the modules that it happens in."""
    count: int = 1  # type: ignore[assignment]
    """How many nodes share cause and place."""
    detail: str = ""
    """For ``target`` the oldest one that would do, for an autograd function its name."""


class Verdict(NamedTuple):
    """Whether a model converts by one route."""

    route: str
    """``trace`` or ``export``."""
    convertible: bool | None
    """None where it could not be judged."""
    blockers: tuple[Blocker, ...] = ()
    decomposed: bool = False
    """Whether the export needs core ATen decompositions."""
    seconds: tuple[float, float] = (0.0, 0.0)
    """For the capture, and for coremltools' front end."""
    reason: str = ""
    """Why it could not be judged."""

    @property
    def is_complete(self) -> bool:
        """Whether every operator was looked at, so that what is not reported converts."""
        return self.convertible is not None and not any(one.kind == "capture" for one in self.blockers)


def choose(verdicts: Sequence[Verdict], frontend: str) -> Verdict | None:
    """The verdict that counts: the first route that converts, or else the one with the fewest blockers; None without any.

    ``frontend`` is ``auto`` or the one route to look at.
    """
    allowed = [verdict for verdict in verdicts if frontend in ("auto", verdict.route)]
    order = {True: 0, False: 1, None: 2}
    return min(allowed, key=lambda one: (order[one.convertible], len(one.blockers)), default=None)


def others(verdicts: Sequence[Verdict], chosen: Verdict) -> list[Verdict]:
    """The verdicts by which the model converts, though not by the chosen route."""
    return [] if chosen.convertible else [one for one in verdicts if one.convertible]


def to_json(verdicts: Sequence[Verdict], frontend: str) -> dict[str, Any]:
    """What the report says of a target: the verdict that counts, and what stands behind it by each route that was tried."""
    chosen = choose(verdicts, frontend)
    return {
        "convertible": None if chosen is None else chosen.convertible,
        "frontend": None if chosen is None or chosen.convertible is None else chosen.route,
        "routes": {
            one.route: {"convertible": one.convertible, "blockers": list(map(_blocker_to_json, one.blockers))}
            for one in verdicts
        },
    }


def _blocker_to_json(blocker: Blocker) -> dict[str, Any]:
    place = blocker.place
    return {
        "kind": blocker.kind,
        "operator": blocker.operator,
        "message": blocker.message,
        "filename": None if place is None else place.path,
        "location": None if place is None else {"row": place.span.row, "column": place.span.column},
        "modules": list(blocker.modules),
        "count": blocker.count,
    }


def line(verdicts: Sequence[Verdict], frontend: str) -> str:
    """The verdict as one line under the findings; empty without any."""
    chosen = choose(verdicts, frontend)
    if chosen is None:
        return ""
    if chosen.convertible is None:
        return f"Core ML: not tried · {chosen.reason}"
    if chosen.convertible:
        return f"Core ML: will convert · --frontend {chosen.route}"
    parts = ["Core ML: will not convert", _counted(chosen.blockers)]
    parts.extend(f"converts with --frontend {one.route}" for one in others(verdicts, chosen))
    return " · ".join(parts)


def _counted(blockers: Sequence[Blocker]) -> str:
    operators = {one.operator for one in blockers if one.operator is not None}
    places = {one.place for one in blockers if one.operator is not None}
    rest = sum(one.operator is None for one in blockers)
    parts = []
    if operators:
        parts.append(f"{_number(len(operators), 'operator')} at {_number(len(places), 'place')}")
    if rest:
        parts.append(_number(rest, "other problem" if operators else "problem"))
    return ", ".join(parts)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
