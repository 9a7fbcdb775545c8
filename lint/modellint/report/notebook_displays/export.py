"""An export in a notebook: what was changed, how the package compares, and what it takes and gives."""

from __future__ import annotations

from modellint.report import export_text
from modellint.report.notebook_displays.elements import element, paragraph, row, table, text
from modellint.results.exported import Exported


def fragment(exported: Exported, name: str, written: bool, details: str = "") -> str:
    """The summary; ``details`` is more of it as HTML, shown when it is asked for."""
    look = "good" if exported.ok else "weak" if exported.writable else "bad"
    lines = [row(cells) for cells in export_text.rows(exported)]
    notes = [f"note: {note}" for note in (*exported.verification.notes, *exported.notes)]
    heading = f'<p class="{look}"><strong>{text(export_text.headline(exported, name, written))}</strong></p>'
    more = f"<details><summary>How it compares with PyTorch</summary>{details}</details>" if details else ""
    return element(heading, table("", ("", ""), lines), *map(paragraph, notes), more)
