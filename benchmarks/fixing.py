"""Un-fix whole trees, fix them by the command, and look at what is left.

    python benchmarks/fixing.py TREE... [--as-is] [--jobs N] [--problems FILE]

All sites of accuracy.py and contiguous.py in a tree are undone at once, in a copy, which `modellint check --fix` then
mends. Right is: every file is still as good Python as it was, no finding is left whose fix is safe, a second run
changes nothing; and after `--fix --unsafe-fixes`, no finding is left that has a fix to apply. With ``--as-is`` nothing is undone.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import contiguous
from accuracy import KINDS, Found, Options, collect
from classes import read_source
from modellint.source.fix import compiles
from modellint.source.syntax.edits import Change, apply
from unfix import Site

_HEAD = ("tree", "files", "undone", "safe", "unsafe", "left", "by --unsafe-fixes", "broken", "unstable", "refused")


@dataclass(slots=True)
class Outcome:
    """What became of one tree; the numbers are of findings, by what their fixes are."""

    tree: str
    files: int = 0
    undone: int = 0
    safe: int = 0
    unsafe: int = 0
    left: int = 0
    """Safe ones after `--fix`."""
    left_unsafe: int = 0
    """Safe and unsafe ones after `--fix --unsafe-fixes`."""
    broken: int = 0
    """Files that compiled before and do not now."""
    unstable: int = 0
    """Files that a second run changes."""
    refused: int = 0
    """Fixes that were tried and not applied."""
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.left or self.left_unsafe or self.broken or self.unstable)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", metavar="TREE", nargs="+", type=Path, help="a folder of Python source")
    parser.add_argument("--as-is", action="store_true", help="undo nothing")
    parser.add_argument("--jobs", type=int, default=4, metavar="N", help="processes (default: 4)")
    parser.add_argument("--problems", type=Path, metavar="FILE", help="write what is not right, one line each")
    options = parser.parse_args()
    _print(_HEAD)
    outcomes = []
    for tree in options.trees:
        with tempfile.TemporaryDirectory() as folder:
            outcome = _outcome(tree.resolve(), Path(folder) / tree.name, options.as_is, options.jobs)
        _print(_row(outcome))
        outcomes.append(outcome)
        if options.problems:
            with options.problems.open("a", encoding="utf-8") as stream:
                stream.writelines(f"{outcome.tree}\t{line}\n" for line in outcome.problems)
    total = Outcome("all trees")
    for name in ("files", "undone", "safe", "unsafe", "left", "left_unsafe", "broken", "unstable", "refused"):
        setattr(total, name, sum(getattr(one, name) for one in outcomes))
    _print(_row(total))
    return 0 if total.good else 1


def _row(one: Outcome) -> tuple[object, ...]:
    numbers = (one.files, one.undone, one.safe, one.unsafe, one.left, one.left_unsafe)
    return one.tree, *numbers, one.broken, one.unstable, one.refused


def _print(row: tuple[object, ...]) -> None:
    widths = [max(9, len(name)) for name in _HEAD]
    print(
        f"{row[0]!s:40}", *(f"{cell!s:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)), flush=True
    )


def _outcome(tree: Path, copy: Path, as_is: bool, jobs: int) -> Outcome:
    outcome = Outcome(tree.name)
    for path in tree.rglob("*.py"):
        if path.is_file():
            made = copy / path.relative_to(tree)
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, made)
            outcome.files += 1
    if not as_is:
        outcome.undone = _undo(tree, copy, jobs)
    before = _compiling(copy, jobs)
    for finding in _checked(copy, jobs):
        match _applicability(finding):
            case "safe":
                outcome.safe += 1
            case "unsafe":
                outcome.unsafe += 1
    outcome.left = _fixed(outcome, copy, jobs, ("safe",), before)
    outcome.left_unsafe = _fixed(outcome, copy, jobs, ("safe", "unsafe"), before, "--unsafe-fixes")
    return outcome


def _fixed(outcome: Outcome, copy: Path, jobs: int, wanted: tuple[str, ...], before: set[Path], *options: str) -> int:
    """Fix a tree, and twice; gives how many findings are left whose fixes are of the wanted class."""
    said = _run(copy, jobs, "--fix", *options)[1]
    refused = [line for line in said.splitlines() if "was not applied" in line or "stopped after" in line]
    outcome.refused += len(refused)
    outcome.problems += [f"refused\t{line}" for line in refused]
    left = [finding for finding in _checked(copy, jobs) if _applicability(finding) in wanted]
    outcome.problems += [_told(f"left {_applicability(one)}", one, copy) for one in left]
    broken = sorted(before - _compiling(copy, jobs))
    outcome.broken += len(broken)
    outcome.problems += [f"broken\t{path}" for path in broken]
    if left:
        # Elsewhere a second run has nothing to apply.
        once = _digests(copy)
        _run(copy, jobs, "--fix", *options)
        changed = [path for path, digest in _digests(copy).items() if once[path] != digest]
        outcome.unstable += len(changed)
        outcome.problems += [f"unstable\t{path}" for path in changed]
    return len(left)


def _applicability(finding: dict[str, Any]) -> str:
    return str(finding["fix"]["applicability"]) if finding["fix"] else ""


def _told(what: str, finding: dict[str, Any], copy: Path) -> str:
    path = Path(finding["filename"])
    with contextlib.suppress(ValueError):
        path = path.relative_to(copy)
    return f"{what}\t{path}:{finding['location']['row']}\t{finding['code']}\t{finding['message']}"


# -- undoing ---------------------------------------------------------------------------------------------


def _undo(tree: Path, copy: Path, jobs: int) -> int:
    found = {file.facts.path: file for file in collect(tree, Options(False, KINDS), jobs)}
    count = 0
    for path in sorted(tree.rglob("*.py")):
        source = read_source(path) if path.is_file() else None
        if source is None or not compiles(source.text):
            continue
        undoings = [*_undoings(found.get(path)), *_bare_views(path, source.text)]
        taken = _together(source.text, undoings, each=False) or _together(source.text, undoings, each=True)
        if taken:
            count += len(taken)
            changes = sorted(change for one in taken for change in one)
            (copy / path.relative_to(tree)).write_bytes(source.encode(apply(source.text, changes)))
    return count


def _together(text: str, undoings: list[list[Change]], each: bool) -> list[list[Change]]:
    """As many as can be made at once; none where the result is no valid Python, which ``each`` one is asked or all of them."""
    taken: list[list[Change]] = []
    for one in undoings:
        trial = sorted(change for some in (*taken, one) for change in some)
        apart = all(before.end <= behind.start for before, behind in pairwise(trial))
        if apart and (not each or compiles(apply(text, trial))):
            taken.append(one)
    whole = sorted(change for one in taken for change in one)
    return taken if each or compiles(apply(text, whole)) else []


def _undoings(file: Found | None) -> Iterator[list[Change]]:
    for site in file.sites if file is not None else ():
        yield [Change(*one) for one in _edits(site)]


def _edits(site: Site) -> list[tuple[int, int, str]]:
    return [(site.start, site.end, site.replacement), *site.more]


def _bare_views(path: Path, text: str) -> Iterator[list[Change]]:
    if ".contiguous()" in text and ".view(" in text:
        for site in contiguous.sites_of(path, text):
            yield [Change(*site.removed, "")]


# -- looking ---------------------------------------------------------------------------------------------


def _checked(copy: Path, jobs: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_run(copy, jobs, "--output-format", "json")[0])
    return found


def _run(copy: Path, jobs: int, *options: str) -> tuple[str, str]:
    """What `modellint check` prints, and says on standard error."""
    command = [sys.executable, "-m", "modellint", "check", "--isolated", "--no-cache", "--jobs", str(jobs), *options]
    done = subprocess.run([*command, str(copy)], capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return done.stdout, done.stderr


def _digests(copy: Path) -> dict[Path, str]:
    return {
        path.relative_to(copy): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(copy.rglob("*.py"))
    }


def _compiling(copy: Path, jobs: int) -> set[Path]:
    """The files that are valid Python."""
    paths = sorted(copy.rglob("*.py"))
    with ProcessPoolExecutor(jobs) as pool:
        valid = pool.map(_is_valid, paths, chunksize=16)
        return {path.relative_to(copy) for path, good in zip(paths, valid, strict=True) if good}


def _is_valid(path: Path) -> bool:
    source = read_source(path)
    return source is not None and compiles(source.text)


if __name__ == "__main__":
    sys.exit(main())
