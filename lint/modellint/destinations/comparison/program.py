"""Converted program as a comparison sees it: something that predicts, whatever executes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Protocol

from torch import Tensor

from modellint.live.inputs.branch_boundary_sizes import Thresholds


class Misfit(Exception):
    """A program takes other inputs than the model; the message says which."""


class Unanswered(Misfit):
    """A program gives nothing in time, so that nothing is known of what it gives."""


class RunError(Exception):
    """A program cannot be run on some inputs; the message says why."""


class Program(Protocol):
    """A program that predicts, with inputs and outputs in the order of the model's own."""

    @property
    def output_names(self) -> Sequence[str]:
        """The names of its outputs, in the order of the model's."""

    @property
    def is_stateful(self) -> bool:
        """Whether it has states."""

    @property
    def buffers(self) -> Mapping[str, str]:
        """The model's buffer that each state is, by the name of the state."""

    @property
    def states(self) -> Mapping[str, Tensor]:
        """The states as the last prediction left them."""

    @property
    def updated(self) -> Set[str]:
        """The names of the states that it writes."""

    @property
    def casts_beyond(self) -> bool:
        """Whether the last run cast numbers beyond the range of integers."""

    @property
    def adds_in_order(self) -> bool:
        """Whether its sums are known to be made element after element."""

    @property
    def unreached(self) -> int:
        """How many sides of bounds, comparisons and choices no input has reached."""

    @property
    def sides(self) -> int:
        """How many sides of bounds, comparisons and choices there are."""

    def counted(self, leaves: Sequence[Any]) -> Mapping[Any, tuple[int, ...]]:
        """How many elements are below and above each bound, and each comparison of numbers, by operation.

        Raises ``Misfit`` and ``RunError``.
        """

    @property
    def thresholds(self) -> Thresholds:
        """The numbers that it holds sizes against."""

    def in_a_row(self, steps: Sequence[Sequence[Any]]) -> list[list[Tensor]]:
        """The outputs of predictions in a row, each on inputs of its own. Raises ``Misfit`` and ``RunError``."""
