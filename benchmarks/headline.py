"""Real architectures through `modellint.export`: what is written, and agrees with PyTorch when it is executed.

    python benchmarks/headline.py run FILE [--share 1/3] [--names PART...]
    python benchmarks/headline.py report FILE...

Each architecture of zoo.py is given to `modellint.export` as it is, in single precision: it counts where the package, read
back and executed, agrees with the model within 1e-5 of each output's scale on every set of inputs that `export` tries. What
is in the file already is not made again; several processes may each take a share, with files of their own.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from ledger import MORE, Ledger, supervise

HERE = Path(__file__).parent
BATCH = 4
"""How many models one process exports: what coremltools and torch keep of large ones adds up."""
SILENCE = 1500
SECONDS = 900
WANTED = 0.95
LEAST = 170
"""How many architectures there are to be."""


def run(ledger: Ledger, share: str, names: list[str]) -> int:
    """Export what is not in the ledger; gives the exit status."""
    import torch

    from zoo import files

    torch.set_num_threads(1)
    which, _, count = share.partition("/")
    done = 0
    for at, (name, text) in enumerate(files().items()):
        if (
            at % int(count) != int(which) - 1
            or name in ledger.rows
            or (names and not any(one in name for one in names))
        ):
            continue
        if done == BATCH:
            return MORE
        done += 1
        ledger.begin(name)
        start, cpu = time.perf_counter(), time.process_time()
        row = {"name": name, **_exported(text)}
        spent = {"seconds": round(time.perf_counter() - start, 1), "cpu": round(time.process_time() - cpu, 1)}
        ledger.finish({**row, **spent})
        print(f"{name:44} {row.get('route') or row.get('lost') or row.get('why')}"[:200], file=sys.stderr, flush=True)
    return 0


def _exported(text: str) -> dict[str, Any]:
    from zoo import built

    try:
        model, args = built(text)
    except Exception as error:
        return {"lost": f"does not run here: {type(error).__name__}: {error}"[:300]}
    return exported(model, args, SECONDS)


def exported(model: Any, args: Any, seconds: int) -> dict[str, Any]:
    """What becomes of a model: the route by which it is written, or None and why."""
    import modellint
    from truth import TooSlow, limited

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with limited(seconds):
                made = modellint.export(model, args, precision="fp32")
        except modellint.ExportError as error:
            said = "; ".join(f"{one.route}: {one.reason}" for one in error.summary.attempts)
            return {"route": None, "why": (said or str(error))[:1500]}
        except TooSlow:
            return {"route": None, "why": f"it takes more than {seconds} s"}
        except Exception as error:
            return {"route": None, "why": f"{type(error).__name__}: {error}"[:1500]}
    return {
        "route": made.frontend,
        "error": max((one.error for one in made.verification.outputs), default=None),
        "inputs": sum(one.error is not None for one in made.verification.cases),
        "verdict": made.verification.verdict,
        "notes": list(made.verification.notes),
        "changes": [[one.kind, one.what, one.exactness] for one in made.summary.changes],
    }


def report(rows: dict[str, dict[str, Any]]) -> bool:
    """Print how many of each family are exported, what took part, and why the others are not; gives whether 0.95 are."""
    lost = [row for row in rows.values() if "lost" in row]
    rows = {name: row for name, row in rows.items() if "lost" not in row}
    for row in lost:
        print(f"{row['name']}: {row['lost']}")
    print(f"{'family':14} {'number':>6} {'exported':>8}  by")
    for family in [*sorted({name.partition("_")[0] for name in rows}), ""]:
        mine = [row for name, row in rows.items() if name.startswith(family)]
        by = Counter(row["route"] for row in mine if row["route"])
        shown = " ".join(f"{name} {number}" for name, number in by.most_common())
        print(f"{family or 'all':14} {len(mine):6} {sum(by.values()):8}  {shown}")
    parts = Counter(
        (kind, what.partition(" at ")[0]) for row in rows.values() for kind, what, _ in row.get("changes", ())
    )
    print("\nwhat took part, and how often")
    for (kind, what), count in parts.most_common():
        print(f"  {kind:9} {what:60} {count}")
    print("\nwhat is not exported")
    for name, row in rows.items():
        if not row["route"]:
            print(f"  {name}: {row['why']}")
    for name, row in rows.items():
        if row["route"] and row["error"] is None:
            print(f"  {name}: said to agree, and no float32 program was compared")
    good = sum(bool(row["route"]) and row["error"] is not None for row in rows.values())
    print(f"\n{good} of {len(rows)} with a float32 comparison: {good / max(1, len(rows)):.3f}")
    print(f"CPU seconds in all: {sum(row.get('cpu', 0.0) for row in rows.values()):.0f}")
    return good >= WANTED * len(rows) and len(rows) >= LEAST


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "work", "report"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--share", default="1/1", help="which part of the architectures, as in 2/3")
    parser.add_argument("--names", nargs="*", default=[], help="parts of names; default: all")
    options = parser.parse_args()
    file = options.files[0]
    match options.what:
        case "run":
            command = [sys.executable, str(HERE / "headline.py"), "work", str(file), "--share", options.share]
            supervise([*command, "--names", *options.names], file, SILENCE)
        case "work":
            return run(Ledger(file), options.share, options.names)
    rows = {name: row for one in options.files for name, row in Ledger(one).rows.items()}
    return 0 if report(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
