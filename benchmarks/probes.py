"""Modules of one operator that plain `ct.convert` refuses by every route: how many `modellint.export` exports all the same.

    python benchmarks/probes.py run FILE [--names PART...] [--again]
    python benchmarks/probes.py report FILE

Each probe of operators.py is given to plain `ct.convert` by trace and by export, and to `modellint.export`, in single precision.
It counts where the package, read back and executed, agrees with the module within 1e-5 of each output's scale on every set of
inputs that `export` tries. ``WITHOUT`` names the probes that have no expression in Core ML's operations, with the reason: they are
left out of the share, are tried all the same, and it is an error where one of them is exported or converts. What is in the file
already is not made again; ``--again`` drops from it what was not exported.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from headline import exported
from ledger import MORE, Ledger, supervise

HERE = Path(__file__).parent
BATCH = 60
"""How many probes one process takes."""
SILENCE = 900
SECONDS = 300
"""For one conversion, and for one export."""
WANTED = 0.95

_RANDOM = "random numbers, which are others in each run"
WITHOUT = {
    "bernoulli": _RANDOM,
    "complex_output": "an output of complex numbers",
    "fractional_max_pool2d": _RANDOM,
    "multinomial": _RANDOM,
    "poisson": _RANDOM,
    "rank_six_output": "an output of more than five axes",
    "to_bfloat16": "numbers in bfloat16",
}
"""The probes that fail and have no expression in Core ML's operations; why."""


def run(ledger: Ledger, names: list[str]) -> int:
    """Judge what is not in the ledger; gives the exit status."""
    import torch

    from operators import probes

    torch.set_num_threads(1)
    done = 0
    for probe in probes():
        if probe.name in ledger.rows or (names and not any(part in probe.name for part in names)):
            continue
        if done == BATCH:
            return MORE
        done += 1
        ledger.begin(probe.name)
        start = time.perf_counter()
        row = {"name": probe.name, **_judged(probe)}
        ledger.finish({**row, "seconds": round(time.perf_counter() - start, 1)})
        print(f"{probe.name:32} {row['route'] or row['why']}"[:200], file=sys.stderr, flush=True)
    return 0


def _judged(probe: Any) -> dict[str, Any]:
    import torch

    from truth import ROUTES, Conditions, truth

    plain = {}
    for route in ROUTES:
        torch.manual_seed(0)
        model, args = probe.make()
        found = truth(model.eval(), args, route, Conditions(precision="fp32"), SECONDS)
        plain[route] = {"converts": found["converts"], "message": found.get("message", "")}
    torch.manual_seed(0)
    return {"plain": plain, **exported(*probe.make(), SECONDS)}


def report(rows: dict[str, dict[str, Any]]) -> bool:
    """Print what of the failing probes is exported, and why the others are not; gives whether 0.95 are."""
    lost = [row for row in rows.values() if "lost" in row]
    rows = {name: row for name, row in rows.items() if "lost" not in row}
    for row in lost:
        print(f"{row['name']}: {row['lost']}")
    fails = {name: [not one["converts"] for one in row["plain"].values()] for name, row in rows.items()}
    exported = {name for name, row in rows.items() if row["route"]}
    print(f"{len(rows)} probes: plain ct.convert converts {sum(not all(one) for one in fails.values())} by a route;")
    print(f"modellint.export exports {len(exported)}, which agree when they are executed")
    wrong = [name for name in WITHOUT if name in rows and (name in exported or not all(fails[name]))]
    for name in wrong:
        print(f"  {name} is said to have no expression ({WITHOUT[name]}), and converts")
    failing = [name for name, one in fails.items() if all(one)]
    print(
        f"\n{len(failing)} fail by both routes, {sum(name in WITHOUT for name in failing)} of them without an expression:"
    )
    for why, count in Counter(WITHOUT[name] for name in failing if name in WITHOUT).most_common():
        named = ", ".join(name for name in failing if WITHOUT.get(name) == why)
        print(f"  {count:3} {why}: {named}")
    some = [name for name, one in fails.items() if any(one) and name not in WITHOUT]
    print(
        f"{len(some)} with an expression fail by a route, {sum(name in exported for name in some)} of them are exported"
    )
    others = [name for name, one in fails.items() if not all(one) and name not in exported]
    print(f"{len(others)} that plain ct.convert converts are not exported: {', '.join(others) or 'none'}")
    print("\nwhat has an expression and is not exported")
    for name in failing:
        if name not in WITHOUT and name not in exported:
            print(f"  {name}: {rows[name]['why']}")
    able = [name for name in failing if name not in WITHOUT]
    good = sum(name in exported for name in able)
    share = good / max(1, len(able))
    print(
        f"\n{len(able)} of {len(failing)} failing probes have an expression; {good} of them convert and agree: {share:.3f}"
    )
    return share >= WANTED and not wrong and not lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "work", "report"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--names", nargs="*", default=[], help="parts of names; default: all")
    parser.add_argument("--again", action="store_true", help="judge anew what was not exported")
    options = parser.parse_args()
    match options.what:
        case "run":
            if options.again:
                kept = [row for row in Ledger(options.file).rows.values() if row.get("route")]
                options.file.write_text("".join(json.dumps(row) + "\n" for row in kept), "utf-8")
            command = [sys.executable, str(HERE / "probes.py"), "work", str(options.file), "--names", *options.names]
            supervise(command, options.file, SILENCE)
        case "work":
            return run(Ledger(options.file), options.names)
    return 0 if report(Ledger(options.file).rows) else 1


if __name__ == "__main__":
    sys.exit(main())
