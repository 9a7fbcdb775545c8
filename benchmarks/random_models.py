"""Random models through `modellint.export`, and what is written judged by an evaluator that is not modellint's executor.

    python benchmarks/random_models.py --count 2000 --seed 1 ledger.jsonl
    python benchmarks/random_models.py --report ledger.jsonl
    python benchmarks/random_models.py --show 17

Models of 3 to 12 operators (`random_sources.py`) are exported; each package that is written is given 20 further kinds of
inputs (`further_inputs.py`), computed by `evaluator.py`, and held against PyTorch element by element (`tolerance.py`). Plain
`ct.convert`, by trace and by export in float32, is judged in the same way: a model that it gets right on all kinds is to be
exported. What is measured already is not measured again. Ends with 1 where a package is wrong, where more than 1 in 100 of the models
that plain conversion gets right are refused, or where fewer than 0.8 of the packages can be judged.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ledger import Ledger
from seed_workers import answer, measure

REFUSED = 0.01
JUDGED = 0.8
OPEN = ("the order of equal numbers", "PyTorch itself gives nan", "a state, which Core ML keeps in float16")
"""What a conversion may do otherwise and be right."""
UNDEFINED = "the program does a "
UNDERFLOWING = ("x 1e-9",)
"""Kinds of inputs that are zeros in float16."""
HALF_UNIT = 2.0**-11
"""Half a unit in the last place of float16, relative."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, nargs="?", help="the file for results")
    parser.add_argument("--count", type=int, default=2000, metavar="N", help="models (default: 2000)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first (default: 1)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--no-plain", action="store_true", help="leave plain conversion out")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--show", type=int, metavar="SEED", help="one model, and what comes of it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return answer(lambda seed: measured(seed, not arguments.no_plain))
    if arguments.show is not None:
        return show(arguments.show, not arguments.no_plain)
    if arguments.ledger is None:
        parser.error("a ledger is needed")
    ledger = Ledger(arguments.ledger)
    if not arguments.report:
        # What was lost is tried again.
        done = {name for name, row in ledger.rows.items() if "lost" not in row}
        seeds = [one for one in range(arguments.seed, arguments.seed + arguments.count) if str(one) not in done]
        options = ["--no-plain"] if arguments.no_plain else []
        measure(ledger, seeds, [sys.executable, __file__, "--worker", *options], arguments.jobs)
    return report(ledger)


def measured(seed: int, plain: bool) -> dict[str, Any]:
    """One model: exported, judged, and converted as it is."""
    import warnings

    import torch

    from random_sources import draw

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    began = time.monotonic()
    model = draw(seed)
    row: dict[str, Any] = {
        "name": str(seed),
        "theme": model.theme,
        "operators": model.operators,
        "families": sorted(set(model.families)),
        "target": model.target,
        "precision": model.precision,
        "text": model.text,
        "arguments": [list(one) for one in model.arguments],
    }
    judge = Judge(model)
    with tempfile.TemporaryDirectory() as folder:
        row["export"] = exported(model, judge, Path(folder) / "Net.mlpackage")
        row["export"]["seconds"] = round(time.monotonic() - began, 1)
    if plain:
        row["plain"] = {route: converted(model, judge, route) for route in ("trace", "export")}
    row["seconds"] = round(time.monotonic() - began, 1)
    return row


