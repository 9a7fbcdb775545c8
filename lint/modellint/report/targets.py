"""Findings of live targets made fit to read: what several targets show as one, and the lines that name its modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from modellint.diagnostic import Diagnostic, Severity
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


def verdict_of(target: str, verdict: Mapping[str, Any] | None, diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    """What ``report`` says of a target; a verdict that no error stands for is withheld."""
    found: dict[str, Any] = {"target": target, "convertible": None, "frontend": None, "routes": {}}
    if verdict is not None:
        found.update({key: verdict[key] for key in ("convertible", "frontend", "routes")})
    if found["convertible"] is False and not any(
        one.severity is Severity.ERROR and one.target == target for one in diagnostics
    ):
        found["convertible"] = None
    return found


def line_of(verdict: Mapping[str, Any] | None, diagnostics: Iterable[Diagnostic], target: str | None = None) -> str:
    """A verdict in one line; empty where nothing was tried. ``target`` is named where there are several."""
    if verdict is None:
        return ""
    head = "Core ML" if target is None else f"Core ML, {visible(target)}"
    routes = verdict["routes"]
    if verdict["convertible"] is None:
        return f"{head}: not tried · {verdict['reason']}"
    route = verdict["frontend"]
    if verdict["convertible"]:
        return f"{head}: will convert · --frontend {route}"
    parts = [f"{head}: will not convert", _counted(routes[route]["blockers"])]
    if fixable := sum(one.fix is not None and one.evidence != "source" for one in diagnostics):
        parts.append(f"{fixable} fixable")
    parts.extend(f"converts with --frontend {name}" for name, other in routes.items() if other["convertible"])
    return " · ".join(parts)


def _counted(blockers: Sequence[Mapping[str, Any]]) -> str:
    named = [one for one in blockers if one["operator"] is not None]
    places = {(one["filename"], str(one["location"])) for one in named}
    rest = len(blockers) - len(named)
    parts = []
    if named:
        parts.append(
            f"{_number(len({one['operator'] for one in named}), 'operator')} at {_number(len(places), 'place')}"
        )
    if rest:
        parts.append(_number(rest, "other problem" if named else "problem"))
    return ", ".join(parts)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
