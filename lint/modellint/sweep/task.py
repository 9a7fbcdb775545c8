"""Task of a sweep: one request about one target, as data that any process can serve, and its rows."""

from __future__ import annotations

from typing import NamedTuple

from modellint.results.codec import Codec
from modellint.results.sweep_row import SweepRow
from modellint.session.messages import Limits, Request


class Task(NamedTuple):
    """A request, and what its rows are to say of it."""

    request: Request
    limits: Limits
    name: str
    """As a person calls the target."""
    action: str
    """``check``, ``verify`` or ``export``."""
    configuration: str
    """A digest of everything that is asked."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key of its rows."""
        destination = self.request.destination
        return self.request.target.text, self.action, destination.name, destination.frontend


TASK: Codec[Task] = Codec(Task)
ROWS: Codec[tuple[SweepRow, ...]] = Codec(tuple[SweepRow, ...])
