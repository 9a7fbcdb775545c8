"""Result of the export of a language model: its functions, and 64 tokens of greedy decoding against PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from modellint.results.exported import Exported
from modellint.results.verification import AGREES, NOT_CONVERTED, UNDECIDED


class Token(NamedTuple):
    """A step of greedy decoding at which the package takes another token than PyTorch.

    Margins are differences of logits: by how much each side prefers its own token to the other's.
    """

    step: int
    """Counted from 1, the token behind the prompt."""
    expected: int
    """PyTorch's token."""
    got: int
    margin: float
    """PyTorch's."""
    margin_got: float
    """The package's."""


class Generation(NamedTuple):
    """Greedy decoding by a package, prefill then decode, held against PyTorch's own.

    The package is given PyTorch's tokens, so that each step is compared on the same text.
    """

    prompt: int = 0
    """Tokens of the prompt."""
    tokens: int = 0
    """Tokens decoded."""
    equal: int = 0
    """How many of them PyTorch takes as well."""
    first: Token | None = None
    """The first that differs."""
    logits: float = 0.0
    """Signal to noise of the logits in decibels at the worst step."""
    states: float = 0.0
    """The same of the caches."""
    single: float | None = None
    """The largest error of the logits over their scale with states and arithmetic in float32; None for a float16 package."""
    repeats: bool = False
    """Whether a second run, from fresh states, gives the same bits."""


@dataclass(frozen=True, slots=True)
class ExportedLanguageModel:
    """The result of one export of a language model."""

    target: str
    precision: str
    context: int
    """The length of the caches in tokens."""
    verdict: str = NOT_CONVERTED
    """``agrees``, ``differs``, ``undecided``, or ``not converted``."""
    reason: str = ""
    functions: tuple[tuple[str, Exported], ...] = ()
    """``prefill`` and ``decode``, behind ``encode`` for an encoder-decoder, each as an export on its own."""
    generation: Generation = field(default_factory=Generation)
    size: int = 0
    """Bytes of the package."""
    apart: int = 0
    """Bytes of the functions in packages of their own."""
    package: str = ""
    """The name of the package in the folder that it was made in; empty where there is none."""
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is a package, and it agrees."""
        return bool(self.package) and self.verdict == AGREES

    @property
    def is_open_on_devices(self) -> bool:
        """Whether it generates the same by the specification, and only what devices make of it is open."""
        return self.verdict == UNDECIDED and any(self.reason == each.verification.open_on for _, each in self.functions)

    @property
    def writable(self) -> bool:
        """Whether the package is written unasked.

        It agrees, or its functions do in float32 and rounding decides between tokens, or what devices make of it.
        """
        return (bool(self.package) and (self.ok or self.is_open_on_devices)) or (
            bool(self.package)
            and self.verdict == UNDECIDED
            and self.generation.first is not None
            and all(each.verification.single == AGREES for _, each in self.functions)
        )
