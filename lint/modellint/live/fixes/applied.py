"""Applied fixes: what one did to a model, or would have done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

BIT_EQUAL = "bit-equal"


@dataclass(frozen=True, slots=True)
class Applied:
    """One fix of a live model: one that is in the copy, or one that was taken back."""

    code: str
    """Of the rule whose finding it answers."""
    title: str
    modules: tuple[str, ...]
    """The paths of the modules, or the names of the state, that it changed."""
    exactness: str = BIT_EQUAL
    """``bit-equal``, or ``≤ N ulps``: N units in the last place of the output's largest magnitude."""
    note: str = ""
    """What else is to be known of it; of one that was taken back, why."""

    def __str__(self) -> str:
        names = ", ".join(path or "the model" for path in self.modules[:3])
        if len(self.modules) > 3:
            names += f" and {len(self.modules) - 3} more"
        text = f"{self.code} {self.title}" + (f" ({names})" if names else "")
        return f"{text}: {self.note}" if self.note else text


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

    def told(self, exactness: str = BIT_EQUAL, note: str | None = None) -> Applied:
        """As a report tells it."""
        return Applied(self.code, self.title, self.modules, exactness, self.note if note is None else note)
