"""Atomic output: a folder beside the target, in which a package is made and from which it is moved into place when it is whole.

Whoever is killed meanwhile leaves nothing: a second process, which runs this file, waits for the end of the first one and clears
up. What that one did not get to do, if it was killed too, the next run does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_PREFIX = ".modellint-"
_LOCK, _NAME, _OLD, _WHOLE = "lock", "target", "old", "whole"
_EXCHANGE = 2
_BEGINS = 1.0
"""Seconds within which a run has locked its folder."""
_AT_FDCWD = -100 if sys.platform.startswith("linux") else -2


class NotPlaced(Exception):
    """What was made could not be put where it belongs; the message says why. What was there is still there."""


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """An empty folder beside ``target``, that is gone when the block is left, however this process ends.

    Raises ``OSError`` where the folder cannot be made.
    """
    parent = target.absolute().parent
    clear(parent)
    folder = parent / f"{_PREFIX}{secrets.token_hex(8)}"
    watch = _watch(folder)
    try:
        folder.mkdir()
        (folder / _NAME).write_text(target.name, "utf-8", "surrogateescape")
        with _locked(folder):
            yield folder
    finally:
        recover(folder)
        if watch is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                watch.communicate(b"done", 5.0)


def place(source: Path, target: Path, replace: bool) -> None:
    """Move what was made in a staged folder to its target; with ``replace`` something may be there, until it is exchanged.

    Raises ``NotPlaced``.
    """
    try:
        if not replace or not os.path.lexists(target):
            # A folder takes the place of an empty one only, and of no file.
            os.rename(source, target)  # noqa: PTH104
        elif not _exchanged(source, target):
            old = source.parent / _OLD
            os.rename(target, old)  # noqa: PTH104
            try:
                os.rename(source, target)  # noqa: PTH104
            except OSError:
                os.rename(old, target)  # noqa: PTH104
                raise
    except OSError as error:
        raise NotPlaced(f"{target}: cannot be written: {error.strerror or error}") from None


def place_all(sources: Sequence[Path], folder: Path, replace: bool) -> None:
    """Move several packages, each in a folder of its own in a staged one, into ``folder``: all of them or none.

    A folder that is not there yet comes into being in one step, with all packages in it. Raises ``NotPlaced``.
    """
    if not os.path.lexists(folder):
        whole = sources[0].parent.parent / _WHOLE
        try:
            whole.mkdir()
            for source in sources:
                os.rename(source, whole / source.name)  # noqa: PTH104
        except OSError as error:
            raise NotPlaced(f"{folder}: cannot be written: {error.strerror or error}") from None
        place(whole, folder, False)
        return
    done: list[tuple[Path, bool]] = []
    try:
        for source in sources:
            was_there = os.path.lexists(folder / source.name)
            place(source, folder / source.name, replace)
            done.append((source, was_there))
    except NotPlaced:
        for source, was_there in reversed(done):
            _take_back(source, folder / source.name, was_there)
        raise


def _take_back(source: Path, target: Path, was_there: bool) -> None:
    """Undo a ``place``; what it replaced is where the package was made, or beside it."""
    with contextlib.suppress(OSError):
        if was_there and os.path.lexists(source) and _exchanged(source, target):
            return
        os.rename(target, source.parent / f"{source.name}.new")  # noqa: PTH104
        if was_there:
            os.rename(source.parent / _OLD, target)  # noqa: PTH104


def clear(parent: Path) -> None:
    """Remove what runs that were killed have left in a folder; those that go on are left alone."""
    with contextlib.suppress(OSError):
        for folder in parent.glob(f"{_PREFIX}*"):
            if _is_abandoned(folder):
                recover(folder)


def recover(folder: Path) -> None:
    """Remove a staged folder; what was taken out of the target's place for something that never came is put back."""
    with contextlib.suppress(OSError):
        old = folder / _OLD
        target = folder.parent / (folder / _NAME).read_text("utf-8", "surrogateescape")
        if os.path.lexists(old) and not os.path.lexists(target):
            os.rename(old, target)  # noqa: PTH104
    for _ in range(100):
        # A writer that is about to end may put something into it once more.
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)


def _exchanged(first: Path, second: Path) -> bool:
    """Let two paths change places at once, so that at no time nothing is at either; False where the system cannot."""
    names = {"linux": "renameat2", "darwin": "renameatx_np"}
    name = next((name for system, name in names.items() if sys.platform.startswith(system)), None)
    if name is None:
        return False
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
        done = function(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), ctypes.c_uint(_EXCHANGE))
    except (OSError, AttributeError):
        return False
    return bool(done == 0)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """While this process lives, others see that it does."""
    with (folder / _LOCK).open("wb") as file:
        with contextlib.suppress(OSError, ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _is_abandoned(folder: Path) -> bool:
    lock = folder / _LOCK
    try:
        import fcntl

        if time.time() - (lock if lock.exists() else folder).stat().st_mtime < _BEGINS:
            return False
        if lock.exists():
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, ImportError):
        # In use, or on a system that cannot tell.
        return False
    return True


def _watch(folder: Path) -> subprocess.Popen[bytes] | None:
    """The process that clears up when this one has ended."""
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, os.fspath(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # What ends a whole group, as Ctrl-C does, is not for it.
            start_new_session=True,
        )
    except OSError:
        return None


if __name__ == "__main__":
    # The end of standard input is the end of whoever holds its other end, unless that one says that it is done.
    if not sys.stdin.buffer.read():
        for _ in range(2):
            # A worker ends with its parent, but a moment later.
            time.sleep(0.25)
            recover(Path(sys.argv[1]))
