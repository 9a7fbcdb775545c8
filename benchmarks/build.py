"""Build a class from three versions of its file — as written, undone, fixed — and compare what comes out.

``python build.py`` reads one JSON job on standard input and writes one JSON line for each case. Every file has a forked
process, where the real module of the real package is imported first, for its dependencies; then every version runs in
a fork of that, where its text takes the place of that one module. Only this script executes the code of the trees.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import guess

VERSIONS = ("original", "unfixed", "fixed")
SECONDS_PER_VERSION = 25
MEMORY = 12 << 30


@dataclass(slots=True)
class Case:
    """One site: the class and the three texts of its file."""

    ident: int
    qualname: str
    original: str
    unfixed: str
    fixed: str
    buffers: list[str] = field(default_factory=list)
    """Attributes whose keys may differ: a fix makes a constant a buffer that is not saved."""


@dataclass(slots=True)
class Outcome:
    """What the comparison of one case found; ``None`` where there was nothing to compare."""

    ident: int
    built: bool = False
    why: str = ""
    keys_equal: bool | None = None
    keys_equal_but_constants: bool | None = None
    """No key was added, and none is missing but those of the attributes that the site is about."""
    keys_cover_unfixed: bool | None = None
    unfixed_lost_keys: bool | None = None
    outputs_equal: bool | None = None
    outputs_equal_with_equal_weights: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class FileJob:
    """The cases of one file."""

    module: str
    path: str
    cases: list[Case]


def compare(python: str, roots: list[Path], files: list[FileJob]) -> list[Outcome]:
    """Run the cases of some files in one process of their own; what it does not answer counts as not built."""
    cases = [case for file in files for case in file.cases]
    job = {"roots": [str(root) for root in roots], "files": [asdict(file) for file in files]}
    seconds = 120 + SECONDS_PER_VERSION * len(VERSIONS) * len(cases)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [python, "-W", "ignore", __file__]
    try:
        done = subprocess.run(
            command, input=json.dumps(job), capture_output=True, text=True, timeout=seconds, env=environment
        )
        lines, error = done.stdout, done.stderr.strip().splitlines()[-1:] or ["no answer"]
    except subprocess.TimeoutExpired as expired:
        lines = expired.stdout.decode() if isinstance(expired.stdout, bytes) else expired.stdout or ""
        error = ["time-out of the file"]
    answers = {}
    for line in lines.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            record = json.loads(line)
            answers[record["ident"]] = Outcome(**record)
    return [answers.get(case.ident) or Outcome(case.ident, why=error[0][:200]) for case in cases]


# -- in the job's process --------------------------------------------------------------------------------


def main() -> None:
    job = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the packages print is none of ours
    sys.path[:1] = job["roots"]
    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills uninitialised memory, too
    _declare_torchvision_operators()
    for record in job["files"]:
        file = FileJob(record["module"], record["path"], [Case(**case) for case in record["cases"]])
        child = os.fork()
        if child == 0:
            try:
                _run_file(file, out)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


def _run_file(file: FileJob, out: TextIO) -> None:
    def answer(outcome: Outcome) -> None:
        print(json.dumps(asdict(outcome)), file=out, flush=True)

    try:
        if Path(file.path).exists():
            importlib.import_module(file.module)
    except BaseException as error:
        for case in file.cases:
            answer(Outcome(case.ident, why=f"cannot import {file.module}: {type(error).__name__}: {error}"[:200]))
        return
    originals: dict[tuple[str, ...], dict[str, Any]] = {}
    for case in file.cases:
        # What is to be compared with may differ from site to site of one class.
        key = (case.qualname, case.original, *case.buffers)
        if key not in originals:
            originals[key] = _forked(file, case, case.original, None)
        original = originals[key]
        outcome = Outcome(case.ident, built="keys" in original, why=original.get("error", ""))
        if outcome.built:
            plan = original["plan"]
            unfixed = _forked(file, case, case.unfixed, plan)
            fixed = _forked(file, case, case.fixed, plan)
            _judge(outcome, original, unfixed, fixed, set(case.buffers))
        answer(outcome)


def _judge(
    outcome: Outcome, original: dict[str, Any], unfixed: dict[str, Any], fixed: dict[str, Any], buffers: set[str]
) -> None:
    before, after = set(original["keys"]), set(fixed.get("keys", ()))
    outcome.keys_equal = "keys" in fixed and before == after
    lost = {key.rpartition(".")[2] for key in before - after}
    outcome.keys_equal_but_constants = "keys" in fixed and after <= before and lost <= buffers
    if not outcome.keys_equal:
        outcome.details = {
            "error": fixed.get("error", ""),
            "missing": sorted(before - after)[:3],
            "added": sorted(after - before)[:3],
        }
    if "keys" in unfixed:
        outcome.keys_cover_unfixed = after >= set(unfixed["keys"])
        outcome.unfixed_lost_keys = set(unfixed["keys"]) < before
    if original.get("outputs"):
        outcome.outputs_equal = original["outputs"] == fixed.get("outputs")
        outcome.outputs_equal_with_equal_weights = original["seeded"] == fixed.get("seeded")
        if not outcome.outputs_equal_with_equal_weights:
            outcome.details.setdefault("forward", fixed.get("forward_error", "outputs differ"))


def _declare_torchvision_operators() -> None:
    """Let torchvision be imported without its compiled operators, which may not match the installed torch."""
    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    folder = Path(spec.origin).parent
    with contextlib.suppress(OSError, StopIteration):
        torch.ops.load_library(str(next(folder.glob("_C*.so"))))
        return
    library = torch.library.Library("torchvision", "DEF")
    globals()["_library"] = library  # it lives as long as it is referred to
    names = {name for path in folder.rglob("*.py") for name in re.findall(r"torchvision::(\w+)", path.read_text())}
    for name in sorted(names):
        library.define(f"{name}(Tensor x) -> Tensor")


def _forked(file: FileJob, case: Case, text: str, plan: dict[str, Any] | None) -> dict[str, Any]:
    """The facts about a class of one version, found in a child process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(SECONDS_PER_VERSION)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            facts = _facts(file, case, text, plan)
        except BaseException as error:
            facts = {"error": f"{type(error).__name__}: {error}"[:200]}
        with os.fdopen(write, "w") as stream:
            json.dump(facts, stream)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        received = stream.read()
    os.waitpid(child, 0)
    return json.loads(received) if received else {"error": "time-out or killed"}


