"""Converters of PyTorch operators that an export supplies to coremltools' torch front end: missing ones, and right ones for wrong."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from modellint.destinations.coreml.supplied_converters.registration import Supplied, Used
    from modellint.settings import Destination

__all__ = ["Nothing", "supplied"]


class Nothing(NamedTuple):
    """Record of a conversion without supplied converters: the installed coremltools takes none."""

    used: tuple[Used, ...] = ()
    pipeline: Any = None

    def forget(self) -> None:
        """There is nothing to forget."""


def supplied(destination: Destination) -> AbstractContextManager[Supplied | Nothing]:
    """The scope in which coremltools has our converters and passes, as far as the installed one takes any."""
    from modellint.destinations.coreml.private.installed_capabilities import lacks

    if lacks("supplied"):
        return nullcontext(Nothing())
    from modellint.destinations.coreml.supplied_converters.registration import supplied as registered

    return registered(destination)
