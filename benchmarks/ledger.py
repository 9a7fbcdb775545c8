"""Results as lines of JSON, kept as they come, and the watch over the process that writes them.

A worker says what it begins and what came of it. One that dies or falls silent is started again and goes on behind what it
was at, which is written down as lost.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MORE = 3
"""The exit status of a worker that wants to go on in a fresh process."""


class Ledger:
    """A file with a line for each thing begun and each result."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        self.begun: dict[str, None] = {}
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                try:
                    row = json.loads(line)
                except json.JSONDecodeError:
                    # The last line of a process that was killed.
                    continue
                self.begun[row["name"]] = None
                if not row.get("begun"):
                    self.rows[row["name"]] = row

    @property
    def lost(self) -> list[str]:
        """What was begun and never ended."""
        return [name for name in self.begun if name not in self.rows]

    def begin(self, name: str) -> None:
        """Say what comes next."""
        self.begun[name] = None
        self._write({"name": name, "begun": True})

    def finish(self, row: dict[str, Any]) -> None:
        """Keep a result."""
        self.rows[row["name"]] = row
        self._write(row)

    def _write(self, row: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")


def supervise(command: Sequence[str], path: Path, silence: float) -> None:
    """Run a worker that writes to the ledger at ``path`` until it exits with 0; ``silence``: seconds after which it is killed."""
    path.touch()
    while True:
        process = subprocess.Popen(command, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        size, since, why = path.stat().st_size, time.monotonic(), ""
        while process.poll() is None:
            time.sleep(1)
            if path.stat().st_size != size:
                size, since = path.stat().st_size, time.monotonic()
            elif time.monotonic() - since > silence:
                why = f"nothing for {silence:.0f} s"
                process.kill()
                process.wait()
        if process.returncode == 0:
            return
        if process.returncode == MORE:
            continue
        ledger = Ledger(path)
        lost = ledger.lost
        if not lost:
            raise SystemExit(f"the worker ended with {process.returncode} before it began anything")
        for name in lost:
            ledger.finish({"name": name, "lost": why or f"the process ended with {process.returncode}"})
        print(f"{why or process.returncode}: {', '.join(lost)}; starting again", file=sys.stderr, flush=True)


def printed_row(command: Sequence[str], environment: dict[str, str], seconds: float) -> dict[str, Any]:
    """The row that a process of its own prints last; under ``lost`` why there is none."""
    try:
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=seconds, check=True
        )
    except subprocess.TimeoutExpired:
        return {"lost": f"more than {seconds:g} s"}
    except subprocess.CalledProcessError as error:
        return {"lost": error.stderr[-300:]}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row