def _facts(file: FileJob, case: Case, text: str, plan: dict[str, Any] | None) -> dict[str, Any]:
    """Build, list the keys, run. Without a plan the way to build and to call is searched; with one it is repeated."""
    import torch

    module = _substitute(file.module, Path(file.path), text)
    model, chosen = guess.build(module, case.qualname, plan)
    facts: dict[str, Any] = {"keys": list(model.state_dict()), "plan": chosen}
    model.eval()
    with torch.no_grad():
        try:
            facts["outputs"], chosen["inputs"] = guess.run(model, chosen, plan)
            guess.equal_weights(model, case.buffers)
            facts["seeded"], _ = guess.run(model, chosen, chosen)
        except Exception as error:
            facts["forward_error"] = f"{type(error).__name__}: {error}"[:200]
    return facts


def _forget_registered(name: str) -> None:
    """Take a module's functions out of torchvision's table of models, which refuses a second entry of a name."""
    table = getattr(sys.modules.get("torchvision.models._api"), "BUILTIN_MODELS", {})
    for key in [key for key, function in table.items() if function.__module__ == name]:
        del table[key]


def _substitute(name: str, path: Path, text: str) -> ModuleType:
    """The module ``name`` made anew from ``text``, in the place of the imported one."""
    folders = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _forget_registered(name)
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


if __name__ == "__main__":
    main()
