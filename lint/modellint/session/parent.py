"""The parent's side of a live check: one fresh process a target, watched, and ended with all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from modellint.live.code import places
from modellint.results.verification import Verification
from modellint.run import UsageError
from modellint.session import target_failure as failed
from modellint.session.messages import (
    MESSAGE,
    START,
    Action,
    Answer,
    Export,
    ExportLanguageModel,
    ExportPipeline,
    InternalError,
    Limits,
    Message,
    Partial,
    Provisional,
    Refusal,
    Request,
    Restart,
    Stage,
    Start,
    Verify,
)
from modellint.session.resources.process_family import MOST, Family, available_memory

_LARGEST_RESULT = 64 * 1024**2
_MOST_OUTPUT = 256 * 1024
_TICK = 0.05
_LATE = "took longer than the time-out"
_UNREADABLE = "sent a result that cannot be read"
_START = "import sys; del sys.path[0]; sys.path += sys.argv[1:]; from modellint.session.worker import main; main()"


_DEFAULT = Limits()


Progress = Callable[[str, float], None]
"""Told the stage and the seconds since the start, again and again."""


def check_target(request: Request, limits: Limits = _DEFAULT, progress: Progress | None = None) -> Answer:
    """Build, run and check a target in a process of its own.

    Whatever its code does comes back as a finding (LNT003). Raises ``UsageError`` for a target or inputs that do not exist.
    """
    if request.location.file is not None:
        places.remember(str(request.location.file))
    began = time.monotonic()
    for again in (False, True):
        with Family() as family, tempfile.TemporaryFile() as trace:
            answer = _Watch(request, limits, family, trace, progress, began, again).result()
        if answer is not None:
            return answer
    raise AssertionError("a worker that was told to build on the CPU asked to do so")


class _Watch:
    """One worker from start to end."""

    def __init__(
        self,
        request: Request,
        limits: Limits,
        family: Family,
        trace: IO[bytes],
        progress: Progress | None,
        began: float,
        again: bool,
    ) -> None:
        self._request = request
        self._limits = limits
        self._family = family
        self._trace = trace
        self._progress = progress
        self._stage = "starting"
        self._partial: Verification | None = None
        """What a verification knew last, in case that it comes no further."""
        self._provisional: Answer | None = None
        """An answer that only lacks what may add to it."""
        self._output: deque[bytes] = deque()
        self._messages: queue.Queue[bytes | None] = queue.Queue()
        self._began = began
        self._again = again
        self._memory = int(available_memory() * 0.9) if limits.memory is None else limits.memory

    def result(self) -> Answer | None:
        """Run the worker; then there is nothing left of it. None where it is to be run again, on the CPU from the start."""
        process, results = self._start()
        readers = [
            threading.Thread(target=self._read_output, args=(process.stdout,), daemon=True),
            threading.Thread(target=self._read_results, args=(results,), daemon=True),
        ]
        for reader in readers:
            reader.start()
        try:
            message = self._watched(process)
        finally:
            self._family.kill()
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            for reader in readers:
                reader.join(0.2)
        if isinstance(message, str):
            message = self._last_words(process, message)
        match message:
            case Answer():
                return self._with_output(message)
            case Refusal(reason):
                raise UsageError(reason)
            case Restart() if not self._again:
                return None
            case InternalError(reason):
                self._stage = "checking"
                message = f"failed in modellint itself: {reason}"
        reason = message if isinstance(message, str) else _UNREADABLE
        if self._provisional is not None:
            return self._with_output(_unfinished(self._provisional, reason))
        return self._cannot_run(reason)

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        results, theirs = os.pipe()
        trace = self._trace.fileno()
        options: dict[str, Any] = {}
        if sys.platform == "win32":
            import msvcrt

            descriptors = [msvcrt.get_osfhandle(descriptor) for descriptor in (theirs, trace)]
            for descriptor in descriptors:
                os.set_handle_inheritable(descriptor, True)
            options["startupinfo"] = subprocess.STARTUPINFO(lpAttributeList={"handle_list": descriptors})
        else:
            descriptors = [theirs, trace]
            options |= {"start_new_session": True, "pass_fds": descriptors}
        folder = _written_in(self._request.action)
        if folder is not None:
            options["env"] = {**os.environ, "TMPDIR": folder, "TMP": folder, "TEMP": folder}
        paths = [path for path in sys.path if path and Path(path) != Path.cwd()]
        process = subprocess.Popen(
            [sys.executable, "-c", _START, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **options,
        )
        self._family.adopt(process.pid)
        os.close(theirs)
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(START.to_json(self._start_message(*descriptors))).encode("utf-8"))
            process.stdin.close()
        return process, results

    def _start_message(self, results: int, trace: int) -> Start:
        # Generous, as maps of checkpoints count: what really takes memory is watched from here.
        memory = 2 * self._memory + 4 * 1024**3
        return Start(self._request, self._limits.timeout, memory, not self._again, results, trace, os.getpid())

    def _read_output(self, stream: IO[bytes]) -> None:
        size = 0
        while data := os.read(stream.fileno(), 65536):
            self._output.append(data)
            size += len(data)
            while size - len(self._output[0]) > _MOST_OUTPUT:
                size -= len(self._output.popleft())

    def _read_results(self, descriptor: int) -> None:
        size, rest = 0, b""
        while data := os.read(descriptor, 65536):
            size += len(data)
            if size > _LARGEST_RESULT:
                break
            *lines, rest = (rest + data).split(b"\n") if b"\n" in data else (rest + data,)
            for line in lines:
                self._messages.put(line)
        self._messages.put(None)
        os.close(descriptor)

    def _watched(self, process: subprocess.Popen[bytes]) -> Message | str:
        """The worker's answer, or why there is none: then it is about to be killed, or has ended."""
        deadline = self._began + self._limits.timeout
        while True:
            now = time.monotonic()
            if now >= deadline:
                self._ask_where()
                return f"{_LATE} of {self._limits.timeout:g} s"
            if self._progress is not None:
                self._progress(self._stage, now - self._began)
            try:
                line = self._messages.get(timeout=min(_TICK, deadline - now))
            except queue.Empty:
                if _has_ended(process):
                    return ""
                if reason := self._too_much():
                    self._ask_where()
                    return reason
                continue
            if line is None:
                return "" if _ends_soon(process) else "closed the pipe that its result goes through"
            if (message := self._heard(line)) is not None:
                return message

    def _heard(self, line: bytes) -> Message | str | None:
        """What a line says that ends the session; None where it only tells how far the worker has come."""
        match message := _parsed(line):
            case Stage(name):
                self._stage = name
            case Partial(verification):
                self._partial = verification
            case Provisional(answer):
                self._provisional = answer
            case _:
                return _UNREADABLE if message is None else message
        return None

    def _too_much(self) -> str:
        limit, used = self._memory, self._family.memory()
        if self._family.is_bomb:
            return f"started more than {MOST} processes"
        if used <= limit or self._family.exact_memory() <= limit:
            return ""
        if self._limits.memory is not None:
            return f"used more than {limit // 1024**2} MB of memory"
        return f"used more memory than there is, {limit // 1024**2} MB"

    def _ask_where(self) -> None:
        """Make the worker dump its stack."""
        if sys.platform == "win32":
            return
        self._family.signal_worker(signal.SIGUSR2)
        seen = -1
        for _ in range(15):
            time.sleep(0.02)
            size = os.fstat(self._trace.fileno()).st_size
            if size and size == seen:
                return
            seen = size

    def _last_words(self, process: subprocess.Popen[bytes], reason: str) -> Message | str:
        """An answer that was sent just before the end; else the reason, or how the process ended."""
        while not reason and not self._messages.empty():
            message = self._heard(self._messages.get() or b"")
            if message is not None and not isinstance(message, str):
                return message
        if reason:
            return reason
        status = process.returncode
        if status is None:
            return "ended the process without a result"
        if status >= 0:
            return f"ended the process with exit status {status}"
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        hint = "; the system may have run out of memory" if name == "SIGKILL" else ""
        return f"was killed by {name}{hint}"

    def _cannot_run(self, reason: str) -> Answer:
        project = places.Project(self._request.root)
        self._trace.seek(0)
        dump = self._trace.read().decode("utf-8", "replace")
        frames = failed.frames_of_dump(dump, project)
        file = self._request.location.file
        finding = failed.cannot_run(
            self._request.target.text,
            self._stage,
            reason,
            frames,
            folder=self._request.folder,
            otherwise=None if file is None else failed.definition(str(file), self._request.target.name),
            advice=("give it more with --timeout SECONDS",) if reason.startswith(_LATE) else (),
        )
        return self._with_output(Answer((finding,), failed=True, verification=self._partial))

    def _with_output(self, result: Answer) -> Answer:
        text = b"".join(self._output)[-_MOST_OUTPUT:].decode("utf-8", "replace")
        tail = [line[:200] for line in text.strip().splitlines()[-6:]]
        findings = []
        for finding in result.diagnostics:
            if finding.code == "LNT003" and tail:
                lines = [*filter(None, (finding.help,)), "the last that it printed:", *(f"  {line}" for line in tail)]
                finding = finding._replace(help="\n".join(lines))
            findings.append(finding)
        return result._replace(diagnostics=tuple(findings), output=text)


def _unfinished(answer: Answer, reason: str) -> Answer:
    """An export that leads to no package, of which nobody knows whether another way does."""
    if answer.exported is None:
        return answer
    note = f"what else may lead to a package was not tried to the end: trying it {reason}"
    exported = replace(answer.exported, notes=(*answer.exported.notes, note))
    return answer._replace(exported=exported, unfinished=reason)


def _written_in(action: Action) -> str | None:
    """The folder that all goes into that a worker writes, where it writes anything."""
    match action:
        case Export(package=path) | ExportLanguageModel(package=path) | Verify(record=Path() as path):
            return str(path.parent)
        case ExportPipeline(folder=folder):
            return str(folder)
    return None


def _parsed(line: bytes) -> Message | None:
    try:
        return MESSAGE.from_json(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended; it stays a zombie where that is possible, so that its number is not given away."""
    if hasattr(os, "waitid"):
        try:
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except OSError:
            return True
    return process.poll() is not None


def _ends_soon(process: subprocess.Popen[bytes]) -> bool:
    for _ in range(20):
        if _has_ended(process):
            return True
        time.sleep(0.02)
    return False
