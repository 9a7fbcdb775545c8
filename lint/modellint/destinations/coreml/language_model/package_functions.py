"""Parts of a language model: the modules that become functions of one package, and what passes between them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

ENCODE, PREFILL, DECODE = "encode", "prefill", "decode"
LOGITS = "logits"
ARGUMENTS = ("input_ids", "position")
"""What a decoder takes: tokens, int 1xN, and how many came before them, int of shape (1,)."""
CROSS = ("cross_keys", "cross_values")
"""What an encoder gives and its decoder takes: keys and values of each layer's attention to the source, one layer behind another."""
SOURCE_LENGTH = "source_length"
"""How many tokens of a source are meant, int of shape (1,): the others are padding."""


class Chunking(enum.Enum):
    """How prefill may read a prompt in chunks."""

    PADDED = "padded"
    """Chunks one behind another, each padded at its end where too few tokens are left."""
    FULL = "full"
    """Full chunks one behind another; what is left goes to decode, as a recurrence would take padding for tokens."""
    FIRST = "first"
    """One full chunk, at the beginning: the model has no way to go on from states with more than one token."""


class Parts(NamedTuple):
    """The modules of a language model, without Python state, and how they fit together."""

    decoder: nn.Module
    """Takes ``ARGUMENTS`` and, behind an encoder, what that gives; returns logits, and keeps its cache in buffers."""
    context: int
    """How many tokens its caches hold."""
    encoder: nn.Module | None = None
    """Takes a source, and returns ``CROSS``."""
    source: Mapping[str, Tensor] = {}
    """An example of a source, by the encoder's arguments."""
    chunking: Chunking = Chunking.PADDED

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the package, in the order in which they are called."""
        return (PREFILL, DECODE) if self.encoder is None else (ENCODE, PREFILL, DECODE)

    def conditions(self) -> dict[str, Tensor]:
        """What the decoder takes beside tokens and position, for the example of a source."""
        if self.encoder is None:
            return {}
        with torch.no_grad():
            cross = self.encoder(*self.source.values())
        return self.passed(dict(zip(CROSS, cross, strict=True)))

    def passed(self, encoded: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The same, from what an encoder gave."""
        lengths = {name: value for name, value in self.source.items() if name == SOURCE_LENGTH}
        return {**{name: encoded[name] for name in CROSS}, **lengths} if self.encoder is not None else {}
