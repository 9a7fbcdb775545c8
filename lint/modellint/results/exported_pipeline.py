"""Result of the export of a pipeline: a package for each stage, and the chain of all of them against PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from modellint.results.exported import Exported
from modellint.results.verification import AGREES, DIFFERS, NOT_CONVERTED, UNDECIDED, Verification

_FROM_WORST = (NOT_CONVERTED, DIFFERS, UNDECIDED, AGREES)


class Stage(NamedTuple):
    """A module of a pipeline, which becomes a package of its own."""

    name: str
    exported: Exported | None = None
    """As an export on its own; None where the module does not run."""

    @property
    def verdict(self) -> str:
        """``agrees``, ``differs``, ``undecided`` or ``not converted``."""
        return self.exported.verification.verdict if self.exported and self.exported.converts else NOT_CONVERTED


class StageCalls(NamedTuple):
    """The calls of a stage in a chain; ratios of signal to noise are in decibels, each of the call where it is worst."""

    name: str
    calls: int
    alone: float = 0.0
    """Where the package is given what PyTorch's module was given: its own error."""
    together: float = 0.0
    """As the chain of packages went: with the errors of all calls before."""


class Departure(NamedTuple):
    """The first call of a stage whose outputs depart from PyTorch's."""

    stage: str
    call: int
    """Which of the stage's calls, counted from 1."""
    calls: int
    """How many calls it has."""
    error: float
    """Over the scale of PyTorch's output."""
    snr: float
    """In decibels."""
    alone: bool
    """Whether the package departs on what PyTorch's module was given; else errors of earlier calls are in it."""


@dataclass(frozen=True, slots=True)
class ChainComparison:
    """A chain of stages, run with PyTorch's modules and with their packages, on the same inputs and random numbers."""

    name: str
    """Of the function that calls the stages."""
    verification: Verification
    """Of what the chain returns: ``outputs`` with packages in float32, ``half`` with those that compute in float16."""
    stages: tuple[StageCalls, ...] = ()
    """In the order of their first calls."""
    first: Departure | None = None
    """Where they first depart, if the chain differs."""


@dataclass(frozen=True, slots=True)
class ExportedPipeline:
    """The result of one export of a pipeline."""

    target: str
    precision: str
    stages: tuple[Stage, ...] = ()
    chain: ChainComparison | None = None
    """None where no chain was asked for, or where a stage does not convert."""
    is_chained: bool = False
    """Whether a chain was asked for."""

    @property
    def verdict(self) -> str:
        """The worst of all stages and of the chain: ``agrees``, ``differs``, ``undecided`` or ``not converted``."""
        verdicts = {stage.verdict for stage in self.stages}
        if self.chain is not None:
            verdicts.add(self.chain.verification.verdict)
        elif self.is_chained or not verdicts:
            verdicts.add(UNDECIDED)
        return next(verdict for verdict in _FROM_WORST if verdict in verdicts)

    @property
    def converts(self) -> bool:
        """Whether there is a package of each stage."""
        return bool(self.stages) and all(stage.exported and stage.exported.converts for stage in self.stages)

    @property
    def ok(self) -> bool:
        """Whether each package agrees with its module, and the chain of packages with the chain of modules, if there is one."""
        return self.verdict == AGREES

    @property
    def writable(self) -> bool:
        """Whether packages are written unasked: all agree, or do so in float32 where float16 cannot be judged."""
        stages = self.converts and all(stage.exported and stage.exported.writable for stage in self.stages)
        if self.chain is None:
            return stages and not self.is_chained
        return stages and (self.chain.verification.ok or self.chain.verification.is_half_open)

    @property
    def size(self) -> int:
        """Bytes of all packages."""
        return sum(stage.exported.size for stage in self.stages if stage.exported is not None)
