"""Atomic write: new bytes in the place of a file's old ones, all of them or, if anything goes wrong, none."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Never the name of anything a user wrote, never one that ends in .py; short, whatever the file is called.
_TEMPORARY = re.compile(r"\.modellint-[0-9]+-[0-9a-f]{16}\.tmp\Z")


class ReplaceError(Exception):
    """The file was left as it was; the message says why."""


def replace_file(path: str | os.PathLike[str], old: bytes, new: bytes) -> None:
    """Replace the content ``old`` of a file by ``new``, keeping mode, owner and extended attributes where possible.

    Whatever happens, and whenever the process is killed, the file holds the old bytes or the new ones.
    A symbolic link stays one: the file it leads to is replaced. Raises ``ReplaceError`` if the file no longer
    holds ``old``, is read-only or is no regular file, ``OSError`` if the system refuses.
    """
    target = Path(os.path.realpath(path))
    status = target.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ReplaceError(f"{path} is not a regular file")
    if not os.access(target, os.W_OK):
        # Renaming over it would succeed all the same; whoever made it read-only did not mean that.
        raise ReplaceError(f"{path} is read-only")
    _expect(target, old, path)
    with _staged(target, 0o600, lambda: _expect(target, old, path)) as descriptor:
        _take_over(descriptor, target, status)
        _write(descriptor, new)


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Let a file hold ``data``, whether there is one or not, keeping mode and owner of one that is there.

    Whenever the process is killed, the file holds what it held before or all of ``data``. What is no regular file, such as a pipe
    or a terminal, is written to. Raises ``ReplaceError`` for a file that is read-only, ``OSError`` if the system refuses.
    """
    target = Path(os.path.realpath(path))
    status = target.stat() if target.exists() else None
    if status is not None and not stat.S_ISREG(status.st_mode):
        # By its own name: what /dev/stdout leads to need not be a place in a folder.
        Path(path).write_bytes(data)
        return
    if status is not None and not os.access(target, os.W_OK):
        raise ReplaceError(f"{path} is read-only")
    with _staged(target, 0o666) as descriptor:
        if status is not None:
            _take_over(descriptor, target, status)
        _write(descriptor, data)


@contextmanager
def _staged(target: Path, mode: int, expect: Callable[[], None] = lambda: None) -> Iterator[int]:
    """The descriptor of a new file that takes the place of ``target`` when the block ends, unless ``expect`` raises then."""
    remove_leftovers(target.parent)
    temporary, descriptor = _create(target.parent, mode)
    try:
        try:
            yield descriptor
            os.fsync(descriptor)
            if os.name == "nt":
                # An open file cannot be renamed there.
                os.close(descriptor)
                descriptor = -1
            expect()
            temporary.replace(target)
        finally:
            # Open, and with it locked, until the rename: a file nobody holds is taken for a leftover.
            if descriptor != -1:
                os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def create_file(path: str | os.PathLike[str], new: bytes) -> None:
    """Make a file that is not there yet, whole or not at all; its folder must be there.

    Raises ``ReplaceError`` if something is there already, ``OSError`` if the system refuses.
    """
    target = Path(path).absolute()
    if os.path.lexists(target):
        raise ReplaceError(f"{path} is there already")
    remove_leftovers(target.parent)
    temporary, descriptor = _create(target.parent, 0o666)
    try:
        try:
            _write(descriptor, new)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            # Unlike a rename this takes the place of nothing.
            os.link(temporary, target)
        except FileExistsError:
            raise ReplaceError(f"{path} is there already") from None
        except OSError:
            # Not every file system has links.
            if os.path.lexists(target):
                raise
            temporary.rename(target)
    finally:
        with suppress(OSError):
            temporary.unlink()
    _sync_folder(target.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed runs left in a folder.

    A run holds a lock on its temporary file for as long as it lives, so a file whose lock can be had is
    nobody's. Where there are no locks nothing is removed.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.match(entry.name):
                with suppress(OSError):
                    _remove_if_nobodys(Path(entry.path))


def _expect(target: Path, old: bytes, path: str | os.PathLike[str]) -> None:
    if target.read_bytes() != old:
        raise ReplaceError(f"{path} has changed since it was read")


def _create(folder: Path, mode: int) -> tuple[Path, int]:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    while True:
        temporary = folder / f".modellint-{os.getpid()}-{os.urandom(8).hex()}.tmp"
        descriptor = os.open(temporary, flags, mode)
        _lock(descriptor)
        if os.name == "nt" or os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        # Another run found the file before it was locked, and removed it.
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Hold the file; without ``fcntl`` (on Windows) being open is hold enough."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _remove_if_nobodys(temporary: Path) -> None:
    if os.name == "nt":
        # Refused while another process has the file open.
        temporary.unlink()
        return
    import fcntl

    descriptor = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.unlink()
    finally:
        os.close(descriptor)


def _take_over(descriptor: int, target: Path, status: os.stat_result) -> None:
    """Owner first: to change it clears the set-user bits of the mode."""
    if hasattr(os, "fchown"):
        with suppress(OSError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    if hasattr(os, "fchmod"):
        with suppress(OSError):
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target):
                # Some, security.* above all, are not ours to set.
                with suppress(OSError):
                    os.setxattr(descriptor, name, os.getxattr(target, name))


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable; a folder cannot be opened everywhere."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
