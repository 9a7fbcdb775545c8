"""The executor of ML Programs against what is independent of it.

    python benchmarks/execution.py operations operations.jsonl   coremltools' own tests of its operations
    python benchmarks/execution.py inference inference.jsonl     what coremltools computes of constants while it converts
    python benchmarks/execution.py corpora corpora.jsonl         converted models against PyTorch
    python benchmarks/execution.py report FILE...                counts, and every disagreement

What is done already is not done again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ledger import MORE, Ledger, supervise

OPERATION_TESTS = "coremltools.converters.mil.mil.ops.tests"
TORCH_TESTS = "coremltools.converters.mil.frontend.torch.test.test_torch_ops"
TESTS = "import sys, pytest; status = pytest.main(sys.argv[1:]); sys.exit(0 if status in (0, 1, 5) else 10 + status)"
"""A failing test of theirs is no failure of the worker's, nor is that nothing is left; pytest's 3 is not the ledger's `MORE`."""
SILENCE = 900
PRECISIONS = ("fp32", "fp16")
TIGHT, TIGHT_HALF = 1e-5, 2e-3
"""Error over the scale of an output, for programs of single precision and for those that hold half precision anywhere."""
INFERENCE, INFERENCE_HALF = 1e-6, 4e-3
"""The same for single operations; integers and what is only moved must be equal. numpy rounds to half within an operation."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    operations = commands.add_parser("operations")
    operations.add_argument("--all", action="store_true", help="every opset and precision; default: one of each test")
    operations.add_argument("--every", type=int, default=1, metavar="N", help="run one in N of the tests")
    corpora = commands.add_parser("corpora")
    corpora.add_argument("--sets", nargs="*", default=["operators", "harvest", "zoo"], help="of models")
    corpora.add_argument("--pairs", type=int, default=2000, help="of the harvest; default: 2000")
    corpora.add_argument("--seed", type=int, default=0, help="of the choice of tests of the harvest")
    corpora.add_argument("--precisions", nargs="*", default=list(PRECISIONS))
    corpora.add_argument("--truth", type=Path, help="results of agreement.py: routes that do not convert are left out")
    corpora.add_argument("--child", help=argparse.SUPPRESS)
    operations.add_argument("--built", action="store_true", help="convert nothing: programs as the tests build them")
    inference = commands.add_parser("inference")
    inference.add_argument("--seeds", type=int, default=20, help="uses of each operation and element type; default: 20")
    for command in (operations, inference, corpora):
        command.add_argument("results", type=Path, help="the file for results")
        command.add_argument("--only", nargs="*", default=[], help="parts of names")
        command.add_argument("--again", action="store_true", help="run again what did not agree")
    commands.add_parser("report").add_argument("results", nargs="+", type=Path)
    arguments = parser.parse_args()
    # Workers find the plug-ins beside this file.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    if getattr(arguments, "again", False):
        forget(arguments.results)
    match arguments.command:
        case "operations":
            run_operations(arguments)
            return report([arguments.results])
        case "inference":
            run_inference(arguments)
            return report([arguments.results])
        case "corpora":
            if arguments.child:
                run_models(arguments)
                return 0
            for name in arguments.sets:
                supervise(_command(arguments, name), arguments.results, 2 * SILENCE)
            return report([arguments.results])
        case _:
            return report(arguments.results)


def run_operations(arguments: argparse.Namespace) -> None:
    """Run coremltools' tests of its operations with the executor in Core ML's place."""
    os.environ["PYMIL_TEST_TARGETS"] = "mlprogram"
    if arguments.all:
        os.environ["RUN_BACKWARD_COMPATIBILITY"] = "1"
        os.environ["INCLUDE_MIL_FP32_UNIT_TESTS"] = "1"
    results = str(arguments.results.absolute())
    quiet = ["-q", "-q", "--tb=no", "-p", "no:warnings", "-p", "no:cacheprovider", "--no-header", "--no-summary"]
    only = ["--every", str(arguments.every)] + (["--built"] if arguments.built else [])
    only += ["--tests", *arguments.only] if arguments.only else []
    command = [sys.executable, "-c", TESTS, "-p", "operation_tests", *quiet, "--operations", results, *only]
    supervise([*command, "--pyargs", OPERATION_TESTS], arguments.results, SILENCE)


def run_inference(arguments: argparse.Namespace) -> None:
    """Compare random uses of operations with what coremltools computes of them."""
    from inference import uses
    from truth import quiet

    ledger = Ledger(arguments.results)
    for name, compared in uses(arguments.seeds):
        if name in ledger.rows or (arguments.only and not any(name.split()[0] == part for part in arguments.only)):
            continue
        with quiet():
            row = compared()
        ledger.finish({"name": name, "set": "inference", **row})


def _command(arguments: argparse.Namespace, name: str) -> list[str]:
    results = str(arguments.results.absolute())
    options = ["--precisions", *arguments.precisions]
    options += [] if arguments.truth is None else ["--truth", str(arguments.truth.absolute())]
    if name == "harvest":
        quiet = ["-q", "-q", "--tb=no", "-p", "no:warnings", "-p", "no:cacheprovider", "--no-header", "--no-summary"]
        options += ["--harvest", results, "--pairs", str(arguments.pairs), "--sample-seed", str(arguments.seed)]
        return [sys.executable, "-c", TESTS, "-p", "harvest", *quiet, *options, "--executed", "--pyargs", TORCH_TESTS]
    only = ["--only", *arguments.only] if arguments.only else []
    return [sys.executable, __file__, "corpora", results, "--child", name, *options, *only]


def run_models(arguments: argparse.Namespace) -> None:
    """Execute the models of a set that are not executed yet."""
    import torch

    from agreement import BATCH, models
    from corpora import executed

    torch.set_num_threads(1)
    ledger = Ledger(arguments.results)
    known = {} if arguments.truth is None else Ledger(arguments.truth).rows
    done = 0
    for name, make, target in models(arguments.child):
        if name in ledger.begun or (arguments.only and not any(part in name for part in arguments.only)):
            continue
        if done == BATCH[arguments.child]:
            sys.exit(MORE)
        done += 1
        ledger.begin(name)
        row: dict[str, Any] = {"name": name, "set": "corpora", "of": arguments.child, "target": target}
        try:
            torch.manual_seed(0)
            model, inputs = make()
            with torch.no_grad():
                row.update(executed(model.eval(), inputs, target, tuple(arguments.precisions), known.get(name)))
        except Exception as error:
            row["skipped"] = f"{type(error).__name__}: {error}"[:300]
        ledger.finish(row)


def forget(path: Path) -> None:
    """Take out of a ledger what did not agree, so that it is run again."""
    kept = [row for row in Ledger(path).rows.values() if "lost" not in row and _agrees(row)]
    path.write_text("".join(json.dumps(row) + "\n" for row in kept), "utf-8")


def report(paths: Iterable[Path]) -> int:
    """Print the tables; 0 where nothing disagrees."""
    rows = [row for path in paths for row in Ledger(path).rows.values()]
    wrong = 0
    for name, printed in (
        ("operations", _report_operations),
        ("inference", _report_inference),
        ("corpora", _report_corpora),
    ):
        chosen = [row for row in rows if row.get("set") == name]
        wrong |= printed(chosen) if chosen else 0
    return wrong


def _report_operations(rows: list[dict[str, Any]]) -> int:
    harvested = [row for row in rows if row["cases"]]
    print(f"{len(rows)} tests run, {len(harvested)} with a prediction to compare")
    wrong: dict[str, list[str]] = {}
    unknown: Counter[str] = Counter()
    for program in ("built", "converted"):
        cases = [(row["name"], case) for row in rows for case in row["cases"] if case["program"] == program]
        counts: Counter[str] = Counter()
        for name, case in cases:
            judgement = _judgement(case)
            counts[judgement] += 1
            unknown.update(case.get("unknown", ()))
            if judgement not in ("tight", "loose (own comparison)", "unsupported"):
                kind = f"{judgement}, program as {program}"
                said = case.get("raised") or case.get("said") or f"error {case.get('error')}"
                wrong.setdefault(f"{kind}: {name.partition('[')[0]}", []).append(f"{name}: {said}")
        print(
            f"program as {program}: {len(cases)} cases: " + ", ".join(f"{n} {what}" for what, n in counts.most_common())
        )
    print(
        "operations without a definition: "
        + (", ".join(f"{name} ({n})" for name, n in unknown.most_common()) or "none")
    )
    for what, names in sorted(wrong.items()):
        print(f"{len(names):5} {what}\n        {names[0].partition('[')[2]}")
    return int(bool(wrong))


def _report_inference(rows: list[dict[str, Any]]) -> int:
    from inference import NO_USE, undrawn

    left_out = [row for row in rows if "left_out" in row]
    unknown = Counter(name for row in rows for name in row.get("unknown", ()))
    compared = [row for row in rows if "error" in row]
    differ = [row for row in rows if "raised" in row or ("error" in row and not _agrees(row))]
    faults = Counter(f"{row['name'].split()[0]}: {row['fault']}" for row in differ if row["fault"])
    wrong = [row for row in differ if not row["fault"]]
    operations = {row["name"].split()[0] for row in compared}
    print(
        f"{len(rows)} uses of {len({row['name'].split()[0] for row in rows})} operations; {len(compared)} compared, of"
    )
    print(f"{len(operations)} operations; {len(compared) - len([row for row in differ if 'error' in row])} agree")
    for what, count in faults.items():
        print(f"{count:5} differ by coremltools' fault: {what}")
    print("operations without a definition: " + (", ".join(sorted(unknown)) or "none"))
    print("without random uses: " + ", ".join(f"{name} ({NO_USE.get(name, '?')})" for name in undrawn()))
    for what, chosen in (("not comparable", left_out), ("disagrees", wrong)):
        kinds: dict[str, list[dict[str, Any]]] = {}
        for row in chosen:
            kinds.setdefault(" ".join(row["name"].split()[:2]), []).append(row)
        for kind, found in kinds.items():
            one = found[0]
            said = one.get("left_out") or one.get("raised") or f"error {one['error']:.2g}: {one['said']}; {one['use']}"
            print(f"{len(found):5} {what}: {kind}: {one['name']}: {said}")
    return int(bool(wrong))


def _report_corpora(rows: list[dict[str, Any]]) -> int:
    unknown: Counter[str] = Counter()
    wrong: list[str] = []
    sets = sorted({row["of"] for row in rows})
    print(
        f"{'':28} {'convert':>8} {'execute':>8} {'shapes':>7} {'agree':>6} {'share':>7} {'median':>8} {'p99':>8} {'SNR dB':>7}"
    )
    for route in ("trace", "export"):
        for precision in PRECISIONS:
            for of in (*sets, "all"):
                chosen = [
                    (row["name"], row[route][precision])
                    for row in rows
                    if of in ("all", row["of"]) and precision in row.get(route, ())
                ]
                made = [(name, one) for name, one in chosen if one["converts"]]
                ran = [(name, one) for name, one in made if "errors" in one]
                shaped = [
                    one for _, one in ran if "shape" not in one.get("said", "") and "outputs" not in one.get("said", "")
                ]
                agree = [one for _, one in ran if _right(one)]
                errors = sorted(worst(one) for one in agree)
                share = len(agree) / max(1, len(made))
                at = [f"{errors[int(part * (len(errors) - 1))]:.1e}" if errors else "" for part in (0.5, 0.99)]
                noises = sorted(one["noise"] for _, one in ran if 0 < one["noise"] < math.inf)
                ratio = f"{-10 * math.log10(noises[len(noises) // 2]):.0f}" if noises else ""
                agreeing = (str(len(agree)), f"{share:.4f}") if precision == "fp32" else ("", "")
                print(
                    f"{route} {precision} {of:16} {len(made):8} {len(ran):8} {len(shaped):7} {agreeing[0]:>6} {agreeing[1]:>7}"
                    f" {at[0]:>8} {at[1]:>8} {ratio:>7}"
                )
                if of == "all":
                    unknown.update(operation for _, one in made for operation in one.get("unknown", ()))
                    for name, one in made:
                        said = one.get("raised") or one.get("said")
                        if "unknown" in one or "raised" in one or (precision == "fp32" and not _right(one)):
                            errors_of = [
                                f"{error:.1e}" if error is not None else "inf" for error in one.get("errors", ())
                            ]
                            wrong.append(
                                f"{route} {precision}: {name}: {one.get('unknown') or ''} {' '.join(errors_of)} {said or ''}"
                            )
    print(
        "operations without a definition: "
        + (", ".join(f"{name} ({n})" for name, n in unknown.most_common()) or "none")
    )
    for row in rows:
        if "skipped" in row:
            print(f"not executed: {row['name']}: {row['skipped']}")
    print("\n".join(wrong))
    return int(bool(wrong))


def worst(one: dict[str, Any]) -> float:
    """The largest error of a program over all seeds."""
    return max((math.inf if error is None else error for error in one["errors"]), default=0.0)


def _right(one: dict[str, Any]) -> bool:
    return "errors" in one and worst(one) <= (TIGHT_HALF if one.get("half") else TIGHT)


def _agrees(row: dict[str, Any]) -> bool:
    if row["set"] == "inference":
        limit = 0.0 if row.get("exact") else INFERENCE_HALF if row["half"] else INFERENCE
        return "left_out" in row or row.get("error", math.inf) <= limit
    if row["set"] == "corpora":
        found = [
            (name, row[route][name])
            for route in ("trace", "export")
            for name in PRECISIONS
            if name in row.get(route, ())
        ]
        return all(not one["converts"] or ("errors" in one and (name == "fp16" or _right(one))) for name, one in found)
    return all(_judgement(case) in ("tight", "loose (own comparison)") for case in row["cases"])


def _judgement(case: dict[str, Any]) -> str:
    if "unknown" in case:
        return "unsupported"
    if "raised" in case:
        return "raised"
    if case.get("own"):
        return "loose (own comparison)" if case["loose"] else "disagree"
    if case["error"] is not None and case["error"] <= (TIGHT_HALF if case["half"] else TIGHT):
        return "tight"
    return "loose only" if case["loose"] else "disagree"


if __name__ == "__main__":
    sys.exit(main())
