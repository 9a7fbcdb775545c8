"""Core AI: the catalogues' models by plain coreai-torch, by ``verify`` and by ``export``, each run by Apple's interpreter.

    python benchmarks/coreai_catalogue.py catalogue.jsonl [--part 1/2] [--draw SEED:SHARE]
    python benchmarks/coreai_catalogue.py report FILE... [--failures]

A model that runs in PyTorch is captured, converted and run by coreai-torch alone, in a process that it may end; exported by
modellint; and verified where the plain program is wrong, besides one in four of those that are right. A plain program is right where
no output is further from PyTorch's than 1e-4 of its scale. The order is drawn (``catalogue.py``), so that what was run
so far is a draw too. What is judged already is not judged again: `coreai_catalogue.jsonl` beside this file has what was judged so far,
with torch 2.14.1, coreai-torch 0.4.3, transformers 5.24.0, timm 1.0.31, diffusers 0.42.1 and torchvision 0.29.1.

Ends with 1 where fewer than 0.85 of those that run agree when exported, where ``verify`` lets a wrong one pass, or refuses a right one.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coreai_verdicts import Truth
from ledger import MORE, Ledger, supervise

WANTED = 0.85
RIGHT = 1e-4
"""The largest distance of a right output, as a share of its scale."""
PLAIN_SECONDS, SILENCE = 300, 480
AT_A_TIME = 40
"""Models that one process serves, as memory that converters and models leave behind adds up."""
AGREES = ("agrees", "agrees in float32")


def main() -> int:
    if sys.argv[1:2] == ["report"]:
        parser = argparse.ArgumentParser()
        parser.add_argument("results", nargs="+", type=Path)
        parser.add_argument("--failures", action="store_true", help="print why each other model does not agree")
        arguments = parser.parse_args(sys.argv[2:])
        return report(arguments.results, arguments.failures)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the file for results")
    parser.add_argument("--part", default="1/1", metavar="N/OF", help="judge this part of them")
    parser.add_argument("--draw", default="1:1.0", metavar="SEED:SHARE", help="which models, and in which order")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    # The other catalogue benchmark leaves out what it has judged.
    os.environ.update(MODELLINT_DRAW=arguments.draw, MODELLINT_ALL="1")
    if not arguments.worker:
        supervise([sys.executable, *sys.argv, "--worker"], arguments.results, SILENCE)
        return report([arguments.results], False)
    part, of = map(int, arguments.part.split("/"))
    return work(Ledger(arguments.results), part - 1, of)


def work(ledger: Ledger, part: int, of: int) -> int:
    """Judge the models of a part; MORE where there are others left."""
    from catalogue import models
    from modellint.destinations.coreai import conversion
    from modellint.destinations.coreai.converter_process import ConverterProcess

    warnings.simplefilter("ignore")
    left = [pair for at, pair in enumerate(models()) if at % of == part and pair[0] not in ledger.begun]
    truth = Truth(PLAIN_SECONDS)
    with ConverterProcess() as process:
        process_of_one = process.close
        # Verification and export are given the process that is running, and leave it to the next model.
        process.close = lambda: None  # type: ignore[method-assign]
        conversion.ConverterProcess = lambda: process  # type: ignore[misc,assignment]
        for at, (name, build) in enumerate(left[:AT_A_TIME]):
            print(name, file=sys.stderr)
            ledger.begin(name)
            ledger.finish({"name": name, **judged(name, build, truth, verifies=at % 4 == 0)})
        process.close = process_of_one  # type: ignore[method-assign]
    return MORE if len(left) > AT_A_TIME else 0


def judged(name: str, build: Any, truth: Truth, verifies: bool) -> dict[str, Any]:
    """What becomes of a model in the three ways."""
    try:
        model, given, _ = made(build)
    except Exception as error:
        return {"skipped": f"{type(error).__name__}: {error}"[:300]}
    row: dict[str, Any] = {"plain": truth.done(plainly, name)}
    wrong = not row["plain"].get("off", 0.0) <= RIGHT
    if row["plain"]["runs"] and (wrong or verifies):
        row["verify"] = verified(model, given)
        model, given, _ = made(build)
    row["export"] = exported(model, given)
    return row


def made(build: Any) -> tuple[Any, Any, Any]:
    """A model, its example inputs, and what it makes of them in PyTorch."""
    import torch

    torch.manual_seed(0)
    model, given = build()
    model.eval()
    args, kwargs = positions_and_names(given)
    with torch.no_grad():
        return model, given, model(*args, **kwargs)


def positions_and_names(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as arguments by position and by name."""
    if isinstance(given, dict):
        return (), given
    return (given if isinstance(given, tuple) else (given,)), {}


