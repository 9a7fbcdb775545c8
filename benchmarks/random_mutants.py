"""Whether `modellint verify` takes a package for right that was changed at one place.

    python benchmarks/random_mutants.py --count 1000 --seed 1 ledger.jsonl
    python benchmarks/random_mutants.py --report ledger.jsonl

Random models (`random_sources.py`) are exported; of each package that agrees, and that the evaluator apart from modellint finds right
on all kinds of further inputs, some mutants are made (`package_mutations.py`) and compared with the model. One that gives the same
bits as the right program on all inputs that the evaluator has (three times 20 kinds) is none, and counted. A mutant that agrees
survives. It is wrong where the evaluator finds it to depart from PyTorch beyond the tolerance; the others are listed to be read. Ends with
1 where one that is wrong survives.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from ledger import Ledger
from seed_workers import answer, measure

EACH = 8
"""Mutants of one package, at most."""
TRIED = 20
"""Of one package, with those that change nothing."""
DRAWS = 3
SECONDS = 400.0
FIRST = ("index", "mask", "state", "cast", "integer", "comparison", "axis", "mode", "slice mask")
"""Kinds of mutation of which each package gives one if it can."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, nargs="?", help="the file for results")
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="mutants, at least (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first model (default: 1)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: 2)")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return answer(mutated)
    if arguments.ledger is None:
        parser.error("a ledger is needed")
    ledger = Ledger(arguments.ledger)
    at = arguments.seed
    while not arguments.report and count(ledger) < arguments.count:
        seeds = [seed for seed in range(at, at + 40) if str(seed) not in ledger.rows]
        measure(ledger, seeds, [sys.executable, __file__, "--worker"], arguments.jobs, SECONDS)
        at += 40
    return report(ledger)


def count(ledger: Ledger) -> int:
    """How many mutants there are."""
    return sum(len(row.get("mutants", ())) for row in ledger.rows.values())


