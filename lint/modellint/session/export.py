"""Export of a model in the caller's process to a package."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from modellint import destinations
from modellint.atomic_output import NotPlaced, place, staged
from modellint.destinations import export_options
from modellint.destinations.export_options import OptionError
from modellint.live.garbage_collection import undisturbed
from modellint.live.snapshot import unchanged
from modellint.results.diagnostic import Diagnostic
from modellint.session.in_process import Varying, examine, job_of, prepared, ready, session_of
from modellint.session.messages import Export, ExportLanguageModel
from modellint.session.progress_output import Entered, silent

if TYPE_CHECKING:
    from torch import nn

    from modellint.destinations.destination import Destination
    from modellint.destinations.export_options import LanguageModel, Options
    from modellint.results.conversion_verdict import Conversion
    from modellint.results.exported import Exported
    from modellint.results.exported_language_model import ExportedLanguageModel

_IN_MEMORY = "model.mlpackage"


class Outcome(NamedTuple):
    """The result of an export in the caller's process."""

    mlmodel: Any
    """None where there is no package, or none that agrees."""
    summary: Exported
    diagnostics: Sequence[Diagnostic]
    conversion: Conversion | None
    """The verdict on a conversion without modellint's help."""


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
    entered: Entered = silent,
) -> Outcome:
    """What ``modellint.export`` gives. Raises ``OptionError``, and ``OSError`` where the package cannot be written."""
    inputs = varying.of(prepared(model, example_inputs))
    job = job_of(model, root, chosen)
    goal = job.resolver.top.goal
    destination = destinations.named(goal.name)
    _check_output(output, destination)
    if not destination.is_installed:
        raise ImportError(f"modellint.export needs {destination.requirement}")
    export_options.check(options, goal)
    model = ready(model, inputs)
    with undisturbed(), unchanged(model, inputs, values=False):
        destination.check_export(model, inputs, options, seed)
    # What else converts it, the export itself tells.
    examined = examine(
        model, example_inputs, None, None, None, root, chosen, varying, -math.inf, entered, is_exported=True
    )
    diagnostics = examined.diagnostics
    with _folder(output) as folder, undisturbed():
        package = folder / (_IN_MEMORY if output is None else output.name)
        session = session_of(model, job, Export(options, package), seed=seed, entered=entered)
        with temporaries_in(folder), unchanged(model, inputs, values=False):
            summary = session.export(model, inputs, options, package, job.rules, diagnostics, checked=examined.subject)
        mlmodel = None
        if summary.writable or (summary.converts and force):
            package = folder / summary.package
            if output is None:
                mlmodel = destination.opened(package, in_memory=True)
            else:
                try:
                    place(package, output, force)
                except NotPlaced as error:
                    raise OSError(str(error)) from None
                mlmodel = destination.opened(output, in_memory=False)
    return Outcome(mlmodel, summary, diagnostics, examined.conversion)


def exported_language_model(
    model: nn.Module,
    root: str | os.PathLike[str] | None,
    chosen: Mapping[str, str],
    wanted: LanguageModel,
    output: Path | None,
    force: bool,
    seed: int,
    entered: Entered = silent,
) -> tuple[Any, ExportedLanguageModel]:
    """What ``modellint.language_model`` gives: coremltools' `MLModel`, None where there is none that agrees, and the result.

    Raises ``OptionError``, and ``OSError`` where the package cannot be written.
    """
    job = job_of(model, root, chosen)
    destination = destinations.named(job.resolver.top.goal.name)
    _check_output(output, destination)
    if not destination.is_installed:
        raise ImportError(f"modellint.language_model needs {destination.requirement}")
    with _folder(output) as folder, undisturbed():
        package = folder / (_IN_MEMORY if output is None else output.name)
        session = session_of(model, job, ExportLanguageModel(wanted, package), seed=seed, entered=entered)
        with temporaries_in(folder), unchanged(model, values=False):
            summary = session.export_language_model(model, wanted, package)
        mlmodel = None
        if summary.writable:
            package = folder / summary.package
            if output is not None:
                try:
                    place(package, output, force)
                except NotPlaced as error:
                    raise OSError(str(error)) from None
                package = output
            mlmodel = destination.opened(package, in_memory=output is None)
    return mlmodel, summary


def _check_output(output: Path | None, destination: Destination) -> None:
    if output is None and destination.suffix != Path(_IN_MEMORY).suffix:
        raise OptionError(f"output must name the {destination.suffix}: what is made there is not kept in memory")
    if output is not None and output.suffix != destination.suffix:
        raise OptionError(f"output must end in {destination.suffix}, and not be {os.fspath(output)!r}")


@contextmanager
def _folder(output: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() if output is None else staged(output) as folder:
        yield Path(folder)


@contextmanager
def temporaries_in(folder: Path) -> Iterator[None]:
    """Let coremltools put its temporary files where they are cleared up if this process is killed."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
