"""What models do to the process that checks them, and what comes of it: a table of trials, each by the command line.

python benchmarks/worker_trials.py [NAME...] [--timeout 20]

Every trial is one model file in an empty project. Checked together with a second, sound target, it must end as LNT003 with
exit status 1 within the time-out and two seconds, or be checked normally; the sound target's own finding must be there,
nothing that the model started may be left, and nothing that it must not run may have run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HEAD = "import os, sys, time, signal, threading, subprocess, ctypes\nimport torch\nfrom torch import nn\n"

SOUND = HEAD + (
    "\n\nclass Sound(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.layers = [nn.Linear(4, 4)]\n\n    def forward(self, x):\n        return self.layers[0](x)\n"
)


class Trial(NamedTuple):
    """One model, and what is wanted of its check."""

    fails: bool
    """Whether LNT003 is wanted; otherwise the finding about the hidden layer that every model has."""
    top: str = "pass"
    """Statements at the top of the module."""
    init: str = "pass"
    forward: str = "pass"
    row: str = ""
    """Text of the line that LNT003 must stand at, where that can be known."""
    options: tuple[str, ...] = ()


TRIALS = {
    "raises in import": Trial(True, top="raise ValueError('import')", row="raise ValueError('import')"),
    "imports what is missing": Trial(True, top="import not_there_at_all", row="import not_there_at_all"),
    "raises in __init__": Trial(True, init="raise ValueError('init')", row="raise ValueError('init')"),
    "raises in forward": Trial(True, forward="raise ValueError('forward')", row="raise ValueError('forward')"),
    "raises BaseException": Trial(True, init="raise KeyboardInterrupt", row="raise KeyboardInterrupt"),
    "raises what cannot be shown": Trial(
        True, top="class Bad(Exception):\n    def __str__(self): os._exit(9)", init="raise Bad()"
    ),
    "sys.exit": Trial(True, init="sys.exit(0)", row="sys.exit(0)"),
    "sys.exit in import": Trial(True, top="sys.exit(0)", row="sys.exit(0)"),
    "os._exit": Trial(True, init="os._exit(0)"),
    "os._exit in forward": Trial(True, forward="os._exit(7)"),
    "os.abort": Trial(True, init="os.abort()", row="os.abort()"),
    "SIGSEGV": Trial(True, init="ctypes.string_at(0)", row="ctypes.string_at(0)"),
    "SIGSEGV in forward": Trial(True, forward="ctypes.string_at(0)", row="ctypes.string_at(0)"),
    "SIGKILL": Trial(True, init="os.kill(os.getpid(), signal.SIGKILL)"),
    "SIGKILL to the group": Trial(True, init="os.killpg(0, signal.SIGKILL)"),
    "SIGSTOP": Trial(True, init="os.kill(os.getpid(), signal.SIGSTOP)"),
    "infinite loop": Trial(True, init="while True: pass", row="while True: pass"),
    "infinite loop in forward": Trial(True, forward="while True: pass", row="while True: pass"),
    "infinite loop, deaf to signals": Trial(
        True, init="[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 10, 12, 15)]\n        while True: pass"
    ),
    "sleeps": Trial(True, top="time.sleep(1000)", row="time.sleep(1000)"),
    "infinite recursion": Trial(
        True, top="def deep(n):\n    return deep(n + 1)", init="deep(0)", row="    return deep(n + 1)"
    ),
    "infinite recursion on the C stack": Trial(
        True,
        top="sys.setrecursionlimit(10**9)\nclass Deep:\n    def __getattr__(self, n): return getattr(self, n + 'x')",
        init="Deep().a",
    ),
    "allocates 100 GB": Trial(True, init="self.big = torch.ones(25 * 10**9)", row="self.big = torch.ones(25 * 10**9)"),
    "allocates 100 GB in pieces": Trial(
        True, init="self.big = [bytearray(b'x' * (1 << 28)) for _ in range(400)]", options=("--memory", "4000")
    ),
    "allocates 100 GB in pieces, no --memory": Trial(
        True, init="self.big = [bytearray(b'x' * (1 << 28)) for _ in range(400)]"
    ),
    "allocates in ten children": Trial(
        True,
        init="pids = [os.fork() for _ in range(1)]\n        big = bytearray(b'x' * (1 << 30)) * 3\n        time.sleep(1000)",
        options=("--memory", "3000"),
    ),
    "fork bomb of ten": Trial(True, init="for _ in range(10): os.fork()\n        time.sleep(1000)"),
    "fork bomb of ten that go on": Trial(True, init="for _ in range(10): os.fork()\n        while True: pass"),
    "reads stdin": Trial(True, init="self.answer = input('name? ')", row="self.answer = input('name? ')"),
    "malicious checkpoint": Trial(True, options=("--checkpoint", "evil.pt")),
    "writes rubbish to every pipe": Trial(
        True,
        top="def spoil(n):\n    try: os.write(n, b'rubbish\\n')\n    except OSError: pass",
        init="[spoil(n) for n in range(3, 64)]",
    ),
    "closes every pipe": Trial(True, init="os.closerange(3, 4096)\n        time.sleep(1000)"),
    "prints a megabyte": Trial(False, top="print('x' * 10**6)", init="sys.stderr.write('y' * 10**6)"),
    "prints without end": Trial(True, init="while True: print('z' * 1000)", row="while True: print('z' * 1000)"),
    "closes stdout": Trial(False, top="sys.stdout.close(); os.close(2)"),
    "changes directory": Trial(False, top="os.chdir('/')"),
    "leaves a thread": Trial(
        False, init="threading.Thread(target=lambda: [time.sleep(1) for _ in range(1000)]).start()"
    ),
    "leaves a child": Trial(False, init="subprocess.Popen(['sleep', '987'])"),
    "leaves a child in a session of its own": Trial(
        False, init="subprocess.Popen(['sleep', '987'], start_new_session=True, env={})"
    ),
    "leaves a daemon": Trial(
        False,
        init="subprocess.Popen(['sh', '-c', 'setsid sleep 987 & setsid sleep 987 &'], env={'PATH': os.environ['PATH']}).wait()",
    ),
    "forks and both go on": Trial(False, init="os.fork()"),
    "deletes its own source": Trial(False, top="os.remove(__file__)"),
    "patches nn.Module.__init__": Trial(
        False,
        top=(
            "old = nn.Module.__init__\ndef init(self, *a, **k):\n    old(self, *a, **k)\n    self.patched = True\n"
            "nn.Module.__init__ = init"
        ),
    ),
    "patches json and the streams": Trial(
        False, top="import json\njson.dumps = json.loads = os._exit = None\nsys.stdout = sys.stderr = None"
    ),
    "seeds the RNG": Trial(False, init="torch.manual_seed(5)", forward="torch.manual_seed(7)"),
    "hides our modules": Trial(False, top="open('json.py', 'w').write('raise SystemExit(3)')"),
    "a warning turned into an error": Trial(False, top="import warnings\nwarnings.simplefilter('error')"),
}


def source(trial: Trial) -> str:
    """The text of a trial's model."""
    return (
        f"{HEAD}\n{trial.top}\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        {trial.init}\n        self.layers = [nn.Linear(4, 4)]\n\n    def forward(self, x):\n"
        f"        {trial.forward}\n        return self.layers[0](x)\n"
    )


