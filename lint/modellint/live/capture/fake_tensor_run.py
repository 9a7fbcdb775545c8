"""Captured run: a model run once under fake tensors, with every operator, every call of torch's functions and of a module."""

from __future__ import annotations

from modellint.live.analysis_cache import analysis
from modellint.live.capture.data_dependence import facts_in
from modellint.live.capture.recording import is_lazy, recorded, weight_of
from modellint.live.capture.records import Run
from modellint.live.snapshot import unchanged
from modellint.live.subject import Subject

REAL_LIMIT = 1 << 30
"""Bytes of state and inputs up to which a model that asks for values is run on real tensors."""


def capture(subject: Subject, *, symbolic: bool = False) -> Run:
    """Run the subject's model once, in evaluation mode and without gradients, and leave it exactly as it was.

    A model whose run asks for values is run on its real tensors, if it has them and they are not too many. With ``symbolic``
    the flexible dimensions of the inputs stay symbols (``Flexible``), unless the model cannot be run without their sizes.
    Nothing is raised for what the model does; that is the run's ``failure``.
    """
    assert subject.inputs is not None
    if symbolic and subject.inputs.flexible:
        with unchanged(subject.model, subject.inputs, values=False):
            run = recorded(subject, is_fake=True, symbolic=True)
        if run.failure is None:
            return run
    with unchanged(subject.model, subject.inputs, values=False):
        run = recorded(subject, is_fake=True)
    if run.failure is None:
        return run
    weight = weight_of(subject)
    if weight is not None and weight <= REAL_LIMIT:
        with unchanged(subject.model, subject.inputs, values=True):
            # Also where the shapes do not fit: PyTorch's own message is better than that of its fake kernels.
            return recorded(subject, is_fake=False)
    if is_lazy(subject):
        # Fake parameters do not come into being.
        return run._replace(failure=run.failure._replace(kind="data"))
    return run


@analysis
def captured_run(subject: Subject) -> Run | None:
    """One captured run on the subject's inputs; None without inputs."""
    return None if subject.inputs is None else capture(subject)


@analysis
def tensors_read(subject: Subject) -> frozenset[str] | None:
    """Names (as in ``TensorFact``) of the tensors whose elements the run computed with; None without a run to its end.

    A number taken out of a tensor does not count.
    """
    run = captured_run(subject)
    if run is None or run.failure is not None:
        return None
    reads = [(each.arguments, each.keywords) for each in run.operators if each.name != "aten::_local_scalar_dense"]
    reads += [(call.arguments, call.keywords) for call in run.calls if not call.name.endswith((".item", ".tolist"))]
    return frozenset(fact.name for fact in facts_in(reads) if fact.name is not None)
