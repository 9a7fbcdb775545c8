"""The executor of ML Programs against Core ML's own `predict`, on real architectures; needs macOS.

    python benchmarks/runtime.py runtime.jsonl            convert, execute and predict the models of zoo.py
    python benchmarks/runtime.py --report runtime.jsonl   counts, and every disagreement; exits with 1 where there are too many

It has not been run yet.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

import zoo
from modellint.destinations.comparison.tensor_difference import compare
from modellint.destinations.coreml.convert.conversion import NotConverted, captures, convert
from modellint.destinations.coreml.mil.executor import ExecutionError, UnknownOperations
from modellint.destinations.coreml.package import core_ml_runtime
from modellint.destinations.coreml.package.emulated_predictor import Predictor
from modellint.live.inputs.model_inputs import Inputs
from modellint.settings import Destination

ENOUGH = {"fp32": 60.0, "fp16": 30.0}
"""Decibels; Core ML may compute parts of a float32 program in its own order, and of a float16 one in more bits."""
SHARE = 0.95


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    arguments = parser.parse_args()
    if arguments.report:
        return report(arguments.results)
    if not core_ml_runtime.is_available():
        print("Core ML is on macOS only", file=sys.stderr)
        return 2
    with arguments.results.open("a", encoding="utf-8") as file:
        for name, text in zoo.files().items():
            if arguments.only and not any(part in name for part in arguments.only):
                continue
            for row in rows(name, text):
                file.write(json.dumps(row) + "\n")
                file.flush()
    return 0


def rows(name: str, text: str) -> list[dict[str, Any]]:
    """What comes of one model in both precisions, by the first route that converts it."""
    scope: dict[str, Any] = {}
    try:
        exec(compile(text, name, "exec"), scope)
        model, args = scope["make"]()
    except Exception as error:
        return [{"name": name, "skipped": f"{type(error).__name__}: {error}"[:200]}]
    model.eval()
    for route in ("trace", "export"):
        try:
            with warnings.catch_warnings(), captures(model, Inputs.of(args), Destination(), route) as found:
                warnings.simplefilter("ignore")
                return [_row(name, found[0], args, precision) for precision in ENOUGH]
        except NotConverted:
            continue
    return [{"name": name, "skipped": "does not convert"}]


def _row(name: str, captured: Any, args: Any, precision: str) -> dict[str, Any]:
    made = convert(captured, Destination(), precision)
    label = {"name": name, "precision": precision, "route": made.route}
    try:
        predictor = Predictor(made.program)
        (ours,) = predictor(list(args))
        theirs = core_ml_runtime.predicted(made.mlmodel, predictor.named(list(args)), predictor.output_names)
    except (UnknownOperations, ExecutionError, RuntimeError) as error:
        return {**label, "failed": str(error)[:200]}
    seen = [compare(one, torch.as_tensor(other)) for one, other in zip(ours, theirs, strict=True)]
    return {**label, "snr": [one.snr if math.isfinite(one.snr) else str(one.snr) for one in seen]}


def report(path: Path) -> int:
    held = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    good = True
    for precision, enough in ENOUGH.items():
        ran = [row for row in held if row.get("precision") == precision]
        right = [row for row in ran if "snr" in row and min(map(float, row["snr"])) >= enough]
        good = good and bool(ran) and len(right) >= SHARE * len(ran)
        print(f"{precision}: {len(right)} of {len(ran)} models with at least {enough:.0f} dB")
        for row in ran:
            if row not in right:
                print(f"  {row}")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
