"""Applied fix: what one fix did to a copy of a model, or would have done."""

from __future__ import annotations

from dataclasses import dataclass

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
