"""Verdict of a dry run on each route, and the conversion as a whole: which route counts, and what else converts the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from modellint.results.diagnostic import Diagnostic, Place, Severity, Span

ROUTES = ("trace", "export")
"""How a model is captured, in the order in which the routes are tried."""
CAPTURES = {"trace": "torch.jit.trace", "export": "torch.export"}


class Blocker(NamedTuple):
    """One reason why a model does not convert."""

    kind: str
    """``missing``: no converter; ``refused``: the converter refuses this use; ``target``: it needs a newer deployment target;
    ``rank``: more than five dimensions are left; ``argument``: `ct.convert` refuses an input; ``output``: it refuses an output;
    ``crash``: the converter itself crashes; ``capture``: the capture fails; ``run``: what was converted cannot be run."""
    operator: str | None
    """As in ``aten::fmod``."""
    message: str
    """The converter's own first line."""
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
    limits: tuple[str, ...] = ()
    """What the verdict does without where nobody measured the installed converter: none where somebody did."""
    is_far: bool | None = None
    """Whether the outputs of what was converted are far from PyTorch's on the example, so that a comparison has to tell why; None
    where that was not seen."""


def choose(verdicts: Sequence[Verdict], frontend: str) -> Verdict | None:
    """The verdict that counts: the first route that converts, or else the one with the fewest blockers; None without any.

    ``frontend`` is ``auto`` or the one route to look at.
    """
    allowed = [verdict for verdict in verdicts if frontend in ("auto", verdict.route)]
    order = {True: 0, False: 1, None: 2}
    return min(allowed, key=lambda verdict: (order[verdict.convertible], len(verdict.blockers)), default=None)


class Supply(NamedTuple):
    """A converter of ours that an export converts a model with, where coremltools has none, or refuses."""

    operator: str
    exactness: str
    kind: str
    """``supplied`` or ``mended``."""


class Ways(NamedTuple):
    """Alternatives that convert a model; each was tried."""

    options: tuple[str, ...] = ()
    """Commands and options, as in ``modellint export`` and ``--deployment-target iOS18``."""
    supplied: tuple[Supply, ...] = ()
    """What an export supplies for that."""
    fixed: tuple[str, ...] = ()
    """Codes of the findings that it fixes before."""


NO_WAYS = Ways()


class Miscompilation(NamedTuple):
    """A finding by which a model converts to something else, and the routes by which it does."""

    code: str
    path: str | None
    """The file, as findings name it."""
    span: Span | None
    routes: tuple[str, ...]


class Conversion(NamedTuple):
    """What a check says of a model's conversion: a verdict by each route that was tried, and what else converts it."""

    verdicts: tuple[Verdict, ...]
    frontend: str
    """The route that was asked for, or ``auto``."""
    ways: Ways = NO_WAYS
    miscompilations: tuple[Miscompilation, ...] = ()
    destination: str = "coreml"
    """Where the model is to go, as a key of ``settings.RUNTIMES``."""

    @property
    def chosen(self) -> Verdict | None:
        """The verdict that counts."""
        return choose(self.verdicts, self.frontend)

    @property
    def has_one_route(self) -> bool:
        """Whether there is no choice of routes."""
        return self.destination != "coreml"

    @property
    def convertible(self) -> bool | None:
        """Whether the model converts; None where that could not be judged."""
        return None if self.chosen is None else self.chosen.convertible

    @property
    def route(self) -> str | None:
        """The route of the verdict that counts; None where none could be judged."""
        return None if self.chosen is None or self.chosen.convertible is None else self.chosen.route

    @property
    def limits(self) -> tuple[str, ...]:
        """What its verdicts do without, each once."""
        return tuple(dict.fromkeys(limit for verdict in self.verdicts for limit in verdict.limits))

    def miscompiled_by(self, route: str | None) -> tuple[Miscompilation, ...]:
        """The findings by which a route leads to something else."""
        return tuple(finding for finding in self.miscompilations if route in finding.routes)

    def withheld(self, diagnostics: Iterable[Diagnostic]) -> bool | None:
        """Whether the model converts, or None where it does not and no error stands for that: it was not asked for, or is excused."""
        has_error = any(finding.severity >= Severity.ERROR for finding in diagnostics)
        return None if self.convertible is False and not has_error else self.convertible
