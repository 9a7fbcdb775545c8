"""Mend random models with hidden state, and real architectures, and look whether each stays the same function.

python benchmarks/fix_model.py [--examples 1000] [--seed N]
python benchmarks/fix_model.py --zoo [--only PART …] [--python PYTHON]       what benchmarks/zoo.py lists
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

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "live"))

from fixable import Built, built, hidden_in, in_evaluation
from test_hidden import CONTAINERS, Planted, models

from digest import digest
from modellint.destinations.coreml.dry_run.verdicts import judge
from modellint.live.code.places import Project
from modellint.live.fix import BIT_EQUAL, FixedModel, fixed_copy
from modellint.live.fixes.proof import is_same, run
from modellint.live.inputs.model_inputs import Inputs
from modellint.settings import Destination
from zoo import files as architectures

HERE = Path(__file__).resolve().parent


def fix(model: nn.Module, inputs: Any) -> FixedModel:
    return fixed_copy(model, Inputs.of(inputs), Destination(), Project(Path.cwd()), judge=judge)


def examples(count: int, start: int) -> bool:
    """Random models: everything hidden is registered, the outputs are equal to the bit, and the model is as it was."""
    chosen = settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    forms: Counter[str] = Counter()
    done: Counter[str] = Counter()
    undone: Counter[str] = Counter()
    wrong: Counter[str] = Counter()

    def check(made: Built) -> None:
        forms.update(set(made.forms))
        x = torch.randn(3, 4)
        before = digest(made.model, x)
        found = fix(made.model, x)
        done.update(one.code for one in found.applied)
        undone.update(f"{one.code} {one.title}: {one.note}" for one in found.undone)
        if digest(made.model, x) != before:
            wrong["the model is not as it was"] += 1
        if hidden_in(found.model):
            wrong["something is hidden still"] += 1
        in_evaluation(made.model)
        for one in (x, torch.zeros(3, 4), torch.randn(5, 4)):
            same = is_same(run(made.model, Inputs.of(one)), run(found.model, Inputs.of(one)))
            if not same and all(done.exactness == BIT_EQUAL for done in found.applied):
                wrong["other outputs"] += 1
                print(made.model, *found.applied, sep="\n")
        wrong.update(found.left)

    def check_planted(planted: Planted) -> None:
        x = torch.randn(3, 2)
        before = digest(planted.model, x)
        found = fix(planted.model, x)
        if digest(planted.model, x) != before:
            wrong["the model is not as it was"] += 1
        if left := hidden_in(found.model):
            wrong[f"hidden still in {planted.containers}: {left}"] += 1
        if not is_same(run(planted.model, Inputs.of(x)), run(found.model, Inputs.of(x))):
            wrong["other outputs"] += 1
        wrong.update(found.left)

    began = time.perf_counter()
    seed(start)(chosen(given(models())(check_planted)))()
    print(
        f"{count} models that hide state in {len(CONTAINERS)} kinds of containers, up to seven deep: {wrong or 'right'}"
    )
    seed(start)(chosen(given(built())(check)))()
    print(
        f"{count} models that compute with what they hide: {wrong or 'right'}; {time.perf_counter() - began:.0f} s in all"
    )
    print("applied:", ", ".join(f"{code} {number}" for code, number in sorted(done.items())))
    print("taken back:")
    for text, number in undone.most_common(12):
        print(f"{number:>7}  {text}")
    print("forms:", ", ".join(f"{form} {number}" for form, number in sorted(forms.items())))
    return not wrong


_ZOO = """\
import json, sys, time
sys.path[:0] = [{folder!r}, {here!r}]
import torch
torch.set_num_threads(1)
import {name}
from digest import digest
from pathlib import Path
from modellint.destinations.coreml.dry_run.verdicts import judge
from modellint.live.fix import fixed_copy
from modellint.live.fixes.proof import is_same, run
from modellint.live.code.places import Project
from modellint.live.inputs.model_inputs import Inputs
from modellint.settings import Destination
model, inputs = {name}.make()
given = Inputs.of(inputs)
before = digest(model, inputs)
began = time.perf_counter()
found = fixed_copy(model, given, Destination(), Project(Path({folder!r})), judge=judge)
taken = time.perf_counter() - began
changed = [key for key, value in digest(model, inputs).items() if before.get(key) != value]
print(json.dumps({{
    "seconds": taken, "changed": changed[:3], "keys": list(model.state_dict()) == list(found.model.state_dict()),
    "equal": is_same(run(model, given), run(found.model, given)), "applied": [str(one) for one in found.applied],
    "exactness": sorted({{one.exactness for one in found.applied}}), "undone": [str(one) for one in found.undone],
    "left": list(found.left), "parameters": sum(one.numel() for one in model.parameters())}}))
"""


def zoo(parts: list[str], python: str) -> bool:
    """Real architectures: the same keys, equal outputs, nothing done that is not needed, and the model as it was."""
    seen = right = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, text in architectures().items():
            if parts and not any(part in name for part in parts):
                continue
            Path(folder, f"{name}.py").write_text(text, encoding="utf-8")
            code = _ZOO.format(folder=folder, here=str(HERE), name=name)
            done = subprocess.run([python, "-W", "ignore", "-c", code], capture_output=True, text=True, cwd=folder)
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            if not lines:
                print(f"{name}: not measured: {done.stderr.strip().splitlines()[-1:]}", flush=True)
                continue
            found = json.loads(lines[-1])
            seen += 1
            good = not found["changed"] and found["equal"] and found["keys"] and not found["left"]
            right += good
            print(
                f"{name}: {'' if good else 'WRONG '}{found['seconds']:.1f} s, {found['parameters'] / 1e6:.1f} M",
                flush=True,
            )
            for key in ("changed", "applied", "undone", "left"):
                for line in found[key]:
                    print(f"    {key}: {line}", flush=True)
            if not found["equal"] or not found["keys"]:
                print(f"    equal: {found['equal']}, keys: {found['keys']}, {found['exactness']}", flush=True)
    print(f"{right} of {seen} with the same keys, equal outputs, and the model as it was")
    return seen > 0 and right == seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=1000, metavar="N", help="random models (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the models (default: 0)")
    parser.add_argument("--zoo", action="store_true", help="real architectures instead")
    parser.add_argument("--only", nargs="*", default=[], metavar="PART", help="those whose name holds one of these")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has the libraries")
    arguments = parser.parse_args()
    if arguments.zoo:
        return 0 if zoo(arguments.only, arguments.python) else 1
    torch.set_num_threads(1)
    return 0 if examples(arguments.examples, arguments.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
