"""The processes that a worker starts: who they are, how much memory they take, and their end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 1, 36, 37
_HAS_PROC = Path("/proc/self/stat").exists()
MOST = 128
"""More processes than that are a bomb."""


def _prctl(option: int, value: int) -> int:
    if not sys.platform.startswith("linux"):
        return -1
    try:
        result: int = ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        return -1
    return result


def die_with_parent(parent: int) -> None:
    """End this process when its parent ends, and those that it forks when it ends; Linux only."""
    if not sys.platform.startswith("linux"):
        return

    def follow() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    follow()
    if os.getppid() != parent:
        os._exit(1)
    os.register_at_fork(after_in_child=follow)


def limit_data(amount: int) -> None:
    """Let this process map so many bytes more than now; Linux only.

    A single huge allocation then fails where it is made, with a traceback, instead of by the watching parent's hand. Mapped
    checkpoints count as well, so the limit must be generous.
    """
    if not sys.platform.startswith("linux"):
        return
    import resource

    with contextlib.suppress(OSError, ValueError):
        # What is mapped already and may be written: field 5 of statm, in pages.
        mapped = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = mapped + amount
        if hard == resource.RLIM_INFINITY or wanted < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (wanted, wanted))


def volunteer_for_the_oom_killer() -> None:
    """If memory runs out all the same, the kernel is to choose this process."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def available_memory() -> int | None:
    """The bytes that new processes can use, of the machine and of a container's share; None where nobody says."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError, KeyError):
        facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        found.append(int(facts["MemAvailable"].split()[0]) * 1024)
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            found.append(max(0, int(Path(limit).read_text()) - int(Path(used).read_text())))
    if not found and sys.platform == "darwin":
        with contextlib.suppress(OSError, ValueError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found) if found else None


class _Process(NamedTuple):
    parent: int
    began: int
    """Tells a process from a later one with the same number."""


def _running() -> dict[int, _Process]:
    """Every process that has not ended."""
    if not _HAS_PROC:
        return {pid: _Process(parent, 0) for pid, parent, _ in _listed()}
    found: dict[int, _Process] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    fields = file.read().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    found[int(name)] = _Process(int(fields[1]), int(fields[19]))
    return found


def _listed() -> list[tuple[int, int, int]]:
    """Process, parent and kilobytes, by ``ps``: for systems without /proc."""
    if sys.platform == "win32":
        return []
    try:
        done = subprocess.run(["ps", "-axo", "pid=,ppid=,rss="], capture_output=True, text=True, check=False, timeout=5)
        return [(int(a), int(b), int(c)) for a, b, c in (line.split() for line in done.stdout.splitlines())]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


class Family:
    """A worker and all that descends from it, also what it leaves behind.

    While the family is entered, orphans of the worker become children of this process (Linux), and are known by that.
    """

    def __init__(self) -> None:
        self._worker = 0
        self._known: dict[int, int] = {}
        self._seen: set[int] = set()
        self._mine: set[int] = set()
        self._was_reaper = 0
        self._on_terminate: Any = None
        self._next = 0.0

    def __enter__(self) -> Family:
        self._mine = {pid for pid, one in _running().items() if one.parent == os.getpid()}
        if sys.platform.startswith("linux"):
            before = ctypes.c_int(0)
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
            self._was_reaper = before.value
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            # By default Python ends on the spot, and what the worker has started would stay.
            self._on_terminate = signal.signal(signal.SIGTERM, _leave)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._on_terminate is not None:
            signal.signal(signal.SIGTERM, self._on_terminate)
        _prctl(_PR_SET_CHILD_SUBREAPER, self._was_reaper)

    def adopt(self, worker: int) -> None:
        """Name the process that all others descend from. It must not be waited for before ``kill``."""
        self._worker = worker

    def _look(self) -> set[int]:
        """All members that are alive; members seen once are not lost when their parents end."""
        began = time.monotonic()
        running = _running()
        below: dict[int, list[int]] = {}
        for pid, one in running.items():
            below.setdefault(one.parent, []).append(pid)
        pending = [
            self._worker,
            *(pid for pid, start in self._known.items() if pid in running and running[pid].began == start),
        ]
        if _HAS_PROC:
            pending += [pid for pid in below.get(os.getpid(), ()) if pid not in self._mine]
        found: set[int] = set()
        while pending:
            pid = pending.pop()
            if pid in running and pid not in found:
                found.add(pid)
                pending.extend(below.get(pid, ()))
        self._known = {pid: running[pid].began for pid in found}
        self._seen |= found
        self._next = time.monotonic() + max(0.1, 20 * (time.monotonic() - began))
        return found

    def memory(self) -> int:
        """The bytes of memory that all members hold."""
        if not self._worker:
            return 0
        if not _HAS_PROC:
            if time.monotonic() < self._next:
                return 0
            members = self._look()
            return 1024 * sum(size for pid, _, size in _listed() if pid in members)
        if time.monotonic() >= self._next:
            self._look()
        return sum(map(_resident, self._known))

    def exact_memory(self) -> int:
        """The same, with pages that members share counted once; it takes longer."""
        return sum(map(_proportional, self._known)) if _HAS_PROC else self.memory()

    def signal_worker(self, number: int) -> None:
        """Send a signal to the first process alone."""
        with contextlib.suppress(OSError):
            os.kill(self._worker, number)

    @property
    def is_bomb(self) -> bool:
        """Whether there are more members than any model needs."""
        return len(self._known) > MOST

    def kill(self) -> None:
        """End every member, those that appear meanwhile too."""
        if not self._worker:
            return
        if sys.platform == "win32":
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                command = ["taskkill", "/T", "/F", "/PID", str(self._worker)]
                subprocess.run(command, capture_output=True, check=False, timeout=5)
            return
        quiet = 0
        for _ in range(200):
            with contextlib.suppress(OSError):
                os.killpg(self._worker, signal.SIGKILL)
            members = self._look()
            # What is stopped starts nothing more.
            for one in (signal.SIGSTOP, signal.SIGKILL):
                _signal(members, one)
            quiet = 0 if members else quiet + 1
            if quiet == 2:
                break
            time.sleep(0.005)
        for pid in self._seen - {self._worker}:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def _signal(members: Iterable[int], number: signal.Signals) -> None:
    for pid in members:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _proportional(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(pid)
