"""Look for state hidden in random models, and for none in random models without any, as tests/live/test_hidden.py does on a few.

python benchmarks/hidden.py [--examples 1000] [--seed N]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "live"))

from test_hidden import CONTAINERS, Planted, models, places


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=1000, metavar="N", help="models of each kind (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the models (default: 0)")
    arguments = parser.parse_args()
    chosen = settings(
        max_examples=arguments.examples,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    right: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    depths: Counter[int] = Counter()

    def check(planted: Planted) -> None:
        what = "planted" if planted.hidden else "clean"
        found = places(planted.model)
        seen[what] += 1
        right[what] += set(found) == planted.hidden and len(found) == len(planted.hidden)
        if planted.hidden:
            kinds.update(set(planted.containers))
            depths[planted.depth] += 1

    started = time.perf_counter()
    seed(arguments.seed)(chosen(given(models())(check)))()
    seed(arguments.seed)(chosen(given(models(planted=False))(check)))()
    taken = time.perf_counter() - started
    for what in ("planted", "clean"):
        verdict = "all of it found with its path" if what == "planted" else "nothing found"
        print(f"{what:8} {right[what]:>5} of {seen[what]} models: {verdict}")
    print(f"{taken:.1f} s\n\ncontainers on the way (models):")
    for kind in sorted(CONTAINERS):
        print(f"{kinds[kind]:>7}  {kind}")
    print("\ncontainers deep (models):")
    for depth in sorted(depths):
        print(f"{depths[depth]:>7}  {depth}")
    return 0 if right == seen and min(seen.values()) >= arguments.examples else 1


if __name__ == "__main__":
    sys.exit(main())