def mutated(seed: int) -> dict[str, Any]:
    """The mutants of one model's package, and what is said of them."""
    import warnings

    import torch

    from evaluator import read
    from random_models import Judge
    from random_sources import draw

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    model = draw(seed)
    model.precision = "fp32"
    row: dict[str, Any] = {"name": str(seed), "theme": model.theme, "text": model.text, "mutants": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "Net.mlpackage"
        why = _made(model, path)
        judge = Judge(model, DRAWS)
        why = why or _unfit(judge, model, path)
        if why:
            return {**row, "left": why}
        right, row["idle"] = judge.outputs(read(str(path))), 0
        for kind, what, mutant in _mutants(path, Path(folder), random.Random(seed)):
            if _is_idle(judge, mutant, right):
                row["idle"] += 1
            else:
                row["mutants"].append({"kind": kind, "what": what, **_looked_at(model, judge, mutant)})
            shutil.rmtree(mutant)
            if len(row["mutants"]) == EACH:
                break
    return row


def _is_idle(judge: Any, mutant: Path, right: Any) -> bool:
    """Whether a mutant gives the same bits as the right program on all inputs."""
    import numpy as np

    from evaluator import read

    try:
        found = judge.outputs(read(str(mutant)))
    except Exception:
        # Such a package cannot even be read.
        return False
    if isinstance(found, str) or isinstance(right, str):
        return False
    return len(found) == len(right) and all(
        np.shape(one) == np.shape(other) and np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")
        for one, other in zip(found, right, strict=True)
    )


def _made(model: Any, path: Path) -> str:
    """Export a model; why that did not work."""
    import modellint

    options: dict[str, Any] = {"precision": "fp32", "output": path, "states": model.states}
    if model.flexible:
        options["flexible"] = model.flexible
    if model.target is not None:
        options["deployment_target"] = model.target
    try:
        modellint.export(model.build(), model.example(), **options)
    except modellint.ExportError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def _unfit(judge: Any, model: Any, path: Path) -> str:
    """Why a package is none to be changed."""
    from evaluator import read

    found = judge(read(str(path)), "fp32")
    if "unjudged" in found:
        return f"not judged for {found['unjudged']}"
    if found["wrong"]:
        return "wrong itself"
    verdict = _verified(model, path)
    return "" if verdict == "agrees" else f"verify says {verdict}"


def _verified(model: Any, path: Path) -> str:
    """What modellint says of a saved package."""
    from modellint.destinations.coreml.verify.package import verify_package
    from modellint.live.code.places import Project
    from modellint.live.inputs.model_inputs import Inputs

    inputs = Inputs(model.example(), {}, model.flexible)
    found = verify_package(model.build(), inputs, str(path), Project(Path(path).parent))
    return found.verdict if found.ok or found.verdict != "agrees" else "agrees, not ok"


def _mutants(path: Path, folder: Path, chance: random.Random) -> Any:
    """Changed packages, with what was changed."""
    import coremltools as ct

    from package_mutations import sites

    spec = ct.utils.load_spec(str(path))
    weights = path / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    all_of = [(one.kind, one.what) for one in sites(spec, weights)]
    by_kind: dict[str, list[int]] = {}
    for number, (kind, _) in enumerate(all_of):
        by_kind.setdefault(kind, []).append(number)
    rare = [kind for kind in FIRST if kind in by_kind]
    chance.shuffle(rare)
    usual = [kind for kind in by_kind if kind not in FIRST]
    chance.shuffle(usual)
    order = [chance.choice(by_kind[kind]) for kind in (*rare, *usual)]
    order += chance.sample(range(len(all_of)), min(EACH, len(all_of)))
    for number in list(dict.fromkeys(order))[:TRIED]:
        mutant = folder / "Mutant.mlpackage"
        shutil.copytree(path, mutant)
        inside = mutant / "Data" / "com.apple.CoreML"
        changed = ct.utils.load_spec(str(mutant))
        site = list(sites(changed, inside / "weights" / "weight.bin"))[number]
        site.apply()
        (inside / "model.mlmodel").write_bytes(changed.SerializeToString())
        yield site.kind, site.what, mutant


def _looked_at(model: Any, judge: Any, mutant: Path) -> dict[str, Any]:
    """What modellint and the evaluator say of a mutant."""
    from evaluator import read

    row: dict[str, Any] = {}
    try:
        row["verdict"] = _verified(model, mutant)
    except Exception as error:
        row["verdict"] = f"raised {type(error).__name__}: {error}"[:200]
    if not row["verdict"].startswith("agrees"):
        return row
    with contextlib.suppress(Exception):
        found = judge(read(str(mutant)), "fp32")
        row["wrong"] = found.get("wrong", [])[:3]
        row["unjudged"] = found.get("unjudged", [])
        row["apart"] = found.get("apart", [])[:2]
    return row


def report(ledger: Ledger) -> int:
    """Print what survives; 0 where nothing does that is wrong."""
    rows = [row for _, row in sorted(ledger.rows.items(), key=lambda one: int(one[0]))]
    lost = [row for row in rows if "lost" in row]
    used = [row for row in rows if row.get("mutants")]
    mutants = [(row, one) for row in used for one in row["mutants"]]
    alive = [(row, one) for row, one in mutants if one["verdict"].startswith("agrees")]
    wrong = [(row, one) for row, one in alive if one.get("wrong") or "wrong" not in one]
    same = [(row, one) for row, one in alive if (row, one) not in wrong]
    idle = sum(row.get("idle", 0) for row in rows)
    print(f"{len(mutants)} mutants of {len(used)} packages, and {idle} changes that change no bit of any output")
    print(f"{len(alive)} said to agree, {len(wrong)} of them wrong")
    for kind, number in Counter(one["kind"] for _, one in mutants).most_common():
        of = [one for _, one in wrong if one["kind"] == kind]
        print(f"    {kind:12} {number:5}  survive though wrong {len(of)}")
    for name, number in Counter(one["verdict"].split(":")[0] for _, one in mutants).most_common():
        print(f"    {number:5}  {name}")
    for name, number in Counter(row["left"][:60] for row in rows if "left" in row).most_common():
        print(f"    {number:5}  models left out: {name}")
    if wrong:
        print("Survivors that depart from PyTorch:")
    for row, one in wrong:
        print(f"  seed {row['name']}, {one['kind']}: {one['what']}")
        for case in one.get("wrong", ()):
            print(f"      {case['kind']}: {case['why']}: {case.get('got')} for {case.get('expected')}")
    if same:
        print("Survivors that change bits, but nothing beyond the tolerance:")
    for row, one in same:
        print(
            f"  seed {row['name']}, {one['kind']}: {one['what']}"
            + (f" (not judged: {one['unjudged']})" if one.get("unjudged") else "")
        )
    for row in lost:
        print(f"    lost: {row['name']}: {row['lost'][-300:]}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
