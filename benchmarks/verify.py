"""What executing a converted program costs: time over the eager forward, memory over the model's weights; saved packages.

    python benchmarks/verify.py results.jsonl            measure the architectures of zoo.py, and report
    python benchmarks/verify.py results.jsonl --bits     only whether saved packages give the same bits
    python benchmarks/verify.py results.jsonl --report   report only

Each model is traced, converted in single precision, and run in turns with its program; the shortest of each counts. The
memory is that of a process of its own which reads the saved package and predicts once; beside it stands what PyTorch needs, the
weights and by how much a process grows in one forward. Packages are saved in both precisions. Needs timm, torchvision
and transformers. What is measured already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch

from ledger import MORE, Ledger, supervise

SILENCE = 1200
BATCH = 8
"""Models that one process converts, before a fresh one goes on."""
TURNS = 7
SECONDS = 600
SHORT = 5.0
"""Milliseconds of a forward below which a model does not count: the calls themselves take a part of its time."""
LIMIT_TIME, LIMIT_MEMORY = 1.5, 3.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the file for results")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch; default: 1")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--bits", action="store_true", help="only compare saved packages with programs in memory")
    parser.add_argument("--package", help=argparse.SUPPRESS)
    parser.add_argument("--eager", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.package:
        print(json.dumps(memory(arguments.package)))
        return 0
    if arguments.eager:
        print(json.dumps(eager(arguments.eager)))
        return 0
    if arguments.worker:
        return measure(arguments)
    if not arguments.report:
        only = ["--only", *arguments.only] if arguments.only else []
        command = [sys.executable, __file__, str(arguments.results), "--worker", "--threads", str(arguments.threads)]
        bits = ["--bits"] if arguments.bits else []
        supervise([*command, *bits, *only], arguments.results, SILENCE)
    return report(arguments.results)


def measure(arguments: argparse.Namespace) -> int:
    """Measure the models that are not measured yet."""
    from truth import TooSlow, first_line, limited, quiet
    from zoo import files

    torch.set_num_threads(arguments.threads)
    ledger = Ledger(arguments.results)
    done = 0
    for name, text in files().items():
        if name in ledger.begun or (arguments.only and not any(part in name for part in arguments.only)):
            continue
        if done == BATCH:
            return MORE
        done += 1
        ledger.begin(name)
        try:
            with torch.no_grad(), quiet(), limited(SECONDS):
                torch.manual_seed(0)
                made: dict[str, Any] = {}
                exec(compile(text, name, "exec"), made)
                model, inputs = made["make"]()
                model = model.eval()
                row = {"same": same_bits(model, inputs)} if arguments.bits else cost(name, model, inputs)
        except (Exception, TooSlow) as error:
            row = {"skipped": first_line(error)}
        ledger.finish({"name": name, **row})
    return 0


def cost(name: str, model: Any, inputs: Any) -> dict[str, Any]:
    """The time of a forward and of its program, in milliseconds, its memory, and whether saved ones give the same bits."""
    from corpora import tensors
    from modellint.destinations.coreml.mil.executor import Executor
    from truth import ct, tensor_types, traced

    converted = ct.convert(
        traced(model, inputs),
        inputs=tensor_types(inputs),
        compute_precision=ct.precision.FLOAT32,
        convert_to="mlprogram",
        skip_model_load=True,
    )
    start = time.perf_counter()
    executor = Executor(converted._mil_program)
    built = (time.perf_counter() - start) * 1e3
    given = dict(zip(executor.inputs, tensors(inputs), strict=True))
    forward, executed = in_turns(lambda: model(*inputs), lambda: executor(given))
    held = [*model.parameters(), *model.buffers()]
    row: dict[str, Any] = {
        "forward": forward,
        "executed": executed,
        "built": built,
        "weights": sum(one.nbytes for one in {one.data_ptr(): one for one in held}.values()),
        "operations": dict(_counted(converted._mil_program)),
        "same": same_bits(model, inputs),
    }
    with tempfile.TemporaryDirectory() as folder:
        package = str(Path(folder, "model.mlpackage"))
        converted.save(package)
        for what, option, value in (("memory", "--package", package), ("eager", "--eager", name)):
            ran = subprocess.run([sys.executable, __file__, "-", option, value], capture_output=True, text=True)
            if ran.returncode == 0:
                row[what] = json.loads(ran.stdout.splitlines()[-1])
    return row


def same_bits(model: Any, inputs: Any) -> dict[str, bool]:
    """For each precision whether the saved package gives the bits of the program in memory, on these inputs."""
    from corpora import tensors
    from modellint.destinations.coreml.mil.executor import Executor
    from modellint.destinations.coreml.private.mil_programs import read_package

    found = {}
    for precision in ("fp32", "fp16"):
        converted = _by_either_route(model, inputs, precision)
        executor = Executor(converted.program)
        given = dict(zip(executor.inputs, tensors(inputs), strict=True))
        with tempfile.TemporaryDirectory() as folder:
            package = str(Path(folder, "model.mlpackage"))
            converted.mlmodel.save(package)
            saved = Executor(read_package(package)[0])(given)
        known = executor(given)
        found[precision] = known.keys() == saved.keys() and all(
            value.dtype == saved[name].dtype and value.numpy().tobytes() == saved[name].numpy().tobytes()
            for name, value in known.items()
        )
    return found


def _by_either_route(model: Any, inputs: Any, precision: str) -> Any:
    """A conversion by trace, or else by an export. Raises ``NotConverted``."""
    from modellint.destinations.coreml.convert.conversion import NotConverted, captures, convert
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.settings import Destination

    why = None
    for route in ("trace", "export"):
        try:
            with captures(model, Inputs.of(inputs), Destination(), route) as found:
                return convert(found[0], Destination(), precision)
        except NotConverted as error:
            why = why or error
    assert why is not None
    raise why


def in_turns(*calls: Callable[[], object]) -> list[float]:
    """The shortest time of each call, in milliseconds: they alternate, so that what else a machine does meets all."""
    best = [float("inf")] * len(calls)
    for turn in range(TURNS + 1):
        for at, call in enumerate(calls):
            start = time.perf_counter()
            call()
            if turn:
                best[at] = min(best[at], (time.perf_counter() - start) * 1e3)
    return best


def memory(package: str) -> dict[str, int]:
    """Bytes that this process grows by when it reads a program, prepares it, and predicts (at most, in between)."""
    from modellint.destinations.coreml.mil.executor import Executor
    from modellint.destinations.coreml.private.mil_programs import read_package

    torch.set_num_threads(1)
    torch.randn(64, 64) @ torch.randn(64, 64)
    before = _status("VmRSS")
    program, _ = read_package(package)
    read = _status("VmRSS")
    executor = Executor(program)
    prepared = _status("VmRSS")
    given = {
        name: torch.zeros([size or 1 for size in one.shape or ()], dtype=torch.float32)
        for name, one in executor.inputs.items()
    }
    Path("/proc/self/clear_refs").write_text("5")
    executor(given)
    peak = _status("VmHWM")
    return {"program": read - before, "executor": prepared - read, "prediction": peak - prepared, "all": peak - before}


def eager(name: str) -> dict[str, int]:
    """Bytes that a process grows by in one forward of an architecture, at most."""
    from zoo import files

    torch.set_num_threads(1)
    held: dict[str, Any] = {}
    exec(compile(files()[name], name, "exec"), held)
    with torch.no_grad():
        model, inputs = held["make"]()
        model.eval()
        torch.randn(64, 64) @ torch.randn(64, 64)
        before = _status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        model(*inputs)
    return {"forward": _status("VmHWM") - before}


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def _counted(program: Any) -> list[tuple[str, int]]:
    from collections import Counter

    kinds = Counter(one.op_type for one in program.functions["main"].operations if one.op_type != "const")
    return kinds.most_common()


def report(results: Path) -> int:
    """Print the figures; 0 where they keep to the limits."""
    rows = list(Ledger(results).rows.values())
    timed = [row for row in rows if "executed" in row]
    long = sorted((row for row in timed if row["forward"] > SHORT), key=lambda row: row["executed"] / row["forward"])
    print(f"{len(rows)} models, {len(timed)} converted, {len(long)} with a forward above {SHORT} ms")
    ratios = [row["executed"] / row["forward"] for row in long]
    if ratios:
        tenths = quantiles(ratios, n=10) if len(ratios) > 1 else ratios * 9
        print(f"time over the eager forward: median {median(ratios):.2f}, p10 {tenths[0]:.2f}, p90 {tenths[8]:.2f}")
    for row in (*long[:3], *long[-8:]):
        print(f"    {row['executed'] / row['forward']:6.2f}  {row['forward']:8.1f} ms  {row['name']}")
    # Below some megabytes, a process grows by what it does and not by what it holds.
    heavy = [row for row in timed if "memory" in row and row["weights"] > 2**24]
    above = _memory_report(heavy) if heavy else []
    read = [(row["name"], precision, same) for row in rows for precision, same in row.get("same", {}).items()]
    other = [f"{name} {precision}" for name, precision, same in read if not same]
    print(f"saved packages that give the same bits: {len(read) - len(other)} of {len(read)} {' '.join(other)}")
    for row in rows:
        if "skipped" in row or "lost" in row:
            print(f"    not measured: {row['name']}: {row.get('skipped') or row.get('lost')}")
    return int((bool(ratios) and median(ratios) > LIMIT_TIME) or bool(above) or bool(other))


def _memory_report(rows: list[dict[str, Any]]) -> list[str]:
    """Print the memory, and name the models that take too much."""
    over_weights = {row["name"]: row["memory"]["all"] / row["weights"] for row in rows}
    over_eager = {
        row["name"]: row["memory"]["all"] / (row["weights"] + row["eager"]["forward"]) for row in rows if "eager" in row
    }
    print(f"memory, of {len(rows)} models above 16 MB:")
    for what, ratios in (("the weights", over_weights), ("PyTorch's own, weights and one forward", over_eager)):
        if ratios:
            print(f"    over {what}: median {median(ratios.values()):.2f}, worst {max(ratios.values()):.2f}")
    for row in sorted(rows, key=lambda row: -over_weights[row["name"]])[:8]:
        name = row["name"]
        parts = ", ".join(f"{what} {size / row['weights']:.2f}" for what, size in row["memory"].items())
        beside = f", over PyTorch's own {over_eager[name]:.2f}" if name in over_eager else ""
        print(f"    {over_weights[name]:6.2f}  {row['weights'] / 2**20:8.1f} MB  {name}: {parts}{beside}")
    return [name for name, ratio in over_weights.items() if ratio > LIMIT_MEMORY]


if __name__ == "__main__":
    sys.exit(main())
