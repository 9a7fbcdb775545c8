"""Adds a recorded case that a device has answered to ``data/devices.json``.

``python -m modellint.measure.add_device_case CASE PROGRAM --name NAME --report OWNER/REPOSITORY#N``, and what ``--help`` names.

CASE is the folder of ``modellint verify --record``, with a device's predictions; PROGRAM the file of Python whose ``make()`` gives
the module and the inputs that were recorded. What the device gave for the example is kept, of one output. Where the executor gives
the same, the case is told by it; elsewhere ``--departure`` names what says so, which is to be written first, with its condition.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from modellint.data.device_results import DEPARTURES, FILE
from modellint.destinations.coreml.package.emulated_predictor import computes_in_half
from modellint.destinations.coreml.private.mil_programs import read_package
from modellint.destinations.coreml.recorded_case import predict
from modellint.destinations.coreml.recorded_case.case_files import CaseError, arrays, check, predictions
from modellint.destinations.coreml.recorded_case.device_comparison import compared
from modellint.destinations.destination import PackageError

_MOST = 4096
"""An output of more numbers than these is not kept."""


def added(
    text: str,
    folder: Path,
    program: Path,
    name: str,
    reports: list[str],
    unit: str = "",
    departure: str = "",
    route: str = "trace",
) -> str:
    """The text of ``devices.json`` with one more case. Raises ``PackageError`` for a case that is not whole, or that nothing tells."""
    data = json.loads(text)
    if any(case["name"] == name for case in data["cases"]):
        raise CaseError(f"there is a case {name!r}: give it another name")
    if departure and departure not in DEPARTURES:
        raise CaseError(f"no departure is called {departure!r}; there are {', '.join(sorted(DEPARTURES))}")
    manifest = check(_package(folder), folder)
    answered = [each for each in predictions(folder, manifest) if not each.error and unit in ("", each.unit)]
    if not answered:
        raise CaseError(f"{folder} holds no predictions{' on ' + unit if unit else ''}")
    if len(manifest.outputs) != 1:
        raise CaseError(f"{folder} has {len(manifest.outputs)} outputs: record a model with one")
    told = answered[0]
    given = arrays(folder / predict.DEVICE / f"{told.unit}.npz")[f"0.0.{manifest.outputs[0]}"]
    if given.size > _MOST:
        raise CaseError(
            f"{folder}: the output has {given.size} numbers, and at most {_MOST} are kept: record a smaller program"
        )
    verification = compared(_package(folder), folder)
    judged = (
        next(each for each in verification.recorded.units if each.unit == told.unit) if verification.recorded else None
    )
    by_executor = judged is not None and all(output.ok for output in judged.executed)
    if not by_executor and not departure:
        raise CaseError(
            f"the executor gives something else than {told.unit} for {name}: write what devices do as a departure, and name it "
            "(--departure)"
        )
    case: dict[str, Any] = {
        "name": name,
        "numbers": reports,
        "source": f"https://github.com/{reports[0].replace('#', '/issues/')}",
        "precision": "float16" if computes_in_half(read_package(str(_package(folder)))[0]) else "float32",
        "route": route,
        "told_by": departure or "executor",
        "program": program.read_text("utf-8"),
        "device": f"{told.machine}, macOS {told.macos}, {told.unit}",
        "output": _plain(given.tolist()),
    }
    data["cases"].append(case)
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _plain(nested: Any) -> Any:
    """Nested lists of numbers, of which what JSON has no number for is its name."""
    if isinstance(nested, list):
        return [_plain(each) for each in nested]
    return nested if math.isfinite(nested) else str(nested)


def _package(folder: Path) -> Path:
    found = sorted(folder.glob("*.mlpackage"))
    if len(found) != 1:
        raise CaseError(f"{folder} holds {len(found)} packages, and not one")
    return found[0]


def main() -> int:
    """Add a case; 2 where it is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", type=Path)
    parser.add_argument("program", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--report", action="append", required=True, metavar="OWNER/REPOSITORY#N")
    parser.add_argument("--unit", choices=predict.UNITS, default="")
    parser.add_argument("--departure", default="")
    parser.add_argument("--route", choices=("trace", "export"), default="trace", help="how the package was captured")
    given = parser.parse_args()
    try:
        text = added(
            FILE.read_text("utf-8"),
            given.case,
            given.program,
            given.name,
            given.report,
            given.unit,
            given.departure,
            given.route,
        )
    except (PackageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    FILE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
