"""No false alarm: right conversions of real architectures and of one-operator models, which `modellint verify` is to leave alone.

    python benchmarks/alarms.py zoo zoo.jsonl           the architectures of zoo.py, by the route that verify takes
    python benchmarks/alarms.py probes probes.jsonl     models of one operator each, by both routes
    python benchmarks/alarms.py report FILE...

Each model is drawn, converted and verified three times, its weights and its inputs from another seed each. Every
verification that does not agree is listed: it is to be settled by hand whether the conversion is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ledger import MORE, Ledger, supervise
from modellint.destinations.coreml.verify.model import verify
from modellint.live.code.places import Project
from modellint.live.inputs.model_inputs import Inputs
from modellint.results.verification import AGREES, DIFFERS, NOT_CONVERTED
from modellint.settings import Destination

SILENCE = 1800
SECONDS = 900
"""For one verification."""
BATCH = 24
"""Verifications that one process makes, before a fresh one goes on."""
SEEDS = (0, 1, 2)
_HERE = Path(__file__).resolve().parent
_NOT_BUILT, _TOO_SLOW = "not built", "too slow"


class Work(NamedTuple):
    """One model by one route."""

    name: str
    route: str
    make: Callable[[], tuple[Any, Any]]


def architectures() -> Iterator[Work]:
    """Those of zoo.py."""
    from zoo import files

    for name, text in files().items():
        yield Work(name, "auto", _maker(name, text))


def _maker(name: str, text: str) -> Callable[[], tuple[Any, Any]]:
    def make() -> tuple[Any, Any]:
        held: dict[str, Any] = {"__name__": name}
        seed = torch.initial_seed()
        exec(compile(text, name, "exec"), held)
        # The text has a seed of its own.
        torch.manual_seed(seed)
        model, args = held["make"]()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point() and not bool(parameter.any()):
                    # A head that starts at zero hides all that is before it.
                    parameter.normal_(0.0, 0.02)
        return model, args

    return make


def operators() -> Iterator[Work]:
    """Models of one operator each."""
    from operators import probes

    for probe in probes():
        for route in ("trace", "export"):
            yield Work(probe.name, route, probe.make)


KINDS: dict[str, Callable[[], Iterator[Work]]] = {"zoo": architectures, "probes": operators}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="kind", required=True)
    for kind in KINDS:
        one = commands.add_parser(kind)
        one.add_argument("results", type=Path, help="the file for results")
        one.add_argument("--only", nargs="*", default=[], help="parts of names")
        one.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS), help="default: 0 1 2")
        one.add_argument("--precision", choices=("fp32", "fp16"), default="fp32", help="fp16: both; default: fp32")
        one.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    commands.add_parser("report").add_argument("results", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.kind == "report":
        return report(arguments.results)
    if arguments.worker:
        return work(arguments)
    supervise([sys.executable, __file__, *sys.argv[1:], "--worker"], arguments.results, SILENCE)
    return report([arguments.results])


def work(arguments: argparse.Namespace) -> int:
    """Verify what is not verified yet: all with the first seed, then with the others, and what was fast before what was not."""
    torch.set_num_threads(1)
    ledger = Ledger(arguments.results)
    first, *others = arguments.seeds
    chosen = [
        one for one in KINDS[arguments.kind]() if not arguments.only or any(part in one.name for part in arguments.only)
    ]

    def earlier(one: Work) -> dict[str, Any]:
        return ledger.rows.get(_label(one, first), {})

    done = 0
    for seeds in ([first], others):
        for one in sorted(chosen, key=lambda one: earlier(one).get("seconds", 0.0)):
            for seed in seeds:
                label = _label(one, seed)
                if label in ledger.begun or earlier(one).get("verdict") in _HOPELESS:
                    continue
                if done == BATCH:
                    return MORE
                done += 1
                ledger.begin(label)
                ledger.finish({"name": label, **_judged(one, seed, arguments.precision)})
    return 0


_HOPELESS = (_NOT_BUILT, _TOO_SLOW, NOT_CONVERTED)


def _label(one: Work, seed: int) -> str:
    return f"{one.name}/{one.route}/{seed}"


def _judged(one: Work, seed: int, precision: str) -> dict[str, Any]:
    from truth import TooSlow, first_line, limited, quiet

    began = time.perf_counter()
    try:
        with quiet(), limited(SECONDS):
            torch.manual_seed(seed)
            try:
                model, args = one.make()
            except Exception as error:
                return {"verdict": _NOT_BUILT, "reason": first_line(error)}
            destination = Destination(precision=precision, frontend=one.route)
            found = verify(model.eval(), Inputs.of(args), destination, Project(_HERE), seed=seed)
    except TooSlow:
        return {"verdict": _TOO_SLOW, "reason": f"more than {SECONDS} s"}
    first = found.first_difference
    return {
        "verdict": found.verdict,
        "reason": found.reason[:300],
        "route": found.route,
        "half_ok": found.half_ok,
        "error": max((output.error for output in found.outputs), default=0.0),
        "scale": min((output.scale for output in found.outputs), default=0.0),
        "cases": len(found.cases),
        "first": None if first is None else [first.kind, first.operator, first.variable, first.message, first.case],
        "notes": list(found.notes),
        "seconds": round(time.perf_counter() - began, 2),
    }


def report(paths: Iterable[Path]) -> int:
    """Print the counts, and everything that does not agree; 0 without an alarm."""
    rows = [row for path in paths for row in Ledger(path).rows.values()]
    judged = [row for row in rows if row.get("verdict") not in (*_HOPELESS, None)]
    models: defaultdict[str, set[str]] = defaultdict(set)
    for row in judged:
        models[row["name"].split("/")[0]].add(_said(row))
    agreeing = sum(said == {AGREES} for said in models.values())
    print(f"{len(models)} models convert, {agreeing} agree every time; {len(judged)} verifications:", end=" ")
    print(", ".join(f"{count} {said}" for said, count in Counter(map(_said, judged)).most_common()))
    for row in rows:
        if "lost" in row or row["verdict"] in (_NOT_BUILT, _TOO_SLOW):
            print(f"  not verified: {row['name']}: {row.get('lost') or row['reason']}")
    refused = [row["name"] for row in rows if row.get("verdict") == NOT_CONVERTED]
    print(f"  not converted: {len(refused)} {' '.join(refused)}")
    for row in judged:
        if _said(row) != AGREES:
            print(f"  {row['name']}: {_said(row)}, {row['reason']}, {row['first']}, error {row['error']:.1e}")
    return int(any(_said(row) == DIFFERS for row in judged))


def _said(row: dict[str, Any]) -> str:
    """The verdict, of both precisions."""
    return "not enough in float16" if row["verdict"] == AGREES and row.get("half_ok") is False else row["verdict"]


if __name__ == "__main__":
    sys.exit(main())
