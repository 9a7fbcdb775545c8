"""Task of a sweep: one request about one target, as data that any process can serve, and its rows."""

from __future__ import annotations

from typing import NamedTuple

from modellint.results.codec import Codec
from modellint.results.sweep_row import CHECK, SweepRow
from modellint.session.messages import Check, Limits, Request


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
    with_check: bool = False
    """Whether an export is to give the rows of a check as well: it checks the model as it is, before anything else."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key of its rows."""
        destination = self.request.destination
        return self.request.target.text, self.action, destination.name, destination.frontend

    @property
    def check(self) -> Task:
        """The check of the same target alone."""
        return self._replace(request=self.request._replace(action=Check()), action=CHECK, with_check=False)


TASK: Codec[Task] = Codec(Task)
ROWS: Codec[tuple[SweepRow, ...]] = Codec(tuple[SweepRow, ...])