def plainly(name: str) -> dict[str, Any]:
    """Capture, convert and run a model by coreai-torch alone."""
    import torch

    from catalogue import models
    from coreai_verdicts import _be_silent, _converted

    warnings.simplefilter("ignore")
    _be_silent()
    try:
        model, given, outputs = made(dict(models())[name])
        args, kwargs = positions_and_names(given)
        captured = torch.export.export(model, args, kwargs)
    except Exception as error:
        return {"runs": False, "stage": "capture", "message": f"{type(error).__name__}: {error}"[:300]}
    expected = [leaf for leaf in torch.utils._pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
    return _converted(captured, (*args, *kwargs.values()), expected)


def verified(model: Any, given: Any) -> dict[str, Any]:
    """What ``verify`` says of the plain conversion."""
    import modellint

    try:
        found = modellint.verify(model, given, destination="coreai")
    except Exception as error:
        return {"verdict": "raised", "reason": f"{type(error).__name__}: {error}"[:300]}
    return {"verdict": found.verdict, "reason": found.reason}


def exported(model: Any, given: Any) -> dict[str, Any]:
    """What ``export`` comes to."""
    import modellint

    with tempfile.TemporaryDirectory() as folder:
        try:
            done = modellint.export(model, given, destination="coreai", output=f"{folder}/net.aimodel")
        except modellint.ExportError as error:
            # Without places of this machine, as results are kept with the project.
            text = re.sub(r"\S*/site-packages/", "", str(error).replace(f"{folder}/", ""))
            return {"verdict": "refused", "reason": text if len(text) < 700 else f"{text[:300]} … {text[-400:]}"}
        except Exception as error:
            return {"verdict": "raised", "reason": f"{type(error).__name__}: {error}"[:300]}
    verification = done.verification
    return {
        "verdict": "" if verification is None else verification.verdict,
        "reason": "" if verification is None else verification.reason,
    }


def report(paths: Iterable[Path], failures: bool) -> int:
    """Print the table by library, what is wrong or refused, and what ``verify`` said of it."""
    rows = [row for path in paths for row in Ledger(path).rows.values()]
    table: dict[str, Counter[str]] = {}
    passed, refused = [], []
    for row in sorted(rows, key=lambda row: row["name"]):
        counts = table.setdefault(row["name"].partition(".")[0], Counter())
        counts["listed"] += 1
        if "skipped" in row:
            continue
        counts["run"] += 1
        if "lost" in row:
            counts["late"] += 1
            _failed(failures, row["name"], "lost", row["lost"])
            continue
        plain, export, verify = row["plain"], row["export"], row.get("verify", {})
        right = plain["runs"] and plain["off"] <= RIGHT
        counts["right" if right else "wrong" if plain["runs"] else "refused"] += 1
        counts["agree"] += export["verdict"] in AGREES
        counts["verified"] += bool(verify)
        if verify and not right and verify["verdict"] in AGREES:
            passed.append(f"{row['name']}: off by {plain['off']:.1e}, and verify says that it {verify['verdict']}")
        if right and (verify.get("verdict", AGREES[0]) not in AGREES or export["verdict"] not in AGREES):
            refused.append(f"{row['name']}: right by {plain['off']:.1e}; verify: {verify}; export: {export}")
        if export["verdict"] not in AGREES:
            _failed(failures, row["name"], export["verdict"], export["reason"])
    columns = ("listed", "run", "refused", "wrong", "right", "verified", "agree", "late")
    table["all"] = sum(table.values(), Counter())
    print("library       " + "".join(f"{column:>9}" for column in columns))
    for library, counts in table.items():
        print(f"{library:14}" + "".join(f"{counts[column]:9}" for column in columns))
    share = table["all"]["agree"] / max(1, table["all"]["run"])
    print(
        "listed; run in PyTorch; by plain coreai-torch refused, wrong, right; verified; exported and agree; not in time"
    )
    print(f"{share:.3f} of those that run agree when exported (wanted {WANTED})")
    for title, lines in (("wrong, and passed by verify", passed), ("right, and not exported or verified", refused)):
        print(f"{title}: {len(lines)}", *lines, sep="\n  ")
    return int(share < WANTED or bool(passed) or bool(refused))


def _failed(shown: bool, name: str, verdict: str, reason: str) -> None:
    if shown:
        print(f"{name}: {verdict}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
