"""Resized runs: captured runs at other sizes of flexible inputs, and what fails or varies there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modellint.live.analysis_cache import analysis
from modellint.live.capture.fake_tensor_run import capture, captured_run
from modellint.live.capture.records import Call, Failure, Run, TensorFact
from modellint.live.inputs.variants import lengths
from modellint.live.subject import Subject


@analysis
def resized_runs(subject: Subject) -> tuple[Run, ...]:
    """Runs at the bounds of the flexible sizes and between; none where no input is flexible, or the example itself fails."""
    if subject.inputs is None or not subject.inputs.flexible:
        return ()
    run = captured_run(subject)
    if run is None or run.failure is not None:
        return ()
    root, destination = subject.project.root, subject.destination
    return tuple(capture(Subject(subject.model, case.inputs, root, destination)) for case in lengths(subject.inputs))


def flexible_calls(subject: Subject, names: frozenset[str], behind: int = 2) -> Iterator[Call]:
    """The calls of functions whose first tensor has another size in a dimension from ``behind`` on where the inputs have."""
    example = captured_run(subject)
    if example is None:
        return
    calls = [call for call in example.calls if call.name in names]
    varying: dict[int, None] = {}
    for run in resized_runs(subject) if calls else ():
        others = [call for call in run.calls if call.name in names]
        if run.failure is None and len(others) == len(calls):
            pairs = enumerate(zip(calls, others, strict=True))
            varying.update(
                dict.fromkeys(at for at, (call, resized) in pairs if _size(call, behind) != _size(resized, behind))
            )
    for at in sorted(varying):
        yield calls[at]


def _size(call: Call, behind: int) -> tuple[Any, ...]:
    tensor = call.arguments[0] if call.arguments else call.keywords.get("input")
    return tensor.shape[behind:] if isinstance(tensor, TensorFact) else ()


def failures(subject: Subject) -> Iterator[Failure]:
    """Why the model cannot be run at the bounds of its flexible sizes, where it can on the example."""
    for run in resized_runs(subject):
        if run.failure is not None and run.failure.kind == "shape":
            yield run.failure
