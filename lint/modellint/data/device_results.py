"""Published results of Core ML's runtime, read from ``devices.json``: what devices are known to compute otherwise, and the cases of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple


class Published(NamedTuple):
    """What was published of a departure of devices from the specification."""

    operations: tuple[str, ...]
    """Those of MIL that it is about."""
    says: str
    """What devices do, as a sentence goes on after the operation's name."""
    numbers: tuple[str, ...]
    """The reports, as in ``apple/coremltools#2687``."""
    where: str
    """The devices or compute units that it was seen on; empty where all are meant, or it was not said."""
    precision: str
    """``float16`` where only that is affected; empty otherwise."""
    instead: str
    """What may be done about it."""
    around: str
    """What `modellint export` writes instead, so that it is not met; empty where it does not."""


class DeviceCase(NamedTuple):
    """One published result, as a program of our own."""

    name: str
    numbers: tuple[str, ...]
    source: str
    device: str
    precision: str
    """That the program is to be converted with: ``float32`` or ``float16``."""
    route: str
    """``trace`` or ``export``."""
    told_by: str
    """``executor``: it computes what the device did; otherwise the departure that says that devices do something else."""
    program: str
    """Python source that defines ``make()``: the module and the tuple of its example inputs."""
    says: str
    """What was published of the device, where it is no list of numbers."""
    device_output: Any
    """The numbers that the device gave, as nested lists; None where they were not published."""
    mended: str
    """The version of coremltools from which on the conversion makes another program, which gives PyTorch's numbers on these inputs; empty
    where none does."""


FILE = Path(__file__).with_name("devices.json")
_DATA = json.loads(FILE.read_bytes())
DEPARTURES: dict[str, Published] = {
    name: Published(
        tuple(each["operations"]),
        each["says"],
        tuple(each["numbers"]),
        each.get("where", ""),
        each.get("precision", ""),
        each.get("instead", ""),
        each.get("around", ""),
    )
    for name, each in _DATA["departures"].items()
}
"""By name."""
CASES: tuple[DeviceCase, ...] = tuple(
    DeviceCase(
        each["name"],
        tuple(each["numbers"]),
        each["source"],
        each.get("device", ""),
        each["precision"],
        each["route"],
        each["told_by"],
        each["program"],
        each.get("says", ""),
        each.get("output"),
        each.get("mended", ""),
    )
    for each in _DATA["cases"]
)
