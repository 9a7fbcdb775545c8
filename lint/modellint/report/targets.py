"""Findings of live targets made fit to read: what several targets show as one, and the lines that name its modules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from modellint.diagnostic import Diagnostic
from modellint.report.style import visible

_MOST = 3
"""How many module paths are written out."""


def by_defect(diagnostics: Iterable[Diagnostic]) -> list[tuple[Diagnostic, ...]]:
    """The findings in order, those together that differ in nothing but target and modules."""
    groups: dict[object, list[Diagnostic]] = {}
    for one in sorted(diagnostics, key=lambda finding: finding.sort_key):
        # Without a place in source the target is the place.
        alone = one.target is None or one.path is None
        groups.setdefault(len(groups) if alone else one._replace(target=None, modules=()), []).append(one)
    return [tuple(group) for group in groups.values()]


def modules_of(diagnostic: Diagnostic) -> str:
    """The module paths of a finding in a few words; empty where it has none, or only the model's own."""
    paths = diagnostic.modules
    if not any(paths):
        return ""
    shown = paths if len(paths) <= _MOST + 1 else paths[:_MOST]
    words = ", ".join(visible(path) if path else "the model itself" for path in shown)
    more = len(paths) - len(shown)
    return f"{words} … and {more} more" if more else words


def notes(group: Sequence[Diagnostic]) -> list[str]:
    """What stands below a finding's source about the live models that show it."""
    lines: list[str] = []
    for one in group:
        if one.target is not None and one.path is not None:
            lines.append(f"{'confirmed by' if one.evidence == 'both' else 'found in'}: {visible(one.target)}")
        if modules := modules_of(one):
            lines.append(f"modules: {modules}")
    return lines


def untried(target: str) -> dict[str, Any]:
    """What ``report`` says of a target that nothing was converted for."""
    return {"target": target, "convertible": None, "frontend": None, "routes": {}}
