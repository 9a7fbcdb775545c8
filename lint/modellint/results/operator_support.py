"""Operator support: whether a destination converts an operator, by which route, since which version."""

from __future__ import annotations

from typing import NamedTuple


class Hint(NamedTuple):
    """What a rule knows of one operator, for `modellint ops`."""

    kind: str
    """``rewrite``: what to write instead; ``refused``: a use that does not convert; ``issue``: nothing but the issue."""
    text: str
    issue: str | None = None
    """The address of the issue upstream."""


class Route(NamedTuple):
    """Support by one route: a kind of capture, and since when it converts."""

    since: str | None
    """The version of the converter since which it converts; None: none does."""
    decomposed: bool = False
    """Whether it needs core ATen decompositions."""
    converts: bool = False
    """Whether the version that was asked about converts it."""


class Support(NamedTuple):
    """What is known of one operator, or of one name of PyTorch's API where that is all there is."""

    operator: str
    """As in ``aten::fmod``."""
    names: tuple[str, ...]
    """Functions, methods and layers that run it, as far as they have limits."""
    converter: bool
    """Whether the version that was asked about has a converter of that name."""
    trace: Route
    export: Route
    target: int
    """The iOS that it needs."""
    hints: tuple[Hint, ...] = ()
    exactness: str | None = None
    """How exact the converter is that an export supplies, or mends the destination's own with; None where it has none."""
