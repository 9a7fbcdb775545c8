"""Whether `modellint verify` catches conversions that are wrong: programs that were changed after a right one.

    python benchmarks/mutations.py mutants mutants.jsonl
    python benchmarks/mutations.py report FILE...

That it leaves alone those that are right is for alarms.py. A mutant whose outputs are those of the right program, within the
rounding of right conversions (1e-5 of their scale), is none: it is counted, and left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import mutants
from modellint.destinations.comparison.tensor_difference import LIMIT, compare
from modellint.destinations.coreml.convert import conversion
from modellint.destinations.coreml.mil.executor import ExecutionError
from modellint.destinations.coreml.package.emulated_predictor import Predictor
from modellint.destinations.coreml.private.mil_programs import made_from
from modellint.destinations.coreml.verify import model as verify
from modellint.live.code.places import Project
from modellint.live.inputs.model_inputs import Inputs
from modellint.settings import Destination

HERE = Path(__file__).resolve().parent
ROUTES = ("trace", "export")
WEIGHTS = (1, 2)
"""Seeds of the models' weights."""
EACH = 12
"""Mutants of one kind for one model by one route, at most."""
NO_EFFECT = LIMIT


class Site(NamedTuple):
    """One possible mutation of a program."""

    kind: str
    operation: str
    """The name of the operation that computes something else afterwards."""
    apply: Callable[[], None]
    consumers: tuple[str, ...] = ()
    """What reads an operation that is gone afterwards, or the same constant."""


def sites(program: Any) -> Iterator[Site]:
    """All mutations of a program, in a fixed order."""
    function = program.functions["main"]
    for one in function.operations:
        held = one.inputs
        match one.op_type:
            case "conv" | "conv_transpose" | "linear" | "lstm" | "gru" | "rnn" | "matmul" | "gather":
                for name in ("weight", "weight_ih", "weight_hh", "y", "x"):
                    variable = held.get(name)
                    if variable is not None and variable.val is not None and np.size(variable.val) > 8:
                        # Several operations may share a weight.
                        shared = tuple(reader.name for reader in variable.child_ops)
                        yield Site("weight", one.name, lambda v=variable: _set(v, v.val * np.float32(1.01)), shared)
        if one.op_type in ("lstm", "gru"):
            count = 4 if one.op_type == "lstm" else 3
            for first, second in ((0, 1), (1, 2), (0, 2), (2, 3))[: count + 1 if count == 3 else 4]:
                if second < count:
                    yield Site("gates", one.name, lambda o=one, a=first, b=second, n=count: _swap_gates(o, a, b, n))
        if one.op_type == "transpose":
            readers = tuple(reader.name for reader in one.outputs[0].child_ops)
            if one.outputs[0] not in function.outputs and readers:
                yield Site("transpose", one.name, lambda o=one: _drop(o), readers)
        if one.op_type == "matmul":
            for name in ("transpose_x", "transpose_y"):
                variable = held.get(name)
                if variable is not None and bool(variable.val):
                    yield Site("transpose", one.name, lambda v=variable: _set(v, np.bool_(False)))
        if held.get("epsilon") is not None and held["epsilon"].val is not None and one.op_type.endswith("_norm"):
            shared = tuple(reader.name for reader in held["epsilon"].child_ops)
            for factor in (100.0, 0.01):
                yield Site(
                    "epsilon", one.name, lambda v=held["epsilon"], f=factor: _set(v, v.val * np.float32(f)), shared
                )
        if one.op_type == "select":
            yield Site("mask", one.name, lambda o=one: _exchange(o, "a", "b"))


def _set(variable: Any, value: Any) -> None:
    variable._sym_val.val = np.asarray(value).astype(np.asarray(variable.val).dtype)[()]


def _swap_gates(operation: Any, first: int, second: int, count: int) -> None:
    for name in ("weight_ih", "weight_hh", "bias"):
        variable = operation.inputs.get(name)
        if variable is not None and variable.val is not None:
            parts = np.split(variable.val, count, axis=0)
            parts[first], parts[second] = parts[second], parts[first]
            _set(variable, np.concatenate(parts, axis=0))


def _drop(operation: Any) -> None:
    gone, kept = operation.outputs[0], operation.inputs["x"]
    for reader in list(gone.child_ops):
        for name, held in reader.inputs.items():
            if held is gone:
                reader._input_vars[name] = kept
            elif isinstance(held, (tuple, list)) and any(one is gone for one in held):
                reader._input_vars[name] = tuple(kept if one is gone else one for one in held)


def _exchange(operation: Any, first: str, second: str) -> None:
    held = operation._input_vars
    held[first], held[second] = held[second], held[first]


