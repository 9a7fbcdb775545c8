"""What `modellint.export` and `modellint.verify` cost, beside another checkout of modellint, in CPU seconds.

    python benchmarks/export_cost.py ledger.jsonl --base CHECKOUT [--count 47] [--seed 1716]
    python benchmarks/export_cost.py ledger.jsonl --report

Architectures of `zoo.py` are drawn by a seed. Each is exported and verified with the base and with this checkout, one after the
other, each in a process of its own on one thread, so that both find the machine in the same state. What is measured already is not
measured again. Ends with 1 where either costs more than 1.3 times as much in all.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
from pathlib import Path
from typing import Any

from ledger import Ledger, printed_row

HERE = Path(__file__).resolve().parent
SECONDS = 300
WANTED = 1.3
ACTIONS = ("export", "verify")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, help="the file for results")
    parser.add_argument("--base", type=Path, help="the checkout to compare with")
    parser.add_argument("--count", type=int, default=47, help="how many architectures (default: 47, a quarter)")
    parser.add_argument("--seed", type=int, default=1716, help="of the draw (default: 1716)")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(costs(options.one)))
        return 0
    ledger = Ledger(options.ledger)
    if not options.report:
        if options.base is None:
            parser.error("--base is needed")
        measure(ledger, options.base.resolve(), options.count, options.seed)
    return report(ledger)


def measure(ledger: Ledger, base: Path, count: int, seed: int) -> None:
    """Measure what is not in the ledger."""
    from zoo import files

    for name in random.Random(seed).sample(sorted(files()), count):
        if name not in ledger.rows:
            ledger.finish({"name": name, "base": _apart(base, name), "new": _apart(HERE.parent, name)})


def _apart(checkout: Path, name: str) -> dict[str, Any]:
    """One architecture, in a process that imports modellint from a checkout."""
    paths = os.pathsep.join(str(checkout / part) for part in ("lint", "rules"))
    command = [sys.executable, __file__, "-", "--one", name]
    return printed_row(command, {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}, SECONDS)


def costs(name: str) -> dict[str, Any]:
    """CPU seconds of both actions, and what they say."""
    import warnings

    import torch

    import modellint
    from zoo import built, files

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    row: dict[str, Any] = {}
    for action in ACTIONS:
        model, args = built(files()[name])
        before = _cpu()
        try:
            done = modellint.export(model, args).verification if action == "export" else modellint.verify(model, args)
            said = done.verdict
        except modellint.ExportError:
            said = "refused"
        row[action] = {"cpu": round(_cpu() - before, 2), "said": said}
    return row


def _cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def report(ledger: Ledger) -> int:
    """Print the ratios; 0 where both actions cost at most 1.3 times as much in all."""
    rows = {name: row for name, row in ledger.rows.items() if "lost" not in row["base"] and "lost" not in row["new"]}
    for name, row in ledger.rows.items():
        if name not in rows:
            print(f"{name}: {row['base'].get('lost') or row['new'].get('lost')}")
    status = 0
    for action in ACTIONS:
        old, new = (sum(row[side][action]["cpu"] for row in rows.values()) for side in ("base", "new"))
        print(
            f"{action}: {old:.0f} s of CPU, now {new:.0f}: {new / max(old, 1e-9):.2f} times, of {len(rows)} architectures"
        )
        over = {
            name: row for name, row in rows.items() if row["new"][action]["cpu"] > WANTED * row["base"][action]["cpu"]
        }
        for name, row in sorted(over.items()):
            before, now = row["base"][action], row["new"][action]
            print(f"    {name:40} {before['cpu']:6.1f} {now['cpu']:6.1f}  {before['said']} / {now['said']}")
        status |= new > WANTED * old
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
