"""Processes that are given seeds, one on a line, and answer with lines of JSON; one that is too slow or dies is replaced."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from ledger import Ledger

SECONDS = 240.0
"""For one seed in a worker; then it is killed."""
EACH = 300
"""Seeds that one worker takes on."""


class Worker:
    """One process, and the seed that it is at."""

    def __init__(self, command: Sequence[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.seed: int | None = None
        self.since = 0.0
        self.done = 0

    def give(self, seed: int) -> None:
        """Have a seed measured."""
        assert self.process.stdin is not None
        self.seed, self.since = seed, time.monotonic()
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What came of it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            self.done += 1
            row: dict[str, Any] = json.loads(line)
            return row
        return {"name": str(self.seed), "lost": f"the process ended with {self.process.wait()}"}

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()


def measure(ledger: Ledger, seeds: Sequence[int], command: Sequence[str], jobs: int, seconds: float = SECONDS) -> None:
    """Have all seeds measured by workers that ``command`` starts, and keep what they answer."""
    waiting = list(reversed(seeds))
    workers: list[Worker] = []
    began, count = time.monotonic(), 0
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(Worker(command))
                workers[-1].give(waiting.pop())
            ready, _, _ = select.select([one.process.stdout for one in workers], [], [], 1.0)
            for one in list(workers):
                row = one.answer() if one.process.stdout in ready else None
                if row is None and time.monotonic() - one.since > seconds:
                    row = {"name": str(one.seed), "lost": f"more than {seconds:.0f} s"}
                if row is None:
                    continue
                ledger.finish(row)
                count += 1
                if count % 50 == 0:
                    print(f"{count} of {len(seeds)}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
                if "lost" in row or one.done >= EACH or not waiting:
                    one.end()
                    workers.remove(one)
                else:
                    one.give(waiting.pop())
    finally:
        for one in workers:
            one.end()


def answer(measured: Callable[[int], dict[str, Any]]) -> int:
    """Be a worker: measure the seeds that come in until there are no more."""
    # Whatever prints is not to print between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for line in sys.stdin:
        try:
            row = measured(int(line))
        except Exception:
            row = {"name": line.strip(), "lost": traceback.format_exc()[-1500:]}
        answers.write(json.dumps(row) + "\n")
        answers.flush()
    return 0
