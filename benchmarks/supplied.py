"""Real architectures before and after: what converts and agrees with plain coremltools, and what with the supplied converters.

    python benchmarks/supplied.py run export.jsonl [--names PART...]
    python benchmarks/supplied.py report export.jsonl

Each architecture is converted in single precision by trace, by export, and by export with core ATen decompositions, and each
program that comes of it is executed on four sets of inputs and held against PyTorch, at 1e-5 of each output's scale. The
first route that converts and agrees ends the search. Where a conversion used nothing of ours, plain coremltools gives the
same program, and it is not made again. What is in the file already is not made again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ledger import MORE, Ledger, supervise

HERE = Path(__file__).parent
BATCH = 4
"""How many models one process converts: what coremltools and torch keep of large ones adds up."""
SILENCE = 1500
SECONDS = 600
"""For one conversion with its execution."""
ROUTES = ("trace", "export", "decomposed")
NOISE = 1e-5


def run(ledger: Ledger, names: list[str]) -> int:
    """Convert what is not in the ledger; gives the exit status."""
    import torch

    from zoo import files

    torch.set_num_threads(1)
    done = 0
    for name, text in files().items():
        if name in ledger.rows or (names and not any(part in name for part in names)):
            continue
        if done == BATCH:
            return MORE
        done += 1
        ledger.begin(name)
        start = time.perf_counter()
        row = {"name": name, **_converted(text)}
        ledger.finish({**row, "seconds": round(time.perf_counter() - start, 1)})
        print(
            f"{name:44} {_said(row.get('before'))[:40]:40} -> {_said(row.get('after'))}"[:230],
            file=sys.stderr,
            flush=True,
        )
    return 0


def _said(found: Any) -> str:
    if not found:
        return "the same"
    routes = found["routes"]
    if found["agrees"]:
        return str(found["agrees"])
    return "; ".join(f"{name}: {one.get('message') or one.get('error')}"[:150] for name, one in routes.items())


def _converted(text: str) -> dict[str, Any]:
    import torch

    from corpora import _samples
    from zoo import built

    try:
        model, args = built(text)
        with torch.no_grad():
            samples = [(given, list(wanted)) for given, wanted in _samples(model, args)]
    except Exception as error:
        return {"lost": f"does not run here: {type(error).__name__}: {error}"[:300]}
    after = _by_routes(model, args, samples, supplied=True)
    taken = after["routes"].get(after["agrees"], {})
    if after["agrees"] == "trace" and not taken["used"] and not taken["notes"]:
        return {"before": None, "after": after}
    return {"before": _by_routes(model, args, samples, supplied=False), "after": after}


def _by_routes(model: Any, args: Any, samples: Any, supplied: bool) -> dict[str, Any]:
    """What comes of each route, up to the first that converts and agrees."""
    routes: dict[str, Any] = {}
    for name, captured in _captures(model, args, supplied):
        routes[name] = one = captured if isinstance(captured, dict) else _judged(captured, samples, supplied)
        if one.get("agrees"):
            return {"agrees": name, "routes": routes}
    return {"agrees": None, "routes": routes}


def _captures(model: Any, args: Any, supplied: bool) -> Iterator[tuple[str, Any]]:
    import torch

    from modellint.destinations.coreml.convert.conversion import NotConverted, captures
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.settings import Destination
    from truth import TooSlow, limited

    for route in ("trace", "export"):
        try:
            with (
                limited(SECONDS),
                torch.no_grad(),
                captures(model, Inputs(tuple(args)), Destination(), route, supplied) as found,
            ):
                made = list(found)
        except (NotConverted, TooSlow) as error:
            yield route, {"converts": False, "message": str(error)[:300]}
            continue
        for one in made:
            yield one.route, one


def _judged(captured: Any, samples: Any, supplied: bool) -> dict[str, Any]:
    from modellint.destinations.coreml.convert.conversion import NotConverted, convert
    from modellint.destinations.coreml.mil.executor import Executor
    from modellint.destinations.coreml.private.mil_programs import output_names
    from modellint.settings import Destination
    from truth import TooSlow, limited

    try:
        with limited(SECONDS):
            made = convert(captured, Destination(), "fp32", supplied)
    except (NotConverted, TooSlow) as error:
        return {"converts": False, "message": str(error)[:300]}
    row: dict[str, Any] = {
        "converts": True,
        "used": {one.operator: [one.kind, one.exactness, one.places] for one in made.used},
        "notes": list(captured.notes),
    }
    try:
        with limited(SECONDS):
            execute = Executor(made.program)
            names = output_names(made.program)
            errors = [_error(execute, names, given, wanted) for given, wanted in samples]
    except (Exception, TooSlow) as error:
        return {**row, "agrees": False, "error": f"{type(error).__name__}: {error}"[:300]}
    return {**row, "agrees": max(errors) <= NOISE, "error": max(errors), "errors": errors}


def _error(execute: Any, names: Any, given: Any, wanted: Any) -> float:
    from modellint.destinations.comparison.tensor_difference import compare

    for state in execute.states.values():
        state.zero_()
    results = execute(dict(zip(execute.inputs, given, strict=True)))
    if len(names) != len(wanted):
        raise ValueError(f"{len(names)} outputs for {len(wanted)}")
    return max(float(compare(results[name], one).error) for name, one in zip(names, wanted, strict=True))


def _family(name: str) -> str:
    return name.partition("_")[0]


def report(rows: dict[str, dict[str, Any]]) -> bool:
    """Print the table of before and after, and why what fails fails; gives whether 0.95 convert and agree."""
    lost = [row for row in rows.values() if "lost" in row]
    rows = {name: row for name, row in rows.items() if "lost" not in row}
    families = sorted({_family(name) for name in rows})
    print(f"{len(rows)} architectures; {len(lost)} did not run")
    for row in lost:
        print(f"  {row['name']}: {row['lost']}")
    print(
        f"\n{'family':14} {'number':>6}  {'plain: converts':>15} {'and agrees':>10}  {'supplied: converts':>18} {'and agrees':>10}  by"
    )
    for family in [*families, ""]:
        mine = [row for name, row in rows.items() if not family or _family(name) == family]
        before = [row["before"] or row["after"] for row in mine]
        after = [row["after"] for row in mine]
        by = Counter(one["agrees"] for one in after if one["agrees"])
        counts = [
            sum(any(route.get("converts") for route in one["routes"].values()) for one in found)
            for found in (before, after)
        ]
        agrees = [sum(bool(one["agrees"]) for one in found) for found in (before, after)]
        print(
            f"{family or 'all':14} {len(mine):6}  {counts[0]:15} {agrees[0]:10}  {counts[1]:18} {agrees[1]:10}  "
            + " ".join(f"{name} {by[name]}" for name in ROUTES)
        )
    print("\nwhat took part, and in how many architectures")
    parts = Counter(
        (operator, kind, exactness)
        for row in rows.values()
        for operator, (kind, exactness, _) in (row["after"]["routes"].get(row["after"]["agrees"]) or {})
        .get("used", {})
        .items()
    )
    for (operator, kind, exactness), count in parts.most_common():
        print(f"  {operator:40} {kind:9} {exactness:12} {count}")
    print("\nwhat fails")
    for name, row in rows.items():
        if not row["after"]["agrees"]:
            print(f"  {name}")
            for route, one in row["after"]["routes"].items():
                print(f"    {route:11} {one.get('message') or one.get('error')}")
    good = sum(bool(row["after"]["agrees"]) for row in rows.values())
    share = good / max(1, len(rows))
    print(f"\n{good} of {len(rows)} convert and agree: {share:.3f}")
    return share >= 0.95 and len(rows) >= 170


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "work", "report"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--names", nargs="*", default=[], help="parts of names; default: all")
    options = parser.parse_args()
    match options.what:
        case "run":
            command = [sys.executable, str(HERE / "supplied.py"), "work", str(options.file), "--names", *options.names]
            supervise(command, options.file, SILENCE)
        case "work":
            return run(Ledger(options.file), options.names)
    return 0 if report(Ledger(options.file).rows) else 1


if __name__ == "__main__":
    sys.exit(main())
