"""Which models of the catalogues come to Core ML: a draw to sweep, and the table of what came of it.

    modellint sweep benchmarks/catalogue.py:models --do check,export --timeout 150 -o drawn.sqlite
    python benchmarks/catalogue.py drawn.sqlite

The draw takes a share of each library's models by a seed; MODELLINT_DRAW=SEED:SHARE chooses others (default: 1:0.2). The table tells
of each library how many build and run, convert with plain coremltools, take too long to be exported, and are exported and agree with
PyTorch in float32; before it stands why others do not. Ends with 1 where fewer than 0.85 of those that run within the time agree.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

WANTED = 0.85
LIBRARIES = ("timm", "transformers", "torchvision", "diffusers")
AGREES = ("agrees", "agrees in float32")


def models() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The models that were drawn, in a drawn order, so that a sweep that is ended is a draw too."""
    from importlib import import_module

    seed, _, share = os.environ.get("MODELLINT_DRAW", "1:0.2").partition(":")
    draw = random.Random(int(seed))
    drawn = []
    for library in LIBRARIES:
        every = list(import_module(f"modellint.sweep.catalogue.{library}_models").models())
        chosen = draw.sample(every, max(1, round(float(share) * len(every))))
        drawn += [(f"{library}.{name}", build) for name, build in chosen]
    draw.shuffle(drawn)
    yield from drawn


def report(path: str) -> int:
    """Print the table; 0 where 0.85 of the models that run agree."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    found = connection.execute("SELECT name, action, status, reason FROM rows").fetchall()
    by_name: dict[str, list[tuple[str, str, str]]] = {}
    for name, action, status, reason in found:
        by_name.setdefault(name, []).append((action, status, reason))
    table: dict[str, Counter[str]] = {}
    for name, rows in sorted(by_name.items()):
        counts = table.setdefault(name.partition(".")[0], Counter())
        counts["listed"] += 1
        if any(status == "does not run" for _, status, _ in rows):
            continue
        counts["run"] += 1
        counts["plain"] += any(action == "check" and status == "converts" for action, status, _ in rows)
        counts["late"] += any(action == "export" and status == "not run" for action, status, _ in rows)
        counts["agree"] += any(action == "export" and status in AGREES for action, status, _ in rows)
        for action, status, reason in rows:
            if action == "export" and status not in AGREES:
                print(f"{name}: {status}: {reason[:200]}")
    print(f"{'':14} listed    run  plain   late  agree")
    for library, counts in (*table.items(), ("all", sum(table.values(), Counter()))):
        print(
            f"{library:14} {counts['listed']:6} {counts['run']:6} {counts['plain']:6} {counts['late']:6} {counts['agree']:6}"
        )
    total = sum(table.values(), Counter())
    share = total["agree"] / max(1, total["run"] - total["late"])
    print(f"{share:.3f} of those that run within the time agree")
    return int(share < WANTED)


if __name__ == "__main__":
    sys.exit(report(sys.argv[1]))
