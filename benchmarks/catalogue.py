"""Which models of the catalogues come to Core ML: a draw to sweep, what came of it kept with the project, and its table.

    modellint sweep benchmarks/catalogue.py:models --do check,export --timeout 240 -o drawn.sqlite
    python benchmarks/catalogue.py keep drawn.sqlite
    python benchmarks/catalogue.py report [FILE.jsonl or drawn.sqlite ...] [--failures]

The draw takes a share of each library's models by a seed; MODELLINT_DRAW=SEED:SHARE chooses others (default: 1:1.0). Models that
`coreml_catalogue.jsonl` beside this file has are left out, but for those that ran out of time, so that each sweep goes on where the
last one ended; MODELLINT_ALL=1 takes them too. ``keep`` adds a line for each model that was swept. The table tells of each library
how many run, convert with plain coremltools, take too long to be exported, and are exported and agree with PyTorch in float32. Ends
with 1 where fewer than 0.85 of those that run within the time agree.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

from modellint.results.sweep_row import SweepRow
from modellint.sweep import ledger

WANTED = 0.85
LIBRARIES = ("timm", "transformers", "torchvision", "diffusers")
AGREES = ("agrees", "agrees in float32")
KEPT = Path(__file__).with_name("coreml_catalogue.jsonl")


def models() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The models that were drawn and not judged yet, in a drawn order, so that a sweep that is ended is a draw too."""
    from importlib import import_module

    seed, _, share = os.environ.get("MODELLINT_DRAW", "1:1.0").partition(":")
    draw = random.Random(int(seed))
    drawn = []
    for library in LIBRARIES:
        every = list(import_module(f"modellint.sweep.catalogue.{library}_models").models())
        chosen = draw.sample(every, max(1, round(float(share) * len(every))))
        drawn += [(f"{library}.{name}", build) for name, build in chosen]
    draw.shuffle(drawn)
    before = [] if os.environ.get("MODELLINT_ALL") else kept(KEPT)
    judged = {judgement["name"] for judgement in before if judgement["export"]["verdict"] != "not run"}
    yield from (model for model in drawn if model[0] not in judged)


def kept(path: Path) -> list[dict[str, Any]]:
    """What a file has of models, a line each; nothing, where there is none."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def judgements(results: Path) -> list[dict[str, Any]]:
    """What came of the export of each model of a sweep, with the version of modellint that made it."""
    by_name: dict[str, list[SweepRow]] = {}
    for row in ledger.read(results):
        by_name.setdefault(row.name, []).append(row)
    judged = []
    for name, rows in by_name.items():
        exports = [row for row in rows if row.action == "export"]
        if not exports:
            continue
        export = exports[-1]
        checks = [row for row in rows if row.action == "check" and row.route]
        plain = {row.route: "converts" if row.status == "converts" else _reason(row) for row in checks}
        found = {"verdict": export.status, "route": export.route, "seconds": round(export.seconds)}
        if export.error is not None:
            found["error"] = float(f"{export.error:.2g}")
        if export.status not in AGREES:
            found["reason"] = _reason(export)
        judged.append({"name": name, "plain": plain, "export": found, "code": export.versions.get("modellint", "")})
    return judged


def _reason(row: SweepRow) -> str:
    """Why a row is no success, with the line of the first blocker: a path below the folder that packages are installed in."""
    place = row.blockers[0].place if row.blockers else None
    if place is None:
        return row.reason[:400]
    parts = PurePath(place.path).parts
    below = parts[parts.index("site-packages") + 1 :] if "site-packages" in parts else parts[-2:]
    return f"{'/'.join(below)}:{place.span.row}: {row.reason}"[:400]


def keep(databases: Sequence[Path]) -> int:
    """Add what came of the models of sweeps to the file beside this one."""
    judged = {judgement["name"]: judgement for judgement in kept(KEPT)}
    for database in databases:
        judged.update((judgement["name"], judgement) for judgement in judgements(database))
    KEPT.write_text("".join(json.dumps(judgement) + "\n" for judgement in judged.values()), "utf-8")
    print(f"{len(judged)} models")
    return 0


def report(paths: Sequence[Path], failures: bool) -> int:
    """Print the table; 0 where 0.85 of the models that run agree."""
    for path in paths:
        if not path.exists():
            raise SystemExit(f"{path}: there is no such file")
    judged = [judgement for path in paths for judgement in (kept if path.suffix == ".jsonl" else judgements)(path)]
    table: dict[str, Counter[str]] = {library: Counter() for library in LIBRARIES}
    for judgement in sorted(judged, key=lambda judgement: judgement["name"]):
        counts = table.setdefault(judgement["name"].partition(".")[0], Counter())
        export = judgement["export"]
        counts["listed"] += 1
        if export["verdict"] == "does not run":
            continue
        counts["run"] += 1
        counts["plain"] += "converts" in judgement["plain"].values()
        counts["late"] += export["verdict"] == "not run"
        counts["agree"] += export["verdict"] in AGREES
        if failures and export["verdict"] not in AGREES:
            print(f"{judgement['name']}: {export['verdict']}: {export['reason'][:300]}")
    print(f"{'':14} listed    run  plain   late  agree")
    for library, counts in (*table.items(), ("all", sum(table.values(), Counter()))):
        print(
            f"{library:14} {counts['listed']:6} {counts['run']:6} {counts['plain']:6} {counts['late']:6} {counts['agree']:6}"
        )
    total = sum(table.values(), Counter())
    share = total["agree"] / max(1, total["run"] - total["late"])
    print(f"{share:.3f} of those that run within the time agree, {total['agree'] / max(1, total['run']):.3f} of all")
    return int(share < WANTED)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="add what came of sweeps to the file that is kept")
    keeping.add_argument("databases", nargs="+", type=Path)
    reporting = commands.add_parser("report", help="print the table")
    reporting.add_argument("results", nargs="*", type=Path, default=[KEPT])
    reporting.add_argument("--failures", action="store_true", help="print why each other model does not agree")
    arguments = parser.parse_args()
    if arguments.command == "keep":
        return keep(arguments.databases)
    return report(arguments.results, arguments.failures)


if __name__ == "__main__":
    sys.exit(main())
