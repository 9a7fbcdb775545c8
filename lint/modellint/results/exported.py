"""What an export gives beside the package: in data, and in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from modellint.results import verification
from modellint.results.verification import NOT_CONVERTED, Verification


class Change(NamedTuple):
    """Something that was changed so that the model converts, or converts to what it computes."""

    kind: str
    """``fixed`` in the model, ``supplied`` to coremltools, ``mended`` in it; ``undone`` where it did not hold."""
    what: str
    where: tuple[str, ...] = ()
    """The paths of modules, or places."""
    exactness: str = ""
    """``bit-equal``, or within how many ulps."""
    note: str = ""
    code: str = ""
    """Of the rule whose finding it answers; empty for what is done in coremltools."""


class Attempt(NamedTuple):
    """A route that was not taken."""

    route: str
    stage: str
    """``capture``, ``conversion``, ``saving`` or ``comparison``."""
    reason: str


class Feature(NamedTuple):
    """An input, output or state of a package."""

    name: str
    kind: str
    """``tensor``, ``image``, ``label``, ``probabilities`` or ``state``."""
    dtype: str
    shape: str
    """As in ``1x3x224x224``, ``1..8x16``, ``?x16`` where it varies with the inputs'; of an image height and width."""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of one export."""

    target: str
    precision: str
    route: str = ""
    """How the model was captured; empty where it does not convert."""
    changes: tuple[Change, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    """The routes that were tried before, and why they were not taken."""
    verification: Verification = field(default_factory=lambda: Verification(NOT_CONVERTED))
    """Of the package, read back: ``outputs`` of the same conversion in float32, ``half`` of the package itself where it computes
    in float16."""
    inputs: tuple[Feature, ...] = ()
    outputs: tuple[Feature, ...] = ()
    states: tuple[Feature, ...] = ()
    size: int = 0
    """Bytes on disk."""
    notes: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    """The buffers that ``forward`` writes to."""
    advice: tuple[str, ...] = ()
    """Options that were tried because these do not lead to a package, and that do."""
    package: str = ""
    """The name of the package in the folder that it was made in; empty where there is none."""

    @property
    def converts(self) -> bool:
        """Whether there is a package, of a model that agrees or not."""
        return bool(self.package)

    @property
    def ok(self) -> bool:
        """Whether the model converts, and its package agrees with it."""
        return self.converts and self.verification.ok

    @property
    def writable(self) -> bool:
        """Whether the package is written unasked: it agrees, or does so in float32 and cannot be judged in float16."""
        return self.ok or (self.converts and self.verification.is_half_open)


def to_json(found: Exported) -> dict[str, Any]:
    """An export's result as JSON's own types."""
    return {
        "target": found.target,
        "precision": found.precision,
        "route": found.route,
        "changes": [list(one) for one in found.changes],
        "attempts": [list(one) for one in found.attempts],
        "verification": verification.to_json(found.verification),
        "inputs": [list(one) for one in found.inputs],
        "outputs": [list(one) for one in found.outputs],
        "states": [list(one) for one in found.states],
        "size": found.size,
        "notes": list(found.notes),
        "updates": list(found.updates),
        "advice": list(found.advice),
        "package": found.package,
    }


def from_json(given: Mapping[str, Any]) -> Exported:
    """What ``to_json`` wrote. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for else."""
    features = {key: tuple(Feature(*map(str, one)) for one in given[key]) for key in ("inputs", "outputs", "states")}
    return Exported(
        str(given["target"]),
        str(given["precision"]),
        str(given["route"]),
        tuple(
            Change(str(kind), str(what), tuple(map(str, where)), str(exactness), str(note), str(code))
            for kind, what, where, exactness, note, code in given["changes"]
        ),
        tuple(Attempt(*map(str, one)) for one in given["attempts"]),
        verification.from_json(given["verification"]),
        features["inputs"],
        features["outputs"],
        features["states"],
        int(given["size"]),
        tuple(map(str, given["notes"])),
        tuple(map(str, given["updates"])),
        tuple(map(str, given["advice"])),
        str(given["package"]),
    )
