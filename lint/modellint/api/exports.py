"""Export of a model: a fixed copy, converted, executed and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.api.arguments import chosen, output_path
from modellint.api.check_report import Report
from modellint.results.applied_fix import BIT_EQUAL, Applied
from modellint.results.progress import Progress
from modellint.results.verification import Verification

if TYPE_CHECKING:
    from torch import nn

    from modellint.results.exported import Exported


class ExportError(Exception):
    """A model does not convert, or its package does not agree with it. The message is readable; ``report`` says why.

    ``summary`` holds what was tried, and ``verification`` how far off the package is, None where there is none.
    """

    __module__ = "modellint"

    def __init__(self, report: Report, summary: Exported, name: str = "") -> None:
        super().__init__(_message(report, summary, name))
        self.report = report
        self.summary = summary
        self._name = name

    @property
    def verification(self) -> Verification | None:
        """How the package compares with the model; None where the model does not convert."""
        return self.summary.verification if self.summary.converts else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.report, self.summary, self._name)


def _message(report: Report, summary: Exported, name: str) -> str:
    from modellint.report import concise
    from modellint.report import export_text as texts

    findings = concise.render(report.diagnostics) if report.diagnostics else ""
    return (texts.render(summary, name, False) + findings).rstrip("\n")


@dataclass(frozen=True, slots=True, repr=False)
class ExportResult:
    """An exported model; it prints as the summary that the command ends with."""

    mlmodel: Any
    """coremltools' `MLModel`, not loaded into Core ML: `coremltools.models.MLModel(path)` does that on a Mac. For Core AI the path."""
    report: Report
    """What a check of the model as it was finds, and what was ``fixed`` in the copy that is exported, or ``undone``."""
    verification: Verification
    """How the package, read back, compares with the model as it was."""
    frontend: str
    """How the model was captured: ``trace``, ``export`` or, with core ATen decompositions, ``decomposed``."""
    path: Path | None
    """The package; None where it is kept in memory."""
    summary: Exported
    """What was changed, which routes were not taken, inputs, outputs, states, size and notes."""

    def __repr__(self) -> str:
        from modellint.report import export_text as texts

        return texts.render(self.summary, "" if self.path is None else str(self.path), True).rstrip("\n")

    def _repr_html_(self) -> str:
        from modellint.report import verification_html
        from modellint.report.notebook_displays import export

        name = "" if self.path is None else str(self.path)
        return export.fragment(self.summary, name, True, verification_html.fragment(self.verification))


