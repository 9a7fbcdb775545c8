"""Row of a sweep: what one action found out about one target, for one destination, by one route."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from modellint.results.conversion_verdict import Blocker

CHECK, VERIFY, EXPORT = "check", "verify", "export"
ACTIONS = (CHECK, VERIFY, EXPORT)
"""What can be done with each target."""

CONVERTS = "converts"
"""Of a check: the converter takes the model as it is."""
MISCONVERTS = "converts to something else"
"""Of a check: it takes the model, and an error says that the result computes something else."""
REFUSED = "does not convert"
NOT_JUDGED = "not judged"
"""Whether it converts, or agrees, could not be told."""
AGREES = "agrees"
AGREES_SINGLE = "agrees in float32"
"""Float32 agrees, and float16 is undecided."""
DIFFERS = "differs"
UNDECIDED = "undecided"
FAILS = "does not run"
"""The target raised before anything could be said of its conversion."""
NOT_RUN = "not run"
"""It was ended: for its time, its memory, or by a crash."""
STATUSES = (
    AGREES,
    AGREES_SINGLE,
    CONVERTS,
    MISCONVERTS,
    UNDECIDED,
    NOT_JUDGED,
    DIFFERS,
    REFUSED,
    FAILS,
    NOT_RUN,
)
"""Every status, from the best to the worst."""
REACHED = (AGREES, AGREES_SINGLE, CONVERTS)
"""Statuses of a target that got where it was to get."""


class Noted(NamedTuple):
    """A finding, as much as a sweep keeps of it."""

    code: str
    severity: str
    path: str | None
    row: int
    message: str


class SweepRow(NamedTuple):
    """One target × action × destination × route."""

    target: str
    """As a command takes it: ``zoo.py:models[small]``."""
    name: str
    """As a person calls it: the model's name in its collection, or the target itself."""
    library: str
    """The package that the model's class is from, or the collection that names it; ``project`` for the user's own files."""
    family: str
    """The file that the class is from, without what is the same in all of its library."""
    action: str
    destination: str
    route: str
    """``trace``, ``export``, ``decomposed``; empty where no route was come to."""
    frontend: str
    """The route that was asked for, or ``auto``."""
    status: str
    reason: str = ""
    """In a line."""
    blockers: tuple[Blocker, ...] = ()
    findings: tuple[Noted, ...] = ()
    changes: tuple[str, ...] = ()
    """What an export changed, supplied or mended."""
    error: float | None = None
    """The largest error of the float32 program over the scale of its output."""
    half_error: float | None = None
    """The same of the float16 program."""
    cases: int = 0
    """On how many sets of inputs it was compared."""
    seconds: float = 0.0
    """Of the clock."""
    cpu: float = 0.0
    """Of CPU time; 0 where the worker was ended."""
    memory: int = 0
    """The most bytes that were resident at once; 0 where the worker was ended."""
    parameters: int = 0
    size: int = 0
    """Bytes of parameters and buffers."""
    package: int = 0
    """Bytes of the package on disk."""
    model: str = ""
    """The class, dotted."""
    configuration: str = ""
    """A digest of everything that was asked: inputs, settings, rules, seed, checkpoint."""
    timeout: float = 0.0
    """Seconds that it might take."""
    files: Mapping[str, str] = {}
    versions: Mapping[str, str] = {}

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What a row stands for whatever became of it: target, action, destination, and the route that was asked for."""
        return self.target, self.action, self.destination, self.frontend
