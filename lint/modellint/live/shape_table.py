"""The table of what every layer takes and gives: shapes, parameters, memory, and the line that calls it.

Importing this module does not import torch: the table crosses the pipe from the worker as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint.results.diagnostic import Place, Span

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.capture.run import Run, TensorFact
    from modellint.live.subject import Subject

Shape = tuple[str, ...]
"""The sizes of a tensor as they are shown: numbers, or formulas where a dimension is flexible."""


class Row(NamedTuple):
    """One call of one layer."""

    path: str
    """Empty for the model itself."""
    type: str
    depth: int
    """How many modules are around it."""
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    parameters: int
    """Of the layer and all within it, each once."""
    memory: int
    """Bytes of the outputs that the layer does not share with its inputs; at the lower bounds of flexible dimensions."""
    place: Place | None
    """The statement that calls it."""
    calls: int = 0
    """How many calls of the same layer came before."""
    failed: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


class Table(NamedTuple):
    """Every call of one run, in the order in which they began."""

    model: str
    """The class of the model."""
    rows: tuple[Row, ...]
    parameters: int
    """Of the whole model, shared ones once."""
    trainable: int
    parameter_memory: int
    """Bytes of parameters and buffers."""
    input_memory: int
    activation_memory: int
    """Bytes of all outputs, memory that several share once."""
    is_flexible: bool = False
    """Whether some sizes are formulas; memory is then that at the lower bounds."""
    failure: str | None = None
    """Why the run ended early."""

    def leaves(self, depth: int | None = None) -> Iterator[Row]:
        """The calls that no other shown call is made of, down to a depth."""
        rows = self.within(depth)
        for row, after in zip(rows, (*rows[1:], None), strict=True):
            if after is None or after.depth <= row.depth:
                yield row

    def within(self, depth: int | None = None) -> tuple[Row, ...]:
        """The calls down to a depth; the model's own is at 0."""
        return tuple(row for row in self.rows if depth is None or row.depth <= depth)

    def __repr__(self) -> str:
        from modellint.report import shapes

        return shapes.render(self).rstrip("\n")


def table_of(subject: Subject, run: Run) -> Table:
    """The table of a run, also of one that failed: up to there."""
    modules = {id(module): module for module in _modules(subject)}
    seen: dict[int, int] = {}
    stored: dict[int, int] = {}
    rows = []
    for call in run.modules:
        given, made = tuple(_facts(call.inputs)), tuple(_facts(call.outputs))
        for fact in made:
            stored[fact.storage] = max(stored.get(fact.storage, 0), size_of(fact))
        module = modules.get(call.identity)
        before = seen.get(call.identity, 0)
        seen[call.identity] = before + 1
        rows.append(
            Row(
                call.path,
                call.type,
                call.depth,
                tuple(_shape(fact) for fact in given),
                tuple(_shape(fact) for fact in made),
                0 if module is None else _parameters(module),
                sum(_fresh(given, made).values()),
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
    for held in subject.hidden:
        if held.kind == "module":
            yield from held.value.modules()  # type: ignore[union-attr]


def _fresh(given: Iterable[TensorFact], made: Iterable[TensorFact]) -> dict[int, int]:
    known = {fact.storage for fact in given}
    return {fact.storage: size_of(fact) for fact in made if fact.storage not in known}


def _facts(value: Any) -> Iterator[TensorFact]:
    from modellint.live.capture.run import Record, TensorFact

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
    from torch.nn.parameter import is_lazy

    return 0 if is_lazy(tensor) else int(tensor.numel())


def _bytes(dtype: str) -> int:
    import torch

    found = getattr(torch, dtype, None)
    return found.itemsize if isinstance(found, torch.dtype) else 1


def to_json(table: Table) -> dict[str, Any]:
    """A table as JSON's own types; paths of files as they are."""
    values = table._asdict()
    values["rows"] = [row_to_json(row) for row in table.rows]
    return values


def row_to_json(row: Row) -> dict[str, Any]:
    """A row as JSON's own types: sizes are numbers, or text where they are formulas."""
    values = row._asdict()
    for key in ("inputs", "outputs"):
        values[key] = [[int(size) if size.isdecimal() else size for size in shape] for shape in values[key]]
    values["place"] = None if row.place is None else {"filename": row.place.path, "span": list(row.place.span)}
    return values


def from_json(values: Mapping[str, Any]) -> Table:
    """The table that ``to_json`` wrote. Raises ``TypeError``, ``ValueError`` or ``KeyError`` for anything else."""
    found = dict(values)
    found["rows"] = tuple(_row(row) for row in found["rows"])
    return Table(**found)


def _row(values: Mapping[str, Any]) -> Row:
    found = dict(values)
    for key in ("inputs", "outputs"):
        found[key] = tuple(tuple(str(size) for size in shape) for shape in found[key])
    place = found["place"]
    found["place"] = None if place is None else Place(str(place["filename"]), Span(*map(int, place["span"])))
    return Row(**found)
