"""Conversion: what the destination says of a subject, judged without converting it, or converted and executed."""

from __future__ import annotations

from collections.abc import Iterator

from modellint.live.analysis_cache import analysis
from modellint.live.capture.fake_tensor_run import captured_run
from modellint.live.subject import Subject
from modellint.results.conversion_verdict import CAPTURES, Blocker, Verdict, choose
from modellint.results.diagnostic import Place
from modellint.results.verification import Verification


@analysis
def verdicts(subject: Subject) -> tuple[Verdict, ...]:
    """Whether the destination converts the model, by each route that was tried; empty where that cannot be said."""
    run = captured_run(subject)
    if subject.judge is None or run is None or (run.failure is not None and run.failure.kind != "data"):
        return ()
    return subject.judge(subject)


@analysis
def execution(subject: Subject) -> Verification | None:
    """What the converted model computes against PyTorch; None where that cannot be said."""
    return subject.execute(subject) if subject.execute is not None and subject.may_execute else None


def is_confirmed(subject: Subject, at: Place | None) -> bool:
    """Whether the converted model, executed, first departs from PyTorch at a statement, or lacks what it writes."""
    verification = execution(subject)
    difference = None if verification is None else verification.first_difference
    if difference is None or at is None:
        return False
    places = [difference.place, *(lost.place for lost in difference.lost)]
    return any(place is not None and (place.path, place.span.row) == (at.path, at.span.row) for place in places)


def blockers(subject: Subject, *kinds: str) -> Iterator[tuple[Blocker, str]]:
    """What stands in the way by the route that counts, of these kinds, each with what captured the model."""
    verdict = choose(verdicts(subject), subject.destination.frontend)
    if verdict is not None:
        for blocker in verdict.blockers:
            if blocker.kind in kinds:
                yield blocker, CAPTURES[verdict.route]