class Judge:
    """Holds programs against one model."""

    def __init__(self, model: Any, draws: int = 1) -> None:
        from further_inputs import further
        from tolerance import Raises, Reference

        self._model = model
        self._reference = Reference(model)
        self._cases: list[tuple[Any, Any]] = []
        self.raised: list[str] = []
        for one in further(model, draws):
            try:
                self._cases.append((one, self._reference(one)))
            except Raises as error:
                self.raised.append(f"{one.kind}: {error}")

    def __call__(self, program: Any, precision: str) -> dict[str, Any]:
        """What is wrong with a program; ``unjudged`` where that cannot be told."""
        from evaluator import Evaluator, Fault, Unjudged

        found: dict[str, Any] = {"kinds": len(self._cases), "raised": self.raised, "wrong": [], "apart": []}
        if not self._cases:
            return {"unjudged": ["PyTorch raises on all kinds"]}
        unknown = Evaluator(program).unknown
        if unknown:
            return {"unjudged": unknown}
        rounds = precision == "fp16" or not self._model.states
        ratios: list[float] = []
        doubts: list[str] = []
        for at, (case, expected) in enumerate(self._cases):
            try:
                evaluator = Evaluator(program, rounds=rounds, folds=at == 0)
                self._begin(evaluator)
                for step, (given, wanted) in enumerate(zip(case.steps, expected, strict=True)):
                    outputs = evaluator([one.numpy() for one in given])
                    outputs += self._held(evaluator)
                    doubts += evaluator.doubts
                    if evaluator.undefined:
                        found["apart"].append({"kind": case.kind, "apart": f"{UNDEFINED}{evaluator.undefined}"})
                        continue
                    self._judge(found, ratios, case, step, outputs, wanted, precision)
            except Unjudged as error:
                return {"unjudged": [error.operation], "why": str(error)}
            except Fault as error:
                # Numbers below 6e-8 are zeros in float16, of which a mask may leave nothing.
                apart = "zeros in float16" if precision == "fp16" and case.kind in UNDERFLOWING else ""
                told = {"kind": case.kind, "why": f"cannot be run: {error}", "apart": apart}
                found["apart" if apart else "wrong"].append(told)
        undefined = {one["kind"] for one in found["apart"] if one["apart"].startswith(UNDEFINED)}
        if len(undefined) == len(self._cases):
            return {"unjudged": [f"what is undefined: {found['apart'][0]['apart']}"]}
        if doubts:
            found["doubts"] = sorted(set(doubts))[:5]
        if ratios:
            found["snr"] = [round(ratios[0], 1), round(min(ratios), 1)]
        return found

    def outputs(self, program: Any) -> list[Any] | str:
        """What a program gives on all inputs; or why it gives nothing."""
        from evaluator import Evaluator, Fault, Unjudged

        found: list[Any] = []
        for case, _ in self._cases:
            try:
                evaluator = Evaluator(program, rounds=not self._model.states)
                self._begin(evaluator)
                for given in case.steps:
                    found += evaluator([one.numpy() for one in given])
                    found += self._held(evaluator)
            except (Fault, Unjudged) as error:
                return str(error)
        return found

    def _judge(
        self,
        found: dict[str, Any],
        ratios: list[float],
        case: Any,
        step: int,
        outputs: list[Any],
        wanted: Any,
        precision: str,
    ) -> None:
        import math

        from tolerance import MANY, departures, snr

        if precision == "fp16":
            ratio = snr(outputs, wanted)
            ratios += [] if math.isnan(ratio) else [ratio]
            return
        departed = departures(outputs, wanted, case.is_exact)
        if departed:
            departed = departures(outputs, self._reference(case, MANY)[step], case.is_exact)
        for one in departed:
            told = {"kind": case.kind, "step": step, **one._asdict()}
            # A softmax of a row that a mask leaves nothing of.
            if one.expected != one.expected and any(argument.dtype == "bool" for argument in self._model.arguments):
                told["apart"] = "PyTorch itself gives nan"
            is_state = self._model.states and one.output >= len(outputs) - len(self._reference.buffers())
            if is_state and abs(one.got - one.expected) <= abs(one.expected) * HALF_UNIT:
                told["apart"] = "a state, which Core ML keeps in float16"
            told = {
                name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
                for name, value in told.items()
            }
            found["apart" if told["apart"] else "wrong"].append(told)

    def _begin(self, evaluator: Any) -> None:
        """Give states the values of the model's buffers."""
        for name in evaluator.states:
            held = self._buffer(name)
            if held is not None:
                value = self._reference.buffer(held)
                evaluator.states[name] = value.reshape(evaluator.states[name].shape).astype(
                    evaluator.states[name].dtype
                )

    def _held(self, evaluator: Any) -> list[Any]:
        """The buffers after a prediction."""
        if not self._model.states:
            return []
        by_buffer = {self._buffer(name): name for name in evaluator.states}
        return [
            evaluator.states[by_buffer[name]] if name in by_buffer else self._reference.buffer(name)
            for name in self._reference.buffers()
        ]

    def _buffer(self, state: str) -> str | None:
        """The buffer that a state is, by its name."""
        names = {name.replace(".", "_"): name for name in self._reference.buffers()}
        return names.get(state) or next((name for flat, name in names.items() if state.endswith(f"_{flat}")), None)


