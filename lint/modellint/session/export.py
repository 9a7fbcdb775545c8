"""A model in the caller's process to a package."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint import destinations
from modellint.api import withheld
from modellint.atomic_output import NotPlaced, place, staged
from modellint.destinations import export_options
from modellint.live.code.places import Project
from modellint.live.garbage_collection import undisturbed
from modellint.live.snapshot import unchanged
from modellint.results.diagnostic import Diagnostic
from modellint.results.verification import AGREES, DIFFERS
from modellint.session.in_process import Varying, examine, job_of, prepared, ready

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.export_options import Options
    from modellint.results.exported import Exported

_IN_MEMORY = "model.mlpackage"


class Made(NamedTuple):
    """What an export came to."""

    mlmodel: Any
    """None where there is no package, or none that agrees."""
    summary: Exported
    diagnostics: Sequence[Diagnostic]
    convertible: bool | None
    """Whether plain `ct.convert` takes the model."""
    verdict: str


def exported(
    model: nn.Module,
    example_inputs: Any,
    varying: Varying,
    root: str | os.PathLike[str] | None,
    chosen: Mapping[str, str],
    options: Options,
    output: Path | None,
    force: bool,
    seed: int,
) -> Made:
    """What ``modellint.export`` gives. Raises ``OptionError``, and ``OSError`` where the package cannot be written."""
    inputs = varying.of(prepared(model, example_inputs))
    job = job_of(model, root, chosen)
    goal = job.resolver.top.destination
    destination = destinations.named(goal.name)
    if not destination.is_installed:
        raise ImportError(f"modellint.export needs {destination.requirement}")
    export_options.check(options, goal)
    model = ready(model, inputs)
    with undisturbed(), unchanged(model, inputs, values=False):
        destination.check_export(model, inputs, options, seed)
    # What else converts it, the export itself tells.
    found, plain = examine(model, example_inputs, None, None, None, root, chosen, varying, spare=-math.inf)
    with _folder(output) as folder, undisturbed():
        with _temporaries_in(folder), unchanged(model, inputs, values=False):
            summary = destination.export(
                model,
                inputs,
                goal,
                Project(job.root),
                options,
                folder,
                _IN_MEMORY if output is None else output.name,
                seed=seed,
            )
        mlmodel = None
        if summary.writable or (summary.converts and force):
            made = folder / summary.package
            if output is None:
                mlmodel = destination.opened(made, in_memory=True)
            else:
                try:
                    place(made, output, force)
                except NotPlaced as error:
                    raise OSError(str(error)) from None
                mlmodel = destination.opened(output, in_memory=False)
    convertible = None if plain is None else withheld(plain["convertible"], found)
    return Made(mlmodel, summary, found, convertible, _line(summary, plain))


def _line(summary: Exported, plain: Mapping[str, Any] | None) -> str:
    """What became of it, in a line; ``plain`` is the verdict on `ct.convert` by itself."""
    if not summary.converts:
        return "Core ML: will not convert"
    by = (
        "" if plain is None or plain["convertible"] is not False else f" with modellint export{_needed(summary, plain)}"
    )
    compared = summary.verification
    agrees = {AGREES: "agrees", DIFFERS: "computes something else"}.get(
        compared.verdict, "whether it agrees is undecided"
    )
    if compared.single == AGREES and compared.verdict != AGREES:
        agrees = (
            "float16 is not precise enough"
            if compared.verdict == DIFFERS
            else "agrees in float32, undecided in float16"
        )
    return f"Core ML: converts{by} by {summary.route} · {agrees}"


def _needed(summary: Exported, plain: Mapping[str, Any]) -> str:
    """What an export had to do where `ct.convert` refuses the model, as the check of the model tells it."""
    refused = {one["operator"] for one in plain["routes"][plain["frontend"]]["blockers"]}
    parts = []
    for kind, verb in (("supplied", "supplies"), ("mended", "mends")):
        told = [(one.what.partition(" at ")[0], one.exactness) for one in summary.changes if one.kind == kind]
        needed = [f"{what}, {exact}" for what, exact in told if kind == "supplied" or what in refused]
        if needed:
            parts.append(f"{verb} {'; '.join(needed)}")
    codes = dict.fromkeys(one.code for one in summary.changes if one.kind == "fixed" and one.code)
    if codes and not parts:
        parts.append(f"fixes {', '.join(codes)}")
    return f" ({'; '.join(parts)})" if parts else ""


@contextmanager
def _folder(output: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() if output is None else staged(output) as folder:
        yield Path(folder)


@contextmanager
def _temporaries_in(folder: Path) -> Iterator[None]:
    """Let coremltools put its temporary files where they are cleared up if this process is killed."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
