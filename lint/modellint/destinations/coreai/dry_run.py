"""Dry run for Core AI: what coreai-torch refuses of a model, all of it, at the user's statements.

It converts for good, as that is quick; what it makes is what a verification runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from modellint.destinations.capture.blocker_places import first_line
from modellint.destinations.comparison.side_effect_free_runs import at_rest
from modellint.destinations.coreai.conversion import shared_converter
from modellint.destinations.coreai.example_run import example_run
from modellint.destinations.coreai.routes import ROUTE
from modellint.results.conversion_verdict import Verdict

if TYPE_CHECKING:
    from modellint.live.subject import Subject


def judge(subject: Subject, missing: str) -> tuple[Verdict, ...]:
    """The verdict by ``torch.export``, the one route there is; ``missing`` is what is not installed, as what to install."""
    if subject.inputs is None or not subject.has_values:
        return ()
    if missing:
        return (Verdict(ROUTE, None, reason=missing),)
    model, inputs = subject.model, subject.inputs
    try:
        with at_rest(model, inputs):
            converted = shared_converter(subject).converted(model, inputs, subject.project)
            if converted.blockers and converted.blockers[0].kind == "capture":
                # It may not run at all.
                try:
                    model(*inputs.args, **inputs.kwargs)
                except (Exception, SystemExit) as error:
                    reason = f"the model does not run: {type(error).__name__}: {first_line(str(error))}"
                    return (Verdict(ROUTE, None, reason=reason),)
            is_far = None
            if converted.interface is not None:
                run = example_run(shared_converter(subject).process, converted, model, inputs)
                if run.stops:
                    return (Verdict(ROUTE, False, run.stops, seconds=converted.seconds, complete=False),)
                is_far = run.is_far(model, inputs)
    except (Exception, SystemExit) as error:
        return (Verdict(ROUTE, None, reason=f"the dry run failed: {type(error).__name__}: {first_line(str(error))}"),)
    return (
        Verdict(
            ROUTE,
            converted.interface is not None,
            converted.blockers,
            seconds=converted.seconds,
            complete=converted.complete,
            is_far=is_far,
        ),
    )
