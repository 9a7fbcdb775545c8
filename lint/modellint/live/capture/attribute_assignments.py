"""Attribute assignments of a run: what it binds to attributes of a model's modules, and where."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from torch import nn

from modellint.live.capture.records import Assigned
from modellint.live.unregistered_state import BOOKKEEPING

if TYPE_CHECKING:
    from modellint.live.subject import Entry
    from modellint.results.diagnostic import Place

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_TABLES = {"_buffers": "buffer", "_parameters": "parameter", "__dict__": "attribute"}
_NOTHING = object()


class Attributes:
    """The attributes of a model's modules before a run, and what the run makes of them."""

    def __init__(self, entries: Sequence[Entry], place_of: Callable[[FrameType | None], Place | None]) -> None:
        self._entries = entries
        self._known = {id(entry.module) for entry in entries}
        self._place_of = place_of
        self._thread = threading.get_ident()
        self._places: dict[tuple[int, str], Place | None] = {}
        self._before: list[dict[str, dict[str, tuple[Any, Any]]]] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note the statements that bind attributes."""
        original = nn.Module.__setattr__

        def bound(module: nn.Module, name: str, value: Any) -> None:
            if id(module) in self._known and threading.get_ident() == self._thread:
                self._places[id(module), name] = self._place_of(sys._getframe(1))
            original(module, name, value)

        nn.Module.__setattr__ = bound  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            nn.Module.__setattr__ = original  # type: ignore[method-assign]

    def remember(self) -> None:
        """Take a snapshot of the attributes' values."""
        self._before = [
            {kept: {name: (value, _items(value)) for name, value in table.items()} for kept, table in _tables(entry)}
            for entry in self._entries
        ]

    def changed(self, facts: Callable[[Any], Any]) -> Iterator[Assigned]:
        """The attributes whose value differs from the snapshot."""
        for entry, before in zip(self._entries, self._before, strict=True):
            for kept, table in _tables(entry):
                for name, value in list(table.items()):
                    was, items = before[kept].get(name, (_NOTHING, None))
                    if was is value and _are_same(items, _items(value)):
                        continue
                    if type(was) is type(value) and isinstance(value, _PLAIN) and was == value:
                        continue
                    place = self._places.get((id(entry.module), name))
                    yield Assigned(entry.path, name, _TABLES[kept], facts(value), place)


def _tables(entry: Entry) -> Iterator[tuple[str, dict[str, Any]]]:
    own = vars(entry.module)
    for kept in ("_buffers", "_parameters"):
        yield kept, own.get(kept, {})
    yield "__dict__", {name: value for name, value in own.items() if name not in BOOKKEEPING and name != "training"}


def _items(value: Any) -> tuple[Any, ...] | None:
    """The items of a plain container."""
    if type(value) is list:
        return tuple(value)
    if type(value) is dict:
        return tuple(part for pair in value.items() for part in pair)
    return None


def _are_same(first: tuple[Any, ...] | None, second: tuple[Any, ...] | None) -> bool:
    if first is None or second is None:
        return first is second
    return len(first) == len(second) and all(a is b for a, b in zip(first, second, strict=True))
