"""Alternatives to a conversion that is refused, in words: what else converts the model, of a verdict as JSON's own types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

EXPORT = "modellint export"
"""The command that supplies converters, and mends models; among the ways of a verdict it stands for an export."""
_MOST = 3
"""How many converters are written out."""


def alternatives(verdict: Mapping[str, Any]) -> list[str]:
    """What else converts a model that `ct.convert` refuses, each in a few words."""
    return [*([by_export(verdict)] if EXPORT in verdict["ways"] else []), *others(verdict)]


def by_export(verdict: Mapping[str, Any]) -> str:
    """That an export converts it, and what it does for that."""
    does = answers(verdict)
    return f"converts with {EXPORT}" + (f" ({does})" if does else "")


def others(verdict: Mapping[str, Any], lies: Callable[[str], str] = lambda route: "") -> Iterator[str]:
    """The other routes and deployment targets for which a model converts; ``lies`` says what is wrong with a route."""
    for name, other in verdict["routes"].items():
        if name != verdict["frontend"] and other["convertible"]:
            yield f"converts with --frontend {name}{lies(name)}"
    told = (EXPORT, *(f"--frontend {name}" for name in verdict["routes"]))
    for way in verdict["ways"]:
        if way not in told:
            yield f"converts with {way}"


def answers(verdict: Mapping[str, Any]) -> str:
    """What an export does about what `ct.convert` refuses, or gets wrong."""
    parts = [f"fixes {', '.join(verdict['fixed'])}"] if verdict["fixed"] else []
    for kind, verb in (("supplied", "supplies"), ("mended", "mends")):
        known = [
            f"{supply['operator']}, {supply['exactness']}" for supply in verdict["supplied"] if supply["kind"] == kind
        ]
        more = len(known) - _MOST
        if known:
            parts.append(f"{verb} {'; '.join(known[:_MOST])}" + (f"; and {more} more" if more > 0 else ""))
    return "; ".join(parts)
