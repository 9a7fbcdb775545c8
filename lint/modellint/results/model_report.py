"""Report on one live target: its modules and sizes, and the comparison of the converted model."""

from __future__ import annotations

from typing import NamedTuple

from modellint.results.shape_table import Table
from modellint.results.verification import Verification


class ModelReport(NamedTuple):
    """What is told of one live target beside its findings and the verdict."""

    target: str
    table: Table | None = None
    """Its modules, their shapes and sizes."""
    verification: Verification | None = None
    note: str = ""
    """Why the converted model was not compared."""
