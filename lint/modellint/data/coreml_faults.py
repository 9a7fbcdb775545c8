"""Known faults of coremltools: their programs, and what runs of them gave beside each version.

``coreml_faults.json`` is written by hand; ``python -m modellint.measure.coreml_faults`` runs its programs and writes
``coreml/faults-VERSION.json``.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from modellint.data.coremltools_version_facts import FOLDER, order

FILE = Path(__file__).with_name("coreml_faults.json")
ROUTES = ("trace", "export")
PRECISIONS = ("float32", "float16")
BUILD = "build"
"""What stands for a route and a precision where a value is computed while a program is built."""


class FaultProgram(NamedTuple):
    """A minimal program that shows a fault.

    Its ``make()`` gives the module and the inputs of its calls, the first of which are captured; of a value that is computed while a
    program is built, the MIL program and the value that is meant. ``reference()`` gives another module to compare with, and
    ``finish(mlmodel)`` what becomes of a converted model.
    """

    name: str
    """Empty where it is the only one of its fault."""
    text: str
    target: str
    """coremltools' name of the deployment target; empty for the default."""
    flexible: tuple[tuple[int, ...], ...]
    """For each input the axes of flexible size; empty where all sizes are fixed."""
    core_aten: bool
    """Whether an export is decomposed to core ATen operators. Such a program is not traced."""
    writes: bool
    """Whether a run writes its buffers: they are brought back after a capture, which runs it."""
    compares: str
    """``outputs`` of the converted program, or those of the ``model`` itself, before and after the conversion."""


class Report(NamedTuple):
    """An issue or a pull request about a fault."""

    number: str
    """As in ``apple/coremltools#2573``."""
    note: str
    """``near`` where it is about something alike."""


class Fault(NamedTuple):
    """A fault, in the words of its row, and what shows it."""

    id: str
    title: str
    """What an issue about it is called."""
    words: tuple[str, str, str]
    """The program, what PyTorch gives, what the converted program gives; of a constant the operation, what is computed, what is meant."""
    reports: tuple[Report, ...]
    own: str
    """Whose limit it is, where it is not coremltools' to mend; empty otherwise."""
    programs: tuple[FaultProgram, ...]

    @property
    def is_reported(self) -> bool:
        """Whether a report is about this very fault."""
        return any(not report.note for report in self.reports)


class Outcome(NamedTuple):
    """What a run of a program gave, by one route and in one precision."""

    result: str
    """``wrong``, ``right``, ``refused``, ``not run``, or ``not told`` where half precision is too coarse to show it."""
    why: str = ""
    """What refused it, or why nothing can be told."""
    expected: str = ""
    """What PyTorch gives, where the result is wrong."""
    obtained: str = ""
    """What the program gives there."""
    captured: str = ""
    """``wrong`` where the capture, before coremltools reads it, gives the wrong numbers already."""


class Results(NamedTuple):
    """What was found beside one version."""

    name: str
    """The version, or for a state between two versions a name with the commit: ``main-1234567``."""
    coremltools: str
    """What it calls itself."""
    digest: str
    """Of the sources of its PyTorch front end, which tells states apart that call themselves the same."""
    torch: str
    outcomes: dict[str, dict[str, dict[str, Outcome]]]
    """By fault, program, and ``trace float32`` and the like."""


def _fault(entry: dict[str, Any], words: tuple[str, str, str]) -> Fault:
    return Fault(
        entry["id"],
        entry["title"],
        (entry[words[0]], entry[words[1]], entry[words[2]]),
        tuple(Report(each["number"], each.get("note", "")) for each in entry["upstream"]),
        entry.get("own", ""),
        tuple(
            FaultProgram(
                each.get("name", ""),
                each["program"],
                each.get("target", ""),
                tuple(tuple(axes) for axes in each.get("flexible", ())),
                each.get("core_aten", False),
                each.get("writes", False),
                each.get("compares", "outputs"),
            )
            for each in entry["programs"]
        ),
    )


@lru_cache
def conversions() -> tuple[Fault, ...]:
    """Conversions that succeed and compute something else."""
    words = ("program", "torch", "converted")
    return tuple(_fault(entry, words) for entry in json.loads(FILE.read_bytes())["conversions"])


@lru_cache
def constants() -> tuple[Fault, ...]:
    """Values that are computed wrong while a program is built."""
    words = ("operation", "computed", "means")
    return tuple(_fault(entry, words) for entry in json.loads(FILE.read_bytes())["constants"])


def results() -> tuple[Results, ...]:
    """What was found beside each version, the oldest first, and a version before what came after it by the same name."""
    tables = [json.loads(path.read_bytes()) for path in FOLDER.glob("faults-*.json")]
    tables.sort(key=lambda table: (order(table["coremltools"]), table["name"] != table["coremltools"], table["name"]))
    return tuple(
        Results(
            table["name"],
            table["coremltools"],
            table["digest"],
            table["torch"],
            {
                fault: {
                    program: {key: Outcome(**outcome) for key, outcome in outcomes.items()}
                    for program, outcomes in programs.items()
                }
                for fault, programs in table["faults"].items()
            },
        )
        for table in tables
    )


@lru_cache
def is_wrong(fault: str, name: str) -> bool:
    """Whether any run of a fault's programs came out wrong beside a version.

    Raises:
        KeyError: There is no such fault, or it was not run beside that version.
    """
    programs = json.loads(place(name).read_bytes())["faults"][fault]
    return any(outcome["result"] == "wrong" for outcomes in programs.values() for outcome in outcomes.values())


def text(found: Results) -> str:
    """The text of a version's file."""
    faults = {
        fault: {
            program: {
                key: {name: value for name, value in outcome._asdict().items() if value}
                for key, outcome in sorted(outcomes.items())
            }
            for program, outcomes in sorted(programs.items())
        }
        for fault, programs in sorted(found.outcomes.items())
    }
    table = {**found._asdict(), "faults": faults}
    del table["outcomes"]
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


def place(name: str) -> Path:
    """The file of a version."""
    return FOLDER / f"faults-{name}.json"
