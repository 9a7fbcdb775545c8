"""A live model to the verdicts on its conversion, as far as the environment allows one."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from modellint.destinations.coreml import installed_versions as installed
from modellint.destinations.coreml.dry_run.alternatives import Silent, ways
from modellint.live.check import needs_of
from modellint.live.conversion import verdicts
from modellint.results.verdict import ROUTES, Verdict, to_json
from modellint.session.required_inputs import wanted

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.subject import Subject
    from modellint.results.diagnostic import Diagnostic
    from modellint.results.verification import Verification
    from modellint.rule import Rule


def judge(subject: Subject) -> tuple[Verdict, ...]:
    """Try the routes that the destination asks for, until one converts.

    Of two routes the one that is not asked for is tried too where the other fails: it may be the way out.
    """
    if subject.inputs is None or not subject.has_values:
        return ()
    if importlib.util.find_spec("coremltools") is None:
        return (Verdict(ROUTES[0], None, reason="coremltools is not installed: pip install 'modellint[coreml]'"),)
    try:
        from modellint.destinations.coreml.dry_run.dry_run import dry_run
    except Exception as error:
        # One that does not go together with what else is installed breaks in many ways.
        said = " ".join(str(error).split())[:200]
        reason = (
            f"coremltools {installed.version('coremltools') or ''} cannot be imported: {type(error).__name__}: {said}"
        )
        return (Verdict(ROUTES[0], None, reason=" ".join(reason.split())),)

    found: list[Verdict] = []
    asked = subject.destination.frontend
    for route in sorted(ROUTES, key=lambda route: route != asked) if asked != "auto" else ROUTES:
        found.append(dry_run(subject.model, subject.inputs, route, subject.destination, subject.project))
        if found[-1].convertible:
            break
    return tuple(found)


def told(
    subject: Subject,
    rules: Mapping[str, Rule],
    found: Sequence[Diagnostic],
    *,
    asks: Callable[[nn.Module], str] = wanted,
    end: float = math.inf,
) -> dict[str, Any] | None:
    """What a check says of a model's conversion, as JSON's own types; None where no rule asks about it.

    ``found`` are its findings; ``asks`` says in words what to give where the model has no inputs. Whatever else may convert the
    model is tried unless it might take longer than ``end``.
    """
    if "conversion" not in needs_of(rules):
        return None
    frontend = subject.destination.frontend
    if not subject.may_convert or not verdicts(subject):
        return to_json((Verdict(ROUTES[0], None, reason=_not_tried(subject, found, asks)),), frontend)
    silent = [Silent(one.code, one.operator, rules[one.code].silent_by(one)) for one in found if one.code in rules]
    return to_json(verdicts(subject), frontend, ways(subject, [one for one in silent if one.routes], end))


def noted(subject: Subject, found: Verification, end: float) -> Verification:
    """A verification of a model that does not convert, with a note on what converts it."""
    from modellint.report.targets import ways_of
    from modellint.results.verification import NOT_CONVERTED

    if found.verdict != NOT_CONVERTED or not verdicts(subject):
        return found
    told = ways_of(to_json(verdicts(subject), subject.destination.frontend, ways(subject, end=end)))
    return replace(found, notes=(*found.notes, *told))


def _not_tried(subject: Subject, found: Sequence[Diagnostic], asks: Callable[[nn.Module], str]) -> str:
    if subject.inputs is None:
        return asks(subject.model)
    if not subject.has_values:
        return "its parameters have no values"
    codes = ", ".join(dict.fromkeys(one.code for one in found if one.code in ("SHP008", "LNT003")))
    return "the model does not run" + (f": {codes}" if codes else "")


def execute(subject: Subject) -> Verification:
    """Convert and execute a model on its example inputs alone, for rules that ask about that."""
    from modellint.results.verification import NOT_CONVERTED, Verification

    assert subject.inputs is not None
    if importlib.util.find_spec("coremltools") is None:
        return Verification(NOT_CONVERTED, "coremltools is not installed: pip install 'modellint[coreml]'")
    from modellint.destinations.coreml.verify.model import verify

    return verify(subject.model, subject.inputs, subject.destination, subject.project, budget=0.0)
