"""Verification: a converted program compared with PyTorch, output by output, and where they first depart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from modellint.results.diagnostic import Place

AGREES, DIFFERS, UNDECIDED, NOT_CONVERTED = "agrees", "differs", "undecided", "not converted"


class Output(NamedTuple):
    """One output of the converted program against PyTorch's, on the inputs where it is furthest from it.

    ``max_abs_error`` is in the output's own units; ``max_rel_error`` and ``error`` are ratios, the latter over ``scale``, the
    largest magnitude of PyTorch's output; ``snr`` is in decibels. Infinite errors stand for another shape, or for elements
    that are not finite where PyTorch's are.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    max_abs_error: float
    max_rel_error: float
    error: float
    scale: float
    snr: float
    cosine: float
    non_finite: tuple[int, int]
    """Elements that are NaN or infinite: PyTorch's, the program's."""
    ok: bool
    case: str
    """On which inputs."""
    got: tuple[int, ...] | None = None
    """The program's shape, where it is another."""
    path: str = ""
    """Where it is in what the model returns, as in ``['logits']`` or ``[1]``; empty where that is one tensor."""
    wrong: int = 0
    """Elements that are off by more than rounding explains."""
    ties: int = 0
    """Integers and truth values that differ, and that rounding decides in PyTorch too."""
    unequal: float = 0.0
    """The share of integers or truth values that differ."""


class Lost(NamedTuple):
    """A write, or another step of the model, that the converted program does not have."""

    operator: str
    place: Place | None
    module: str = ""


class FirstDifference(NamedTuple):
    """Where the converted program first departs from PyTorch."""

    kind: str
    """``operation``: this one computes something else; ``run``: it cannot be run; ``capture``: what was captured is already another
    model; ``random``: PyTorch draws numbers here; ``output``: an output departs, and no operation before it; ``mode``: a module that
    ``eval`` does not reach; ``precision``: float16 does not hold this."""
    message: str
    operation: str | None
    """MIL's operation, as in ``reduce_argmax``."""
    variable: str | None
    """What the program calls its result."""
    operator: str | None
    """PyTorch's operator, as in ``aten::argmax``."""
    place: Place | None
    module: str
    """The path of the module that it happens in."""
    error: float
    """Over the scale of PyTorch's value."""
    shape: tuple[int, ...]
    case: str
    """On which inputs."""
    lost: tuple[Lost, ...] = ()
    """Writes just before it that the program does not have."""


class Case(NamedTuple):
    """One set of inputs."""

    label: str
    error: float | None
    """The largest over all outputs of the float32 program; None where PyTorch raises on them."""
    half: float | None = None
    """The same of the float16 program, where it was run."""
    note: str = ""


class Layer(NamedTuple):
    """One operation of the float32 program that has a counterpart in PyTorch."""

    variable: str
    operation: str
    operator: str
    module: str
    place: Place | None
    shape: tuple[int, ...]
    error: float
    half: float | None = None
    largest: float = 0.0
    """The largest magnitude of PyTorch's value."""


class Departed(NamedTuple):
    """An operation of the converted program that devices are known to compute otherwise than its specification says."""

    operation: str
    """MIL's, as in ``softplus``."""
    operator: str
    """PyTorch's, as in ``aten::softplus``; empty where that is not known."""
    module: str
    place: Place | None
    says: str
    """What devices do."""
    where: str
    """The devices; empty where it holds for all, or was not said."""
    numbers: tuple[str, ...]
    """The reports, as in ``apple/coremltools#2687``."""
    instead: str
    """What may be done."""

    @property
    def message(self) -> str:
        """What devices do, with the first report of it."""
        where = f", on {self.where}" if self.where else ""
        return f"`{self.operation}` {self.says}{where}: {self.numbers[0]}"


