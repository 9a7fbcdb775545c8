"""Which local variables are read behind a place of a function."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import NamedTuple

from modellint.source.syntax.ast_walk import of_kind, once, parents_in, walk

_ABOUT = frozenset({"shape", "size", "dim", "ndim", "dtype", "device", "numel", "requires_grad", "is_cuda"})
Place = tuple[int, int]


class _Events(NamedTuple):
    """Where a variable is read (True) or bound, in order; a statement binds behind its value."""

    places: list[Place]
    reads: list[bool]


class _Reads:
    """The variables of a function, each with its events, and those whose next event is a read."""

    def __init__(self, function: ast.AST) -> None:
        self.events = _events(function)
        self._line = sorted((place, name) for name, events in self.events.items() for place in events.places)
        self._at = 0
        self._next = dict.fromkeys(self.events, 0)
        self._live = {name: None for name, events in self.events.items() if events.reads[0]}
        self._ends = sorted((events.places[-1], name) for name, events in self.events.items())
        self._carried: dict[Place, tuple[list[Place], list[str]]] = {}

    def behind(self, here: Place) -> dict[str, None]:
        """The variables whose first event behind a place is a read. Asking for one place after the other is cheap."""
        while self._at < len(self._line) and self._line[self._at][0] <= here:
            self._move(self._line[self._at][1], 1)
        while self._at and self._line[self._at - 1][0] > here:
            self._move(self._line[self._at - 1][1], -1)
        return self._live

    def _move(self, name: str, step: int) -> None:
        self._at += step
        at = self._next[name] = self._next[name] + step
        reads = self.events[name].reads
        if at < len(reads) and reads[at]:
            self._live[name] = None
        else:
            self._live.pop(name, None)

    def carried(self, start: Place, here: Place) -> list[str]:
        """The variables without an event behind a place whose first event from the start of a loop on is a read."""
        if start not in self._carried:
            found: list[tuple[Place, str]] = []
            for place, name in self._ends[bisect_left(self._ends, (start, "")) :]:
                events = self.events[name]
                if events.reads[bisect_left(events.places, start)]:
                    found.append((place, name))
            self._carried[start] = [place for place, _ in found], [name for _, name in found]
        places, names = self._carried[start]
        return names[: bisect_right(places, here)]


def is_read_later(statement: ast.stmt, function: ast.AST, name: str) -> bool:
    """Whether what a local variable holds is read behind a statement before it is bound anew; its shape alone is not."""
    if _binds(statement, name):
        return False
    events = once(function, "_reads", _Reads).events.get(name)
    if events is None:
        return False
    here = _place(statement, end=True)
    behind = bisect_right(events.places, here)
    if behind < len(events.places):
        return events.reads[behind]
    start = _turn(statement, function)
    if start is None:
        return False
    again = bisect_left(events.places, start)
    return again < len(events.places) and events.reads[again]


def read_later(statement: ast.stmt, function: ast.AST) -> tuple[Collection[str], Collection[str]]:
    """The variables that may be read behind a statement before they are bound anew; those that the next turn of a loop reads apart."""
    reads = once(function, "_reads", _Reads)
    here = _place(statement, end=True)
    start = _turn(statement, function)
    return reads.behind(here), reads.carried(start, here) if start is not None else ()


def _turn(statement: ast.stmt, function: ast.AST) -> Place | None:
    """Where the outermost loop around a statement begins again: what it goes through is read once."""
    parents = parents_in(function)
    part: ast.AST | None = statement
    found: ast.For | ast.While | None = None
    while part is not None:
        if isinstance(part, ast.For) or (isinstance(part, ast.While) and not isinstance(found, ast.For)):
            found = part
        part = parents.get(part)
    return None if found is None else _place(found.iter, end=True) if isinstance(found, ast.For) else _place(found)


def _binds(statement: ast.stmt, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _events(function: ast.AST) -> dict[str, _Events]:
    parents = parents_in(function)
    found: dict[str, list[tuple[Place, bool]]] = {}
    for node in of_kind(function, ast.Assign):
        for target in node.targets:
            for part in walk(target):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    found.setdefault(part.id, []).append((_place(node.value, end=True), False))
    for name in of_kind(function, ast.Name):
        if isinstance(name.ctx, ast.Load):
            above = parents.get(name)
            filled = isinstance(above, ast.Subscript) and isinstance(above.ctx, ast.Store)
            if filled and above is not None and isinstance(parents.get(above), ast.Assign):
                continue
            if not (isinstance(above, ast.Attribute) and above.attr in _ABOUT):
                found.setdefault(name.id, []).append((_place(name), True))
    for loop in of_kind(function, ast.For):
        for part in walk(loop.target):
            if isinstance(part, ast.Name):
                # Bound anew by each turn, behind what is written there of it.
                found.setdefault(part.id, []).append((_place(loop.iter, end=True), False))
    return {
        name: _Events([place for place, _ in events], [reads for _, reads in events])
        for name, events in ((name, sorted(events)) for name, events in found.items())
    }


def _place(node: ast.AST, end: bool = False) -> Place:
    row, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    if end:
        return getattr(node, "end_lineno", None) or row, getattr(node, "end_col_offset", None) or 0
    return row, column
