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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from modellint.live.code import places as place
from modellint.results import exported, shape_table, verification
from modellint.results.diagnostic import Diagnostic
from modellint.results.exported import Exported
from modellint.results.shape_table import Table
from modellint.results.verification import Verification
from modellint.session import target_failure as failed
from modellint.session import wire
from modellint.session.processes import MOST, Family, available_memory
from modellint.session.target import Location, Target
from modellint.settings import Destination

_LARGEST_RESULT = 64 * 1024**2
_MOST_OUTPUT = 256 * 1024
_TICK = 0.05
_LATE = "took longer than the time-out"
_START = "import sys; del sys.path[0]; sys.path += sys.argv[1:]; from modellint.session.worker import main; main()"


class UsageError(Exception):
    """The target or its inputs are wrong; the message says how."""


class Request(NamedTuple):
    """Everything that a worker needs to know."""

    target: Target
    location: Location
    root: Path
    folder: Path
    """Where the user is: paths are shown relative to it."""
    rules: Sequence[str]
    """Codes of the rules to ask."""
    destination: Destination = Destination()
    inputs: Sequence[str] = ()
    """As written behind ``--input``; empty for what the target itself returns."""
    input_folder: Path | None = None
    """What files in ``inputs`` are relative to, if not to ``folder``."""
    checkpoint: Path | None = None
    plugins: Sequence[str] = ()
    plugin_base: Path | None = None
    seed: int = 0
    twins: bool = False
    """Whether fixes are wanted that a fixed copy of the model proves."""
    shapes: bool = False
    """Whether the table of shapes is wanted, and not what the rules find."""
    verify: str = ""
    """``outputs`` or ``layers`` where the model is to be verified: how much of the comparison is wanted."""
    package: Path | None = None
    """The saved model that the target is to be compared with, instead of a conversion."""
    export: Mapping[str, Any] | None = None
    """``export_options.Options`` as JSON where the model is to be exported."""
    made: Path | None = None
    """Where the package is to be made: the worker keeps all that it writes in the folder around it."""
    texts: Mapping[str, str] = {}
    """Source that is to be run in the place of what files hold, by their paths."""


class Limits(NamedTuple):
    """What a worker may use."""

    timeout: float = 120.0
    """Seconds, from its start to its end."""
    memory: int | None = None
    """Bytes, of all its processes; None for nearly all that is available."""


_DEFAULT = Limits()


class Answer(NamedTuple):
    """What a live check of one target showed; files are named by absolute paths."""

    diagnostics: tuple[Diagnostic, ...]
    executed: Mapping[str, frozenset[int]] = {}
    """For each file the rows that ran for every instance in the target."""
    asked: frozenset[str] = frozenset()
    """Codes of the rules whose silence means something."""
    failed: bool = False
    """Whether the target was not built, so that it was not checked."""
    notes: tuple[str, ...] = ()
    output: str = ""
    """What the target's code printed, the end of it if it was much."""
    table: Table | None = None
    """The table of shapes, where that was wanted and the target was built."""
    verdict: Mapping[str, Any] | None = None
    """On the conversion, as ``coreml.verdict.to_json`` writes it; None where nobody asked."""
    verification: Verification | None = None
    """Where that was asked for, and the target was built."""
    exported: Exported | None = None
    """Where that was asked for, and the target runs."""
    undecided: Mapping[str, frozenset[str]] = {}
    """For each class that has an instance the attributes of which no instance shows whether a guess about them is right."""


Progress = Callable[[str, float], None]
"""Told the stage and the seconds since the start, again and again."""


