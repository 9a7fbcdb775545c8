"""What verdicts and exports cost beside plain conversion, in CPU seconds.

    python benchmarks/plain_cost.py costs.jsonl [--destination coreai] [--count 24] [--seed 2911] [--only PART...]
    python benchmarks/plain_cost.py costs.jsonl --report [--table]

Architectures of `zoo.py` are drawn by a seed. All is measured in one process on one thread, and in the process of the converter where
there is one, after a first small model: what is imported and started for it does not count. What is measured already is not
measured again.

Core ML. export: over `torch.jit.trace`, `ct.convert` and saving.
Core AI. check: the capture, the conversion and the run of the verdict, over plain capture, conversion and one run. export: over plain
capture and conversion, and the interpreter's runs that the export itself asks for.

Ends with 1 where the median of a check is above 1.2, or of an export above 1.5.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from ledger import Ledger, printed_row

SECONDS = 600
WANTED = {"check": 1.2, "export": 1.5}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, help="the file for results")
    parser.add_argument("--destination", choices=("coreml", "coreai"), default="coreml", help="default: coreml")
    parser.add_argument("--count", type=int, default=24, help="how many architectures (default: 24)")
    parser.add_argument("--seed", type=int, default=2911, help="of the draw (default: 2911)")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names, in place of a draw")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--table", action="store_true", help="print the rows as a table in Markdown")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps((costs if options.destination == "coreai" else costs_of_coreml)(options.one)))
        return 0
    ledger = Ledger(options.ledger)
    if not options.report:
        from zoo import files

        names = sorted(files())
        chosen = [name for name in names if any(part in name for part in options.only)]
        for name in chosen if options.only else random.Random(options.seed).sample(names, options.count):
            if name not in ledger.rows:
                print(name, file=sys.stderr)
                ledger.finish({"name": name, **_apart(name, options.destination)})
    return table(ledger) if options.table else report(ledger)


def table(ledger: Ledger) -> int:
    """Print the rows in Markdown: seconds of the plain way, and how many times as long a check and an export take."""
    rows = {name: row for name, row in sorted(ledger.rows.items()) if "lost" not in row}
    has_check = any("check" in row for row in rows.values())
    print(f"| model | plain conversion |{' check |' if has_check else ''} export | it says |")
    print(f"|---|---|{'---|' if has_check else ''}---|---|")
    for name, row in rows.items():
        plain, export = row["plain"], row["export"]
        if plain["said"] in ("runs", "converts"):
            cells = [f"{plain['cpu']:.1f} s", *([f"{row['check']['cpu'] / plain['cpu']:.2f} ×"] if has_check else [])]
            cells.append(f"{export['cpu'] / (plain['cpu'] - plain['runs'] + export['runs']):.2f} ×")
        else:
            cells = ["does not convert", *(["–"] if has_check else []), f"{export['cpu']:.1f} s"]
        print(f"| {' | '.join([name, *cells, export['said']])} |")
    return 0


def _apart(name: str, destination: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "-", "--destination", destination, "--one", name]
    return printed_row(command, {"OMP_NUM_THREADS": "1"}, SECONDS)


class Meter:
    """CPU seconds of this process and of a converter's, and of the latter's predictions apart."""

    def __init__(self) -> None:
        from modellint.destinations.coreai.converter_process import ConverterProcess

        self.process = ConverterProcess()
        self.close = self.process.close
        # Who used it for an export is done with it, and it is needed again.
        self.process.close = lambda: None  # type: ignore[method-assign]
        self.runs = 0.0
        self._predict = self.process.predict
        self.process.predict = self._metered  # type: ignore[method-assign]

    def _metered(self, *arguments: Any) -> Any:
        before = self._there()
        result = self._predict(*arguments)
        self.runs += self._there() - before
        return result

    def _there(self) -> float:
        import psutil

        if self.process._process is None:
            return 0.0
        used = psutil.Process(self.process._process.pid).cpu_times()
        return float(used.user + used.system)

    def now(self) -> float:
        """All so far."""
        return time.process_time() + self._there()


def costs_of_coreml(name: str) -> dict[str, Any]:
    """CPU seconds of the plain way and of an export."""
    import tempfile

    import torch

    import modellint
    from truth import ct, tensor_types, traced
    from zoo import built, files

    def plain(model: Any, args: Any, package: str) -> str:
        kept = ct.convert(traced(model, args), inputs=tensor_types(args), convert_to="mlprogram", skip_model_load=True)
        kept.save(package)
        return "converts"

    def export(model: Any, args: Any, package: str) -> str:
        done = modellint.export(model, args, output=package)
        return "" if done.verification is None else done.verification.verdict

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    row: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for first in (True, False):
            for way in (plain, export):
                torch.manual_seed(0)
                model, args = (torch.nn.Linear(3, 3), (torch.ones(1, 3),)) if first else built(files()[name])
                model.eval()
                with torch.no_grad():
                    model(*args)
                began = time.process_time()
                try:
                    said = way(model, args, f"{folder}/{way.__name__}{first}.mlpackage")
                except Exception as error:
                    said = type(error).__name__
                row[way.__name__] = {"cpu": round(time.process_time() - began, 2), "runs": 0.0, "said": said}
    return row


def costs(name: str) -> dict[str, Any]:
    """CPU seconds of the plain way, of a verdict and of an export."""
    import torch

    from zoo import built, files

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    meter = Meter()
    # For all that is imported.
    first = torch.nn.Linear(3, 3).eval(), (torch.ones(1, 3),)
    row: dict[str, Any] = {}
    try:
        for way in (_plain, _check, _export):
            way(meter, *first)
        for way in (_plain, _check, _export):
            torch.manual_seed(0)
            model, args = built(files()[name])
            model.eval()
            with torch.no_grad():
                model(*args)
            meter.runs = 0.0
            began = meter.now()
            said = way(meter, model, args)
            row[way.__name__[1:]] = {"cpu": round(meter.now() - began, 2), "runs": round(meter.runs, 2), "said": said}
    finally:
        meter.close()
    return row


def _plain(meter: Meter, model: Any, args: Any) -> str:
    """Capture and convert in this process, and run once."""
    import torch

    from coreai_verdicts import interpreted

    took: list[float] = []
    done = interpreted(torch.export.export(model, tuple(args)), [tuple(args)], took)
    meter.runs += sum(took)
    return "runs" if isinstance(done, list) else str(done["stage"])


def _check(meter: Meter, model: Any, args: Any) -> str:
    from modellint.destinations.comparison.side_effect_free_runs import at_rest
    from modellint.destinations.coreai.conversion import Converter
    from modellint.destinations.coreai.example_run import example_run
    from modellint.live.code.places import Project
    from modellint.live.inputs.model_inputs import Inputs

    inputs, converter = Inputs.of(tuple(args)), Converter(meter.process)
    with at_rest(model, inputs):
        converted = converter.converted(model, inputs, Project(Path.cwd()))
        run = None if converted.blockers else example_run(meter.process, converted, model, inputs)
        stopped = run is None or bool(run.stops)
        if run is not None:
            run.is_far(model, inputs)
    return "does not convert" if stopped else "converts"


def _export(meter: Meter, model: Any, args: Any) -> str:
    import tempfile

    import modellint
    from modellint.destinations.coreai import conversion

    # The public function, with the process that is running.
    usual = conversion.ConverterProcess
    conversion.ConverterProcess = lambda: meter.process  # type: ignore[misc,assignment]
    try:
        with tempfile.TemporaryDirectory() as folder:
            done = modellint.export(model, args, destination="coreai", output=f"{folder}/net.aimodel")
        return "" if done.verification is None else done.verification.verdict
    except modellint.ExportError:
        return "refused"
    finally:
        conversion.ConverterProcess = usual  # type: ignore[misc]


def report(ledger: Ledger) -> int:
    """Print the ratios and their medians; 0 where both are as low as is wanted."""
    for name, row in ledger.rows.items():
        if "lost" in row:
            print(f"{name}: {row['lost']}")
    rows = {
        name: row
        for name, row in ledger.rows.items()
        if "lost" not in row and row["plain"]["said"] in ("runs", "converts")
    }
    ratios: dict[str, list[float]] = {way: [] for way in WANTED}
    for name, row in rows.items():
        plain, export = row["plain"], row["export"]
        apart = plain["cpu"] - plain["runs"] + export["runs"]
        ratios["export"].append(export["cpu"] / apart)
        line = (
            f"{name:40} plain {plain['cpu']:6.2f} export {ratios['export'][-1]:5.2f} of {apart:6.2f}  {export['said']}"
        )
        if "check" in row:
            ratios["check"].append(row["check"]["cpu"] / plain["cpu"])
            line += f"  check {ratios['check'][-1]:5.2f}  {row['check']['said']}"
        print(line)
    status = 0
    for way, found in ratios.items():
        if not found:
            continue
        middle = statistics.median(found)
        print(f"{way}: {middle:.2f} times (median of {len(found)}; wanted {WANTED[way]})")
        status |= not middle <= WANTED[way]
    return status


if __name__ == "__main__":
    sys.exit(main())
