"""Core AI's known faults: programs that coreai-torch converts to something else without a word, and what became of each when it was run.

``python -m modellint.measure.coreai_faults`` runs them, and writes the results into ``coreai_faults.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("coreai_faults.json")


class Fault(NamedTuple):
    """One fault."""

    id: str
    title: str
    torch: str
    """What PyTorch computes, in words."""
    converted: str
    """What the converted program does."""
    program: str
    """Python: ``make()`` gives the model and the tensors that it is called with."""
    result: str = ""
    """Of plain coreai-torch: ``wrong``, ``right``, ``refused``, or ``fails`` when it is run."""
    expected: str = ""
    """PyTorch's numbers."""
    obtained: str = ""
    """The interpreter's, or what it says."""
    exported: str = ""
    """The result of an export, with the decompositions that it supplies."""


class Faults(NamedTuple):
    """All faults, and beside which versions they were run."""

    version: str
    """Of coreai-torch."""
    runtime: str
    """Of coreai-core, which has the interpreter."""
    torch: str
    faults: tuple[Fault, ...]


def read() -> Faults:
    """What the file holds."""
    data: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return Faults(data["version"], data["runtime"], data["torch"], tuple(Fault(**entry) for entry in data["faults"]))


def write(faults: Faults) -> None:
    """Write the file anew."""
    entries = [fault._asdict() for fault in faults.faults]
    text = json.dumps({**faults._asdict(), "faults": entries}, indent=1, ensure_ascii=False)
    FILE.write_text(text + "\n", "utf-8")
