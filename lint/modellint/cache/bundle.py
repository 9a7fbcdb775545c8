"""What a run over many files found, kept in one file, and the text that was printed of it.

The text stands for the run as long as nothing changed at all: to print thousands of findings takes as long as to look for changes.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from modellint.cache import MALFORMED, Cache, digest, findings_of
from modellint.results.diagnostic import Diagnostic

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class KeptReport(NamedTuple):
    """What a run printed, and its exit status."""

    text: str
    status: int


class Bundle:
    """The entries of a run's files in one file, and once each row that they rest on: names asked for in a folder, and their states.

    Every file of the run is given its name by the cache before entries are asked for.
    """

    def __init__(self, cache: Cache, files: Sequence[Path]) -> None:
        """That of a run over these files, in order, or over others that begin alike."""
        self._cache = cache
        beginning = os.path.commonprefix([str(files[0]), str(files[-1])])  # noqa: RUF071
        self._name = digest((b"bundle", beginning.encode("utf-8", "surrogatepass")))
        self._kept: Any = None
        self._holding: Mapping[str, object] = {}
        """The entries that are known to hold, by name."""

    def load(self) -> bool:
        """Whether there is anything."""
        if self._kept is None:
            self._kept = self._cache.store.load(self._name)
        return self._kept is not None

    def findings(self, names: Sequence[str | None]) -> dict[str, list[Diagnostic]]:
        """The findings of the entries of these names, as far as they hold."""
        found: dict[str, list[Diagnostic]] = {}
        try:
            kept, entries = self._kept, self._kept["entries"]
            changed: set[int] = set()
            if not self._holds(kept):
                # Which rows there are, and which entry rests on which, is text in the text, and read only where it matters.
                rows = json.loads(kept["rows"])
                changed = {at for at, (*row, state) in enumerate(rows) if self._cache.state_of([row]) != state}
            consulted = json.loads(kept["consulted"]) if changed else {}
            for name in names:
                if name is not None and name in entries and (not changed or changed.isdisjoint(consulted[name])):
                    found[name] = findings_of(entries[name])
        except MALFORMED:
            return {}
        self._holding = found
        return found

    def keep(self, names: Sequence[str | None]) -> None:
        """Put the entries of these names together in the place of what was; those that no longer hold are left out."""
        store, state_of = self._cache.store, self._cache.state_of
        if not store.may_save:
            return
        entries: dict[str, object] = {}
        consulted: dict[str, list[int]] = {}
        numbers: dict[tuple[str, tuple[str, ...]], int] = {}
        for name in names:
            stored: Any = None if name is None else store.load(name)
            try:
                if name is None or not self._is_current(stored):
                    continue
                parts = [(folder, tuple(asked)) for folder, asked in stored["consulted"].items()]
                places = [numbers.setdefault(part, len(numbers)) for part in parts]
                entries[name], consulted[name] = stored["diagnostics"], places
            except MALFORMED:
                continue
        try:
            rows = [(folder, asked, state_of([(folder, asked)])) for folder, asked in numbers]
            rested_on = self._rested_on(numbers)
        except MALFORMED:
            return
        self._holding = entries
        self._kept = {
            **rested_on,
            "rows": json.dumps(rows),
            "entries": entries,
            "consulted": json.dumps(consulted),
        }
        store.save(self._name, self._kept)

    def report(self, names: Sequence[str | None], look: str) -> KeptReport | None:
        """What the last run over these files printed in this look, if nothing changed since that its findings rest on."""
        stored = self._cache.store.load(self._name_of_report(look))
        try:
            text, status = stored["text"], stored["status"]
            if type(text) is str and status in (0, 1) and type(status) is int and _is_printable(text):
                return (
                    KeptReport(text, status) if stored["names"] == _digest_of(names) and self._holds(stored) else None
                )
        except MALFORMED:
            pass
        return None

    def keep_report(self, names: Sequence[str | None], look: str, report: KeptReport) -> None:
        """Keep what a run over these files printed in this look, if an entry that holds stands behind each of them.

        It is read again what the entries rest on: what a run has looked at may have changed while it ran.
        """
        store = self._cache.store
        if self._kept is None or not store.may_save or not _is_printable(report.text):
            return
        try:
            parts = [*self._kept["folders"].items()]
            for name in names:
                if name is None:
                    return
                if name not in self._holding:
                    # A file that changed since, whose entry is by itself.
                    stored = store.load(name)
                    if not self._is_current(stored):
                        return
                    parts += stored["consulted"].items()
            rested_on = self._rested_on(parts)
            if self._cache.again().state_of(rested_on["folders"].items()) != rested_on["state"]:
                return
            entry = {**rested_on, "names": _digest_of(names), "text": report.text, "status": report.status}
        except MALFORMED:
            return
        store.save(self._name_of_report(look), entry)

    def _name_of_report(self, look: str) -> str:
        return digest((b"report", self._name.encode(), look.encode("utf-8", "surrogatepass")))

    def _rested_on(self, rows: Iterable[tuple[str, Sequence[str]]]) -> dict[str, Any]:
        """Whatever the rows ask for, each name once: where it is as it was, so are all rows. Raises one of ``MALFORMED``."""
        asked: defaultdict[str, set[str]] = defaultdict(set)
        for folder, names in rows:
            asked[folder].update(names)
        folders = {folder: sorted(names) for folder, names in asked.items()}
        return {"folders": folders, "state": self._cache.state_of(folders.items())}

    def _is_current(self, stored: Any) -> bool:
        """Whether an entry holds. Raises one of ``MALFORMED``."""
        return bool(self._cache.state_of(stored["consulted"].items()) == stored["state"])

    def _holds(self, stored: Any) -> bool:
        """Whether nothing that a record rests on has changed. Raises one of ``MALFORMED``."""
        return bool(self._cache.state_of(stored["folders"].items()) == stored["state"])


def _is_printable(text: str) -> bool:
    """Whether a text holds nothing that moves a cursor or turns lines round: a cache may come with the files that are checked."""
    # The tabs and characters of source come as stand-ins, so that only colours are left.
    return _COLOURS.sub("", text).replace("\n", "").isprintable()


def _digest_of(names: Iterable[str | None]) -> str:
    return digest((name or "").encode() for name in names)
