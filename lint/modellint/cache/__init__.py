"""Findings of unchanged files, kept between runs as JSON beside the project.

An entry holds only while the file, the settings, the rules, and every other project file that was asked are the same.
What a run over many files found is kept once more in one file (``bundle``): to open thousands takes longer than to check them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.results.diagnostic import Diagnostic

if TYPE_CHECKING:
    from modellint.results.codec import Codec

FOLDER = ".modellint_cache"
_OF_RULES = re.compile(r"[0-9a-f]{16}\Z")
_OF_FILES = re.compile(r"[0-9a-f]{2}\Z")
_ABSENT = "absent"
"""The state of a file that is not there."""
MALFORMED = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading an entry raises that is not as it was written."""
_MARKS = {".gitignore": "*\n", "CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n"}
"""What is put into a new cache, so that git and backups leave it out."""


@cache
def _codec() -> Codec[tuple[Diagnostic, ...]]:
    """Codec of a file's findings; imported only where there are any."""
    from modellint.results.codec import Codec

    return Codec(tuple[Diagnostic, ...])


def digest(parts: Iterable[bytes]) -> str:
    """One hex digest of several byte strings; where one ends and the next begins counts."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(len(part).to_bytes(8, "big"))
        sha.update(part)
    return sha.hexdigest()


def rules_digest(extra: Iterable[Path] = ()) -> str:
    """A digest of the text of modellint and its data, its rules, and the plug-ins."""
    import modellint_rules

    parts: list[bytes] = []
    for place in (str(Path(__file__).parent.parent), *modellint_rules.__path__, *map(str, extra)):
        for path in _sources(place) if os.path.isdir(place) else [place]:  # noqa: PTH112
            with open(path, "rb") as file:  # noqa: PTH123
                parts.extend((os.fsencode(os.path.basename(path)), file.read()))  # noqa: PTH119
    return digest(parts)


def _sources(place: str) -> Iterator[str]:
    for folder, folders, files in os.walk(place):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (f"{folder}{os.sep}{name}" for name in sorted(files) if name.endswith((".py", ".json")))


def caches_below(top: Path) -> Iterator[Path]:
    """The folders of caches at and below a folder; links and the folders that no check walks into are left out."""
    from modellint.discover import SKIPPED

    for folder, folders, _ in os.walk(top):
        if FOLDER in folders and not (Path(folder) / FOLDER).is_symlink():
            yield Path(folder) / FOLDER
        folders[:] = sorted(name for name in folders if name not in SKIPPED)


def remove(folder: Path) -> bool:
    """Remove a cache; whether all of the folder is gone. What no cache has put there stays. Raises ``OSError``."""
    import shutil

    for entry in sorted(folder.iterdir()):
        if entry.is_symlink():
            continue
        if (
            entry.is_dir()
            and _OF_RULES.match(entry.name)
            and all(_OF_FILES.match(part.name) for part in entry.iterdir())
        ):
            shutil.rmtree(entry)
        elif entry.name in _MARKS and entry.is_file() and entry.read_bytes() == _MARKS[entry.name].encode():
            entry.unlink()
    if any(folder.iterdir()):
        return False
    folder.rmdir()
    return True


class Store:
    """Entries as JSON files below one folder, by name. Nothing here ever raises: what cannot be read or written is not kept."""

    def __init__(self, folder: Path, key: str) -> None:
        self._folder = folder / key[:16]
        self._usable = True

    def load(self, name: str) -> Any:
        """What was kept under the hex digest ``name``; None where that is nothing."""
        try:
            return json.loads(Path(self._place(name)).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None

    def save(self, name: str, entry: object) -> None:
        """Keep an entry, whole or not at all."""
        if not self._usable:
            return
        place = Path(self._place(name))
        try:
            self._prepare()
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.parent / f"tmp-{os.getpid()}-{os.urandom(8).hex()}"
            try:
                # The name is known before the file is, so that a signal between the two leaves nothing.
                with temporary.open("x", encoding="utf-8") as stream:
                    json.dump(entry, stream)
                temporary.replace(place)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        except (OSError, ValueError):
            self._usable = False

    @property
    def may_save(self) -> bool:
        """Whether something can be kept, as far as is known."""
        return self._usable and os.access(self._folder, os.W_OK)

    def _prepare(self) -> None:
        top = self._folder.parent
        top.mkdir(parents=True, exist_ok=True)
        if not any(top.iterdir()):
            # A folder that holds something else is not ours to be ignored by git.
            for name, content in _MARKS.items():
                (top / name).write_text(content, "utf-8")

    def _place(self, name: str) -> str:
        # Of strings, as thousands are asked for.
        return f"{self._folder}{os.sep}{name[:2]}{os.sep}{name[2:40]}.json"


class Cache:
    """Findings by file. Nothing here ever raises: what cannot be read or written is not cached."""

    def __init__(self, folder: Path, key: str) -> None:
        self._made_of = folder, key
        self.store = Store(folder, key)
        """For what is kept beside the findings."""
        self._known: dict[str, _States] = {}
        """For each folder the states of what is asked for there."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process looks at files itself.
        return Cache, self._made_of

    def name(self, path: Path, data: bytes, variant: str) -> str:
        """The name of the entry of a file with this content, which is noted for others that ask about the file."""
        place, state = str(path), hashlib.sha256(data).hexdigest()
        folder, _, name = place.rpartition(os.sep)
        self._of_folder(folder)[name] = state
        return _name(place, state, variant)

    def forget(self, path: Path) -> None:
        """Look again at a file that was written, and at what rests on all files."""
        from modellint.source.project.mentions import TREE

        folder, _, name = str(path).rpartition(os.sep)
        self._of_folder(folder).pop(name, None)
        for states in self._known.values():
            states.pop(TREE.removeprefix(os.sep), None)

    def again(self) -> Cache:
        """The same cache, which has looked at no file yet."""
        return Cache(*self._made_of)

    def get(self, path: Path, data: bytes, variant: str) -> list[Diagnostic] | None:
        """The findings kept for this content, or None."""
        stored = self.store.load(self.name(path, data, variant))
        try:
            if self.state_of(stored["consulted"].items()) != stored["state"]:
                return None
            return findings_of(stored["diagnostics"])
        except MALFORMED:
            return None

    def put(
        self,
        path: Path,
        data: bytes,
        variant: str,
        diagnostics: Iterable[Diagnostic],
        consulted: Mapping[str, str | None],
    ) -> None:
        """Keep the findings of a file, by which others were consulted: their hex digests, None for what is not there."""
        findings = tuple(diagnostics)
        # A file may have asked about hundreds of others, most of them in a few folders: one digest stands for all their states.
        folders: defaultdict[str, list[str]] = defaultdict(list)
        for place in sorted(consulted):
            folder, _, name = place.rpartition(os.sep)
            folders[folder].append(name)
        states = [consulted[_path(folder, name)] or _ABSENT for folder, names in folders.items() for name in names]
        entry = {
            "consulted": folders,
            "state": _joined(states),
            "diagnostics": _codec().to_json(findings) if findings else [],
        }
        self.store.save(_name(str(path), hashlib.sha256(data).hexdigest(), variant), entry)

    def state_of(self, folders: Iterable[tuple[str, Iterable[str]]]) -> str:
        """One digest of the states of the names that are asked for in each folder."""
        states: list[str] = []
        for folder, names in folders:
            states += self._of_folder(folder).of(names)
        return _joined(states)

    def _of_folder(self, folder: str) -> _States:
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = _States(folder, self._may_be_there)
        return known

    def _may_be_there(self, folder: str) -> bool:
        """Whether a folder may be there, by the listing of the one that it is in: most that are asked about are not."""
        above, _, name = folder.rpartition(os.sep)
        # What is in a drive or a computer of a network cannot be listed everywhere.
        is_listed = above and os.sep == "/" and name not in ("", os.curdir, os.pardir)
        return not is_listed or self._of_folder(above).may_hold(name)


