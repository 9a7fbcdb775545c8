"""The executor of ML Programs beside Apple's interpreter: the same models by both converters, on the same inputs.

    python benchmarks/interpreters.py operators operators.jsonl --every 4     one operator each
    python benchmarks/interpreters.py zoo zoo.jsonl --only own_ resnet        real architectures
    python benchmarks/interpreters.py drawn drawn.jsonl --folder FOLDER       files with a function `make`
    python benchmarks/interpreters.py report FILE...                          how many are equal, and every other one

A model is captured once by ``torch.export`` and converted by plain coremltools (float32) and by plain coreai-torch. The executor
runs the one, Apple's interpreter the other, on the sample and on three further inputs made of it. Each result is compared
with the other and with PyTorch's, as the largest difference over the largest number of the output. What is run already is
not run again.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from coreai_verdicts import Truth, distance, interpreted, models
from ledger import Ledger

EQUAL = 1e-4
"""Of the scale of an output; both compute in float32."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("operators", "zoo", "drawn"):
        command = commands.add_parser(name)
        command.add_argument("results", type=Path, help="the file for results")
        command.add_argument("--only", nargs="*", default=[], help="parts of names")
        command.add_argument("--every", type=int, default=1, metavar="N", help="run one in N")
        if name == "drawn":
            command.add_argument("--folder", type=Path, required=True, help="of the files that were drawn")
    commands.add_parser("report").add_argument("results", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "report":
        return report(arguments.results)
    folder = str(arguments.folder.absolute()) if arguments.command == "drawn" else ""
    ledger, apart = Ledger(arguments.results), Truth()
    for at, (name, _) in enumerate(models(arguments.command, folder)):
        wanted = not arguments.only or any(part in name for part in arguments.only)
        if at % arguments.every or name in ledger.rows or not wanted:
            continue
        print(name, file=sys.stderr)
        done = apart.done(by_both, arguments.command, folder, name)
        if "stage" in done:
            # coreai-torch or its interpreter ended the process.
            done = {"coreai": f"{done['stage']}: {done['message']}"}
        ledger.finish({"name": name, "set": arguments.command, **done})
    return report([arguments.results])


def by_both(kind: str, folder: str, name: str) -> dict[str, Any]:
    """What the two make of a model, in a process that they may end."""
    import torch

    from corpora import converted, samples_of, tensors
    from modellint.destinations.coreml.mil.executor import Executor
    from truth import ct, quiet

    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    try:
        model, args = dict(models(kind, folder))[name]()
        with quiet():
            model.eval()
            samples = list(samples_of(model, tuple(args)))
            captured = torch.export.export(model, tuple(args))
    except Exception as error:
        return {"skipped": f"{type(error).__name__}: {error}"[:300]}
    try:
        with quiet():
            options = {"compute_precision": ct.precision.FLOAT32, "convert_to": "mlprogram", "skip_model_load": True}
            program = converted(captured, options, "export")
            run = Executor(program._mil_program)
        outputs = [variable.name for variable in program._mil_program.functions["main"].outputs]
        executed = []
        for inputs, _ in samples:
            results = run(dict(zip(run.inputs, inputs, strict=True)))
            executed.append([results[output].numpy() for output in outputs])
    except Exception as error:
        return {"coreml": f"{type(error).__name__}: {error}"[:300]}
    with quiet():
        # The sample's structure, with other numbers.
        spec = torch.utils._pytree.tree_structure(tuple(args))
        given = [torch.utils._pytree.tree_unflatten(inputs, spec) for inputs, _ in samples]
        done = interpreted(captured, given)
    if isinstance(done, dict):
        return {"coreai": f"{done['stage']}: {done['message']}"}
    rows = [
        _distances(ours, theirs, list(tensors(wanted)))
        for ours, theirs, (_, wanted) in zip(executed, done, samples, strict=True)
    ]
    return {
        "executor": max(row[0] for row in rows),
        "interpreter": max(row[1] for row in rows),
        "apart": max(row[2] for row in rows),
    }


def _distances(ours: Sequence[Any], theirs: Sequence[Any], wanted: Sequence[Any]) -> tuple[float, float, float]:
    """Of the executor and of the interpreter from PyTorch, and of the two from each other."""
    import torch

    found = [0.0, 0.0, 0.0]
    for first, second, third in zip(ours, theirs, wanted, strict=True):
        pairs = ((first, third), (second, third), (first, torch.from_numpy(second.astype("float64"))))
        for at, (result, expected) in enumerate(pairs):
            same = result.size == expected.numel()
            off = distance(result, expected) if same else float("inf")
            # Not a number on one side alone is as far as can be.
            found[at] = max(found[at], off if off == off else float("inf"))
    return found[0], found[1], found[2]


def report(paths: Iterable[Path]) -> int:
    """Print how many are equal and which are not; 0 where all are."""
    rows = [row for path in paths for row in Ledger(path).rows.values()]
    different = []
    for name in sorted({row["set"] for row in rows}):
        here = [row for row in rows if row["set"] == name]
        run = [row for row in here if "apart" in row]
        apart = [row for row in run if row["apart"] > EQUAL]
        reasons = Counter(
            next(word for word in ("skipped", "coreml", "coreai") if word in row) for row in here if row not in run
        )
        print(f"\n{name}: {len(here)} models, {len(run)} run by both, {len(run) - len(apart)} equal within {EQUAL:g}")
        print(
            f"  not run by both: {dict(reasons)} (skipped: not captured; coreml, coreai: not converted or not run there)"
        )
        for row in sorted(apart, key=lambda row: -row["apart"]):
            print(
                f"  {row['name']}: apart {row['apart']:.1e}; from PyTorch: executor {row['executor']:.1e}, "
                f"interpreter {row['interpreter']:.1e}"
            )
        different += apart
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
