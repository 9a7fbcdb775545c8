"""What a dry run says of a model, in data, in JSON and in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from modellint.results.diagnostic import Place

ROUTES = ("trace", "export")
"""How a model is captured, in the order in which the routes are tried."""
CAPTURES = {"trace": "torch.jit.trace", "export": "torch.export"}


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

    @property
    def refuses_slopes(self) -> bool:
        """Whether it is a `prelu` that is refused for its slopes and its rank."""
        return self.kind == "refused" and self.operator == "aten::prelu" and "values of alpha" in self.message


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
    complete: bool = True
    """Whether every operator was looked at, so that what is not reported converts."""
    undecomposed: tuple[Blocker, ...] = ()
    """Of an export with core ATen decompositions what stands in the way without them."""


def choose(verdicts: Sequence[Verdict], frontend: str) -> Verdict | None:
    """The verdict that counts: the first route that converts, or else the one with the fewest blockers; None without any.

    ``frontend`` is ``auto`` or the one route to look at.
    """
    allowed = [verdict for verdict in verdicts if frontend in ("auto", verdict.route)]
    order = {True: 0, False: 1, None: 2}
    return min(allowed, key=lambda one: (order[one.convertible], len(one.blockers)), default=None)


class Supply(NamedTuple):
    """A converter of ours that an export converts a model with, where coremltools has none, or refuses."""

    operator: str
    exactness: str
    kind: str
    """``supplied`` or ``mended``."""


class Ways(NamedTuple):
    """What else converts a model; each was tried."""

    options: tuple[str, ...] = ()
    """Commands and options, as in ``modellint export`` and ``--deployment-target iOS18``."""
    supplied: tuple[Supply, ...] = ()
    """What an export supplies for that."""
    fixed: tuple[str, ...] = ()
    """Codes of the findings that it fixes before."""


NO_WAYS = Ways()


def to_json(verdicts: Sequence[Verdict], frontend: str, ways: Ways = NO_WAYS) -> dict[str, Any]:
    """What the report says of a target: the verdict that counts, what stands behind it by each route that was tried, and what else
    converts it."""
    chosen = choose(verdicts, frontend)
    return {
        "convertible": None if chosen is None else chosen.convertible,
        "frontend": None if chosen is None or chosen.convertible is None else chosen.route,
        "reason": "" if chosen is None else chosen.reason,
        "routes": {
            one.route: {"convertible": one.convertible, "blockers": list(map(_blocker_to_json, one.blockers))}
            for one in verdicts
        },
        "ways": list(ways.options),
        "fixed": list(ways.fixed),
        "supplied": [one._asdict() for one in ways.supplied],
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
