"""What checks cost, against bare Python, libcst and torch, beside an earlier commit and other linters, in turns in one run.

    python benchmarks/speed_table.py TREE [--before CHECKOUT] [--peers PYTHON] [--rounds 5] [--only WORDS...]

TREE holds some thousands of files, such as transformers unpacked. Rows: a check of its unchanged files, over bare Python; of one clean
file, over importing libcst; --fix of 800 findings in one file; a live check, over importing torch and coremltools, building the model
and running it once; the tree, cold, over parsing it with libcst; the same on two cores, how many times faster. Each row is measured in
turns with what it is measured against, source on one core; the least of each counts. Other linters check some files too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from speed import PARSE_LOOP

CLEAN = '''\
import torch
from torch import nn


class Block{number}(nn.Module):
    """A residual block."""

    def __init__(self, width: int, expansion: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, expansion * width)
        self.down = nn.Linear(expansion * width, width)
        self.register_buffer("scale", torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.down(torch.relu(self.up(self.norm(x))))
        return x + self.scale * y


'''
FIXABLE = """\
from torch import nn


class Net{number}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


"""
MODEL = """\
import torch
from torch import nn


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10)).eval(), (torch.randn(1, 3, 16, 16),)
"""
BARE_LIVE = "import coremltools, torch, net; m, x = net.make(); torch.no_grad().__enter__(); m(*x)"


class Bench:
    """Commands of one checkout: its `modellint`, run from a folder."""

    def __init__(self, name: str, checkout: Path) -> None:
        self.name = name
        path = os.pathsep.join(str(checkout / part) for part in ("lint", "rules"))
        self.environment = {**os.environ, "PYTHONPATH": path}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def seconds(self, arguments: Sequence[str], folder: Path, cores: int = 1, wall: bool = False) -> float:
        return seconds([sys.executable, "-m", "modellint", *arguments], folder, self.environment, cores, wall)


def seconds(
    command: Sequence[str], folder: Path, environment: dict[str, str] | None = None, cores: int = 1, wall: bool = False
) -> float:
    """CPU seconds of a command and its children, or those that passed. Ends the benchmark where it fails."""

    def on_cores() -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[-cores:]))

    before, began = os.times(), time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", preexec_fn=on_cores
    )
    took, after = time.perf_counter() - began, os.times()
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        raise SystemExit(f"{' '.join(command[:8])} ended with {done.returncode}: {done.stderr[-400:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return took if wall else cpu


def row(
    label: str,
    rounds: int,
    benches: Sequence[Bench],
    measure: Callable[[Bench], float],
    reference: Callable[[], float],
    tell: Callable[[float, float], str],
) -> None:
    """Measure each checkout and the reference in turns, and print a line; nothing where the row was not asked for."""
    if not _is_asked(label):
        return
    taken: dict[str, list[float]] = {bench.name: [] for bench in benches}
    references: list[float] = []
    for _ in range(rounds):
        references.append(reference())
        for bench in benches:
            taken[bench.name].append(measure(bench))
    least = min(references)
    cells = "   ".join(f"{name} {tell(min(values), least):>16}" for name, values in taken.items())
    spread = max(statistics.median(values) / min(values) for values in taken.values())
    print(f"{label:52} {cells}   (median over least {spread:.2f})", flush=True)


ONLY: list[str] = []
"""What rows are called that are asked for; all, where nothing is."""


def _is_asked(label: str) -> bool:
    return not ONLY or any(word in label for word in ONLY)


def table(tree: Path, benches: Sequence[Bench], rounds: int, folder: Path) -> None:
    python = sys.executable

    def bare() -> float:
        return seconds([python, "-c", "pass"], folder)

    def parse() -> float:
        listing = folder / "files.txt"
        listing.write_text("\n".join(str(path) for path in sorted(tree.rglob("*.py"))), "utf-8")
        return seconds([python, "-c", PARSE_LOOP, str(listing)], folder)

    def unchanged(bench: Bench) -> float:
        cache = folder / f"cache of {bench.name}"
        command = ["check", "--isolated", "--jobs", "1", "--cache-dir", str(cache), str(tree)]
        if not cache.exists():
            bench.seconds([*command[:3], "2", *command[4:]], folder, cores=2)
        return bench.seconds(command, folder)

    (folder / "clean.py").write_text(
        CLEAN.format(number=0) + "".join(CLEAN.split("\n\n\n", 1)[1].format(number=n) for n in range(1, 25)), "utf-8"
    )
    (folder / "net.py").write_text(MODEL)
    fixable = "".join(FIXABLE.split("\n\n\n", 1)[1].format(number=n) for n in range(800))

    def fix(bench: Bench) -> float:
        (folder / "fixable.py").write_text("from torch import nn\n\n\n" + fixable, "utf-8")
        return bench.seconds(["check", "--isolated", "--no-cache", "--fix", "fixable.py"], folder)

    def cold(bench: Bench, jobs: int, wall: bool = False) -> float:
        command = ["check", "--isolated", "--no-cache", "--jobs", str(jobs), str(tree)]
        return bench.seconds(command, folder, cores=jobs, wall=wall)

    few = max(1, rounds // 3)
    single = ["check", "--isolated", "--no-cache", "clean.py"]
    row(
        f"{len(list(tree.rglob('*.py')))} unchanged files, over bare Python",
        rounds, benches, unchanged, bare, lambda ours, least: f"{1000 * (ours - least):.0f} ms",
    )  # fmt: skip
    floor = min(bare() for _ in range(rounds))
    row(
        "one clean file of 400 lines, over importing libcst", 3 * rounds, benches,
        lambda bench: bench.seconds(single, folder), lambda: seconds([python, "-c", "import libcst"], folder),
        lambda ours, least: f"{(ours - floor) / (least - floor):.2f} x",
    )  # fmt: skip
    row("--fix of 800 findings in one file", few, benches, fix, bare, lambda ours, _: f"{ours:.2f} s")
    row(
        "a live check, over imports, building and running", rounds, benches,
        lambda bench: bench.seconds(["check", "--isolated", "--no-cache", "net.py:make"], folder, cores=2),
        lambda: seconds([python, "-c", BARE_LIVE], folder, cores=2), lambda ours, least: f"{ours / least:.2f} x",
    )  # fmt: skip
    row(
        "the tree, cold, over parsing it with libcst", few, benches,
        lambda bench: cold(bench, 1), parse, lambda ours, least: f"{ours / least:.2f} x",
    )  # fmt: skip
    for bench in benches if _is_asked("the tree, cold, on two cores, by the clock") else ():
        one, two = (min(cold(bench, jobs, wall=True) for _ in range(few)) for jobs in (1, 2))
        print(f"{'the tree, cold, on two cores, by the clock':52} {bench.name} {one / two:14.2f} x faster", flush=True)


def peers(tree: Path, python: str, benches: Sequence[Bench], folder: Path, limit: int) -> None:
    """Other linters over some of the files, as multiples of bare parsing."""
    files = sorted(str(path) for path in tree.rglob("*.py"))[:: max(1, len(list(tree.rglob("*.py"))) // limit)]
    listing = folder / "files.txt"
    listing.write_text("\n".join(files), "utf-8")
    parse = seconds([sys.executable, "-c", PARSE_LOOP, str(listing)], folder)
    print(f"\n{len(files)} of the files, bare parsing {parse:.2f} s of CPU:")
    for bench in benches:
        took = bench.seconds(["check", "--isolated", "--no-cache", "--jobs", "1", *files], folder)
        print(f"  {bench.name:32} {took / parse:6.2f} x")
    for name, command in {
        "ruff check --select ALL": ["-m", "ruff", "check", "--isolated", "--no-cache", "--select", "ALL"],
        "TorchFix": ["-m", "torchfix", "--select", "ALL"],
        "fixit lint": ["-m", "fixit", "lint"],
    }.items():
        began = os.times()
        subprocess.run([python, *command, *files], cwd=folder, capture_output=True, check=False)
        ended = os.times()
        took = ended.children_user + ended.children_system - began.children_user - began.children_system
        print(f"  {name:32} {took / parse:6.2f} x")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="a checkout of an earlier commit")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter with ruff, torchfix and fixit")
    parser.add_argument("--peer-files", type=int, default=150, metavar="N")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORDS", help="measure the rows alone whose names hold these"
    )
    arguments = parser.parse_args()
    ONLY[:] = arguments.only
    benches = [Bench("now", Path(__file__).resolve().parent.parent)]
    if arguments.before is not None:
        benches.insert(0, Bench("before", arguments.before.resolve()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree = folder / arguments.tree.resolve().name
        shutil.copytree(arguments.tree, tree, ignore=shutil.ignore_patterns("__pycache__", ".modellint_cache"))
        table(tree, benches, arguments.rounds, folder)
        if arguments.peers:
            peers(tree, str(Path(arguments.peers).absolute()), benches, folder, arguments.peer_files)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
