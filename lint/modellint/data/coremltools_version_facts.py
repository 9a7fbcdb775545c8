"""Facts of versions of coremltools: what was measured in an environment that has the version, a file for each.

``python -m modellint.measure.coreml_version [--name NAME]`` writes the file of the installed one. Two states of its sources may go by one
version: a digest of the sources of its PyTorch front end tells them apart, and a name with the commit.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).with_name("coreml")
_PARTS = re.compile(r"(\d+(?:\.\d+)*)(?:\.?(dev|a|b|rc)(\d+))?")
_BEFORE = {"dev": 0, "a": 1, "b": 2, "rc": 3}


class VersionFacts(NamedTuple):
    """What is known of one version."""

    name: str
    """The version, or for a state between two versions a name with the commit: ``main-1234567``."""
    coremltools: str
    """What it calls itself."""
    digest: str
    """Of the sources of its PyTorch front end."""
    torch: str
    """The version beside which it was measured."""
    prelu_ranks: tuple[int, ...]
    """The ranks at which it takes slopes of a `PReLU` that differ, by a trace."""
    reads_unused: bool
    """Whether it reads, and may refuse, operators of an exported program whose results nothing uses."""
    fuses_any_reader: bool
    """Whether its pass `fuse_stack_split` takes whatever reads a part of what was stacked for a squeeze."""
    numpy_below: str | None
    """The first numpy that breaks its conversion of traced models; None where no limit is known."""
    retired: tuple[str, ...]
    """Names of operators for which an export supplies a converter to older versions, and this one has its own, which is right."""


def order(version: str) -> tuple[tuple[int, ...], int, int]:
    """What versions are compared by: 9.0, 9.0.1, 9.1.dev1, 9.1, in this order."""
    match = _PARTS.match(version)
    if match is None:
        return (), 0, 0
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), _BEFORE.get(match[2], len(_BEFORE)), int(match[3] or 0)


def is_version(text: str) -> bool:
    """Whether a text is a version, and no name of a state between two."""
    return _PARTS.fullmatch(text) is not None


def is_release(text: str) -> bool:
    """Whether a text is the version of a release, and none that came before it for trial."""
    return is_version(text) and order(text)[1] == len(_BEFORE)


@lru_cache
def shipped() -> tuple[VersionFacts, ...]:
    """The facts of all versions that were measured, the oldest first."""
    tables: list[dict[str, Any]] = [
        json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json") if not path.name.startswith("faults-")
    ]
    facts = [VersionFacts(**{name: _frozen(value) for name, value in table.items()}) for table in tables]
    return tuple(sorted(facts, key=lambda known: (order(known.coremltools), not is_version(known.name), known.name)))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def measured(version: str, digest: str) -> VersionFacts | None:
    """The facts of exactly these sources; None where nobody measured them."""
    for known in shipped():
        if order(known.coremltools) == order(version) and known.digest == digest:
            return known
    return None


def nearest(version: str) -> VersionFacts:
    """The facts that stand in for a version: those of the newest that is not newer, or else of the oldest; of a name its own."""
    older = [known for known in shipped() if is_version(known.name) and order(known.coremltools) <= order(version)]
    named = [known for known in shipped() if known.name == version]
    return (named or older or shipped())[-1 if named or older else 0]
