"""Every supplied converter on random inputs: by both routes, executed, and held against PyTorch.

    python benchmarks/converters.py [PART...] [--inputs 200] [--seed 0] [--share 1/2] [--elements special]
                                      [--precision fp16] [--target iOS18]

For each signature in tests/coreml/converters/signatures.txt: shapes drawn by hypothesis, several as one model, and inputs for
each, special numbers among them. The error is in units in the last place of the largest number that goes in or comes out; of half precision
with ``--precision fp16``, where the inputs are plain numbers that it holds.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "coreml" / "converters"))

from proof import Outcome, allowed, limit, proven
from signatures import VARIANTS, Case, Line, Several, drawn, lines, values, varied

from modellint.destinations.coreml.convert.conversion import NotConverted

EACH = 10
"""With how many inputs each case is run."""


def measure(line: Line, route: str, options: argparse.Namespace) -> tuple[int, Outcome]:
    """How many inputs were tried, and the worst that came of them."""
    worst, count, used = Outcome(0.0, {}), 0, {}
    shapes, half = options.shapes, options.precision == "fp16"
    for number, found in enumerate(
        drawn(line, max(1, options.inputs // (shapes * EACH)), shapes, options.seed, options.smallest)
    ):
        chance = torch.Generator().manual_seed(options.seed + number)
        samples = [[one for case in found for one in values(case, chance)] for _ in range(EACH)]
        if half:
            samples = [[one.half().float() if one.is_floating_point() else one for one in each] for each in samples]
        torch.manual_seed(0)
        model = Several(found)
        lenient = options.elements or not options.smallest
        if lenient and not all(takes(model, one) for one in samples):
            return 0, Outcome(0.0, {}, "PyTorch does not take it")
        try:
            outcome = proven(model, samples, route, options.target, options.precision)
        except Exception as error:
            if lenient and isinstance(error, NotConverted):
                return 0, Outcome(0.0, {}, f"declined: {error}"[:300])
            outcome = Outcome(float("inf"), {}, said(error, found))
        count += shapes * EACH
        used |= outcome.used
        if outcome.ulps > worst.ulps:
            worst = outcome
    return count, worst._replace(used=used)


def takes(model: Several, sample: list[torch.Tensor]) -> bool:
    """Whether PyTorch itself computes it."""
    try:
        model(*sample)
    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError):
        return False
    return True


def said(error: Exception, found: list[Case]) -> str:
    return f"{type(error).__name__}: {error} {[case.expression for case in found][:2]}"[:400]


def share(text: str) -> tuple[int, int]:
    """Which part, counted from none, of how many."""
    part, parts = map(int, text.split("/"))
    return part - 1, parts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="parts of operators' names; default: all")
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=share, default=(0, 1), help="one of so many parts of the signatures, as 1/2")
    parser.add_argument("--elements", choices=VARIANTS, help="inputs of other elements than the table says")
    parser.add_argument("--shapes", type=int, default=10, help="how many cases make one model")
    parser.add_argument("--smallest", type=int, default=1, help="the smallest size of an axis: 0 for empty tensors too")
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--target", default="iOS15")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(f"{'operator':26} {'route':7} {'inputs':>6} {'ulps':>8} {'class':14}  expression")
    bad = 0
    part, parts = options.share
    for line in lines()[part::parts]:
        if options.parts and not any(one in line.operator for one in options.parts):
            continue
        elements = options.elements or ("half" if options.precision == "fp16" else None)
        other = line if elements is None else varied(line, elements)
        if other is None and options.elements:
            continue
        line = other or line
        for route in line.routes:
            count, outcome = measure(line, route, options)
            wrong = outcome.ulps > limit(line.operator, outcome, options.precision)
            bad += wrong
            classes = outcome.used.get(f"aten::{line.operator}") or (
                max(outcome.used.values(), key=allowed) if outcome.used else "plain"
            )
            print(
                f"{line.operator:26} {route:7} {count:6} {outcome.ulps:8.3g} {classes:14}  {line.expression[:60]}"
                + (f"\n    WRONG {outcome.problem}" if wrong else "" if count else f"\n    {outcome.problem}"),
                flush=True,
            )
    print(f"\n{bad} of a class that they do not keep")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
