"""Every supplied converter on random inputs: by both routes, executed, and held against PyTorch.

    python benchmarks/converters.py [PART...] [--inputs 200] [--seed 0]

For each signature in tests/coreml/converters/signatures.txt: shapes drawn by hypothesis, several as one model, and inputs for
each, special numbers among them. The error is in units in the last place of the largest number that goes in or comes out.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "coreml" / "converters"))

from proof import Outcome, allowed, limit, proven
from signatures import Line, Several, drawn, lines, values

SHAPES = 10
"""How many cases make one model."""
EACH = 10
"""With how many inputs each is run."""


def measure(line: Line, route: str, inputs: int, seed: int) -> tuple[int, Outcome]:
    """How many inputs were tried, and the worst that came of them."""
    worst, count, used = Outcome(0.0, {}), 0, {}
    for number, found in enumerate(drawn(line, max(1, inputs // (SHAPES * EACH)), SHAPES, seed)):
        chance = torch.Generator().manual_seed(seed + number)
        samples = [[one for case in found for one in values(case, chance)] for _ in range(EACH)]
        torch.manual_seed(0)
        try:
            outcome = proven(Several(found), samples, route)
        except Exception as error:
            outcome = Outcome(
                float("inf"), {}, f"{type(error).__name__}: {error} {[case.expression for case in found][:2]}"[:400]
            )
        count += SHAPES * EACH
        used |= outcome.used
        if outcome.ulps > worst.ulps:
            worst = outcome
    return count, worst._replace(used=used)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="parts of operators' names; default: all")
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(f"{'operator':26} {'route':7} {'inputs':>6} {'ulps':>8} {'class':14}  expression")
    bad = 0
    for line in lines():
        if options.parts and not any(part in line.operator for part in options.parts):
            continue
        for route in line.routes:
            count, outcome = measure(line, route, options.inputs, options.seed)
            wrong = outcome.ulps > limit(line.operator, outcome)
            bad += wrong
            classes = outcome.used.get(f"aten::{line.operator}") or (
                max(outcome.used.values(), key=allowed) if outcome.used else "plain"
            )
            print(
                f"{line.operator:26} {route:7} {count:6} {outcome.ulps:8.3g} {classes:14}  {line.expression[:60]}"
                + (f"\n    WRONG {outcome.problem}" if wrong else ""),
                flush=True,
            )
    print(f"\n{bad} of a class that they do not keep")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