def export(
    model: nn.Module,
    example_inputs: Any,
    *,
    output: str | PathLike[str] | None = None,
    force: bool = False,
    flexible: Mapping[str | int, Mapping[int, Sequence[int]]] | None = None,
    ranges: Mapping[str | int, tuple[float, float]] | None = None,
    images: Mapping[str, Mapping[str, Any] | None] | None = None,
    labels: Sequence[str] | str | PathLike[str] | None = None,
    states: bool = False,
    output_names: Sequence[str] = (),
    author: str = "",
    license: str = "",  # noqa: A002
    description: str = "",
    version: str = "",
    input_descriptions: Mapping[str, str] | None = None,
    output_descriptions: Mapping[str, str] | None = None,
    root: str | PathLike[str] | None = None,
    destination: str | None = None,
    frontend: str | None = None,
    deployment_target: str | None = None,
    precision: str | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | bool | None = None,
) -> ExportResult:
    """Fix a copy of a model, convert it, execute what is saved, compare it with the model, and keep the package if it agrees.

    ``example_inputs``, ``flexible``, ``ranges``, ``frontend``, ``deployment_target``, ``precision``, ``seed`` and ``progress`` are
    those of ``verify``.

    Args:
        model: It is left as it was.
        example_inputs: A tuple of arguments, a dict of keyword arguments, or the one argument.
        output: The ``.mlpackage`` to write, or the ``.aimodel`` for Core AI; None keeps an ``.mlpackage`` in memory.
        force: Replace what is at ``output``, and keep a package that does not agree too; the result's ``verification`` tells.
        flexible: For arguments by position or name the bounds of dimensions whose size may vary: ``{0: {0: (1, 8)}}``, or a list of
            their sizes, ``{0: {1: [16, 64, 256]}}``, which are enumerated shapes.
        ranges: The values that arguments take, as in ``{"ids": (0, 1000)}``, the end excluded; they are compared on such alone.
        images: Arguments, of shape 1 x channels x height x width, that Core ML is to take as images, each with ``layout`` (``rgb``,
            ``bgr`` or ``grayscale``), ``scale`` and ``bias``: the model gets ``scale * pixel + bias`` of pixels from 0 to 255.
        labels: Of a classifier's outputs, in their order, or a file with one on each line.
        states: Whether buffers that ``forward`` updates become states, which iOS18 is the first to have.
        output_names: Names for the outputs, in their order.
        author: Who made the model; as ``license``, ``description`` and ``version`` text that the package holds.
        license: Under which it may be used.
        description: What it does.
        version: Its version.
        input_descriptions: By the names of inputs.
        output_descriptions: By the names of outputs.
        root: The folder whose settings hold; by default that of the project of the model's class.
        destination: ``coreml`` or ``coreai``.
        frontend: ``auto``, ``trace`` or ``export``.
        deployment_target: As in ``"iOS16"``.
        precision: ``fp16`` or ``fp32``.
        seed: Where random numbers start.
        progress: A function that is told each stage, or True to show them.

    Raises:
        ExportError: Where the model does not run, does not convert, or does not agree; its ``report`` says why.
        FileExistsError: For an ``output`` that exists, without ``force``.
        OSError: For one that cannot be written.
        TypeError: For what is no model, or without inputs.
        ValueError: For unknown words, and for options that do not fit the model.
        ImportError: Without PyTorch or coremltools.
    """
    from modellint.destinations import export_options
    from modellint.destinations.export_options import Metadata, OptionError, Options
    from modellint.report import live_findings
    from modellint.session.export import exported
    from modellint.session.in_process import Varying
    from modellint.session.progress_output import reporting

    settings = chosen(frontend, deployment_target, precision, destination)
    path = output_path(output, force)
    try:
        options = Options(
            tuple(export_options.image(name, values or {}) for name, values in (images or {}).items()),
            _labels(labels),
            states,
            tuple(output_names),
            Metadata(
                author,
                license,
                description,
                version,
                tuple((input_descriptions or {}).items()),
                tuple((output_descriptions or {}).items()),
            ),
        )
        varying = Varying(flexible or {}, ranges or {})
        with reporting(progress, model) as entered:
            outcome = exported(model, example_inputs, varying, root, settings, options, path, force, seed, entered)
    except OptionError as error:
        raise ValueError(str(error)) from None
    report = Report(
        tuple(outcome.diagnostics),
        None if outcome.conversion is None else outcome.conversion.withheld(outcome.diagnostics),
        live_findings.line_of_export(outcome.summary, outcome.conversion),
        _changes(outcome.summary, "fixed"),
        _changes(outcome.summary, "undone"),
    )
    if outcome.mlmodel is None:
        raise ExportError(report, outcome.summary, "" if path is None else str(path))
    return ExportResult(
        outcome.mlmodel, report, outcome.summary.verification, outcome.summary.route, path, outcome.summary
    )


def _changes(summary: Exported, kind: str) -> tuple[Applied, ...]:
    return tuple(
        Applied(change.code, change.what, change.where, change.exactness or BIT_EQUAL, change.note)
        for change in summary.changes
        if change.kind == kind
    )


def _labels(labels: Sequence[str] | str | PathLike[str] | None) -> tuple[str, ...]:
    from modellint.destinations import export_options

    if labels is None:
        return ()
    if isinstance(labels, (str, PathLike)):
        return export_options.read_labels(Path(labels))
    return export_options.checked_labels([str(label) for label in labels])
