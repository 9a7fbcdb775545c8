"""The table of shapes in a notebook."""

from __future__ import annotations

from modellint.report import shapes
from modellint.report.notebook_displays.elements import element, paragraph, row, table
from modellint.results.shape_table import Table

_NUMBERS = frozenset({4, 5})


def fragment(sizes: Table) -> str:
    """Every layer with what it takes and gives, and the totals."""
    rows = [row(cells, "bad" if failed else "", _NUMBERS) for cells, failed in shapes.lines_of(sizes)]
    totals = [paragraph(line, "bad" if line.startswith("the run failed") else "") for line in shapes.totals(sizes)]
    return element(table(f"Shapes of {sizes.model}", shapes.HEADS, rows), *totals)
