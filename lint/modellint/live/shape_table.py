"""Shape table of a captured run: shapes, parameters and memory of every call of a layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from modellint.live.capture.records import Record, Run, TensorFact
from modellint.live.subject import Subject
from modellint.live.unregistered_state import unregistered_state
from modellint.results.shape_table import Row, Shape, Table


def table_of(subject: Subject, run: Run) -> Table:
    """The table of a run, also of one that failed: up to there."""
    modules = {id(module): module for module in _modules(subject)}
    seen: dict[int, int] = {}
    stored: dict[int, int] = {}
    rows = []
    for call in run.modules:
        arguments, outputs = tuple(_facts(call.inputs)), tuple(_facts(call.outputs))
        for fact in outputs:
            stored[fact.storage] = max(stored.get(fact.storage, 0), size_of(fact))
        module = modules.get(call.identity)
        before = seen.get(call.identity, 0)
        seen[call.identity] = before + 1
        rows.append(
            Row(
                call.path,
                call.type,
                call.depth,
                tuple(_shape(fact) for fact in arguments),
                tuple(_shape(fact) for fact in outputs),
                0 if module is None else _parameters(module),
                sum(_fresh(arguments, outputs).values()),
                call.place,
                before,
                run.failure is not None and not call.completed,
            )
        )
    inputs = {fact.storage: size_of(fact) for fact in _facts(run.modules[0].inputs)} if run.modules else {}
    parameters = [state.tensor for state in subject.state if state.kind == "parameter"]
    shapes = [shape for row in rows for shape in (*row.inputs, *row.outputs)]
    return Table(
        type(subject.model).__name__,
        tuple(rows),
        sum(map(_count, parameters)),
        sum(_count(parameter) for parameter in parameters if parameter.requires_grad),
        sum(_count(state.tensor) * state.tensor.element_size() for state in subject.state),
        sum(inputs.values()),
        sum(size for storage, size in stored.items() if storage not in inputs),
        any(not size.isdecimal() for shape in shapes for size in shape),
        None if run.failure is None else f"{run.failure.error}: {' '.join(run.failure.message.split())}",
    )


def size_of(fact: TensorFact) -> int:
    """Bytes that a tensor's elements take; at the lower bounds of flexible dimensions."""
    return prod(int(size) for size in fact.shape) * _bytes(fact.dtype)


def _modules(subject: Subject) -> Iterator[nn.Module]:
    yield from (entry.module for entry in subject.modules)
    for hidden in unregistered_state(subject):
        if hidden.kind == "module":
            yield from hidden.value.modules()  # type: ignore[union-attr]


def _fresh(inputs: Iterable[TensorFact], outputs: Iterable[TensorFact]) -> dict[int, int]:
    known = {fact.storage for fact in inputs}
    return {fact.storage: size_of(fact) for fact in outputs if fact.storage not in known}


def _facts(value: Any) -> Iterator[TensorFact]:
    match value:
        case TensorFact():
            yield value
        case Record(fields=fields):
            yield from _facts(fields)
        case Mapping():
            for part in value.values():
                yield from _facts(part)
        case list() | tuple():
            for part in value:
                yield from _facts(part)


def _shape(fact: TensorFact) -> Shape:
    return tuple(str(size) for size in fact.shape)


def _parameters(module: nn.Module) -> int:
    return sum(map(_count, module.parameters()))


def _count(tensor: Any) -> int:
    return 0 if is_lazy(tensor) else int(tensor.numel())


def _bytes(dtype: str) -> int:
    kind = getattr(torch, dtype, None)
    return kind.itemsize if isinstance(kind, torch.dtype) else 1
