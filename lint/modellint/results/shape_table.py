"""Shape table: what every layer takes and gives, its parameters and memory, and the line that calls it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from modellint.results.diagnostic import Place

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