def exported(model: Any, judge: Judge, path: Path) -> dict[str, Any]:
    """What `modellint.export` makes of a model."""
    import modellint
    from evaluator import read

    options: dict[str, Any] = {"precision": model.precision, "output": path}
    if model.flexible:
        options["flexible"] = model.flexible
    if model.states:
        options["states"] = True
    if model.target is not None:
        options["deployment_target"] = model.target
    options.update(_ranges(modellint.export, model))
    try:
        result = modellint.export(model.build(), model.example(), **options)
    except modellint.ExportError as error:
        codes = sorted({one.code for one in error.report.diagnostics if one.severity.label == "error"})
        compared = None if error.verification is None else error.verification.verdict
        why = compared or f"not converted, {' '.join(codes) or 'no error told'}"
        return {"outcome": "refused", "why": why, "said": str(error)[:1500]}
    except Exception as error:
        said = f"{type(error).__name__}: {error}"[:1500]
        return {"outcome": "raised", "why": type(error).__name__, "said": said}
    verdict = result.verification.verdict
    found = {"outcome": "exported", "verdict": verdict, "ok": result.verification.ok, "route": result.frontend}
    if verdict != "agrees" or not result.verification.ok:
        found["said"] = repr(result)[:800]
    return {**found, **judge(read(str(path)), model.precision)}


def _ranges(export: Any, model: Any) -> dict[str, Any]:
    """The ranges of integers, where ``export`` takes them."""
    import inspect

    ranges = {at: (one.low, one.high) for at, one in enumerate(model.arguments) if one.dtype.startswith("int")}
    return {"ranges": ranges} if ranges and "ranges" in inspect.signature(export).parameters else {}


def converted(model: Any, judge: Judge, route: str) -> dict[str, Any]:
    """What plain `ct.convert` in float32 makes of a model."""
    import coremltools as ct
    import numpy as np

    from truth import TooSlow, limited, quiet, tensor_types, traced
    from truth import exported as exported_program

    module, args = model.build(), model.example()
    options: dict[str, Any] = {"compute_precision": ct.precision.FLOAT32, "skip_model_load": True}
    if model.target is not None:
        options["minimum_deployment_target"] = getattr(ct.target, model.target)
    try:
        with quiet(), limited(30):
            if route == "trace":
                options["inputs"] = tensor_types(args, model.flexible)
                if model.states:
                    options["states"] = [
                        ct.StateType(ct.TensorType(shape=tuple(one.shape), dtype=np.float16), name=name)
                        for name, one in module.named_buffers()
                        if re.search(rf"self\.{name}\b", model.text.split("def forward")[1])
                        and "torch.linspace" not in _line(model.text, name)
                    ]
                program = traced(module, args)
            else:
                program = exported_program(module, args, model.flexible).run_decompositions({})
            made = ct.convert(program, **options)
    except (Exception, TooSlow) as error:
        return {"outcome": "not converted", "why": f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]}
    program = made._mil_program
    found = judge(program, "fp32")
    found = {key: value for key, value in found.items() if key in ("wrong", "unjudged", "apart")}
    found["wrong"] = found.get("wrong", [])[:3]
    return {"outcome": "converted", **found}


def _line(text: str, name: str) -> str:
    return next((line for line in text.splitlines() if f'register_buffer("{name}"' in line), "")


# What is told.


