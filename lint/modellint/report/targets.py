"""Findings of live targets made fit to read: what several targets show as one, and the lines that name its modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from modellint.report.style import visible
from modellint.results.alternatives import EXPORT, answers, by_export, others
from modellint.results.diagnostic import Diagnostic, Severity

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


def verdict_of(
    target: str,
    verdict: Mapping[str, Any] | None,
    diagnostics: Iterable[Diagnostic],
    filename: Callable[[str], str] = str,
) -> dict[str, Any]:
    """What ``report`` says of a target; a verdict that no error stands for is withheld. ``filename`` says how files are named."""
    found: dict[str, Any] = {
        "target": target,
        "convertible": None,
        "frontend": None,
        "routes": {},
        "supplied": [],
        "wrong": [],
        "converts_with": [],
    }
    if verdict is not None:
        found.update({key: verdict[key] for key in ("convertible", "frontend", "routes", "supplied")})
        found["converts_with"] = verdict["ways"]
        if verdict["convertible"]:
            found["wrong"] = [
                {**one, "filename": None if one["filename"] is None else filename(one["filename"])}
                for one in verdict.get("wrong", ())
                if verdict["frontend"] in one["routes"]
            ]
    if found["convertible"] is False and not any(
        one.severity is Severity.ERROR and one.target == target for one in diagnostics
    ):
        found["convertible"] = None
    return found


def line_of(verdict: Mapping[str, Any] | None, diagnostics: Iterable[Diagnostic], target: str | None = None) -> str:
    """A verdict in one line; empty where nothing was tried. ``target`` is named where there are several.

    A dry run proves that a conversion goes through, and nothing of what the result computes: the line says so.
    """
    if verdict is None:
        return ""
    head = "Core ML" if target is None else f"Core ML, {visible(target)}"
    if verdict["convertible"] is None:
        return f"{head}: not tried · {verdict['reason']}"
    route, wrong, ways = verdict["frontend"], verdict.get("wrong", ()), verdict["ways"]
    here = [one for one in wrong if route in one["routes"]]
    parts = []
    if verdict["convertible"] and here:
        parts.append(f"converts, and computes something else: {_places(here)}")
        if does := answers(verdict):
            parts.append(f"{EXPORT} {does}")
    elif verdict["convertible"]:
        parts += [f"will convert · --frontend {route}", "not compared: modellint verify"]
        elsewhere = [one for one in wrong if route not in one["routes"]]
        if elsewhere:
            by = dict.fromkeys(other for one in elsewhere for other in one["routes"])
            parts.append(f"by {' and '.join(by)} it computes something else: {_places(elsewhere)}")
    else:
        refused = _counted(verdict["routes"][route]["blockers"])
        parts += ["will not convert", refused]
        if fixable := sum(one.fix is not None and one.evidence != "source" for one in diagnostics):
            parts.append(f"{fixable} fixable")
        if EXPORT in ways:
            parts[:2] = [by_export(verdict), f"ct.convert refuses {refused}"]
    parts += others(verdict, lambda name: _lies([finding for finding in wrong if name in finding["routes"]]))
    return f"{head}: {' · '.join(parts)}"


def _lies(wrong: Sequence[Mapping[str, Any]]) -> str:
    """What is said of a route that converts, beside that."""
    return f", and computes something else: {_places(wrong)}" if wrong else ""


def _places(wrong: Sequence[Mapping[str, Any]]) -> str:
    """The findings that a model computes something else, in a few words."""
    shown = [
        one["code"]
        if one["filename"] is None
        else f"{one['code']} at {visible(one['filename'])}:{one['location']['row']}"
        for one in wrong[:_MOST]
    ]
    more = len(wrong) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


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
