"""Core AI: the verdict of ``check`` against plain coreai-torch and Apple's interpreter, and silent faults by ``verify``.

    python benchmarks/coreai_verdicts.py zoo zoo.jsonl --only own_ gpt resnet     real architectures
    python benchmarks/coreai_verdicts.py operators operators.jsonl --every 4      one operator each
    python benchmarks/coreai_verdicts.py drawn drawn.jsonl --folder FOLDER        files with a function `make`
    python benchmarks/coreai_verdicts.py harvest harvest.jsonl --pairs 550        models of the tests that coremltools ships
    python benchmarks/coreai_verdicts.py faults faults.jsonl                      what coreai-torch converts wrongly without a word
    python benchmarks/coreai_verdicts.py report FILE...                           recall, precision, and every disagreement

What is judged already is not judged again. A model counts as converting where the program also runs.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path
from typing import Any

from agreement import TESTS
from ledger import Ledger

FAULTS = """
add_alpha | 2x3 2x3 | torch.add(x, y, alpha=3)
sub_alpha | 2x3 2x3 | torch.sub(x, y, alpha=3)
add_alpha_scalar | 2x3 | torch.add(x, 2.0, alpha=3)
rsub_alpha | 2x3 | torch.rsub(x, 2.0, alpha=3)
cast_pair | 2x3 | (x * 10).to(torch.int32).to(torch.float32)
long_float | 2x3 | (x * 10).long().float()
int_plus_float | 4i | (x + 2049) + 0.5
int_above_float | 4i | (x + 2049) > 2048.5
arange_times_float | 4 | x + torch.arange(3000)[-4:] * 0.5
count_include_pad_1d | 1x2x6 | F.avg_pool1d(x, 3, 1, 1, count_include_pad=False)
count_include_pad_2d | 1x2x6x6 | F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
count_include_pad_3d | 1x2x4x4x4 | F.avg_pool3d(x, 3, 1, 1, count_include_pad=False)
nearest | 1x2x5x5 | F.interpolate(x, size=(3, 3), mode="nearest")
max_pool_indices | 1x2x6x6 | F.max_pool2d(x, 2, return_indices=True)[1]
not_uint8 | 4i | ~x.to(torch.uint8)
not_int32 | 4i | ~(x.to(torch.int32) + 16777217)
int_to_int8 | 4i | (x + 300).to(torch.int8)
int_to_uint8 | 4i | (x + 300).to(torch.uint8)
int64_product | 4i | (x + 2**30) * 2
int64_constant | 4i | x + 2**40
sdpa_masked_row | 1x1x2x4 | F.scaled_dot_product_attention(x, x, x, attn_mask=torch.tensor([[True, True], [False, False]]))
half_matmul | 1x4096 | x.abs().half() @ torch.full((4096, 1), 0.1, dtype=torch.float16)
empty_sum | 2x3 | x[:, :0].sum(1)
floor_of_inf | 2x3 | torch.floor(x)
atan2_negative_zero | 3 | torch.atan2(x.abs() + 1, torch.full((3,), -0.0))
argmax_nan | 2x5 | torch.argmax(x, 1)
remainder_inf | 3 | torch.remainder(x, torch.full((3,), float("inf")))
scatter_outside | 4 4i | torch.zeros(4).scatter(0, y + 2, x)
"""
"""Name, shapes (i: integers 0 to 2) and expression of a program each."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("zoo", "operators", "faults", "drawn", "harvest"):
        command = commands.add_parser(name)
        command.add_argument("results", type=Path, help="the file for results")
        if name == "harvest":
            command.add_argument("--pairs", type=int, default=550, help="of the tests")
            command.add_argument("--seed", type=int, default=0, help="of the choice of tests")
            continue
        command.add_argument("--only", nargs="*", default=[], help="parts of names")
        command.add_argument("--every", type=int, default=1, metavar="N", help="judge one in N")
        if name == "drawn":
            command.add_argument("--folder", type=Path, required=True, help="of the files that were drawn")
    commands.add_parser("report").add_argument("results", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "report":
        return report(arguments.results)
    warnings.simplefilter("ignore")
    if arguments.command == "harvest":
        return harvest(arguments)
    work(arguments)
    return 0


def work(arguments: argparse.Namespace) -> None:
    """Judge all models of a kind, each by ``check`` (or ``verify``) and by itself."""
    import torch

    folder = str(arguments.folder.absolute()) if arguments.command == "drawn" else ""
    ledger = Ledger(arguments.results)
    chosen = [pair for at, pair in enumerate(models(arguments.command, folder)) if at % arguments.every == 0]
    with Judge() as judge:
        for name, make in chosen:
            if name in ledger.rows or (arguments.only and not any(part in name for part in arguments.only)):
                continue
            print(name, file=sys.stderr)
            row: dict[str, Any] = {"name": name, "set": arguments.command}
            try:
                torch.manual_seed(0)
                model, args = make()
                model.eval()
                with torch.no_grad():
                    model(*args)
            except Exception as error:
                ledger.finish({**row, "skipped": f"{type(error).__name__}: {error}"[:300]})
                continue
            row |= judge.told(model, args, verified=arguments.command == "faults")
            ledger.finish({**row, "truth": judge.truth.of(arguments.command, folder, name)})


def harvest(arguments: argparse.Namespace) -> int:
    """Judge models out of coremltools' tests: those that ``torch.export`` captures."""
    import pytest

    options = ["--harvest", str(arguments.results.absolute()), "--pairs", str(arguments.pairs), "--coreai"]
    quiet = ["-q", "-q", "--tb=no", "-p", "no:warnings", "-p", "no:cacheprovider", "--no-header", "--no-summary"]
    status = pytest.main(["-p", "harvest", *quiet, *options, "--sample-seed", str(arguments.seed), "--pyargs", TESTS])
    # A failing test of theirs is no failure here.
    return int(status not in (0, 1))


class Judge:
    """``check`` for Core AI, and coreai-torch by itself."""

    def __init__(self) -> None:
        from modellint.destinations.coreai.converter_process import ConverterProcess

        self._process = ConverterProcess()
        self.truth = Truth()

    def __enter__(self) -> Judge:
        self._process.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._process.__exit__(*exception)

    def told(self, model: Any, args: Sequence[Any], verified: bool = False) -> dict[str, Any]:
        """What ``check`` says, or ``verify`` too."""
        from modellint.destinations.comparison.side_effect_free_runs import at_rest
        from modellint.destinations.coreai.conversion import Converter
        from modellint.destinations.coreai.example_run import example_run
        from modellint.destinations.coreai.verify import verify
        from modellint.live.code.places import Project
        from modellint.live.inputs.model_inputs import Inputs

        inputs, project = Inputs.of(tuple(args)), Project(Path.cwd())
        converter, began = Converter(self._process), time.perf_counter()
        with at_rest(model, inputs):
            converted = converter.converted(model, inputs, project)
            blockers = converted.blockers
            if converted.interface is not None:
                blockers = example_run(self._process, converted, model, inputs).stops
        row: dict[str, Any] = {
            "seconds": round(time.perf_counter() - began, 2),
            "converts": not blockers,
            "blockers": [(blocker.kind, blocker.operator, blocker.message) for blocker in blockers],
        }
        if verified:
            verification = verify(model, inputs, project, converter, budget=20)
            row |= {"verdict": verification.verdict, "reason": verification.reason}
        return row


def models(kind: str, folder: str = "") -> Iterator[tuple[str, Any]]:
    """Names, and what makes model and inputs."""
    if kind == "drawn":
        sys.path.insert(0, folder)
        for path in sorted(Path(folder).glob("*.py")):
            yield path.stem, lambda path=path: import_module(path.stem).make()
        return
    if kind == "zoo":
        from zoo import built, files

        for name, text in files().items():
            yield name, lambda text=text: built(text)
        return
    import operators

    if kind == "faults":
        operators.PROBES = FAULTS
    for probe in operators.probes():
        yield probe.name, probe.make


class Truth:
    """What coreai-torch and its runtime do by themselves, in a process that they may end."""

    def __init__(self, seconds: float = 600) -> None:
        self._seconds = seconds
        self._pool = _pool()

    def of(self, kind: str, folder: str, name: str) -> dict[str, Any]:
        """Whether a model converts and runs, and how far off its outputs are, as a share of their size."""
        return self.done(by_itself, kind, folder, name)

    def of_model(self, model: Any, args: Sequence[Any]) -> dict[str, Any]:
        """The same of a model that only this process can make: it is captured here."""
        import torch

        try:
            captured = torch.export.export(model.eval(), tuple(args))
            with torch.no_grad():
                expected = torch.utils._pytree.tree_leaves(model(*args))
            # What a class of outputs is called, only a saved program has to know.
            spec = captured.module_call_graph[0].signature
            spec.out_spec = torch.utils._pytree.tree_structure(tuple(range(spec.out_spec.num_leaves)))
            with tempfile.TemporaryDirectory() as folder:
                torch.export.save(captured, Path(folder) / "net.pt2")
                torch.save((expected, tuple(args)), Path(folder) / "values.pt")
                return self.done(as_saved, folder)
        except Exception as error:
            return {"runs": False, "stage": "capture", "message": f"{type(error).__name__}: {error}"[:300]}

    def done(self, work: Callable[..., dict[str, Any]], *arguments: str) -> dict[str, Any]:
        """What a function of this module or of another comes to, in that process."""
        try:
            return self._pool.submit(work, *arguments).result(timeout=self._seconds)
        except (BrokenProcessPool, TimeoutError) as error:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = _pool()
            died = isinstance(error, BrokenProcessPool)
            return {
                "runs": False,
                "stage": "run",
                "message": "the process died" if died else f"it did not end in {self._seconds:g} s",
            }


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def by_itself(kind: str, folder: str, name: str) -> dict[str, Any]:
    """Build, capture, convert and run a model."""
    import torch

    warnings.simplefilter("ignore")
    _be_silent()
    torch.manual_seed(0)
    try:
        model, args = dict(models(kind, folder))[name]()
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(model.eval()(*args))
        began = time.perf_counter()
        exported = torch.export.export(model, tuple(args))
    except Exception as error:
        return {"runs": False, "stage": "capture", "message": f"{type(error).__name__}: {error}"[:300]}
    result = _converted(exported, args, expected)
    return {**result, "seconds": round(time.perf_counter() - began, 2)}


def as_saved(folder: str) -> dict[str, Any]:
    """Convert and run what was captured elsewhere."""
    import torch

    warnings.simplefilter("ignore")
    _be_silent()
    expected, args = torch.load(Path(folder) / "values.pt", weights_only=False)
    return _converted(torch.export.load(Path(folder) / "net.pt2"), args, expected)


def _be_silent() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.close(nothing)


def _converted(exported: Any, args: Sequence[Any], expected: Sequence[Any]) -> dict[str, Any]:
    done = interpreted(exported, [tuple(args)])
    if isinstance(done, dict):
        return done
    share = 0.0
    for result, wanted in zip(done[0], expected, strict=True):
        # With another number of elements it runs, and gives something else.
        share = max(share, distance(result, wanted) if result.size == wanted.numel() else float("inf"))
    return {"runs": True, "off": share}


def distance(result: Any, wanted: Any) -> float:
    """The largest difference of an output, as a share of the largest number that is wanted."""
    import torch

    if not wanted.numel():
        return 0.0
    was = torch.from_numpy(result.astype("float64")).reshape(wanted.shape)
    return float((was - wanted.double()).abs().max()) / max(float(wanted.double().abs().max()), 1e-30)


def interpreted(
    exported: Any, samples: Sequence[tuple[Any, ...]], took: list[float] | None = None
) -> list[list[Any]] | dict[str, Any]:
    """The outputs of the plain conversion by Apple's interpreter for each of the samples, or at which stage it ended.

    ``took`` is given the CPU seconds of loading and running.
    """
    import coreai_torch
    import torch
    from coreai.authoring.asset import AIModelAsset
    from coreai.runtime import NDArray

    folder = tempfile.TemporaryDirectory()
    package = Path(folder.name) / "net.aimodel"
    stage = "conversion"
    try:
        exported = exported.run_decompositions(coreai_torch.get_decomp_table())
        converter = coreai_torch.TorchConverter(mode=coreai_torch.TorchConverter.Mode.RELEASE)
        converter.add_exported_program(exported).to_coreai().save_asset(package)
        stage = "run"
        states = {
            name: buffer
            for name, buffer in exported.graph_signature.inputs_to_buffers.items()
            if buffer in exported.graph_signature.buffers_to_mutate.values()
        }

        async def run() -> list[list[Any]]:
            async with AIModelAsset.load(package).executable() as model:
                function = model.load_function("main")
                described = function.desc
                names = exported.graph_signature.user_inputs
                # What is not saved stands among the constants.
                held = {**exported.constants, **exported.state_dict}
                written = exported.graph_signature.user_inputs_to_mutate.values()
                outputs = []
                for args in samples:
                    leaves = torch.utils._pytree.tree_leaves(args)
                    feed = {
                        name: NDArray(leaf.numpy().astype(described.input_descriptor(name).dtype, order="C"))
                        for name, leaf in zip(names, leaves, strict=True)
                        if name in described.input_names
                    }
                    first = {name: NDArray(held[buffer].numpy().copy()) for name, buffer in states.items()}
                    given = zip(names, leaves, strict=True)
                    first |= {name: NDArray(leaf.numpy().copy()) for name, leaf in given if name in written}
                    results = {name: value.numpy().copy() for name, value in (await function(feed, first)).items()}
                    outputs.append([results[name] for name in exported.graph_signature.user_outputs])
                return outputs

        began = time.process_time()
        outputs = asyncio.run(run())
        if took is not None:
            took.append(time.process_time() - began)
        return outputs
    except Exception as error:
        return {"runs": False, "stage": stage, "message": f"{type(error).__name__}: {error}"[:300]}
    finally:
        folder.cleanup()


def report(paths: Iterable[Path]) -> int:
    """Print the tables, and what differs."""
    rows = [row for path in paths for row in Ledger(path).rows.values()]
    for name in sorted({row["set"] for row in rows}):
        here = [row for row in rows if row["set"] == name and "truth" in row]
        print(
            f"\n{name}: {len(here)} models, {sum(row['set'] == name for row in rows) - len(here)} that do not run here"
        )
        if name == "faults":
            for row in here:
                print(f"  {row['name']:24} {row['verdict']:14} {_told(row['truth'])}  {row['reason']}")
            continue
        for word, of in (("all", here), ("captured", [row for row in here if row["truth"].get("stage") != "capture"])):
            failing = [row for row in of if not row["truth"]["runs"]]
            predicted = [row for row in of if not row["converts"]]
            right = [row for row in predicted if not row["truth"]["runs"]]
            print(
                f"  {word:9} failing {len(failing)}, predicted {len(predicted)}, of them failing {len(right)}: "
                f"recall {len(right) / max(1, len(failing)):.4f}, precision {len(right) / max(1, len(predicted)):.4f}"
            )
        ran = [row for row in here if row["truth"]["runs"]]
        print(f"  {len(ran)} ran, {sum(row['truth']['off'] <= 1e-4 for row in ran)} within 1e-4 of scale")
        if ratios := [row["seconds"] / row["truth"]["seconds"] for row in ran if row["truth"].get("seconds")]:
            middle = statistics.median(ratios)
            print(
                f"  a check takes {middle:.2f} times as long as to capture, convert and run (median of {len(ratios)})"
            )
        for row in here:
            if row["converts"] != row["truth"]["runs"]:
                print(f"  DIFFERS {row['name']}: {row['blockers']} · {_told(row['truth'])}")
    return 0


def _told(truth: dict[str, Any]) -> str:
    return f"off by {truth['off']:.1e}" if truth["runs"] else f"{truth['stage']}: {truth['message'][:100]}"


if __name__ == "__main__":
    sys.exit(main())
