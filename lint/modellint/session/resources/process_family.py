"""The processes that a worker starts: who they are, how much memory they take, and their end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 1, 36, 37
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
    process = psutil.Process()
    with contextlib.suppress(psutil.Error, OSError, ValueError):
        # What is mapped already and may be written counts too.
        limit = process.memory_info().data + amount
        _, hard = process.rlimit(psutil.RLIMIT_DATA)
        if hard == psutil.RLIM_INFINITY or limit < hard:
            process.rlimit(psutil.RLIMIT_DATA, (limit, limit))


def volunteer_for_the_oom_killer() -> None:
    """If memory runs out all the same, the kernel is to choose this process."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def available_memory() -> int:
    """The bytes that new processes can use, of the machine and of a container's share."""
    memory = psutil.virtual_memory()
    # macOS makes room by compressing what others hold.
    shares: list[int] = [memory.total if sys.platform == "darwin" else memory.available]
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            shares.append(max(0, int(Path(limit).read_text()) - int(Path(used).read_text())))
    return min(shares)


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


class Family:
    """A worker and all that descends from it, also what it leaves behind.

    While the family is entered, orphans of the worker become children of this process (Linux), and are known by that.
    """

    def __init__(self) -> None:
        self._parent = psutil.Process()
        self._worker: psutil.Process | None = None
        self._known: set[psutil.Process] = set()
        self._seen: set[psutil.Process] = set()
        self._others: set[psutil.Process] = set()
        """Children that were there before the worker."""
        self._was_reaper = 0
        self._on_terminate: Any = None
        self._next = 0.0

    def __enter__(self) -> Family:
        self._others = set(self._parent.children())
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
        self._worker = psutil.Process(worker)

    def _look(self) -> set[psutil.Process]:
        """All members that are alive; members seen once are not lost when their parents end."""
        began = time.monotonic()
        descendants = self._parent.children(recursive=True)
        # Where nobody adopts orphans for us, those that are known lead to theirs.
        for lost in self._known.difference(descendants):
            with contextlib.suppress(psutil.Error):
                if lost.is_running():
                    descendants += [lost, *lost.children(recursive=True)]
        others = {process.pid for process in self._others}
        members = set()
        for process in descendants:
            with contextlib.suppress(psutil.Error):
                if process in self._others or process.ppid() in others:
                    others.add(process.pid)
                elif process.is_running() and process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                    members.add(process)
        self._known = members
        self._seen |= members
        self._next = time.monotonic() + max(0.1, 20 * (time.monotonic() - began))
        return members

    def memory(self) -> int:
        """The bytes of memory that all members hold."""
        if time.monotonic() >= self._next:
            self._look()
        return sum(map(_resident, self._known))

    def exact_memory(self) -> int:
        """The same, with pages that members share counted once; it takes longer."""
        return sum(map(_proportional, self._known))

    def signal_worker(self, number: int) -> None:
        """Send a signal to the first process alone."""
        if self._worker is not None:
            with contextlib.suppress(psutil.Error, OSError):
                self._worker.send_signal(number)

    @property
    def is_bomb(self) -> bool:
        """Whether there are more members than any model needs."""
        return len(self._known) > MOST

    def kill(self) -> None:
        """End every member, those that appear meanwhile too."""
        if self._worker is None:
            return
        quiet = 0
        for _ in range(200):
            if sys.platform != "win32":
                with contextlib.suppress(OSError):
                    os.killpg(self._worker.pid, signal.SIGKILL)
            members = self._look()
            # What is stopped starts nothing more.
            for end in (psutil.Process.suspend, psutil.Process.kill):
                for process in members:
                    with contextlib.suppress(psutil.Error, OSError):
                        end(process)
            quiet = 0 if members else quiet + 1
            if quiet == 2:
                break
            time.sleep(0.005)
        if sys.platform != "win32":
            for process in self._seen - {self._worker}:
                with contextlib.suppress(OSError):
                    os.waitpid(process.pid, os.WNOHANG)


def _resident(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error, OSError):
        return process.memory_info().rss
    return 0


def _proportional(process: psutil.Process) -> int:
    """With a share of the pages that it has in common with others, where the system tells."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(psutil.Error, OSError):
            return process.memory_full_info().pss
    return _resident(process)
