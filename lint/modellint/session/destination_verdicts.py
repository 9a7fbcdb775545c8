"""Verdicts of a target's destination on its conversion: dry run, execution, and alternatives to a refused conversion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from modellint import destinations
from modellint.destinations.destination import Destination, Fault
from modellint.live.check import needs_of
from modellint.live.conversion_analyses import verdicts
from modellint.live.inputs.required_inputs import wanted
from modellint.results.conversion_alternatives_text import alternatives
from modellint.results.conversion_verdict import ROUTES, Conversion, Verdict
from modellint.results.verification import AGREES, NOT_CONVERTED, UNDECIDED, Verification

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.subject import Subject
    from modellint.results.diagnostic import Diagnostic
    from modellint.rule import Rule


def destination_of(subject: Subject) -> Destination:
    """The destination of a subject's model."""
    return destinations.named(subject.destination.name)


def judge(subject: Subject) -> tuple[Verdict, ...]:
    """The dry run of a model by its destination."""
    return destination_of(subject).dry_run(subject)


def execute(subject: Subject) -> Verification:
    """A model converted and executed by its destination, on its example inputs alone."""
    return destination_of(subject).execute(subject)


def conversion_of(
    subject: Subject,
    rules: Mapping[str, Rule],
    findings: Sequence[Diagnostic],
    *,
    asks: Callable[[nn.Module], str] = wanted,
    end: float = math.inf,
) -> Conversion | None:
    """The conversion as a check reports it; None where no rule asks about it.

    ``found`` are its findings; ``asks`` says in words what to give where the model has no inputs. Whatever else may convert the
    model is tried unless it might take longer than ``end``.
    """
    if "conversion" not in needs_of(rules):
        return None
    frontend = subject.destination.frontend
    if not subject.may_convert or not verdicts(subject):
        untried = Verdict(ROUTES[0], None, reason=_not_tried(subject, findings, asks))
        return Conversion((untried,), frontend, destination=subject.destination.name)
    ways = destination_of(subject).alternatives(subject, faults(subject, rules, findings), end)
    return Conversion(verdicts(subject), frontend, ways, destination=subject.destination.name)


def noted(subject: Subject, verification: Verification, end: float) -> Verification:
    """A verification of a model that does not convert, with a note on what converts it."""
    if verification.verdict != NOT_CONVERTED or not verdicts(subject):
        return verification
    ways = destination_of(subject).alternatives(subject, end=end)
    notes = alternatives(Conversion(verdicts(subject), subject.destination.frontend, ways))
    return replace(verification, notes=(*verification.notes, *notes))


def faults(subject: Subject, rules: Mapping[str, Rule], findings: Sequence[Diagnostic]) -> list[Fault]:
    """The findings by which the destination converts a model into something else."""
    destination = destination_of(subject)
    known = [
        Fault(
            finding.code,
            finding.operator,
            destination.faults(finding, rules[finding.code].silent_by(finding)),
            "a place that is not known"
            if finding.path is None or finding.span is None
            else f"line {finding.span.row} of {PurePath(finding.path).name}",
            rules[finding.code].may_hide(finding),
        )
        for finding in findings
        if finding.code in rules
    ]
    return [fault for fault in known if fault.routes]


def doubted(
    subject: Subject, rules: Mapping[str, Rule], findings: Sequence[Diagnostic], verification: Verification
) -> Verification:
    """A verification; undecided where it agrees and a finding says that its route loses what a comparison may miss."""
    if verification.single != AGREES and verification.verdict != AGREES:
        return verification
    route = "trace" if verification.route == "trace" else "export"
    for fault in faults(subject, rules, findings):
        if fault.hides and route in fault.routes:
            return replace(verification, verdict=UNDECIDED, single=UNDECIDED, reason=fault.doubt(route))
    return verification


def _not_tried(subject: Subject, findings: Sequence[Diagnostic], asks: Callable[[nn.Module], str]) -> str:
    if subject.inputs is None:
        return asks(subject.model)
    if not subject.has_values:
        return "its parameters have no values"
    codes = ", ".join(dict.fromkeys(finding.code for finding in findings if finding.code in ("SHP008", "LNT003")))
    return "the model does not run" + (f": {codes}" if codes else "")
