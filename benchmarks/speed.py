"""CPU time of a check, against the time that libcst needs for nothing but parsing the same files.

    python benchmarks/speed.py TREE[=BOUND]... [--peers PYTHON]

Every process runs on one core. A tree is checked cold (``--no-cache --jobs 1``) and parsed in a bare loop, in turns;
the smallest times count. Single files are checked one at a time through the command line, side by side with
``python -c pass`` and ``python -c "import libcst"``; medians count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

BOUNDS = {"timm": 0.6, "transformers": 0.9}
"""The ratio wanted for a tree with that word in its path."""

SINGLE_BOUND = 0.6
CRASHED = re.compile(r"^(Traceback \(most recent call last\)|Fatal Python error|error:|Error:|Aborted!)", re.MULTILINE)
"""On standard error: a linter that ended early. Python's exit status for a crash is that of findings, 1."""
RULE_FAILED = re.compile(r"^(\S+: )?LNT00[45] ", re.MULTILINE)
"""In a report: a rule raised, or was not asked about a class."""
RESULTS = {
    "modellint": re.compile(r"^(All checks passed!|Found \d+ \w+)", re.MULTILINE),
    "torchfix": re.compile(r"^Finished checking [1-9]\d* files?", re.MULTILINE),
    "fixit": re.compile(r"\b[1-9]\d* files? (clean|checked)\b"),
}
"""What each linter prints at the end of a finished check."""
SINGLE_LINES = range(300, 701)
PARSE_LOOP = """
import sys
import libcst
for path in open(sys.argv[1], encoding="utf-8").read().splitlines():
    with open(path, "rb") as file:
        data = file.read()
    try:
        libcst.parse_module(data)
    except Exception:
        pass
"""


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of one process and its children."""

    cpu: float
    wall: float


def main() -> int:
    arguments = _arguments()
    python = arguments.python
    check = [_command(python), "check", "--no-cache", "--jobs", "1"]
    held = True
    for number, named in enumerate(arguments.trees):
        tree, bound = _tree_and_bound(named)
        paths = sorted(path for path in tree.rglob("*.py") if path.is_file())
        _warm(paths)
        held &= _time_tree(python, check, tree, paths, bound, arguments.repeat)
        if arguments.peers:
            _time_peers(python, check, arguments.peers, paths, arguments.peer_files, arguments.seed)
        if number == 0 and arguments.files:
            held &= _time_single(python, check, tree, paths, arguments)
    return 0 if held else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("trees", metavar="TREE[=BOUND]", nargs="+", help="a folder, and the ratio wanted for it")
    add("--python", default=sys.executable, help="the interpreter that modellint is installed in (default: this one)")
    add("--peers", metavar="PYTHON", help="an interpreter with torchfix and fixit, to be timed as well")
    add("--peer-files", type=int, default=40, metavar="N", help="they check so many files, drawn at random (0: all)")
    add("--repeat", type=int, default=3, metavar="N", help="runs of each tree, the fastest counts (default: 3)")
    add("--files", type=int, default=40, metavar="N", help="single files of the first tree (default: 40; 0: none)")
    add("--file-repeat", type=int, default=5, metavar="N", help="runs of each single file (default: 5)")
    add("--seed", type=int, default=0, help="of the draws (default: 0)")
    arguments = parser.parse_args()
    # Commands run in another folder. Links are kept: a virtual environment's interpreter is one.
    arguments.python = str(Path(arguments.python).absolute())
    arguments.peers = arguments.peers and str(Path(arguments.peers).absolute())
    return arguments


def _tree_and_bound(named: str) -> tuple[Path, float | None]:
    path, _, bound = named.rpartition("=")
    if path and bound.replace(".", "", 1).isdigit():
        return Path(path).resolve(), float(bound)
    tree = Path(named).resolve()
    for part in reversed(tree.parts):
        for word, value in BOUNDS.items():
            if word in part:
                return tree, value
    return tree, None


def _command(python: str) -> str:
    """The ``modellint`` script beside an interpreter."""
    script = Path(python).with_name("modellint")
    if not script.exists():
        sys.exit(f"modellint is not installed beside {python}")
    return str(script)


def _warm(paths: Sequence[Path]) -> None:
    for path in paths:
        path.read_bytes()


def run(command: Sequence[str], statuses: Container[int] = (0,), linter: str | None = None) -> Took:
    """Run a command on one core. Stops the benchmark when it fails, or when a linter does not tell a result."""

    def one_core() -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # Installed packages have their bytecode; a source tree gets it at the first run unless that is forbidden.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, preexec_fn=one_core, cwd=tempfile.gettempdir(), env=environment)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    output, error = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if problem := _problem(done.returncode in statuses, output, error, linter):
        sys.exit(f"{' '.join(command[:6])} … ended with {done.returncode}, {problem}: {error[-800:] or output[-200:]}")
    return Took(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall)


def _problem(status_fits: bool, output: str, error: str, linter: str | None) -> str | None:
    """Why the time of a process says nothing; ``None`` when it counts."""
    if not status_fits:
        return "a status that stands for no result"
    if CRASHED.search(error):
        return "with an error"
    if linter is not None:
        if not RESULTS[linter].search(output + error):
            return "without a result"
        if linter == "modellint" and RULE_FAILED.search(output):
            return "with a rule that failed"
    return None


def _parse_loop(python: str, paths: Sequence[Path], folder: str) -> list[str]:
    """The command that parses files with libcst and does nothing else."""
    listing = Path(folder, "files.txt")
    listing.write_text("\n".join(map(str, paths)), encoding="utf-8")
    return [python, "-c", PARSE_LOOP, str(listing)]


def _time_tree(python: str, check: list[str], tree: Path, paths: list[Path], bound: float | None, repeat: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        loop = _parse_loop(python, paths, folder)
        run([*check, str(paths[0])], (0, 1), "modellint")  # bytecode
        pairs = [(run(loop).cpu, run([*check, str(tree)], (0, 1), "modellint").cpu) for _ in range(repeat)]
    parse, ours = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    print(f"{tree.name}: {len(paths)} files, n = {repeat}: check {ours:.2f} s, bare parse {parse:.2f} s of CPU")
    return _verdict(f"check {tree.name} over parse_module", ours / parse, bound)


def _verdict(what: str, ratio: float, bound: float | None) -> bool:
    wanted = "" if bound is None else f", at most {bound} wanted: {'yes' if ratio <= bound else 'no'}"
    print(f"  {what}: {ratio:.3f}{wanted}", flush=True)
    return bound is None or ratio <= bound


def _time_peers(python: str, check: list[str], peers: str, paths: list[Path], limit: int, seed: int) -> None:
    """Other linters, and this one, over the same files."""
    chosen = sorted(random.Random(seed).sample(paths, min(limit, len(paths)))) if limit else paths
    names = [str(path) for path in chosen]
    with tempfile.TemporaryDirectory() as folder:
        parse = run(_parse_loop(python, chosen, folder)).cpu
    print(f"  peers, over {len(chosen)} of these files, as multiples of bare parse_module ({parse:.2f} s):")
    commands = {"modellint": [*check, *names], **dict(_peer_commands(peers, names))}
    for name, command in commands.items():
        statuses = range(256) if name == "fixit" else (0, 1)  # fixit counts what it finds
        print(f"    {name}: {run(command, statuses, name).cpu / parse:.2f}", flush=True)


def _peer_commands(python: str, names: list[str]) -> Iterator[tuple[str, list[str]]]:
    commands = {
        "torchfix": [python, "-m", "torchfix", "--select", "ALL", *names],
        "fixit": [python, "-m", "fixit", "lint", *names],
    }
    for name, command in commands.items():
        probe = subprocess.run([python, "-c", f"import {name}"], capture_output=True)
        if probe.returncode == 0:
            yield name, command
        else:
            print(f"    {name}: not installed")


def _time_single(python: str, check: list[str], tree: Path, paths: list[Path], arguments: argparse.Namespace) -> bool:
    """Files without findings, one process each."""
    report = subprocess.run(
        [*check, "--output-format", "json", str(tree)], capture_output=True, text=True, cwd=tempfile.gettempdir()
    )
    if report.returncode not in (0, 1) or CRASHED.search(report.stderr):
        sys.exit(f"the check of {tree} ended with {report.returncode}: {report.stderr[-800:]}")
    found = {Path(finding["filename"]).resolve() for finding in json.loads(report.stdout) if finding["filename"]}
    clean = [path for path in paths if path not in found and _lines(path) in SINGLE_LINES]
    chosen = sorted(random.Random(arguments.seed).sample(clean, min(arguments.files, len(clean))))
    bare, libcst = [python, "-c", "pass"], [python, "-c", "import libcst"]
    run(libcst)
    rounds = [
        (run(bare), run(libcst), run([*check, str(path)], (0,), "modellint"))
        for _ in range(arguments.file_repeat)
        for path in chosen
    ]
    print(
        f"{tree.name}: {len(chosen)} of {len(clean)} files without findings and of 300 to 700 lines, n = {len(rounds)}"
    )
    held = True
    for clock in ("cpu", "wall"):
        floor, reference, ours = (
            statistics.median(getattr(took, clock) for took in column) for column in zip(*rounds, strict=True)
        )
        print(f"  {clock}: python {floor:.3f} s, import libcst {reference:.3f} s, modellint {ours:.3f} s (medians)")
        ratio = statistics.median(getattr(a, clock) - getattr(c, clock) for c, _, a in rounds) / statistics.median(
            getattr(b, clock) - getattr(c, clock) for c, b, _ in rounds
        )
        held &= _verdict(f"one file over import libcst, both less bare python, {clock}", ratio, SINGLE_BOUND)
    return held


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


if __name__ == "__main__":
    sys.exit(main())