def check_target(request: Request, limits: Limits = _DEFAULT, progress: Progress | None = None) -> Answer:
    """Build, run and check a target in a process of its own.

    Whatever its code does comes back as a finding (LNT003). Raises ``UsageError`` for a target or inputs that do not exist.
    """
    if request.location.file is not None:
        place.remember(str(request.location.file))
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
        self._partial: dict[str, Any] | None = None
        """What a verification knew last, in case that it comes no further."""
        self._output: deque[bytes] = deque()
        self._messages: queue.Queue[bytes | None] = queue.Queue()
        self._began = began
        self._again = again
        available = available_memory()
        self._memory = limits.memory
        if self._memory is None and available is not None:
            self._memory = int(available * 0.9)

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
            answer = self._watched(process)
        finally:
            self._family.kill()
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
            for reader in readers:
                reader.join(0.2)
        if isinstance(answer, str):
            answer = self._last_words(process, answer)
        if isinstance(answer, str):
            return self._cannot_run(answer)
        return None if "again" in answer and not self._again else self._understood(answer)

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        results, theirs = os.pipe()
        trace = self._trace.fileno()
        options: dict[str, Any] = {}
        if sys.platform == "win32":
            import msvcrt

            numbers = [msvcrt.get_osfhandle(one) for one in (theirs, trace)]
            for number in numbers:
                os.set_handle_inheritable(number, True)
            options["startupinfo"] = subprocess.STARTUPINFO(lpAttributeList={"handle_list": numbers})
            given = numbers
        else:
            options |= {"start_new_session": True, "pass_fds": (theirs, trace)}
            given = [theirs, trace]
        if self._request.made is not None:
            folder = str(self._request.made.parent)
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
            process.stdin.write(json.dumps(self._asked(given)).encode("utf-8"))
            process.stdin.close()
        return process, results

    def _asked(self, descriptors: Sequence[int]) -> dict[str, Any]:
        request = self._request
        file, module, folders, is_script = request.location
        return {
            "results": descriptors[0],
            "trace": descriptors[1],
            "parent": os.getpid(),
            "target": list(request.target),
            "location": [None if file is None else str(file), module, list(folders), is_script],
            "root": str(request.root),
            "folder": str(request.folder),
            "rules": list(request.rules),
            "destination": list(request.destination),
            "inputs": list(request.inputs),
            "input_folder": str(request.input_folder or request.folder),
            "checkpoint": None if request.checkpoint is None else str(request.checkpoint),
            "plugins": list(request.plugins),
            "plugin_base": str(request.plugin_base or request.root),
            "seed": request.seed,
            "on_meta": not self._again,
            "twins": request.twins,
            "shapes": request.shapes,
            "verify": request.verify,
            "timeout": self._limits.timeout,
            "package": None if request.package is None else str(request.package),
            "export": request.export,
            "made": None if request.made is None else str(request.made),
            "texts": dict(request.texts),
            # Generous, as maps of checkpoints count: what really takes memory is watched from here.
            "memory": None if self._memory is None else 2 * self._memory + 4 * 1024**3,
        }

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

    def _watched(self, process: subprocess.Popen[bytes]) -> dict[str, Any] | str:
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
            match answer := _parsed(line):
                case {"stage": str(stage)}:
                    self._stage = stage
                case {"partial": dict(partial)}:
                    self._partial = partial
                case dict():
                    return answer
                case _:
                    return "sent a result that cannot be read"

    def _too_much(self) -> str:
        limit, used = self._memory, self._family.memory()
        if self._family.is_bomb:
            return f"started more than {MOST} processes"
        if limit is None or used <= limit or self._family.exact_memory() <= limit:
            return ""
        if self._limits.memory is not None:
            return f"used more than {limit // 1024**2} MB of memory"
        return f"used more memory than there is, {limit // 1024**2} MB"

    def _ask_where(self) -> None:
        """Let the worker write down where it is."""
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

    def _last_words(self, process: subprocess.Popen[bytes], reason: str) -> dict[str, Any] | str:
        """An answer that was sent just before the end; else the reason, or how the process ended."""
        while not reason and not self._messages.empty():
            match answer := _parsed(self._messages.get() or b""):
                case {"stage": str(stage)}:
                    self._stage = stage
                case {"partial": dict(partial)}:
                    self._partial = partial
                case dict():
                    return answer
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
        project = place.Project(self._request.root)
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
        known = None
        if self._partial is not None:
            with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
                known = verification.from_json(self._partial)
        return self._with_output(Answer((finding,), failed=True, verification=known))

    def _understood(self, answer: dict[str, Any]) -> Answer:
        if "usage" in answer:
            raise UsageError(str(answer["usage"]))
        if "internal" in answer:
            self._stage = "checking"
            return self._cannot_run(f"failed in modellint itself: {answer['internal']}")
        try:
            found = Answer(
                tuple(map(wire.from_json, answer["diagnostics"])),
                {str(path): _rows(stretches) for path, stretches in answer["executed"].items()},
                frozenset(map(str, answer["asked"])),
                bool(answer["failed"]),
                tuple(map(str, answer["notes"])),
                undecided={str(name): frozenset(map(str, given)) for name, given in answer["undecided"].items()},
                table=None if answer["table"] is None else shape_table.from_json(answer["table"]),
                verdict=answer["verdict"],
                verification=None if answer["verification"] is None else verification.from_json(answer["verification"]),
                exported=None if answer["exported"] is None else exported.from_json(answer["exported"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return self._cannot_run("sent a result that cannot be read")
        return self._with_output(found)

    def _with_output(self, result: Answer) -> Answer:
        text = b"".join(self._output)[-_MOST_OUTPUT:].decode("utf-8", "replace")
        tail = [line[:200] for line in text.strip().splitlines()[-6:]]
        found = []
        for finding in result.diagnostics:
            if finding.code == "LNT003" and tail:
                lines = [*filter(None, (finding.help,)), "the last that it printed:", *(f"  {line}" for line in tail)]
                finding = finding._replace(help="\n".join(lines))
            found.append(finding)
        return result._replace(diagnostics=tuple(found), output=text)


def _rows(stretches: Sequence[tuple[int, int]]) -> frozenset[int]:
    return frozenset(
        row for first, last in stretches for row in range(int(first), min(int(last), int(first) + 10**6) + 1)
    )


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
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
