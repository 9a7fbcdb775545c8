"""Number types of Core ML: the ends of what they hold."""

from __future__ import annotations

from typing import NamedTuple


class NumberType(NamedTuple):
    """The ends of what a type holds: of one with fractions, ``smallest`` is the smallest positive number."""

    smallest: float
    largest: float


FLOAT16 = NumberType(2.0**-24, 65504.0)
"""The float16 in which Core ML computes by default: its smallest positive number and its largest."""
INT32 = NumberType(-(1 << 31), (1 << 31) - 1)
"""The int32 to which Core ML narrows whole numbers."""
