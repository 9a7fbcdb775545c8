"""The table of shapes as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from modellint.report.style import paint, visible

if TYPE_CHECKING:
    from modellint.results.shape_table import Row, Shape, Table

HEADS = ("layer", "type", "input", "output", "parameters", "memory", "line")
_RIGHT = frozenset({4, 5})

Shown = Callable[[str], str]
"""How the path of a file is shown."""


def render(
    table: Table,
    color: bool = False,
    *,
    nested: bool = False,
    depth: int | None = None,
    shown: Shown = str,
) -> str:
    """The table as aligned text, with its totals: flat with every layer's path, or nested with what is around the layers."""
    rows = lines_of(table, nested=nested, depth=depth, shown=shown)
    wide = [max(map(len, column)) for column in zip(HEADS, *(cells for cells, _ in rows), strict=True)]
    lines = [paint(_line(HEADS, wide), "bold", color)]
    for cells, failed in rows:
        line = _line(cells, wide)
        lines.append(paint(line, "error", color) if failed else line)
    return "\n".join([*lines, "", *totals(table)]) + "\n"


def lines_of(
    table: Table, *, nested: bool = False, depth: int | None = None, shown: Shown = str
) -> list[tuple[tuple[str, ...], bool]]:
    """The cells of each line, and whether it is where the run failed."""
    rows = table.within(depth) if nested else table.leaves(depth)
    return [(_cells(table, row, nested, shown), row.failed) for row in rows]


def _line(texts: Sequence[str], wide: Sequence[int]) -> str:
    parts = [
        text.rjust(width) if column in _RIGHT else text.ljust(width)
        for column, (text, width) in enumerate(zip(texts, wide, strict=True))
    ]
    return "  ".join(parts).rstrip()


def _cells(table: Table, row: Row, nested: bool, shown: Shown) -> tuple[str, ...]:
    layer = (row.name if nested else row.path) or table.model
    place = "" if row.place is None else f"{shown(row.place.path)}:{row.place.span.row}"
    parameters = f"{row.parameters:,}" if row.parameters else "-"
    return (
        visible("  " * row.depth + layer if nested else layer),
        visible(row.type),
        shapes(row.inputs),
        "failed" if row.failed else shapes(row.outputs),
        "(again)" if row.calls and row.parameters else parameters,
        size(row.memory) if row.memory else "-",
        visible(place),
    )


def shapes(several: Iterable[Shape]) -> str:
    """Shapes as in ``[1,3,224,224]``, separated by commas; a dash where there are none."""
    return ", ".join(f"[{','.join(shape)}]" for shape in several) or "-"


def totals(table: Table) -> list[str]:
    """Parameters and memory of the whole model, and why the run failed if it did."""
    frozen = table.parameters - table.trainable
    lines = [
        f"parameters: {table.parameters:,}" + (f" ({frozen:,} of them frozen)" if frozen else ""),
        f"memory: {size(table.parameter_memory)} parameters and buffers, {size(table.input_memory)} inputs, "
        f"{size(table.activation_memory)} activations",
    ]
    if table.is_flexible:
        lines.append("memory is that at the lower bounds of the flexible dimensions")
    if table.failure:
        lines.append(f"the run failed: {visible(table.failure)}")
    return lines


def size(count: int) -> str:
    """A number of bytes in the unit that suits it."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def to_json(
    table: Table | None, target: str, diagnostics: Sequence[Any], *, nested: bool = False, depth: int | None = None
) -> str:
    """The table as one JSON object, null for a target that was not built.

    Sizes are numbers, or text where they are formulas; memory is in bytes, paths of files are absolute.
    """
    layers = None
    if table is not None:
        rows = table.within(depth) if nested else tuple(table.leaves(depth))
        layers = {
            "model": table.model,
            "layers": [_entry(row) for row in rows],
            "parameters": table.parameters,
            "trainable": table.trainable,
            "parameter_memory": table.parameter_memory,
            "input_memory": table.input_memory,
            "activation_memory": table.activation_memory,
            "flexible": table.is_flexible,
            "failure": table.failure,
        }
    return json.dumps(
        {"target": target, "table": layers, "diagnostics": list(diagnostics)}, indent=2, ensure_ascii=False
    )


def _entry(row: Row) -> dict[str, Any]:
    values = row._asdict()
    place = values.pop("place")
    for key in ("inputs", "outputs"):
        values[key] = [[int(size) if size.isdecimal() else size for size in shape] for shape in values[key]]
    return {**values, "filename": place and place.path, "row": place and place.span.row}
