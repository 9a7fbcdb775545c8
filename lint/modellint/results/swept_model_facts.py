"""Facts about a live target that a sweep keeps beside the answer: its class and size, what it was made from, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class TargetFacts(NamedTuple):
    """One target as a worker knew it at its end."""

    model: str = ""
    """The class of the model, dotted; empty where none was built."""
    library: str = ""
    """The installed package that the class is from; empty for the user's own."""
    parameters: int = 0
    """Elements of all parameters, each tensor once."""
    size: int = 0
    """Bytes of all parameters and buffers."""
    files: Mapping[str, str] = {}
    """The files of the user's own modules that were imported, by absolute path, with the SHA-256 of each; and the folders of
    these, which end in a separator, with that of the names that can be imported from them."""
    versions: Mapping[str, str] = {}
    """The packages that were imported, by the name of the distribution, and Python."""
    cpu: float = 0.0
    """Seconds of CPU time, of the worker and of what it started."""
    memory: int = 0
    """The most bytes that were resident at once."""
