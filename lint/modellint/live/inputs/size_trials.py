"""What a model makes of other sizes of its flexible inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from modellint.live.capture.run import Call, Failure, Run, TensorFact, capture
from modellint.live.inputs.variants import lengths

if TYPE_CHECKING:
    from modellint.live.subject import Subject


def resized_runs(subject: Subject) -> Iterator[Run]:
    """Runs at the bounds of the flexible sizes and between; none where no input is flexible, or the example itself fails."""
    from modellint.live.subject import Subject as Other

    if subject.inputs is None or not subject.inputs.flexible or subject.run is None or subject.run.failure is not None:
        return
    for case in lengths(subject.inputs):
        yield capture(Other(subject.model, case.inputs, subject.project.root, subject.destination))


def flexible_calls(subject: Subject, names: frozenset[str], behind: int = 2) -> Iterator[Call]:
    """The calls of functions whose first tensor has another size in a dimension from ``behind`` on where the inputs have."""
    if subject.run is None:
        return
    calls = [call for call in subject.run.calls if call.name in names]
    varying: dict[int, None] = {}
    for run in subject.resized_runs if calls else ():
        others = [call for call in run.calls if call.name in names]
        if run.failure is None and len(others) == len(calls):
            pairs = enumerate(zip(calls, others, strict=True))
            varying.update(
                dict.fromkeys(at for at, (one, other) in pairs if _size(one, behind) != _size(other, behind))
            )
    for at in sorted(varying):
        yield calls[at]


def _size(call: Call, behind: int) -> tuple[Any, ...]:
    given = call.arguments[0] if call.arguments else call.keywords.get("input")
    return given.shape[behind:] if isinstance(given, TensorFact) else ()


def failures(subject: Subject) -> Iterator[Failure]:
    """Why the model cannot be run at the bounds of its flexible sizes, where it can on the example."""
    for run in subject.resized_runs:
        if run.failure is not None and run.failure.kind == "shape":
            yield run.failure


def is_written_out(value: Any) -> bool:
    """Whether sizes are numbers without exception, none of them left open."""
    parts = value if isinstance(value, (list, tuple)) else (value,)
    return bool(parts) and all(type(part) is int and part >= 0 for part in parts)
