"""Change: a fix of a live model that can be tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from modellint.results.applied_fix import BIT_EQUAL as BIT_EQUAL
from modellint.results.applied_fix import Applied as Applied


class Change(NamedTuple):
    """A fix that can be tried."""

    code: str
    title: str
    modules: tuple[str, ...]
    apply: Callable[[], object]
    """Changes the model; may raise."""
    rounds: bool = False
    """Whether results may differ by rounding, as memory in another order makes them."""
    keeps_keys: bool = True
    """Whether every key of `state_dict` stays."""
    otherwise: Change | None = None
    """What to try where it does not hold."""
    note: str = ""

    def applied(self, exactness: str = BIT_EQUAL, note: str | None = None) -> Applied:
        """As a report tells it."""
        return Applied(self.code, self.title, self.modules, exactness, self.note if note is None else note)
