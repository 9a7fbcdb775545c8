"""Retained graphs: buffers that keep the autograd graphs of earlier training steps alive."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from modellint.live.capture.jit_trace import is_affordable
from modellint.live.code.anchor_statements import changing
from modellint.live.code.attribute_usage import reading_of
from modellint.live.snapshot import unchanged

if TYPE_CHECKING:
    from modellint.live.subject import Entry, Subject
    from modellint.results.diagnostic import Place


_MOST = 100_000
"""Nodes of a graph that are looked at."""


class KeptGraph(NamedTuple):
    """A buffer whose value hangs on the graph of the step before."""

    entry: Entry
    attribute: str
    place: Place


def kept_graphs(subject: Subject) -> Iterator[KeptGraph]:
    """The buffers that the model's own code updates and that keep the graphs of earlier steps in training mode."""
    written = list(_written(subject))
    if not written or subject.inputs is None or not is_affordable(subject):
        return
    inputs = subject.inputs
    args, kwargs = pytree.tree_map(_leaf, (tuple(inputs.args), dict(inputs.kwargs)))
    with (
        warnings.catch_warnings(),
        unchanged(subject.model, inputs, values=True),
        torch.enable_grad(),
    ):
        warnings.simplefilter("ignore")
        for module in subject.model.modules():
            vars(module)["training"] = True
        try:
            subject.model(*args, **kwargs)
            first = [_graph(buffer) for buffer in written]
            subject.model(*args, **kwargs)
        except (Exception, SystemExit):
            return
        retained = [
            buffer
            for buffer, node in zip(written, first, strict=True)
            if node is not None and _reaches(_graph(buffer), node)
        ]
    yield from retained


def _written(subject: Subject) -> Iterator[KeptGraph]:
    for entry in subject.modules:
        if type(entry.module).__module__.partition(".")[0] == "torch":
            continue
        for name, buffer in entry.module._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                running = {"forward", *reading_of(type(entry.module)).forward.names}
                place = changing(type(entry.module), name, running)
                if place is not None:
                    yield KeptGraph(entry, name, place)


def _leaf(value: Any) -> Any:
    """An input that wants a gradient, as what comes of another model would."""
    if not isinstance(value, Tensor):
        return value
    copy = value.detach().clone()
    # No leaf, which nothing may write to.
    return copy.requires_grad_().clone() if copy.is_floating_point() else copy


def _graph(kept: KeptGraph) -> Any:
    """The node that made what a buffer holds now."""
    value = kept.entry.module._buffers.get(kept.attribute)
    return value.grad_fn if isinstance(value, Tensor) else None


def _reaches(node: Any, wanted: Any) -> bool:
    """Whether a graph holds a node of another step."""
    pending = [node]
    seen: set[Any] = set()
    while pending:
        current = pending.pop()
        if current is wanted:
            return True
        if current is not None and current not in seen and len(seen) < _MOST:
            seen.add(current)
            pending.extend(before for before, _ in current.next_functions)
    return False
