"""Compare `CustomPReLU` with `nn.PReLU` on random inputs, as tests/live/test_prelu.py does on a few.

python benchmarks/prelu.py --examples 10000 [--seed N]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "live"))

from test_prelu import Case, cases, compare


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=10_000, metavar="N", help="inputs (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs (default: 0)")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()

    @seed(arguments.seed)
    @settings(
        max_examples=arguments.examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def run(case: Case) -> None:
        for feature in features(case):
            counts[feature] += 1
        counts["slopes' gradients equal, not only within rounding"] += compare(case)

    started = time.perf_counter()
    run()
    taken = time.perf_counter() - started
    print(f"torch {torch.__version__}: {counts['inputs']} inputs in {taken:.0f} s, no difference")
    for feature in sorted(counts):
        print(f"{counts[feature]:>7}  {feature}")
    return 0 if counts["inputs"] >= arguments.examples else 1


def features(case: Case) -> list[str]:
    x = case.x
    tiny = torch.finfo(x.dtype).smallest_normal
    found = ["inputs", f"rank {x.dim()}", f"type {str(x.dtype).removeprefix('torch.')}", f"layout {case.layout}"]
    found += ["slopes: several"] if len(case.slopes) > 1 else ["slopes: one"]
    found += ["not contiguous"] if not x.is_contiguous() else []
    found += ["empty"] if not x.numel() else []
    for name, mask in (
        ("0", (x == 0) & ~x.signbit()),
        ("-0", (x == 0) & x.signbit()),
        ("inf", x == float("inf")),
        ("-inf", x == -float("inf")),
        ("NaN", x.isnan()),
        ("subnormal", (x != 0) & (x.abs() < tiny)),
    ):
        found += [f"holds {name}"] if mask.any() else []
    return found


if __name__ == "__main__":
    sys.exit(main())
