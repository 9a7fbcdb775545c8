"""Compare `modellint shapes` on inputs of two sizes: whole commands, side by side, their time and their peak memory.

python benchmarks/shapes.py [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

MODEL = """\
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        return self.pool(F.relu(self.conv2(x)))
"""

WANTED = (
    "[1024,6,28,28]",
    "[1024,6,14,14]",
    "[1024,16,10,10]",
    "[1024,16,5,5]",
    "[1024,120]",
    "[1024,84]",
    "[1024,10]",
)
LIMIT = 1.3


class Cost(NamedTuple):
    """What a command and the processes that it started took."""

    seconds: float
    peak: float
    """Of the largest process, in MB."""
    output: str


def cost(folder: Path, name: str, shape: str) -> Cost:
    command = [sys.executable, "-m", "modellint", "shapes", f"model.py:{name}", "--input", shape]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    # The kernel counts in KiB, macOS in bytes; processes that were waited for count too.
    return Cost(seconds, usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3), output)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="runs of each, in turn (default: 7)")
    arguments = parser.parse_args()
    cases = {
        "Net, 1024x3x32x32": ("Net", "1024x3x32x32"),
        "Body, 1024x3x32x32": ("Body", "1024x3x32x32"),
        "Body, 1024x3x65536x65536": ("Body", "1024x3x65536x65536"),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.py").write_text(MODEL, "utf-8")
        runs: dict[str, list[Cost]] = {case: [] for case in cases}
        for number in range(arguments.rounds + 1):
            for case, (model, shape) in cases.items():
                found = cost(folder, model, shape)
                print(f"round {number}: {case}: {found.seconds:.2f} s, {found.peak:.0f} MB", file=sys.stderr)
                # The first round fills the caches of files.
                if number:
                    runs[case].append(found)
    print(f"{'':28}{'seconds':>9}{'peak MB':>9}")
    middle = {}
    for case, found in runs.items():
        seconds = statistics.median(one.seconds for one in found)
        peak = statistics.median(one.peak for one in found)
        middle[case] = seconds, peak
        print(f"{case:28}{seconds:9.2f}{peak:9.0f}")
    small, large = middle["Body, 1024x3x32x32"], middle["Body, 1024x3x65536x65536"]
    time_ratio, memory_ratio = large[0] / small[0], large[1] / small[1]
    print(f"large over small: {time_ratio:.2f} x the time, {memory_ratio:.2f} x the memory; at most {LIMIT} wanted")
    output = runs["Net, 1024x3x32x32"][0].output
    missing = [shape for shape in WANTED if shape not in output]
    print(f"shapes of the six layers that are not printed: {', '.join(missing) or 'none'}")
    return int(bool(missing) or max(time_ratio, memory_ratio) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