class OnDevice(NamedTuple):
    """What a device predicted on one compute unit for the inputs of a recorded case, each output from where it is worst."""

    unit: str
    """As coremltools calls it, such as ``CPU_ONLY``."""
    system: str
    """The version of macOS."""
    machine: str
    coremltools: str
    outputs: tuple[Output, ...] = ()
    """Against PyTorch's, as recorded."""
    executed: tuple[Output, ...] = ()
    """Against what the package gives where it is executed here."""
    error: str = ""
    """Why there are no outputs."""

    @property
    def ok(self) -> bool:
        """Whether the device agrees with PyTorch."""
        return all(output.ok for output in self.outputs)


class Recorded(NamedTuple):
    """The comparison of a recorded case: PyTorch, the package executed here, and a device."""

    sets: int
    """Of inputs."""
    judged: int
    """Sets on which it counts that outputs agree: those of the example's kind, where the package computes in float16."""
    executed: tuple[Output, ...] = ()
    """Of the package executed here, against PyTorch's; empty where it cannot be."""
    units: tuple[OnDevice, ...] = ()

    @property
    def differing(self) -> tuple[str, ...]:
        """The compute units that do not agree with PyTorch."""
        return tuple(unit.unit for unit in self.units if not unit.ok)


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of one verification."""

    verdict: str
    """``agrees``, ``differs``, ``undecided`` or ``not converted``."""
    reason: str = ""
    route: str = ""
    """How the model was captured: ``trace``, ``export`` or, for an export with core ATen decompositions, ``decomposed``;
    ``package`` for a saved model."""
    outputs: tuple[Output, ...] = ()
    """Of the float32 program."""
    half: tuple[Output, ...] = ()
    """Of the float16 program; empty where that was not asked for."""
    runtime: tuple[Output, ...] = ()
    """Of Core ML itself on the example, on macOS."""
    half_ok: bool | None = None
    """Whether float16 is precise enough; None where it was not asked for, or cannot be judged."""
    single: str = ""
    """The verdict on the float32 program alone, or on the package's conversion where that is apart from its precision."""
    first_difference: FirstDifference | None = None
    cases: tuple[Case, ...] = ()
    layers: tuple[Layer, ...] = ()
    overflows: tuple[Layer, ...] = ()
    """Operations of the float16 program whose values float16 cannot hold, on the example."""
    departures: tuple[Departed, ...] = ()
    """What devices are known to compute otherwise, as far as the program meets it on the inputs."""
    open_on: str = ""
    """What devices do that makes a program undecided which agrees by its specification; empty where that decides nothing."""
    notes: tuple[str, ...] = ()
    recorded: Recorded | None = None
    """The comparison with what a device predicted, where that was asked for."""

    @property
    def ok(self) -> bool:
        """Whether the model converts and its programs agree with it."""
        return self.verdict == AGREES

    def noting(self, note: str) -> Verification:
        """The same, with one more note."""
        return replace(self, notes=(*self.notes, note))

    def with_recorded(self, comparison: Verification) -> Verification:
        """The same, with the comparison of a recorded case: it agrees where both do, and where a device tells what was open."""
        is_told = self.ok or self.is_open_on_devices
        verdict = comparison.verdict if is_told else self.verdict
        # What devices make of it is told by the one that was asked.
        own = "" if self.is_open_on_devices else self.reason
        reason = "; ".join(filter(None, (own, comparison.reason)))
        notes = (*self.notes, *comparison.notes)
        open_on = self.open_on if not is_told else ""
        return replace(self, verdict=verdict, reason=reason, notes=notes, recorded=comparison.recorded, open_on=open_on)

    def on_devices(self) -> Verification:
        """The same; undecided where it agrees and devices are known to compute something else."""
        if self.verdict != AGREES or not self.departures:
            return self
        message = self.departures[0].message
        return replace(self, verdict=UNDECIDED, reason=message, open_on=message)

    @property
    def is_open_on_devices(self) -> bool:
        """Whether the program agrees by its specification, and only what devices make of it is open."""
        return bool(self.open_on)

    @property
    def is_half_open(self) -> bool:
        """Whether the float32 program agrees, and it cannot be said whether float16 is precise enough."""
        return self.single == AGREES and self.verdict == UNDECIDED


def worst(outputs: Sequence[Output]) -> float:
    """The largest error of several outputs; 0 without any."""
    return max((output.error for output in outputs), default=0.0)