class Evil:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.mark}",)


class Outcome(NamedTuple):
    """What a trial gave."""

    problem: str
    seconds: float
    message: str


def run(trial: Trial, folder: Path, timeout: float) -> Outcome:
    """Check a trial's model beside a sound one, and judge what comes."""
    (folder / "pyproject.toml").write_text("", "utf-8")
    text = source(trial)
    (folder / "net.py").write_text(text, "utf-8")
    (folder / "sound.py").write_text(SOUND, "utf-8")
    mark = folder / "ran"
    (folder / "evil.pt").write_bytes(pickle.dumps(Evil(mark)))
    command = [sys.executable, "-m", "modellint", "check", "net.py:Net", "--input", "2x4", "--no-cache", *trial.options]
    command += ["--output-format", "json", "--timeout", str(timeout), "-v"]
    if "--checkpoint" not in trial.options:
        command.insert(5, "sound.py:Sound")
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            out, err = process.communicate(timeout=2 * timeout + 20)
        except subprocess.TimeoutExpired:
            process.terminate()
            return Outcome("did not end", time.monotonic() - began, "")
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    took = re.search(r"^net\.py:Net: ([\d.]+) s", err, re.MULTILINE)
    seconds = float(took[1]) if took is not None else math.inf
    return Outcome(_judged(trial, text, done, mark, command), seconds, _message(done.stdout))


def _findings(stdout: str) -> list[dict[str, object]]:
    try:
        return list(json.loads(stdout))
    except ValueError:
        return []


def _message(stdout: str) -> str:
    return next((str(one["message"]) for one in _findings(stdout) if one["code"] == "LNT003"), "")


def _judged(trial: Trial, text: str, done: subprocess.CompletedProcess[str], mark: Path, command: list[str]) -> str:
    found = _findings(done.stdout)
    failures = [one for one in found if one["code"] == "LNT003"]
    live = [one for one in found if one["code"] == "REG001" and one["evidence"] != "source"]
    targets = {one["target"] for one in live}
    if done.returncode != 1:
        return f"exit status {done.returncode}: {(done.stderr or done.stdout)[-300:]}"
    if mark.exists():
        return "the pickle ran"
    if "sound.py:Sound" in command and "sound.py:Sound" not in targets:
        return "the sound target was not checked"
    if trial.fails:
        if [one["target"] for one in failures] != ["net.py:Net"]:
            return f"{len(failures)} LNT003"
        location = failures[0]["location"]
        if trial.row and isinstance(location, dict):
            row = text.splitlines()[location["row"] - 1].strip()
            if row != trial.row.strip():
                return f"stands at {row!r}"
    elif failures or "net.py:Net" not in targets:
        return f"not checked: {_message(done.stdout)}"
    return ""


def left_over(folder: str) -> int:
    """How many processes that a trial started are still there; Linux only."""
    found = 0
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            found += str(place.readlink()).startswith(folder)
        except OSError:
            continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="Parts of the names of trials.")
    parser.add_argument("--timeout", type=float, default=20.0, help="Seconds for each target (default: 20).")
    options = parser.parse_args()
    chosen = {
        name: one for name, one in TRIALS.items() if not options.names or any(part in name for part in options.names)
    }
    print("| trial | wanted | outcome | seconds | LNT003 says |\n|---|---|---|---|---|")
    failed = 0
    for name, trial in chosen.items():
        with tempfile.TemporaryDirectory() as folder:
            outcome = run(trial, Path(folder), options.timeout)
            left = left_over(folder)
        problem = outcome.problem
        if outcome.seconds > options.timeout + 2:
            problem = problem or "too late"
        if left:
            problem = problem or f"{left} processes left"
        failed += bool(problem)
        wanted = "LNT003" if trial.fails else "checked"
        print(
            f"| {name} | {wanted} | {problem or 'as wanted'} | {outcome.seconds:.1f} | {outcome.message} |",
            flush=True,
        )
    print(f"\n{len(chosen) - failed} of {len(chosen)} as wanted")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
