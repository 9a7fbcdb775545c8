"""Findings of live targets made fit to read: what several targets show as one, and the lines that name its modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from modellint.report.style import visible
from modellint.results.conversion_alternatives_text import EXPORT, answers, by_export, others
from modellint.results.diagnostic import Diagnostic
from modellint.results.verification import AGREES, DIFFERS
from modellint.settings import RUNTIMES

if TYPE_CHECKING:
    from modellint.results.applied_fix import Applied
    from modellint.results.conversion_verdict import Blocker, Conversion, Miscompilation
    from modellint.results.exported import Exported
    from modellint.rule import Rule

_MOST = 3
"""How many module paths are written out."""


def by_defect(diagnostics: Iterable[Diagnostic]) -> list[tuple[Diagnostic, ...]]:
    """The findings in order, those together that differ in nothing but target and modules."""
    groups: dict[object, list[Diagnostic]] = {}
    for finding in sorted(diagnostics, key=lambda finding: finding.sort_key):
        # Without a place in source the target is the place.
        alone = finding.target is None or finding.path is None
        groups.setdefault(len(groups) if alone else finding._replace(target=None, modules=(), library=()), []).append(
            finding
        )
    return [tuple(group) for group in groups.values()]


def environment_once(diagnostics: Iterable[Diagnostic], rules: Mapping[str, Rule]) -> list[Diagnostic]:
    """The findings, those about what is installed once in a run, and not once for each target."""
    kept: dict[object, Diagnostic] = {}
    for finding in diagnostics:
        rule = rules.get(finding.code)
        if rule is not None and rule.live_needs == "environment" and finding.path is None:
            kept.setdefault((finding.code, finding.message), finding._replace(target="the environment", modules=()))
        else:
            kept[len(kept), "a finding of its own"] = finding
    return list(kept.values())


def modules_of(diagnostic: Diagnostic) -> str:
    """The module paths of a finding in a few words; empty where it has none, or only the model's own."""
    if not any(diagnostic.modules):
        return ""
    return _some_of([visible(path) if path else "the model itself" for path in diagnostic.modules])


def _some_of(names: Sequence[str]) -> str:
    shown = names if len(names) <= _MOST + 1 else names[:_MOST]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" … and {more} more" if more else "")


def fix_of_model(fix: Applied) -> str:
    """A fix of a live model in a line: its rule, what it did to which modules, and why it was taken back if it was."""
    names = ", ".join(path or "the model" for path in fix.modules[:_MOST])
    if len(fix.modules) > _MOST:
        names += f" and {len(fix.modules) - _MOST} more"
    text = f"{fix.code} {fix.title}" + (f" ({names})" if names else "")
    return f"{text}: {fix.note}" if fix.note else text


def notes(group: Sequence[Diagnostic]) -> list[str]:
    """What stands below a finding's source about the live models that show it."""
    lines: list[str] = []
    for finding in group:
        if finding.target is not None and finding.path is not None:
            lines.append(f"{'confirmed by' if finding.evidence == 'both' else 'found in'}: {visible(finding.target)}")
        if modules := modules_of(finding):
            lines.append(f"modules: {modules}")
        if finding.library:
            lines.append(f"in a library: {_some_of([*map(visible, finding.library)])}")
    return lines


def verdict_of(
    target: str,
    conversion: Conversion | None,
    diagnostics: Iterable[Diagnostic],
    filename: Callable[[str], str] = str,
) -> dict[str, Any]:
    """What ``report`` says of a target; a verdict that no error stands for is withheld. ``filename`` says how files are named."""
    if conversion is None:
        nothing: dict[str, Any] = {"convertible": None, "frontend": None, "routes": {}, "supplied": []}
        return {"target": target, **nothing, "wrong": [], "converts_with": []}
    wrong = conversion.miscompiled_by(conversion.route) if conversion.convertible else ()
    return {
        "target": target,
        **({} if conversion.destination == "coreml" else {"destination": conversion.destination}),
        "convertible": conversion.withheld(finding for finding in diagnostics if finding.target == target),
        "frontend": conversion.route,
        "routes": {
            verdict.route: {"convertible": verdict.convertible, "blockers": list(map(_blocker, verdict.blockers))}
            for verdict in conversion.verdicts
        },
        "supplied": [supply._asdict() for supply in conversion.ways.supplied],
        "wrong": [_miscompilation(finding, filename) for finding in wrong],
        "converts_with": list(conversion.ways.options),
        **({"limits": list(conversion.limits)} if conversion.limits else {}),
    }


def _blocker(blocker: Blocker) -> dict[str, Any]:
    place = blocker.place
    return {
        "kind": blocker.kind,
        "operator": blocker.operator,
        "message": blocker.message,
        "filename": None if place is None else place.path,
        "location": None if place is None else {"row": place.span.row, "column": place.span.column},
        "modules": list(blocker.modules),
        "count": blocker.count,
    }


def _miscompilation(finding: Miscompilation, filename: Callable[[str], str]) -> dict[str, Any]:
    span = finding.span
    return {
        "code": finding.code,
        "filename": None if finding.path is None else filename(finding.path),
        "location": None if span is None else {"row": span.row, "column": span.column},
        "routes": list(finding.routes),
    }


_ON_THE_EXAMPLE = {
    None: "not compared",
    False: "near PyTorch on the example alone",
    True: "far from PyTorch on the example",
}
"""What is said of a conversion that was not verified, by whether its outputs on the example are far from PyTorch's."""


