"""What `modellint export` writes for real architectures, and what it leaves when it is killed.

    python benchmarks/exports.py results.jsonl              export the architectures, and report
    python benchmarks/exports.py results.jsonl --kills 40   kill so many exports at random times too
    python benchmarks/exports.py results.jsonl --report     report only

Each package is loaded by coremltools and held against the model: names, shapes and types of inputs and outputs, images, labels,
states, metadata. Needs timm, torchvision and transformers. What is measured already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ledger import Ledger

SECONDS = 1500
KILLED = "own_averages"
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
METADATA = {"author": "A. Uthor", "license": "MIT", "description": "An architecture", "version": "1.0"}

_COUNTING = '''
import torch
from torch import nn


class Averages(nn.Module):
    """A network with a running average of its features, updated in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, 16, 3, padding=1))
        self.register_buffer("average", torch.zeros(1, 16))

    def forward(self, x):
        y = self.features(x).mean(-1)
        self.average.mul_(0.9).add_(0.1 * y)
        return y - self.average


def make():
    torch.manual_seed(0)
    return Averages().eval(), (torch.randn(1, 8, 32),)
'''


class Asked(NamedTuple):
    """What an architecture is exported with, beside its target."""

    options: tuple[str, ...] = ()
    labels: int = 0
    """How many lines the file of labels has."""
    image: str = ""
    """The argument that is an image."""
    states: tuple[str, ...] = ()
    text: str = ""
    """The file, where it is not the zoo's."""


_PHOTO = "rgb,scale=1/57.6,bias=-2.15,-2.02,-1.8"
ARCHITECTURES = {
    "timm_resnet18": Asked(("--image", f"x:{_PHOTO}"), 1000, "x"),
    "timm_mobilenetv3_large_100": Asked(("--deployment-target", "iOS17")),
    "timm_convnext_tiny": Asked(("--precision", "fp32")),
    "timm_vit_tiny_patch16_224": Asked(("--deployment-target", "iOS18")),
    "timm_ghostnet_100": Asked(),
    "timm_repvgg_a0": Asked(("--frontend", "export")),
    "timm_poolformer_s12": Asked(),
    "torchvision_squeezenet1_0": Asked(("--image", f"x:{_PHOTO}"), 1000, "x"),
    "torchvision_mobilenet_v2": Asked(("--deployment-target", "macOS13")),
    "torchvision_vgg11": Asked(("--precision", "fp32")),
    "torchvision_shufflenet_v2_x0_5": Asked(),
    "transformers_bert": Asked(),
    "transformers_distilbert": Asked(("--precision", "fp32")),
    "transformers_gpt2": Asked(),
    "transformers_vit": Asked(("--deployment-target", "iOS18")),
    "own_cyclegan_generator": Asked(),
    "own_averages": Asked(("--state", "--deployment-target", "iOS18"), states=("average",), text=_COUNTING),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the file for results")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="exports to kill (default: 0)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the times at which they are killed")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    ledger = Ledger(arguments.results)
    if not arguments.report:
        measure(ledger, arguments.only)
        kill(ledger, arguments.kills, arguments.seed)
    return report(ledger)


def measure(ledger: Ledger, only: Sequence[str]) -> None:
    """Export the architectures that are not exported yet."""
    for name, asked in ARCHITECTURES.items():
        if name in ledger.rows or (only and not any(part in name for part in only)):
            continue
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            started = time.monotonic()
            command = prepared(folder, name, asked)
            try:
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                ledger.finish({"name": name, "lost": f"more than {SECONDS} s"})
                continue
            row: dict[str, Any] = {"name": name, "status": done.returncode, "seconds": time.monotonic() - started}
            row["said"] = (done.stdout + done.stderr)[-4000:]
            package = folder / "Net.mlpackage"
            if package.exists():
                row["wrong"] = list(faults(package, folder / "model.py", asked))
            row["left"] = sorted(remains(folder) - {package.name})
            ledger.finish(row)
            print(f"{row['seconds']:6.0f} s  {done.returncode}  {name}", flush=True)


def prepared(folder: Path, name: str, asked: Asked) -> list[str]:
    """Write the model's file and that of its labels; the command that exports it."""
    from zoo import files

    (folder / "model.py").write_text(asked.text or files()[name], "utf-8")
    command = [sys.executable, "-m", "modellint", "export", "model.py:make", "-o", "Net.mlpackage", "--isolated"]
    for key, text in METADATA.items():
        command += ["--model-version" if key == "version" else f"--{key}", text]
    if asked.labels:
        (folder / "labels.txt").write_text("".join(f"class {at}\n" for at in range(asked.labels)))
        command += ["--labels", "labels.txt"]
    return [*command, *asked.options]


def remains(folder: Path) -> set[str]:
    """What an export has put into its folder."""
    return {one.name for one in folder.iterdir()} - {"model.py", "labels.txt", "__pycache__", "temporary"}


def faults(package: Path, file: Path, asked: Asked) -> list[str]:
    """In what a package is not what was asked for."""
    import coremltools as ct
    import torch
    from torch.utils import _pytree as pytree

    made: dict[str, Any] = {}
    exec(compile(file.read_text("utf-8"), str(file), "exec"), made)
    model, inputs = made["make"]()
    inputs = inputs if isinstance(inputs, (tuple, dict)) else (inputs,)
    given = list(inputs.values()) if isinstance(inputs, dict) else list(inputs)
    with torch.no_grad():
        outputs = model.eval()(**inputs) if isinstance(inputs, dict) else model.eval()(*inputs)
    wanted = [one for one in pytree.tree_leaves(outputs) if isinstance(one, torch.Tensor)]
    loaded = ct.models.MLModel(str(package), skip_model_load=True)
    description = loaded.get_spec().description
    found = []
    told = (loaded.author, loaded.license, loaded.short_description, loaded.version)
    if told != tuple(METADATA.values()):
        found.append(f"metadata {told}")
    if len(description.input) != len(given):
        found.append(f"{len(description.input)} inputs for {len(given)}")
    for feature, value in zip(description.input, given, strict=False):
        kind = feature.type.WhichOneof("Type")
        if (kind == "imageType") != (feature.name == asked.image):
            found.append(f"{feature.name} is {kind}")
        elif kind == "multiArrayType":
            shape = tuple(feature.type.multiArrayType.shape)
            is_int = feature.type.multiArrayType.dataType == feature.type.multiArrayType.INT32
            if shape != tuple(value.shape) or is_int == value.is_floating_point():
                found.append(f"{feature.name} has the shape {shape}, int: {is_int}")
        elif (feature.type.imageType.height, feature.type.imageType.width) != tuple(value.shape[2:]):
            found.append(f"{feature.name} is an image of another size")
    if asked.labels:
        kinds = [feature.type.WhichOneof("Type") for feature in description.output]
        if sorted(kinds) != ["dictionaryType", "stringType"]:
            found.append(f"outputs are {kinds}")
    else:
        shapes = [tuple(feature.type.multiArrayType.shape) for feature in description.output]
        if shapes != [tuple(one.shape) or (1,) for one in wanted]:
            found.append(f"outputs are {shapes}, of {[tuple(one.shape) for one in wanted]}")
    if tuple(one.name for one in description.state) != asked.states:
        found.append(f"states are {[one.name for one in description.state]}")
    return found


def kill(ledger: Ledger, count: int, seed: int) -> None:
    """Kill exports at random times, over an old package or none, and look what is left; the same for the worker."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as made:
        lasts = trial(Path(made), None, 0.0, False, False)["seconds"]
    for at in range(count):
        number, after = draw.choice(SIGNALS), draw.uniform(0, 1.05 * lasts)
        of_worker, over = draw.random() < 0.3, draw.random() < 0.5
        name = f"kill {seed}/{at}"
        if name in ledger.rows:
            continue
        with tempfile.TemporaryDirectory() as made:
            row = trial(Path(made), number, after, of_worker, over)
        ledger.finish({"name": name, **row})
        print(f"{after:6.1f} s  {row['killed']:<16}  left: {' '.join(row['left']) or 'nothing'}", flush=True)


def trial(folder: Path, number: signal.Signals | None, after: float, of_worker: bool, over: bool) -> dict[str, Any]:
    """One export that is killed, or none: what is left, and whether the package is whole."""
    command = prepared(folder, KILLED, ARCHITECTURES[KILLED])
    package, temporary = folder / "Net.mlpackage", folder / "temporary"
    temporary.mkdir()
    if over:
        package.mkdir()
        (package / "old").touch()
        command.append("--force")
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,
    )
    killed = "nobody"
    if number is not None:
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            victims = workers(process.pid) if of_worker else [process.pid]
            for pid in victims:
                os.kill(pid, signal.SIGKILL if of_worker else number)
            killed = "the worker" if of_worker and victims else "nobody" if of_worker else signal.Signals(number).name
    process.wait()
    seconds = time.monotonic() - started
    left: set[str] = set()
    for _ in range(100):
        left = remains(folder) - {package.name} | {f"temporary/{one.name}" for one in temporary.iterdir()}
        if not left:
            break
        time.sleep(0.1)
    whole = not over
    if (package / "old").exists():
        whole = len(list(package.iterdir())) == 1
    elif package.exists():
        import coremltools as ct

        whole = len(ct.utils.load_spec(str(package)).description.input) == 1
    return {
        "seconds": seconds,
        "killed": killed,
        "after": after,
        "left": sorted(left),
        "whole": whole,
        "status": process.returncode,
    }


def workers(parent: int) -> list[int]:
    """The processes that build and convert for an export."""
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                fields = (one / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent and b"session.worker" in (one / "cmdline").read_bytes():
                    found.append(int(one.name))
            except OSError:
                continue
    return found


def report(ledger: Ledger) -> int:
    """Print what came of it; 0 where everything is as it should be."""
    exports = [row for name, row in ledger.rows.items() if name in ARCHITECTURES]
    kills = [row for name, row in ledger.rows.items() if name.startswith("kill")]
    good = [row for row in exports if row.get("status") == 0 and row.get("wrong") == [] and not row["left"]]
    print(
        f"{len(good)} of {len(exports)} architectures exported as asked, agreeing with PyTorch, and nothing left over"
    )
    for row in exports:
        told = row.get("lost") or "; ".join(row.get("wrong", [])) or ("" if row in good else first(row))
        verified = next((line.strip() for line in row.get("said", "").splitlines() if "verified" in line), "")
        print(f"    {row.get('seconds', 0):5.0f} s  {row['name']:<32} {told or verified}")
    bad = [row for row in kills if row["left"] or not row["whole"]]
    if kills:
        by = {name: sum(row["killed"] == name for row in kills) for name in sorted({row["killed"] for row in kills})}
        print(f"{len(kills)} exports killed at random times ({json.dumps(by)}): {len(bad)} left something or a part")
        for row in bad:
            print(f"    {row['killed']} after {row['after']:.1f} s: {row['left']}, whole: {row['whole']}")
    return int(len(good) < len(exports) or bool(bad))


def first(row: dict[str, Any]) -> str:
    """Why an export failed, in a line."""
    lines = [line for line in row["said"].splitlines() if line.startswith(("Net.mlpackage", "error", "  "))]
    return " | ".join(line.strip() for line in lines[-4:])[:300]


if __name__ == "__main__":
    sys.exit(main())
