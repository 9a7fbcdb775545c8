"""Live checks of real architectures: what is found, whether the model is left as it was, and what a check costs.

Each architecture gets a file, and processes of its own: one that imports it, builds it and runs it once in eager mode, one
`modellint check file.py:make`, one that calls `check_model` and compares all that the model shows before and after.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from zoo import files

_EAGER = """\
import sys
sys.path.insert(0, {folder!r})
import torch
import {name}
model, inputs = {name}.make()
with torch.no_grad():
    model(*inputs)
"""

_UNCHANGED = """\
import sys
sys.path.insert(0, {folder!r})
sys.path.insert(0, {here!r})
import json, random
import torch
import {name}
import modellint
from digest import digest
model, inputs = {name}.make()
for parameter in list(model.parameters())[:3]:
    parameter.grad = torch.ones_like(parameter)
before = digest(model, inputs)
report = modellint.check_model(model, example_inputs=inputs)
after = digest(model, inputs)
changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
print(json.dumps({{"changed": changed[:5], "parameters": sum(p.numel() for p in model.parameters()),
    "modules": sum(1 for _ in model.modules()), "found": [f.code for f in report.diagnostics]}}))
"""


def timed(command: list[str], folder: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    return time.perf_counter() - start, done


def measure(name: str, folder: str, python: str) -> dict[str, Any]:
    here = str(Path(__file__).parent)
    eager, done = timed([python, "-c", _EAGER.format(folder=folder, name=name)], folder)
    if done.returncode:
        return {"name": name, "skipped": done.stderr.strip().splitlines()[-1]}
    command = [python, "-m", "modellint", "check", f"{name}.py:make", "--isolated", "--no-cache", "--timeout", "600"]
    checked, done = timed([*command, "--output-format", "json"], folder)
    row: dict[str, Any] = {"name": name, "eager": eager, "check": checked, "status": done.returncode}
    try:
        row["findings"] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {**row, "crash": (done.stdout + done.stderr)[-2000:]}
    _, done = timed([python, "-c", _UNCHANGED.format(folder=folder, here=here, name=name)], folder)
    if done.returncode:
        return {**row, "crash": done.stderr[-2000:]}
    return {**row, **json.loads(done.stdout.splitlines()[-1])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; default: all")
    parser.add_argument(
        "--python", default=sys.executable, help="an interpreter with modellint, timm, torchvision, transformers"
    )
    parser.add_argument("--output", type=Path, help="write every row, with its findings, as JSON lines")
    options = parser.parse_args()
    chosen = {
        name: text for name, text in files().items() if not options.names or any(p in name for p in options.names)
    }
    rows: list[dict[str, Any]] = []
    print(
        f"{'architecture':38} {'modules':>7} {'parameters':>11} {'eager s':>8} {'check s':>8} {'ratio':>6}  same  findings"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, text in chosen.items():
            Path(folder, f"{name}.py").write_text(text, "utf-8")
            row = measure(name, folder, options.python)
            rows.append(row)
            if options.output:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            if "skipped" in row:
                print(f"{name:38} does not run here: {row['skipped'][:90]}")
                continue
            if "crash" in row:
                print(f"{name:38} CRASH: {row['crash'][-300:]}")
                continue
            codes = Counter(finding["code"] for finding in row["findings"])
            print(
                f"{name:38} {row['modules']:7} {row['parameters']:11,} {row['eager']:8.2f} {row['check']:8.2f} "
                f"{row['check'] / row['eager']:6.2f}  {'no' if row['changed'] else 'yes':4}  "
                + " ".join(f"{code}x{count}" for code, count in sorted(codes.items())),
                flush=True,
            )
    done = [row for row in rows if "changed" in row]
    crashed = sum("crash" in row for row in rows)
    changed = [row["name"] for row in done if row["changed"]]
    ratios = sorted(row["check"] / row["eager"] for row in done)
    print(f"\n{len(done)} checked, {crashed} crashed, {len(changed)} changed {changed or ''}")
    if ratios:
        print(
            f"check over import, build and one eager forward: median {ratios[len(ratios) // 2]:.2f}, worst {ratios[-1]:.2f}"
        )
    return int(bool(crashed or changed))


if __name__ == "__main__":
    sys.exit(main())