class Mutating:
    """Takes the place of ``convert``: the program that it gives is changed at one site."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.site: Site | None = None
        self.program: Any = None

    def __call__(self, captured: Any, destination: Any, precision: str) -> Any:
        made = conversion.convert(captured, destination, precision)
        site = list(sites(made.program))[self.number]
        site.apply()
        self.site, self.program = site, made.program
        return made


def run_mutants(results: Path, wanted: list[str]) -> None:
    done = {row["name"] for row in _rows([results])} if results.exists() else set()
    for weights, (name, build, draw) in itertools.product(WEIGHTS, mutants.models()):
        if wanted and name not in wanted:
            continue
        for route in ROUTES:
            torch.manual_seed(len(name))
            model, args = mutants.drawn(build(), weights), draw()
            destination = Destination(precision="fp32", frontend=route)
            right, found = _right(model, args, destination)
            if right is None:
                _write(results, {"name": f"{name}/{route}/{weights}", "kind": "unmutated", "verdict": found})
                continue
            numbers: dict[str, list[int]] = {}
            for number, site in enumerate(found):
                numbers.setdefault(site.kind, []).append(number)
            chance = random.Random(f"{name} {weights}")
            for kind, all_of in numbers.items():
                for number in chance.sample(all_of, min(EACH, len(all_of))):
                    label = f"{name}/{route}/{kind}/{number}/{weights}"
                    if label not in done:
                        _write(results, {"name": label, **_mutant(model, args, destination, number, right)})


def _right(model: Any, args: Any, destination: Destination) -> tuple[Any, Any]:
    """The unchanged program's outputs, and its sites; or None, and what is wrong with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checked = verify.verify(model, Inputs.of(args), destination, Project(HERE))
        if not checked.ok:
            return None, f"{checked.verdict}: {checked.reason}"
        held: list[Any] = []

        def kept(captured: Any, wanted: Any, precision: str) -> Any:
            held.append(conversion.convert(captured, wanted, precision))
            return held[-1]

        verify.convert = kept  # type: ignore[assignment]
        try:
            verify.verify(model, Inputs.of(args), destination, Project(HERE), budget=0.0)
        finally:
            verify.convert = conversion.convert
    return _outputs(held[-1].program, args), list(sites(held[-1].program))


def _outputs(program: Any, args: Any) -> list[list[torch.Tensor]]:
    predictor = Predictor(program)
    draw = torch.Generator().manual_seed(7)
    found = []
    for scale in (1.0, 0.5, 2.0):
        given = [
            one * scale + 0.1 * torch.randn(one.shape, generator=draw) if one.is_floating_point() else one
            for one in args
        ]
        found.append(predictor(given)[0])
    return found


def _mutant(model: Any, args: Any, destination: Destination, number: int, right: Any) -> dict[str, Any]:
    change = Mutating(number)
    verify.convert = change  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = verify.verify(model, Inputs.of(args), destination, Project(HERE))
    finally:
        verify.convert = conversion.convert
    assert change.site is not None
    try:
        values = _outputs(change.program, args)
        effect = max(
            compare(one, other).error
            for ones, others in zip(values, right, strict=True)
            for one, other in zip(ones, others, strict=True)
        )
    except ExecutionError:
        effect = 1e9
    first = found.first_difference
    origins = {
        variable.name: made_from(one) for one in change.program.functions["main"].operations for variable in one.outputs
    }
    by_name = {one.name: one for one in change.program.functions["main"].operations}
    wanted = {made_from(by_name[name]) for name in (change.site.operation, *change.site.consumers) if name in by_name}
    named = first is not None and first.variable is not None and origins.get(first.variable) in wanted
    return {
        "kind": change.site.kind,
        "operation": change.site.operation,
        "effect": min(effect, 1e9),
        "caught": found.verdict == "differs",
        "named": named,
        "verdict": found.verdict,
        "first": None if first is None else [first.kind, first.operation, first.variable, first.message],
    }


def _write(path: Path, row: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _rows(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        for line in path.read_text("utf-8").splitlines():
            yield json.loads(line)


def report(paths: Iterable[Path]) -> int:
    rows = list(_rows(paths))
    changed = [row for row in rows if "effect" in row]
    seen = [row for row in changed if row["effect"] > NO_EFFECT]
    if changed:
        print(f"{len(changed)} mutants, {len(changed) - len(seen)} of them without effect")
        for kind in sorted({row["kind"] for row in seen}):
            _share(kind, [row for row in seen if row["kind"] == kind])
        _share("all", seen)
        for row in seen:
            if not (row["caught"] and row["named"]):
                print(
                    f"  {row['name']} {row['operation']} effect {row['effect']:.1e}: {row['verdict']}, {row['first']}"
                )
    good = not seen or (
        sum(row["caught"] for row in seen) >= 0.99 * len(seen) and sum(row["named"] for row in seen) >= 0.95 * len(seen)
    )
    return int(not good)


def _share(kind: str, rows: list[dict[str, Any]]) -> None:
    caught, named = sum(row["caught"] for row in rows), sum(row["named"] for row in rows)
    print(f"{kind:10} {len(rows):4}  caught {caught / len(rows):.3f}  named {named / len(rows):.3f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    changing = commands.add_parser("mutants")
    changing.add_argument("results", type=Path)
    changing.add_argument("--only", nargs="*", default=[], help="names of models")
    commands.add_parser("report").add_argument("results", nargs="+", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.command == "report":
        return report(arguments.results)
    run_mutants(arguments.results, arguments.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