def findings_of(stored: Any) -> list[Diagnostic]:
    """Findings as they were kept. Raises one of ``MALFORMED``."""
    return [] if stored == [] else list(_codec().from_json(stored))


class _States(dict[str, str]):
    """The states of what is asked for in one folder, by name; each is looked at once."""

    def __init__(self, folder: str, may_be_there: Callable[[str], bool]) -> None:
        super().__init__()
        self._folder = folder
        self._may_be_there = may_be_there
        self._is_looked_at = False
        self._present: frozenset[str] | None = None

    def of(self, names: Iterable[str]) -> list[str]:
        """The states of several names, in order."""
        present = self._listed()
        if present is not None:
            # Thousands of files ask about the same hundreds, few of which are there: these are told apart here, a call for each costs.
            for name in names:
                if name not in self and name.casefold() not in present and name.isascii() and "\0" not in name:
                    self[name] = _ABSENT
        return [*map(self.__getitem__, names)]

    def __missing__(self, name: str) -> str:
        from modellint.source.project.mentions import TREE, digest_of_tree

        path = _path(self._folder, name)
        top = path.removesuffix(TREE)
        try:
            if top != path:
                state = digest_of_tree(top)
            elif self.may_hold(name):
                with open(path, "rb") as file:  # noqa: PTH123
                    state = hashlib.sha256(file.read()).hexdigest()
            else:
                state = _ABSENT
        except OSError:
            state = _ABSENT
        self[name] = state
        return state

    def may_hold(self, name: str) -> bool:
        """Whether the folder lists a name: most of what is asked for is in no folder, and to list one costs less than to try each."""
        present = self._listed()
        # Files of a folder that may not be listed can be read all the same.
        return present is None or not name.isascii() or name.casefold() in present

    def _listed(self) -> frozenset[str] | None:
        """The names in the folder, in one case, as some file systems take any; None where it may not be listed."""
        if not self._is_looked_at:
            self._is_looked_at = True
            try:
                entries = os.listdir(self._folder or os.sep) if self._may_be_there(self._folder) else ()  # noqa: PTH208
                self._present = frozenset(map(str.casefold, entries))
            except (FileNotFoundError, NotADirectoryError):
                self._present = frozenset()
            except OSError:
                self._present = None
        return self._present


def _path(folder: str, name: str) -> str:
    return f"{folder}{os.sep}{name}"


def _joined(states: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(states).encode()).hexdigest()


def _name(place: str, state: str, variant: str) -> str:
    return digest((place.encode("utf-8", "surrogatepass"), state.encode(), variant.encode("utf-8", "surrogatepass")))
