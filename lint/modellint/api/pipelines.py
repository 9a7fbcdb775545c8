"""Export of a pipeline: several modules, a package each, and the chain of them compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.api.arguments import chosen, output_path
from modellint.api.check_report import Report
from modellint.results.progress import Progress

if TYPE_CHECKING:
    from torch import nn

    from modellint.results.exported_pipeline import ExportedPipeline


class PipelineError(Exception):
    """A stage of a pipeline does not convert or does not agree, or the chain of packages does not.

    ``summary`` says which; it is None where the chain itself raises. ``report`` holds the findings of all stages.
    """

    __module__ = "modellint"

    def __init__(self, report: Report, summary: ExportedPipeline | None, name: str = "") -> None:
        from modellint.report import concise, pipeline_text

        shown = "" if summary is None else pipeline_text.render(summary, name, False)
        super().__init__((shown + (concise.render(report.diagnostics) if report.diagnostics else "")).rstrip("\n"))
        self.report = report
        self.summary = summary
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.report, self.summary, self._name)


@dataclass(frozen=True, slots=True, repr=False)
class PipelineResult:
    """An exported pipeline; it prints as the summary that the command ends with."""

    mlmodels: Mapping[str, Any]
    """coremltools' `MLModel` of each stage, by name, not loaded into Core ML."""
    folder: Path
    """Where the packages are, each ``NAME.mlpackage``."""
    report: Report
    """What the checks of the modules as they were find."""
    summary: ExportedPipeline
    """Each stage as an export on its own, and how the chain compares."""

    def __repr__(self) -> str:
        from modellint.report import pipeline_text

        return pipeline_text.render(self.summary, str(self.folder), True).rstrip("\n")


def export_pipeline(
    stages: Mapping[str, nn.Module | tuple[nn.Module, Any]],
    folder: str | PathLike[str],
    *,
    chain: Callable[..., Any] | None = None,
    chain_inputs: Any = None,
    force: bool = False,
    states: bool = False,
    author: str = "",
    license: str = "",  # noqa: A002
    description: str = "",
    version: str = "",
    root: str | PathLike[str] | None = None,
    frontend: str | None = None,
    deployment_target: str | None = None,
    precision: str | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | bool | None = None,
) -> PipelineResult:
    """Export the modules of a pipeline to Core ML, a package each, and compare the chain of them from end to end.

    Each is exported and verified as by ``export``. Then ``chain`` is run once with PyTorch's modules and once with callables that
    execute the packages as they are saved, on the same inputs and with the same random numbers, and what it returns is compared:
    in float32 each element may be off by ten times what rounding does to the chain in PyTorch, packages in float16 have to keep a
    signal to noise of 30 dB. Either all packages are written or none.

    Args:
        stages: By name each module, alone or with its example inputs, as of ``export``. Without inputs it is exported with those
            of its first call in the chain. A name is an identifier of Python; the package is called after it.
        folder: Where the packages go; it comes into being where it is not there.
        chain: A function whose parameters are called like stages, or ``**stages``; it calls them, and returns tensors, also several
            in tuples, lists or dicts. What a package gives is handed on in the type and the structure that the module returns.
        chain_inputs: What it takes beside stages: a dict by the names of parameters, or a tuple.
        force: Replace packages that are there, and write those that do not agree too.
        states: Whether buffers that ``forward`` updates become states, which iOS18 is the first to have. They go on from call to
            call of the chain.
        author: Who made the models.
        license: Under which they may be used.
        description: What they do.
        version: Their version.
        root: The folder whose settings hold; by default that of the project of the first module's class.
        frontend: ``auto``, ``trace`` or ``export``.
        deployment_target: As in ``"iOS16"``.
        precision: ``fp16`` or ``fp32``.
        seed: Where random numbers start, those of the chain too.
        progress: A function that is told each stage, or True to show them.

    Raises:
        PipelineError: Where a stage or the chain does not run, a stage does not convert, or something does not agree.
        FileExistsError: For a package that exists, without ``force``.
        OSError: For packages that cannot be written.
        TypeError: For what is no module.
        ValueError: For unknown words, for names that are none, for a chain that does not fit the stages, and for a stage that has no
            inputs and is not called.
        ImportError: Without PyTorch or coremltools.
    """
    from torch import nn

    from modellint.destinations.export_options import Metadata, OptionError, Options
    from modellint.session.pipelines.in_process import exported_pipeline
    from modellint.session.progress_output import reporting

    pairs = {name: stage if isinstance(stage, tuple) else (stage, None) for name, stage in stages.items()}
    if not pairs:
        raise ValueError("stages: there is none")
    for name, pair in pairs.items():
        if not name.isidentifier():
            raise ValueError(f"stages: {name!r} cannot be the name of a parameter")
        if len(pair) != 2 or not isinstance(pair[0], nn.Module):
            raise TypeError(f"stages: {name} must be an nn.Module, or that and its inputs")
    settings = chosen(frontend, deployment_target, precision)
    path = Path(folder)
    for name in pairs:
        output_path(path / f"{name}.mlpackage", force)
    options = Options(states=states, metadata=Metadata(author, license, description, version))
    try:
        with reporting(progress, next(iter(pairs.values()))[0]) as entered:
            outcome = exported_pipeline(pairs, path, chain, chain_inputs, root, settings, options, force, seed, entered)
    except OptionError as error:
        raise ValueError(str(error)) from None
    report = Report(tuple(outcome.answer.diagnostics))
    if outcome.summary is None or not outcome.mlmodels:
        raise PipelineError(report, outcome.summary, str(path))
    return PipelineResult(outcome.mlmodels, path, report, outcome.summary)