def line_of(
    conversion: Conversion | None,
    diagnostics: Iterable[Diagnostic],
    target: str | None = None,
    *,
    is_compared: bool = False,
) -> str:
    """A verdict in one line; empty where nothing was tried. ``target`` is named where there are several.

    A dry run proves that a conversion goes through, and nothing of what the result computes: the line says so, unless a comparison
    of both is shown with it.
    """
    if conversion is None:
        return ""
    head = RUNTIMES[conversion.destination]
    if target is not None:
        head += f", {visible(target)}"
    chosen, route, wrong = conversion.chosen, conversion.route, conversion.miscompilations
    if chosen is None or route is None:
        return f"{head}: not tried · {chosen.reason if chosen is not None else ''}"
    parts = []
    if conversion.convertible and (here := conversion.miscompiled_by(route)):
        parts.append(f"converts, and computes something else: {_places(here)}")
        if does := answers(conversion.ways):
            parts.append(f"{EXPORT} {does}")
    elif conversion.convertible:
        parts.append("will convert" if conversion.has_one_route else f"will convert · --frontend {route}")
        if not is_compared:
            parts.append(f"{_ON_THE_EXAMPLE[chosen.is_far]}: modellint verify")
        if wrong:
            by = dict.fromkeys(affected for finding in wrong for affected in finding.routes)
            parts.append(f"by {' and '.join(by)} it computes something else: {_places(wrong)}")
    elif conversion.has_one_route:
        parts.append(_missing(chosen.blockers))
        if EXPORT in conversion.ways.options:
            parts.append(by_export(conversion.ways))
    else:
        refused = _counted(chosen.blockers)
        parts += ["will not convert", refused]
        if fixable := sum(finding.fix is not None and finding.evidence != "source" for finding in diagnostics):
            parts.append(f"{fixable} fixable")
        if EXPORT in conversion.ways.options:
            parts[:2] = [by_export(conversion.ways), f"ct.convert refuses {refused}"]
    parts += others(conversion, lambda name: _lies(conversion.miscompiled_by(name)))
    return f"{head}: {' · '.join((*parts, *conversion.limits))}"


def line_of_export(exported: Exported, conversion: Conversion | None) -> str:
    """The outcome of an export in a line; ``conversion`` is the verdict on `ct.convert` alone."""
    if not exported.converts:
        return f"{RUNTIMES[exported.destination]}: will not convert"
    by = f" with {EXPORT}{_needed(exported, conversion)}" if conversion and conversion.convertible is False else ""
    compared = exported.verification
    if compared.is_open_on_devices:
        outcome = "agrees by the specification, undecided on devices"
    elif compared.single == AGREES and compared.verdict != AGREES:
        differs = compared.verdict == DIFFERS
        outcome = "float16 is not precise enough" if differs else "agrees in float32, undecided in float16"
    else:
        words = {AGREES: "agrees", DIFFERS: "computes something else"}
        outcome = words.get(compared.verdict, "whether it agrees is undecided")
    return f"{RUNTIMES[exported.destination]}: converts{by} by {exported.route} · {outcome}"


def _needed(exported: Exported, conversion: Conversion) -> str:
    """What an export had to do where the converter refuses the model, as the check of the model tells it."""
    chosen = conversion.chosen
    refused = {blocker.operator for blocker in chosen.blockers} if chosen is not None else set()
    parts = []
    for kind, verb in (("supplied", "supplies"), ("mended", "mends")):
        converters = [
            (change.what.partition(" at ")[0], change.exactness) for change in exported.changes if change.kind == kind
        ]
        needed = [f"{what}, {exact}" for what, exact in converters if kind == "supplied" or what in refused]
        if needed:
            parts.append(f"{verb} {'; '.join(needed)}")
    codes = dict.fromkeys(change.code for change in exported.changes if change.kind == "fixed" and change.code)
    if codes and not parts:
        parts.append(f"fixes {', '.join(codes)}")
    return f" ({'; '.join(parts)})" if parts else ""


def _lies(wrong: Sequence[Miscompilation]) -> str:
    """The remark on a route that converts, and computes something else."""
    return f", and computes something else: {_places(wrong)}" if wrong else ""


def _places(wrong: Sequence[Miscompilation]) -> str:
    """The findings that a model computes something else, in a few words."""
    shown = [
        finding.code
        if finding.path is None or finding.span is None
        else f"{finding.code} at {visible(finding.path)}:{finding.span.row}"
        for finding in wrong[:_MOST]
    ]
    more = len(wrong) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _counted(blockers: Sequence[Blocker]) -> str:
    named = [blocker for blocker in blockers if blocker.operator is not None]
    places = {blocker.place and (blocker.place.path, blocker.place.span[:2]) for blocker in named}
    rest = len(blockers) - len(named)
    parts = []
    if named:
        operators = len({blocker.operator for blocker in named})
        parts.append(f"{_number(operators, 'operator')} at {_number(len(places), 'place')}")
    if rest:
        parts.append(_number(rest, "other problem" if named else "problem"))
    return ", ".join(parts)


def _missing(blockers: Sequence[Blocker]) -> str:
    """Operators without a converter, and what else is in the way, by their number."""
    if {blocker.kind for blocker in blockers} == {"run"}:
        return f"converts, and cannot be run, {_number(len(blockers), 'problem')}"
    missing = {blocker.operator for blocker in blockers if blocker.kind == "missing"}
    rest = [blocker for blocker in blockers if blocker.kind != "missing"]
    parts = [f"{_number(len(missing), 'operator')} missing"] if missing else ["will not convert"]
    return ", ".join(parts + ([_number(len(rest), "other problem" if missing else "problem")] if rest else []))


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
