"""Conversion destinations: a package for each, behind the interface in ``destination``, found by its name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modellint.destinations.destination import Destination

_REGISTERED: dict[str, Destination] = {}


def register(destination: Destination) -> None:
    """Make a destination known by its name, in the place of another one of that name."""
    _REGISTERED[destination.name] = destination


def named(name: str) -> Destination:
    """The destination of a name: one that is registered, or the ``DESTINATION`` of ``destinations/NAME/destination.py``.

    Neither its converter nor torch is imported. Raises ``LookupError`` where there is none.
    """
    if name not in _REGISTERED:
        module = f"{__name__}.{name}.destination"
        try:
            register(importlib.import_module(module).DESTINATION)
        except ModuleNotFoundError as error:
            if error.name is None or not module.startswith(error.name):
                raise
            raise LookupError(f"there is no destination {name!r}") from None
    return _REGISTERED[name]


def of_package(path: str) -> str:
    """The name of the destination whose packages are called like this one."""
    return "coreai" if path.rstrip("/").endswith(".aimodel") else "coreml"
