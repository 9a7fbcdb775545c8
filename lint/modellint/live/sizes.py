"""What a model makes of other sizes of its flexible inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from modellint.live.capture import Call, Failure, TensorFact, capture
from modellint.live.variants import lengths

if TYPE_CHECKING:
    from modellint.live.subject import Subject


def flexible_calls(subject: Subject, names: frozenset[str], behind: int = 2) -> Iterator[Call]:
    """The calls of functions whose first tensor has a flexible size in a dimension from ``behind`` on.

    Nothing where no input is flexible, or the model does not run without knowing the sizes.
    """
    if subject.inputs is None or not subject.inputs.flexible or subject.run is None or subject.run.failure is not None:
        return
    run = subject.symbolic_run
    if run is None or run.failure is not None:
        return
    for call in run.calls:
        if call.name in names:
            given = call.arguments[0] if call.arguments else call.keywords.get("input")
            if isinstance(given, TensorFact) and any(type(size) is not int for size in given.shape[behind:]):
                yield call


def failures(subject: Subject) -> Iterator[Failure]:
    """Why the model cannot be run at the bounds of its flexible sizes, where it can on the example."""
    from modellint.live.subject import Subject as Same

    if subject.inputs is None or not subject.inputs.flexible or subject.run is None or subject.run.failure is not None:
        return
    for case in lengths(subject.inputs):
        run = capture(Same(subject.model, case.inputs, subject.project.root, subject.destination))
        if run.failure is not None and run.failure.kind == "shape":
            yield run.failure


def is_written_out(value: Any) -> bool:
    """Whether sizes are numbers without exception, none of them left open."""
    parts = value if isinstance(value, (list, tuple)) else (value,)
    return bool(parts) and all(type(part) is int and part >= 0 for part in parts)
