"""Export of a pipeline of modules in the caller's process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from modellint import destinations
from modellint.atomic_output import NotPlaced, place_all, staged
from modellint.destinations import export_options
from modellint.live.garbage_collection import undisturbed
from modellint.live.inputs.model_inputs import Inputs
from modellint.live.snapshot import unchanged
from modellint.session.building import Failed
from modellint.session.export import temporaries_in
from modellint.session.in_process import job_of, prepared, ready, session_of
from modellint.session.messages import Answer, ExportPipeline
from modellint.session.pipelines.stages import BuiltStage, export_pipeline
from modellint.session.progress_output import Entered, silent
from modellint.session.target import Target

if TYPE_CHECKING:
    from modellint.destinations.export_options import Options
    from modellint.results.exported_pipeline import ExportedPipeline


class PipelineOutcome(NamedTuple):
    """The result of an export of a pipeline in the caller's process."""

    mlmodels: Mapping[str, Any]
    """By stage; empty where nothing is written."""
    summary: ExportedPipeline | None
    """None where the chain itself does not run."""
    answer: Answer


def exported_pipeline(
    stages: Mapping[str, tuple[nn.Module, Any]],
    folder: Path,
    chain: Callable[..., Any] | None,
    chain_inputs: Any,
    root: str | os.PathLike[str] | None,
    chosen: Mapping[str, str],
    options: Options,
    force: bool,
    seed: int,
    entered: Entered = silent,
) -> PipelineOutcome:
    """What ``modellint.export_pipeline`` gives; inputs of a stage may be None where a chain calls it.

    Raises ``OptionError``, and ``OSError`` where packages cannot be written.
    """
    models = {name: model for name, (model, _) in stages.items()}
    job = job_of(next(iter(models.values())), root, chosen)
    goal = job.resolver.top.goal
    destination = destinations.named(goal.name)
    if not destination.is_installed:
        raise ImportError(f"modellint.export_pipeline needs {destination.requirement}")
    export_options.check(options, goal)
    rules = {
        code: rule
        for code, rule in job.rules.items()
        if job.resolver.top.enables(code, rule.default) and rule.holds_for(goal.name)
    }
    inputs = Inputs() if chain_inputs is None else prepared(nn.Identity(), chain_inputs)
    paths = {name: folder / f"{name}{destination.suffix}" for name in stages}
    with (
        staged(next(iter(paths.values())) if folder.is_dir() else folder) as making,
        undisturbed(),
        ExitStack() as stack,
    ):
        action = ExportPipeline((), chain is not None, options, making)
        session = session_of(next(iter(models.values())), job, action, rules, seed, entered=entered)
        if chain is not None:
            name = getattr(chain, "__name__", type(chain).__name__)
            session.request = session.request._replace(target=Target(name, "", name))
        stack.enter_context(temporaries_in(making))
        built = []
        for name, (model, example) in stages.items():
            taken = None if example is None else prepared(model, example)
            shaped = ready(model, taken)
            stack.enter_context(unchanged(shaped, taken, values=False))
            own = session.of_target(Target(name, "", name), session.request.location, f"{name}: ")
            built.append(BuiltStage(name, own, shaped, taken, rules))
        try:
            answer = export_pipeline(session, built, chain, inputs, options, making)
        except Failed as error:
            answer = session.answer([session.raised(error.__cause__ or error)], failed=True)
        shown = tuple(
            finding if finding.path is None else finding._replace(path=job.shown(Path(finding.path)))
            for finding in answer.diagnostics
        )
        answer = answer._replace(diagnostics=shown)
        summary = answer.pipeline
        if summary is None or not (summary.writable or (summary.converts and force)):
            return PipelineOutcome({}, summary, answer)
        try:
            place_all([making / name / path.name for name, path in paths.items()], folder, force)
        except NotPlaced as error:
            raise OSError(str(error)) from None
    mlmodels = {name: destination.opened(path, in_memory=False) for name, path in paths.items()}
    return PipelineOutcome(mlmodels, summary, answer)
