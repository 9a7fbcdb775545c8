"""Result of an export: what was changed, the routes not taken, the interface of the package and how it compares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from modellint.results.verification import NOT_CONVERTED, Verification

SINGLE_PRECISION = "model.float()"
"""The change by which a model of another floating type is computed, and compared, in float32."""
WITHOUT_CASTS = "casts to bfloat16, as casts to float32"
"""The change by which a model of float32 is computed, and compared, without rounding to another floating type."""


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
    """``capture``, ``conversion``, ``saving`` or ``comparison``; ``finding`` of one that was not tried, as a finding is against it."""
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
    destination: str = "coreml"
    """Where it is to go, as a key of ``settings.RUNTIMES``."""
    package: str = ""
    """The name of the package in the folder that it was made in; empty where there is none."""

    @property
    def converts(self) -> bool:
        """Whether there is a package, of a model that agrees or not."""
        return bool(self.package)

    @property
    def reference(self) -> str:
        """What the package is compared with."""
        is_single = any(change.what in (SINGLE_PRECISION, WITHOUT_CASTS) for change in self.changes)
        return "the model in float32" if is_single else "PyTorch"

    @property
    def ok(self) -> bool:
        """Whether the model converts, and its package agrees with it."""
        return self.converts and self.verification.ok

    @property
    def writable(self) -> bool:
        """Whether the package is written unasked: it agrees, or does so in float32 and cannot be judged in float16."""
        return self.ok or (self.converts and self.verification.is_half_open)
