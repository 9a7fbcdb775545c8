"""The dry run's verdict against the real conversion, by each route, over models with inputs of three kinds.

    python benchmarks/agreement.py harvest harvest.jsonl     models of the tests that coremltools ships
    python benchmarks/agreement.py zoo zoo.jsonl             real architectures
    python benchmarks/agreement.py operators operators.jsonl  one operator each
    python benchmarks/agreement.py report FILE...            recall, precision, and every disagreement
    python benchmarks/agreement.py source operators.jsonl    what source checks say of the same modules of one operator

What is judged already is not judged again. ``--truth FILE`` takes what the conversion says from an earlier run, so that only
the verdicts are made anew. Architectures and operators are converted at the default target and precision and with sizes that
are fixed, unless ``--target``, ``--precision`` or ``--flexible`` say otherwise.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ledger import MORE, Ledger, supervise

HERE = Path(__file__).parent
TESTS = "coremltools.converters.mil.frontend.torch.test.test_torch_ops"
BATCH = {"zoo": 1, "operators": 200}
"""How many models one process judges: what coremltools and torch keep of large ones adds up."""
SILENCE = 1800
"""Seconds without a result after which a worker is taken for dead; every step of it has a limit of its own."""


class Count(NamedTuple):
    """The verdicts of one route."""

    true_failing: int
    false_failing: int
    missed: int
    true_converting: int

    @property
    def recall(self) -> float:
        """Of what fails, the share that was predicted; 1 where nothing fails."""
        return 1 - self.missed / max(1, self.true_failing + self.missed)

    @property
    def precision(self) -> float:
        """Of what was predicted to fail, the share that does; 1 where nothing was."""
        return 1 - self.false_failing / max(1, self.true_failing + self.false_failing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("harvest", "zoo", "operators"):
        command = commands.add_parser(name)
        command.add_argument("results", type=Path, help="the file for results")
        command.add_argument("--truth", type=Path, help="results of an earlier run")
        command.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
        command.add_argument("--seed", type=int, default=0, help="of the choice of tests")
        command.add_argument("--pairs", type=int, default=2000, help="of the tests; default: 2000")
        command.add_argument("--only", nargs="*", default=[], help="parts of names")
        if name != "harvest":
            command.add_argument("--target", help="the deployment target, as in iOS18")
            command.add_argument("--precision", choices=("fp16", "fp32"), default="fp16")
            command.add_argument("--flexible", type=int, metavar="DIM", help="let this dimension of all inputs vary")
            command.add_argument("--every", type=int, default=1, metavar="N", help="judge one in N")
    commands.add_parser("report").add_argument("results", nargs="+", type=Path)
    commands.add_parser("source").add_argument("results", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "report":
        return report(arguments.results)
    if arguments.command == "source":
        return report_source(arguments.results)
    if arguments.child:
        work(arguments)
        return 0
    supervise(_command(arguments), arguments.results, SILENCE)
    return 0


def _command(arguments: argparse.Namespace) -> list[str]:
    results = str(arguments.results.absolute())
    truth = [] if arguments.truth is None else ["--truth", str(arguments.truth.absolute())]
    if arguments.command == "harvest":
        options = ["--harvest", results, "--pairs", str(arguments.pairs), "--sample-seed", str(arguments.seed), *truth]
        quiet = ["-q", "-q", "--tb=no", "-p", "no:warnings", "-p", "no:cacheprovider", "--no-header", "--no-summary"]
        # A failing test of theirs is no failure of the worker's.
        code = "import sys, pytest; status = pytest.main(sys.argv[1:]); sys.exit(status not in (0, 1))"
        return [sys.executable, "-c", code, "-p", "harvest", *quiet, *options, "--pyargs", TESTS]
    only = ["--only", *arguments.only] if arguments.only else []
    options = ["--precision", arguments.precision, "--every", str(arguments.every)]
    if arguments.target is not None:
        options += ["--target", arguments.target]
    if arguments.flexible is not None:
        options.append(f"--flexible={arguments.flexible}")
    return [sys.executable, __file__, arguments.command, results, "--child", *truth, *options, *only]


def work(arguments: argparse.Namespace) -> None:
    """Judge what is not judged yet."""
    import torch

    from truth import Conditions, judged

    torch.set_num_threads(1)
    ledger = Ledger(arguments.results)
    known = {} if arguments.truth is None else Ledger(arguments.truth).rows
    most = BATCH[arguments.command]
    done = 0
    chosen = itertools.islice(models(arguments.command), None, None, arguments.every)
    for name, make, target in chosen:
        conditions = Conditions(arguments.target or target, arguments.precision, arguments.flexible)
        if name in ledger.begun or (arguments.only and not any(part in name for part in arguments.only)):
            continue
        if done == most:
            sys.exit(MORE)
        done += 1
        ledger.begin(name)
        row: dict[str, Any] = {"name": name, "set": arguments.command, **conditions._asdict()}
        try:
            torch.manual_seed(0)
            model, inputs = make()
            with torch.no_grad():
                model.eval()(*inputs)
        except Exception as error:
            ledger.finish({**row, "skipped": f"{type(error).__name__}: {error}"[:300]})
            continue
        ledger.finish({**row, **judged(model, inputs, conditions, known.get(name))})


def models(kind: str) -> Iterator[tuple[str, Any, str | None]]:
    """Names, what makes model and inputs, and the deployment target."""
    if kind == "zoo":
        from zoo import files

        for name, text in files().items():
            yield name, lambda text=text: _made(text), None
    else:
        from operators import probes

        for probe in probes():
            yield probe.name, probe.make, probe.target


def _made(text: str) -> Any:
    scope: dict[str, Any] = {"__name__": "architecture"}
    exec(text, scope)
    return scope["make"]()


def report(paths: Iterable[Path]) -> int:
    """Print the tables; 0 where recall and precision are as wanted."""
    rows = [row for path in paths for row in Ledger(path).rows.values()]
    sets = sorted({row.get("set", "?") for row in rows if "lost" not in row})
    print(
        f"{'':24} {'models':>7} {'captured':>8} {'failing':>8} {'found':>6} {'false':>6} {'missed':>6} {'recall':>7} {'precision':>9}"
    )
    wanted = True
    differing: list[tuple[str, str, dict[str, Any]]] = []
    for route in ("trace", "export"):
        for name in (*sets, "all"):
            chosen = [row for row in rows if route in row and name in ("all", row["set"])]
            count, differ = _compared(chosen, route)
            captured = sum(count)
            failing = count.true_failing + count.missed
            print(
                f"{route + ' ' + name:24} {len(chosen):7} {captured:8} {failing:8} {count.true_failing:6} {count.false_failing:6} "
                f"{count.missed:6} {count.recall:7.4f} {count.precision:9.4f}"
            )
            if name == "all":
                wanted &= count.recall >= 0.98 and count.precision >= 0.99
                differing += [(route, what, row) for what, row in differ]
    for name in sets:
        _print_times([row for row in rows if row.get("set") == name], name)
    for row in rows:
        if "lost" in row or "skipped" in row:
            print(f"not judged: {row['name']}: {row.get('lost') or row['skipped']}")
    for route, what, row in differing:
        said, truth = row[route]["dry"], row[route]["truth"]
        print(f"\n{what}, {route}: {row['name']}" + (f" [{row['target']}]" if row["target"] else ""))
        print(f"  conversion: {'converts' if truth['converts'] else truth.get('message')}")
        if truth.get("core"):
            print(f"  decomposed: {truth['core']}")
        if "raised" in said:
            print(f"  dry run:    RAISED {said['raised']}")
        for kind, operator, message, *_ in said.get("blockers", ()):
            print(f"  dry run:    {kind} {operator}: {message}")
        if not said.get("blockers"):
            print(f"  dry run:    {said.get('convertible')} {said.get('reason', '')}")
    return int(not wanted)


def _compared(rows: Iterable[dict[str, Any]], route: str) -> tuple[Count, list[tuple[str, dict[str, Any]]]]:
    """What agrees and what does not; captures that fail are left out, if the verdict says so too."""
    found: list[str] = []
    differing: list[tuple[str, dict[str, Any]]] = []
    for row in rows:
        said, truth = row[route]["dry"], row[route]["truth"]
        if "raised" in said or said["convertible"] is None:
            differing.append(("NOT JUDGED", row))
            what = "missed" if truth["captured"] and not truth["converts"] else "false" if truth["captured"] else ""
            found.append(what)
        elif not truth["captured"]:
            if said["convertible"] or any(
                blocker[0] not in ("capture", "argument", "output") for blocker in said["blockers"]
            ):
                differing.append(("CAPTURE", row))
        elif truth["converts"]:
            found.append("fine" if said["convertible"] else "false")
            if not said["convertible"]:
                differing.append(("FALSE", row))
        else:
            found.append("missed" if said["convertible"] else "found")
            if said["convertible"]:
                differing.append(("MISSED", row))
    return Count(*(found.count(what) for what in ("found", "false", "missed", "fine"))), differing


def report_source(path: Path) -> int:
    """Compare the source findings on the probes with the conversion: errors with both routes, warnings with either.

    Recall is counted over every module that fails by a route, and over those whose operator or written arguments are the
    reason, which is all that source can show.
    """
    import modellint
    from operators import HIDDEN, MISSED, probes

    rows = Ledger(path).rows
    right = wrong = failing = 0
    silent: list[str] = []
    for probe in probes():
        row = rows.get(probe.name)
        if row is None or "trace" not in row:
            continue
        fails = [not row[route]["truth"]["converts"] for route in ("trace", "export")]
        failing += any(fails)
        found = [one for one in modellint.check_source(probe.text).diagnostics if one.code[:3] in ("OPS", "SHP")]
        found = [one for one in found if one.severity.label != "info"]
        for one in found:
            is_right = all(fails) if one.severity.label == "error" else any(fails)
            right, wrong = right + is_right, wrong + (not is_right)
            if not is_right:
                print(f"false: {probe.name}: {one.code} {one.severity.label}: {one.message}; fails by {fails}")
        if any(fails) and not found:
            silent.append(probe.name)
            said = row["trace"]["truth"].get("message") or row["export"]["truth"].get("message")
            print(
                f"silent: {probe.name}: {HIDDEN.get(probe.name) or MISSED.get(probe.name) or 'UNEXPLAINED'}: {said[:90]}"
            )
    shown = [name for name in silent if name not in HIDDEN]
    seen = failing - len(HIDDEN)
    print(
        f"{right + wrong} findings on {len(rows)} modules, {wrong} false: precision {right / max(1, right + wrong):.4f}"
    )
    print(
        f"{failing} modules fail by a route, {len(silent)} without a finding: recall {1 - len(silent) / max(1, failing):.4f}"
    )
    print(
        f"{seen} for what source can show, {len(shown)} without a finding: recall {1 - len(shown) / max(1, seen):.4f}"
    )
    return int(right < 0.98 * (right + wrong) or len(shown) > 0.1 * seen)


def _print_times(rows: list[dict[str, Any]], name: str) -> None:
    for route in ("trace", "export"):
        pairs = [
            (row[route]["dry"]["seconds"][1], row[route]["truth"]["seconds"][1])
            for row in rows
            if route in row and row[route]["dry"].get("convertible") and row[route]["truth"]["converts"]
        ]
        if pairs:
            ours, full = (sum(column) for column in zip(*pairs, strict=True))
            print(
                f"{name}, {route}: front end {ours:.1f} s, full conversion {full:.1f} s: {full / ours:.1f} times faster"
            )


if __name__ == "__main__":
    sys.exit(main())
