"""What a verdict costs beside the conversion that it is about: time, and memory.

    python benchmarks/convert.py [NAME...]

Each architecture that converts is judged and converted in this process, once everything is imported and warm; the time of
the capture is left out on both sides, and the dry run's is all of the rest, with what it does to leave the model alone.
Memory is the peak of a process of its own that builds the model and judges it, imports and all.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from statistics import median
from typing import Any

WANTED = {"trace": (0.20, 0.18), "export": (0.12, 0.12)}
"""The most that verdicts may cost in all, and in the median, as shares of the conversions."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names; default: all")
    parser.add_argument("--memory-of", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--route", help=argparse.SUPPRESS)
    parser.add_argument("--no-memory", action="store_true", help="measure time only")
    arguments = parser.parse_args()
    if arguments.memory_of:
        print(_peak(arguments.memory_of, arguments.route))
        return 0
    from zoo import files

    chosen = [name for name in files() if not arguments.names or any(part in name for part in arguments.names)]
    good = _times(chosen)
    return int(not (arguments.no_memory or _memory(chosen)) or not good)


def _made(name: str) -> tuple[Any, tuple[Any, ...]]:
    import torch

    from zoo import files

    torch.manual_seed(0)
    scope: dict[str, Any] = {"__name__": "architecture"}
    exec(files()[name], scope)
    model, inputs = scope["make"]()
    return model.eval(), inputs


def _times(names: list[str]) -> bool:
    import torch

    from truth import ROUTES, Conditions, predicted, truth

    torch.set_num_threads(1)
    small = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
    for route in ROUTES:
        # The first of each pays for what later ones find done.
        predicted(small, (torch.randn(1, 3, 8, 8),), route, Conditions())
        truth(small, (torch.randn(1, 3, 8, 8),), route, Conditions())
    found: dict[str, list[tuple[float, float]]] = {route: [] for route in ROUTES}
    print(f"{'':40} {'route':6} {'verdict':>8} {'convert':>8} {'share':>6}")
    for name in names:
        try:
            model, inputs = _made(name)
        except Exception as error:
            print(f"{name:40} does not run here: {type(error).__name__}: {error}"[:120])
            continue
        for route in ROUTES:
            said = predicted(model, inputs, route, Conditions())
            full = truth(model, inputs, route, Conditions())
            if not full["converts"] or not said.get("convertible"):
                continue
            ours, theirs = said["took"] - said["seconds"][0], full["seconds"][1]
            found[route].append((ours, theirs))
            print(f"{name:40} {route:6} {ours:8.3f} {theirs:8.3f} {ours / theirs:6.3f}", flush=True)
    good = True
    for route, pairs in found.items():
        if pairs:
            in_all = sum(ours for ours, _ in pairs) / sum(full for _, full in pairs)
            middle = median(ours / full for ours, full in pairs)
            good &= in_all <= WANTED[route][0] and middle <= WANTED[route][1]
            print(f"{route}: {len(pairs)} models, {in_all:.3f} in all, median {middle:.3f}")
    return good


def _peak(name: str, route: str) -> str:
    """Bytes of weights, the peak of the process before the verdict and after it."""
    from truth import Conditions, predicted

    model, inputs = _made(name)
    weights = sum(one.numel() * one.element_size() for one in (*model.parameters(), *model.buffers()))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    start = time.perf_counter()
    predicted(model, inputs, route, Conditions())
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return f"{weights} {before} {after} {time.perf_counter() - start}"


def _memory(names: list[str]) -> bool:
    good = True
    print(f"\n{'':40} {'route':6} {'weights':>8} {'built':>8} {'peak':>8} {'limit':>8}  MB")
    for name in names:
        for route in WANTED:
            command = [sys.executable, __file__, "--memory-of", name, "--route", route]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{name:40} {route:6} {done.stderr.strip().splitlines()[-1][:100]}")
                continue
            weights, before, after = (float(word) / 1e6 for word in done.stdout.split()[:3])
            limit = 1.2 * weights + 1000
            good &= after <= limit
            over = "" if after <= limit else "  OVER"
            print(f"{name:40} {route:6} {weights:8.0f} {before:8.0f} {after:8.0f} {limit:8.0f}{over}", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(main())
