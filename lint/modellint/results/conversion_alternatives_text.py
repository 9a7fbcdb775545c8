"""Alternatives to a conversion that is refused, in words: what else converts the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modellint.results.conversion_verdict import Conversion, Ways

EXPORT = "modellint export"
"""The command that supplies converters, and mends models; among the ways of a verdict it stands for an export."""
_MOST = 3
"""How many converters are written out."""


def alternatives(conversion: Conversion) -> list[str]:
    """What else converts a model that `ct.convert` refuses, each in a few words."""
    ways = conversion.ways
    return [*([by_export(ways)] if EXPORT in ways.options else []), *others(conversion)]


def by_export(ways: Ways) -> str:
    """That an export converts it, and what it does for that."""
    does = answers(ways)
    return f"converts with {EXPORT}" + (f" ({does})" if does else "")


def others(conversion: Conversion, lies: Callable[[str], str] = lambda route: "") -> Iterator[str]:
    """The other routes and deployment targets for which a model converts; ``lies`` says what is wrong with a route."""
    for verdict in conversion.verdicts:
        if verdict.route != conversion.route and verdict.convertible:
            yield f"converts with --frontend {verdict.route}{lies(verdict.route)}"
    named = (EXPORT, *(f"--frontend {verdict.route}" for verdict in conversion.verdicts))
    for way in conversion.ways.options:
        if way not in named:
            yield f"converts with {way}"


def answers(ways: Ways) -> str:
    """What an export does about what `ct.convert` refuses, or gets wrong."""
    parts = [f"fixes {', '.join(ways.fixed)}"] if ways.fixed else []
    for kind, verb in (("supplied", "supplies"), ("mended", "mends")):
        known = [f"{supply.operator}, {supply.exactness}" for supply in ways.supplied if supply.kind == kind]
        more = len(known) - _MOST
        if known:
            parts.append(f"{verb} {'; '.join(known[:_MOST])}" + (f"; and {more} more" if more > 0 else ""))
    return "; ".join(parts)
