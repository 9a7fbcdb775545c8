"""What Python programs call to get from a model to a package."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.api import Report, chosen
from modellint.destinations import export_options
from modellint.destinations.export_options import Metadata, OptionError, Options

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.fixes.applied import Applied
    from modellint.results.exported import Exported
    from modellint.results.verification import Verification


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
    from modellint.report import export as texts

    found = concise.render(report.diagnostics) if report.diagnostics else ""
    return (texts.render(summary, name, False) + found).rstrip("\n")


@dataclass(frozen=True, slots=True, repr=False)
class ExportResult:
    """An exported model; it prints as the summary that the command ends with."""

    mlmodel: Any
    """coremltools' `MLModel`, not loaded into Core ML: `coremltools.models.MLModel(path)` does that on a Mac."""
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
        from modellint.report import export as texts

        return texts.render(self.summary, "" if self.path is None else str(self.path), True).rstrip("\n")


def export(
    model: nn.Module,
    example_inputs: Any,
    *,
    output: str | PathLike[str] | None = None,
    force: bool = False,
    flexible: Mapping[str | int, Mapping[int, tuple[int, int]]] | None = None,
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
    frontend: str | None = None,
    deployment_target: str | None = None,
    precision: str | None = None,
    seed: int = 0,
) -> ExportResult:
    """Fix a copy of a model, convert it, execute what is saved, compare it with the model, and keep the package if it agrees.

    ``example_inputs``, ``flexible``, ``ranges``, ``frontend``, ``deployment_target``, ``precision`` and ``seed`` are those of ``verify``.

    Args:
        model: It is left as it was.
        example_inputs: A tuple of arguments, a dict of keyword arguments, or the one argument.
        output: The ``.mlpackage`` to write; None keeps the model in memory.
        force: Replace what is at ``output``, and keep a package that does not agree too; the result's ``verification`` tells.
        flexible: For arguments by position or name the bounds of dimensions whose size may vary: ``{0: {0: (1, 8)}}``.
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
        frontend: ``auto``, ``trace`` or ``export``.
        deployment_target: As in ``"iOS16"``.
        precision: ``fp16`` or ``fp32``.
        seed: Where random numbers start.

    Raises:
        ExportError: Where the model does not run, does not convert, or does not agree; its ``report`` says why.
        FileExistsError: For an ``output`` that exists, without ``force``.
        OSError: For one that cannot be written.
        TypeError: For what is no model, or without inputs.
        ValueError: For unknown words, and for options that do not fit the model.
        ImportError: Without PyTorch or coremltools.
    """
    from modellint.session.export import exported
    from modellint.session.in_process import Varying

    destination = chosen(frontend, deployment_target, precision)
    path = None if output is None else Path(output)
    if path is not None:
        if path.suffix != ".mlpackage":
            raise ValueError(f"output must end in .mlpackage, and not be {os.fspath(path)!r}")
        if os.path.lexists(path) and not force:
            raise FileExistsError(f"{path} exists: force=True replaces it")
    try:
        options = Options(
            tuple(export_options.image(name, given or {}) for name, given in (images or {}).items()),
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
        made = exported(model, example_inputs, varying, root, destination, options, path, force, seed)
    except OptionError as error:
        raise ValueError(str(error)) from None
    report = Report(
        tuple(made.diagnostics),
        made.convertible,
        made.verdict,
        _changes(made.summary, "fixed"),
        _changes(made.summary, "undone"),
    )
    if made.mlmodel is None:
        raise ExportError(report, made.summary, "" if path is None else str(path))
    return ExportResult(made.mlmodel, report, made.summary.verification, made.summary.route, path, made.summary)


def _changes(summary: Exported, kind: str) -> tuple[Applied, ...]:
    from modellint.live.fixes.applied import BIT_EQUAL, Applied

    return tuple(
        Applied(one.code, one.what, one.where, one.exactness or BIT_EQUAL, one.note)
        for one in summary.changes
        if one.kind == kind
    )


def _labels(given: Sequence[str] | str | PathLike[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, (str, PathLike)):
        return export_options.read_labels(Path(given))
    return export_options.checked_labels([str(label) for label in given])