def report(ledger: Ledger) -> int:
    """Print the tables; 0 where all is as it should be."""
    rows = [row for _, row in sorted(ledger.rows.items(), key=lambda one: int(one[0]))]
    lost = [row for row in rows if "lost" in row]
    whole = [row for row in rows if "lost" not in row]
    written = [row for row in whole if row["export"]["outcome"] == "exported"]
    single = [row for row in written if row["precision"] == "fp32"]
    judged = [row for row in written if "kinds" in row["export"]]
    wrong = [row for row in judged if row["export"]["wrong"]]
    print(
        f"{len(rows)} models of {_mean(whole, 'operators'):.1f} operators; {len(lost)} lost; {_mean(whole, 'seconds'):.1f} s each"
    )
    outcomes = Counter(_outcome(row["export"]) for row in whole)
    for name, count in sorted(outcomes.items(), key=lambda one: -one[1]):
        print(f"    {count:5}  {name}")
    print(
        f"{len(written)} packages written, {len(single)} of them in float32; {len(judged)} judged ({_share(judged, written):.3f})"
    )
    lacking = Counter(name for row in written for name in row["export"].get("unjudged", ()))
    for name, count in lacking.most_common():
        print(f"    {count:5}  not judged for {name}")
    kinds = sum(row["export"]["kinds"] for row in judged)
    print(f"{kinds} runs on further inputs; {len(wrong)} packages wrong beyond the tolerance")
    for row in wrong:
        _tell_wrong(row)
    apart = Counter(_apart(one) for row in judged for one in row["export"]["apart"])
    for name, count in apart.most_common():
        print(f"    {count:5}  runs apart: {name}")
    doubts = Counter(one.split()[0] for row in judged for one in row["export"].get("doubts", ()))
    for name, count in doubts.most_common():
        print(f"    {count:5}  coremltools folds {name} to something else")
    halves = sorted(
        row["export"]["snr"][0] for row in judged if row["precision"] == "fp16" and row["export"].get("snr")
    )
    if halves:
        middle = halves[len(halves) // 2]
        print(f"{len(halves)} float16 packages: a signal to noise of {halves[0]:.0f} dB at least, median {middle:.0f}")
    right = [row for row in whole if _plain_right(row)]
    refused = [row for row in right if row["export"]["outcome"] != "exported"]
    told = sum(any(one["outcome"] == "converted" for one in row["plain"].values()) for row in whole if "plain" in row)
    print(f"plain conversion: {told} converted, {len(right)} right on all kinds")
    print(f"{len(refused)} of these refused ({_share(refused, right):.3f})")
    for row in refused:
        print(
            f"    {row['name']} ({row['theme']}, {row['target']}): {row['export']['why']}\n"
            + _indented(row["export"]["said"], 12)
        )
    for theme in sorted({row["theme"] for row in whole}):
        of = [row for row in whole if row["theme"] == theme]
        print(
            f"    {theme:10} {len(of):5} models {sum(row in written for row in of):5} written {sum(row in wrong for row in of):4} wrong"
        )
    for row in lost:
        print(f"    lost: {row['name']}: {row['lost']}")
    return int(bool(wrong) or _share(refused, right) > REFUSED or _share(judged, written) < JUDGED)


def _outcome(found: dict[str, Any]) -> str:
    if found["outcome"] == "exported":
        return f"exported, {found['verdict']}" + ("" if found["ok"] else ", not ok")
    return f"{found['outcome']}: {found['why']}"


def _apart(one: dict[str, Any]) -> str:
    return str(one["apart"])


def _plain_right(row: dict[str, Any]) -> bool:
    """Whether a plain conversion gives what PyTorch gives on all kinds, but for what PyTorch leaves open."""
    return any(
        one["outcome"] == "converted"
        and not one["wrong"]
        and "unjudged" not in one
        and all("got" not in part or part["apart"] in OPEN for part in one["apart"])
        for one in row.get("plain", {}).values()
    )


def _tell_wrong(row: dict[str, Any]) -> None:
    found = row["export"]
    print(f"  seed {row['name']} ({row['theme']}, target {row['target']}, by {found['route']}):")
    for one in list(_by_kind(found["wrong"]))[:4]:
        print(f"      {one}")
    print(
        _indented(
            row["text"].split("    def __init__")[1].split("        draw =")[0]
            + row["text"].split("\n\n    def forward")[1],
            8,
        )
    )


def _by_kind(wrong: list[dict[str, Any]]) -> Iterator[str]:
    for one in wrong:
        if "got" in one:
            values = f"{one['got']} for {one['expected']}, {one['allowed']} allowed, {one['count']} elements"
            yield f"{one['kind']}: output {one['output']} {one['why']}: {values}"
        else:
            yield f"{one['kind']}: {one['why']}"


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line.strip() for line in text.strip().splitlines())


def _mean(rows: list[dict[str, Any]], key: str) -> float:
    return sum(row[key] for row in rows) / max(len(rows), 1)


def _share(part: list[Any], of: list[Any]) -> float:
    return len(part) / max(len(of), 1)


def show(seed: int, plain: bool) -> int:
    """Measure one model and print everything."""
    row = measured(seed, plain)
    print(row.pop("text"))
    print(json.dumps(row, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
