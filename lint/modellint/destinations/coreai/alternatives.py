"""Alternatives: what else converts a model that coreai-torch refuses, or turns into something else; tried, before it is told."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.destinations.comparison.side_effect_free_runs import at_rest
from modellint.destinations.coreai.conversion import Converter, shared_converter
from modellint.destinations.coreai.dry_run import judge
from modellint.destinations.coreai.example_run import example_run
from modellint.live.conversion_analyses import verdicts
from modellint.results.conversion_alternatives_text import EXPORT
from modellint.results.conversion_verdict import NO_WAYS, Supply, Ways

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.destination import Fault
    from modellint.live.subject import Subject
    from modellint.results.conversion_verdict import Verdict

_COSTS = 3.0
"""Time that one more conversion may take, as a multiple of what the one before took."""

_BY_MASK = "aten::index"
"""A program has it under this name before and after it is decomposed."""


def ways(subject: Subject, faults: Sequence[Fault], end: float) -> Ways:
    """What an export supplies and fixes, if that converts the model, and answers what findings (``faults``) say of it."""
    told = verdicts(subject)
    if not told or told[0].convertible is None or (told[0].convertible and not faults):
        return NO_WAYS
    costs = _COSTS * sum(told[0].seconds)
    supplied = _supplied(subject, subject.model, faults) if time.monotonic() + costs < end else None
    if supplied is not None:
        return Ways((EXPORT,), supplied)
    if time.monotonic() + 2 * costs >= end:
        return NO_WAYS
    return _fixed(subject, faults)


def _fixed(subject: Subject, faults: Sequence[Fault]) -> Ways:
    from modellint.live.fix import fixed_copy

    assert subject.inputs is not None
    try:
        copy = fixed_copy(subject.model, subject.inputs, subject.destination, subject.project, judge=_judge)
    except Exception:
        # What cannot be copied, an export cannot fix either.
        return NO_WAYS
    supplied = _supplied(subject, copy.model, faults) if copy.applied else None
    if supplied is None:
        return NO_WAYS
    return Ways((EXPORT,), supplied, tuple(dict.fromkeys(change.code for change in copy.applied)))


def _judge(subject: Subject) -> tuple[Verdict, ...]:
    return judge(subject, "")


def _supplied(subject: Subject, model: nn.Module, faults: Sequence[Fault]) -> tuple[Supply, ...] | None:
    """The decompositions that take part, where they convert the model; None where they do not, or leave a fault."""
    assert subject.inputs is not None
    converter = Converter(shared_converter(subject).process, supplies=True)
    with at_rest(model, subject.inputs):
        converted = converter.converted(model, subject.inputs, subject.project)
        if converted.interface is None:
            return None
        run = example_run(converter.process, converted, model, subject.inputs)
        if run.stops or (faults and run.is_far(model, subject.inputs)):
            return None
    # Rows that a mask chooses may be computed without an index.
    mended = {use.operator for use in converted.supplied} | ({_BY_MASK} - converted.operators)
    left = [fault for fault in faults if fault.operator not in mended]
    if left:
        return None
    # What is only more exact than the converter's own is not needed.
    wanted = {fault.operator for fault in faults}
    return tuple(use for use in converted.supplied if use.kind == "supplied" or use.operator in wanted)
