"""The Python API: checks, fixes, verification and export in the caller's process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.live.inputs.declared_inputs import Input as Input
from modellint.results.applied_fix import BIT_EQUAL, Applied
from modellint.results.diagnostic import Diagnostic, Severity
from modellint.results.progress import Progress as Progress
from modellint.results.shape_table import Table
from modellint.results.verification import Verification

if TYPE_CHECKING:
    from torch import nn

    from modellint.results.conversion_verdict import Conversion
    from modellint.results.exported import Exported
    from modellint.results.exported_language_model import ExportedLanguageModel
    from modellint.results.exported_pipeline import ExportedPipeline
    from modellint.source.syntax.text import SourceText


class CheckFailed(AssertionError):
    """A check found something at or above the level asked for. The message is the report; ``report`` holds it."""

    __module__ = "modellint"

    def __init__(self, report: Report) -> None:
        super().__init__(repr(report))
        self.report = report

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.report,)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The findings of one check, sorted. In a notebook it shows as a table."""

    diagnostics: tuple[Diagnostic, ...]
    convertible: bool | None = None
    """Whether coremltools converts the model; None when that was not tried, as in every check of source."""
    verdict: str = ""
    """The same in a line, with how much is in the way and by which route it converts."""
    fixed: tuple[Applied, ...] = ()
    """What ``fix_model`` or ``export`` did to its copy. The findings are those left in that of ``fix_model``."""
    undone: tuple[Applied, ...] = ()
    """What was tried and taken back, or could not be proven, each with why in its ``note``."""

    @property
    def ok(self) -> bool:
        """Whether nothing at the level of a warning or an error was found."""
        return all(finding.severity < Severity.WARNING for finding in self.diagnostics)

    def raise_if_failed(self, level: str = "warning") -> None:
        """Raise ``CheckFailed`` if there is a finding at or above a level: ``info``, ``warning`` or ``error``.

        Raises ``ValueError`` for another level.
        """
        # pytest then shows the caller's line.
        __tracebackhide__ = True
        levels = {severity.label: severity for severity in Severity}
        if level not in levels:
            raise ValueError(f"level must be one of {', '.join(levels)}, not {level!r}")
        if any(finding.severity >= levels[level] for finding in self.diagnostics):
            raise CheckFailed(self)

    def __repr__(self) -> str:
        from modellint.report import concise

        text = concise.render(self.diagnostics).rstrip("\n")
        fixes = [f"fixed: {fix}" for fix in self.fixed] + [f"not fixed: {fix}" for fix in self.undone]
        return "\n".join([*fixes, text, *([self.verdict] if self.verdict else [])])

    def _repr_html_(self) -> str:
        from modellint.report.notebook_displays import findings

        return findings.fragment(self.diagnostics, self.verdict, self.fixed, self.undone)


def check_model(
    model: nn.Module,
    example_inputs: Any = None,
    *,
    flexible: Mapping[str | int, Mapping[int, Sequence[int]]] | None = None,
    ranges: Mapping[str | int, tuple[float, float]] | None = None,
    checkpoint: str | PathLike[str] | Mapping[str, Any] | None = None,
    select: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    root: str | PathLike[str] | None = None,
    destination: str | None = None,
    frontend: str | None = None,
    deployment_target: str | None = None,
    precision: str | None = None,
    progress: Callable[[Progress], None] | bool | None = None,
) -> Report:
    """Check a model as it stands in memory, and leave it exactly as it was.

    ``example_inputs`` is what the model is called with, once, in evaluation mode, on tensors without values: a tuple of
    arguments, a dict of keyword arguments, or the one argument; an ``Input`` stands for a tensor of its shape. Without it what needs a
    run is not checked.
    ``flexible`` and ``ranges`` are those of ``verify``. ``checkpoint`` is a
    file (``.pt``, ``.pth``, ``.safetensors``) or a dict that is to fit the model. ``select`` and ``ignore`` are codes or the
    beginnings of codes, such as ``"REG"``; without them the settings of the project hold, which is the one of the model's class,
    or the folder ``root``. So it is with ``destination`` (``coreml`` or ``coreai``), ``frontend`` (``auto``,
    ``trace`` or ``export``), ``deployment_target`` (as in
    ``"iOS16"``) and ``precision`` (``fp16`` or ``fp32``), which say what the model is to be converted by and for.
    ``progress`` is a function that is told each stage, or True to show them: by tqdm where it is installed, else in lines on
    standard error. What the function raises is raised when the work is done.

    Raises ``TypeError`` for what is no model, ``ValueError`` for unknown codes and words, and for a checkpoint that cannot be read, which
    is refused where it holds anything but tensors, and ``OSError`` for one that cannot be opened.
    """
    from modellint.session.in_process import Varying, examine
    from modellint.session.progress_reporting import reporting

    settings = chosen(frontend, deployment_target, precision, destination)
    varying = Varying(flexible or {}, ranges or {})
    codes = _codes(select), _codes(ignore)
    with reporting(progress, model) as entered:
        examined = examine(model, example_inputs, checkpoint, *codes, root, settings, varying, entered=entered)
    return _report(*examined)


def fix_model(
    model: nn.Module,
    example_inputs: Any = None,
    *,
    root: str | PathLike[str] | None = None,
    destination: str | None = None,
    frontend: str | None = None,
    deployment_target: str | None = None,
    precision: str | None = None,
    progress: Callable[[Progress], None] | bool | None = None,
) -> tuple[nn.Module, Report]:
    """A copy of a model, in evaluation mode and ready to be converted, and the report on it; the model is left as it was.

    In the copy hidden modules, parameters and tensors are registered, state lies in order in memory, wrappers
    (``DataParallel``, ``torch.compile``) and parametrizations are gone, and ``nn.PReLU`` is replaced where coremltools refuses
    it. Each change is proven on ``example_inputs`` and on others made of them, by outputs and gradients, and is taken back
    where it does not hold. The report's ``fixed`` and ``undone`` tell them; its findings are those that are left. Without
    ``example_inputs`` what has to be proven is not done.

    The arguments are those of ``check_model``. Raises ``TypeError`` for what is no model, ``ValueError`` for unknown words.
    """
    from dataclasses import replace

    from modellint.session.in_process import examine, fixed
    from modellint.session.progress_reporting import reporting

    settings = chosen(frontend, deployment_target, precision, destination)
    with reporting(progress, model) as entered:
        result, home = fixed(model, example_inputs, root, settings, entered)
        left = _report(*examine(result.model, example_inputs, None, None, None, home, settings, entered=entered))
    return result.model, replace(left, fixed=result.applied, undone=result.undone)


def _report(diagnostics: Sequence[Diagnostic], conversion: Conversion | None) -> Report:
    """The findings, and whether coremltools converts the model."""
    if conversion is None:
        return Report(tuple(diagnostics))
    from modellint.report import live_findings

    return Report(tuple(diagnostics), conversion.withheld(diagnostics), live_findings.line_of(conversion, diagnostics))


def chosen(
    frontend: str | None, deployment_target: str | None, precision: str | None, destination: str | None = None
) -> dict[str, str]:
    """The settings that arguments stand for. Raises ``ValueError`` for unknown words."""
    from modellint.settings import FRONTENDS, OF_COREML, PRECISIONS, RUNTIMES, TARGETS

    arguments = {
        "frontend": (frontend, FRONTENDS),
        "deployment-target": (deployment_target, tuple(TARGETS)),
        "precision": (precision, PRECISIONS),
        "destination": (destination, tuple(RUNTIMES)),
    }
    for name, (word, words) in arguments.items():
        if word is not None and word not in words:
            raise ValueError(f"{name.replace('-', '_')} must be one of {', '.join(words)}, not {word!r}")
        if destination == "coreai" and word is not None and name in OF_COREML:
            raise ValueError(f"{name.replace('-', '_')} is about Core ML alone: leave it out for Core AI")
    return {name: word for name, (word, _) in arguments.items() if word is not None}


def _codes(codes: str | Sequence[str] | None) -> tuple[str, ...] | None:
    selectors = [codes] if isinstance(codes, str) else codes
    if selectors is None:
        return None
    if not all(isinstance(word, str) for word in selectors):
        raise TypeError(f"select and ignore take codes, such as 'REG001', not {codes!r}")
    return tuple(code for word in selectors for code in word.replace(",", " ").split())


def shapes(
    model: nn.Module,
    example_inputs: Any,
    *,
    flexible: Mapping[str | int, Mapping[int, Sequence[int]]] | None = None,
) -> Table:
    """What every layer of a model takes and gives, its parameters and its memory; the table prints readably.

    ``example_inputs`` is a tuple of arguments, a dict of keyword arguments, or the one argument; tensors on the meta device will
    do. ``flexible`` gives, for arguments by position or name, the bounds of dimensions that are to stay symbols:
    ``{0: {0: (1, 8)}}``. The model is run once on tensors without values, and left as it was. Where the run fails, the table
    goes as far as it, and its ``failure`` says why. Raises ``TypeError`` for what is no model.
    """
    from torch import nn

    from modellint.live.capture.fake_tensor_run import capture
    from modellint.live.garbage_collection import undisturbed
    from modellint.live.inputs.declared_inputs import inputs_of
    from modellint.live.inputs.model_inputs import with_lists
    from modellint.live.shape_table import table_of
    from modellint.live.subject import Subject
    from modellint.settings import Destination

    if not isinstance(model, nn.Module):
        raise TypeError(f"an nn.Module is needed, not {type(model).__name__}")
    from modellint.session.in_process import ready

    inputs = inputs_of(example_inputs)
    inputs = inputs._replace(flexible=with_lists({**inputs.flexible, **(flexible or {})}))
    model = ready(model, inputs)
    has_values = not any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    subject = Subject(model, inputs, Path.cwd(), Destination(), has_values=has_values)
    with undisturbed():
        return table_of(subject, capture(subject, symbolic=True))


def verify(
    model: nn.Module,
    example_inputs: Any,
    *,
    flexible: Mapping[str | int, Mapping[int, Sequence[int]]] | None = None,
    ranges: Mapping[str | int, tuple[float, float]] | None = None,
    root: str | PathLike[str] | None = None,
    destination: str | None = None,
    frontend: str | None = None,
    deployment_target: str | None = None,
    precision: str | None = None,
    seed: int = 0,
    record: str | PathLike[str] | None = None,
    progress: Callable[[Progress], None] | bool | None = None,
) -> Verification:
    """Convert a model, execute the result on this machine, and compare it with the model, which is left as it was.

    ``example_inputs`` is a tuple of arguments, a dict of keyword arguments, or the one argument; more inputs are made of its shapes
    and kinds, from ``seed``. ``flexible`` gives, for arguments by position or name, the bounds of dimensions whose size may vary:
    ``{0: {0: (1, 8)}}``, or a list of their sizes, ``{0: {1: [16, 64, 256]}}``; ``ranges`` gives the values that arguments take, as in
    ``{"ids": (0, 1000)}``, the end excluded. ``destination``,
    ``frontend``, ``deployment_target``, ``precision`` and ``progress`` are those of ``check_model``.

    The result's ``ok`` says whether the model converts and agrees: in float32 within ten times PyTorch's own rounding,
    element by element (``outputs``, each with its ``max_abs_error`` in the output's own units), and in float16 (``half``) well
    enough; ``verdict`` is ``undecided`` where either cannot be said. ``first_difference`` is where it first does
    not. What is executed is the meaning of an ML Program as this package reads it, not Apple's hardware.

    ``record`` is a folder that inputs, PyTorch's outputs and the converted package are written to, with a script that predicts on a Mac.

    Raises ``TypeError`` for what is no model or without inputs, ``ValueError`` for unknown words, and for a folder that is no
    place to record in, ``OSError`` where that cannot be written, ``ImportError`` without coremltools. A model that does not
    convert raises nothing: its ``verdict`` says so.
    """
    from modellint.session.in_process import Varying, verified
    from modellint.session.progress_reporting import reporting

    settings = chosen(frontend, deployment_target, precision, destination)
    varying = Varying(flexible or {}, ranges or {})
    folder = None if record is None else Path(record)
    with reporting(progress, model) as entered:
        return verified(model, example_inputs, varying, root, settings, seed, entered, folder)


def check_source(text: str, filename: str = "model.py") -> Report:
    """Check the text of a file, or of a notebook, which is its JSON.

    ``filename`` says where it stands: imports are followed from there, and the settings of its project hold. The
    file itself is not read, and need not exist. A baseline does not count: all findings are there. Raises
    ``modellint.settings.SettingsError`` for unusable settings, and ``modellint.rule.RuleError`` for unusable plug-ins.
    """
    return check_program(_program(text, filename), filename)


def check_program(source: SourceText, filename: str, codes: Mapping[str, str] | None = None) -> Report:
    """Check a text that is read already; ``codes`` are those of ``select`` and ``ignore`` that go before the settings'."""
    from modellint.run import Checker, job_for
    from modellint.settings import Resolver, check_codes, find_root

    path = Path(filename).absolute()
    root = find_root(path)
    overrides: dict[str, Any] = {key: (_codes(value), f"--{key}") for key, value in (codes or {}).items()}
    resolver = Resolver(root, None, False, overrides, None)
    checker = Checker(job_for(resolver))
    for named, option in overrides.values():
        check_codes(named or (), checker.job.rules, option)
    resolver.use_codes(checker.job.rules)
    settings = resolver.of_folder(path.parent)
    enabled = checker.job.rules_for(path, settings)
    checked = checker.check_text(source, path, filename, enabled, settings)
    return Report(tuple(finding for finding in checked.diagnostics if finding.code in enabled))


def _program(text: str, filename: str) -> SourceText:
    """The text of a file, or the program of a notebook. Raises ``ValueError`` for what is no notebook."""
    from modellint.source.syntax.text import SourceText, Undecodable

    if not str(filename).endswith(".ipynb"):
        return SourceText(text.removeprefix("\ufeff"))
    from modellint.source.syntax.notebook import NotebookText

    try:
        return NotebookText.decode(text.encode("utf-8"))
    except Undecodable as error:
        raise ValueError(f"{filename}: {error}") from None


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
    from modellint.session.progress_reporting import reporting

    settings = chosen(frontend, deployment_target, precision, destination)
    path = None if output is None else Path(output)
    if path is not None and os.path.lexists(path) and not force:
        raise FileExistsError(f"{path} exists: force=True replaces it")
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


class LanguageModelError(Exception):
    """A language model does not convert, or its package does not generate what it does. ``summary`` says why."""

    __module__ = "modellint"

    def __init__(self, summary: ExportedLanguageModel, name: str = "") -> None:
        from modellint.report import language_model_text as texts

        super().__init__(texts.render(summary, name).rstrip("\n"))
        self.summary = summary
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.summary, self._name)


@dataclass(frozen=True, slots=True, repr=False)
class LanguageModelResult:
    """An exported language model; it prints as the summary that the command ends with."""

    mlmodel: Any
    """coremltools' `MLModel`, not loaded into Core ML: `MLModel(path, function_name="decode")` does that on a Mac."""
    path: Path | None
    """The package; None where it is kept in memory."""
    summary: ExportedLanguageModel
    """Both functions, how the package generates, and sizes."""

    def __repr__(self) -> str:
        from modellint.report import language_model_text as texts

        return texts.render(self.summary, "" if self.path is None else str(self.path)).rstrip("\n")


def language_model(
    model: nn.Module,
    *,
    output: str | PathLike[str] | None = None,
    force: bool = False,
    context: int | None = None,
    prefill: int | Sequence[int] = 64,
    source: Sequence[int] | None = None,
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
) -> LanguageModelResult:
    """Export a language model to Core ML: prefill and decode in one package, its caches as states.

    Both functions take ``input_ids``, int32 of 1xN, and ``position``, int32 of shape (1,): how many tokens came before. They return
    ``logits`` of 1 x N x vocabulary. Tokens may be padded at the end of a prompt, within the context.

    Of an encoder-decoder, such as Whisper or T5, there is a third function, ``encode``: it takes ``input_features``, or ``input_ids``
    of 1xS and ``source_length``, int32 of shape (1,), how many of them are meant. It returns ``cross_keys`` and ``cross_values``, of
    layers x heads x S x size, which prefill and decode take, as they do ``source_length``.

    Args:
        model: A causal model or an encoder-decoder of transformers; or a module whose ``forward`` takes these two, returns these
            logits, and keeps its cache in buffers.
        output: Where the package goes; None keeps it in memory.
        force: Replace what is there.
        context: The length of the caches in tokens; by default 256, or what the model is made for if that is less. Of a module
            with its own cache it must be given.
        prefill: How many tokens prefill takes at once; a list of such numbers, or a pair of bounds.
        source: The shape of what the encoder of an encoder-decoder reads, batch included; by default 1x64 tokens, or the features
            of the length that the model is made for.
        author: Who made it.
        license: Under which it may be used.
        description: What it does.
        version: Its version.
        root: The folder whose settings hold; by default that of the project of the model's class.
        frontend: ``auto``, ``trace`` or ``export``.
        deployment_target: From ``"iOS18"`` on, which it is by default.
        precision: ``fp16`` or ``fp32``.
        seed: Where random numbers start.
        progress: A function that is told each stage, or True to show them.

    The package, as it is saved, is executed here: 64 tokens are decoded greedily and compared with PyTorch, which for a model of
    transformers is its `generate`, as are logits and caches at every step, and a second run. It is written where all agree, and where both
    functions agree in float32 and rounding decides between tokens that are nearly as good; the summary says at which step.

    Raises:
        LanguageModelError: Where the model does not convert, differs, or cannot be judged; its ``summary`` says why.
        FileExistsError: For an ``output`` that exists, without ``force``.
        OSError: For one that cannot be written.
        TypeError: For what is no model.
        ValueError: For unknown words, and for a model or lengths that are not taken.
        ImportError: Without PyTorch or coremltools.
    """
    from torch import nn

    from modellint.destinations.export_options import LanguageModel, Metadata, OptionError
    from modellint.session.export import exported_language_model
    from modellint.session.progress_reporting import reporting

    if not isinstance(model, nn.Module):
        raise TypeError(f"an nn.Module is needed, not {type(model).__name__}")
    settings = chosen(frontend, deployment_target, precision)
    path = None if output is None else Path(output)
    if path is not None and os.path.lexists(path) and not force:
        raise FileExistsError(f"{path} exists: force=True replaces it")
    lengths = (prefill,) if isinstance(prefill, int) else tuple(prefill)
    is_range = isinstance(prefill, tuple) and len(prefill) == 2
    if not lengths or min(lengths) < 1 or (context is not None and context < 1):
        raise ValueError("context and prefill are numbers of tokens, from 1 on")
    shape = None if source is None else tuple(source)
    if shape is not None and (not shape or min(shape) < 1):
        raise ValueError("source is a shape, of sizes from 1 on")
    metadata = Metadata(author, license, description, version)
    wanted = LanguageModel(context, lengths, is_range, deployment_target is not None, source=shape, metadata=metadata)
    try:
        with reporting(progress, model) as entered:
            mlmodel, summary = exported_language_model(model, root, settings, wanted, path, force, seed, entered)
    except OptionError as error:
        raise ValueError(str(error)) from None
    if mlmodel is None:
        raise LanguageModelError(summary, "" if path is None else str(path))
    return LanguageModelResult(mlmodel, path, summary)


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
    from modellint.session.progress_reporting import reporting

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
        package = path / f"{name}.mlpackage"
        if os.path.lexists(package) and not force:
            raise FileExistsError(f"{package} exists: force=True replaces it")
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


def _register_displays() -> None:
    """Register displays of results: at a prompt the command's text, in a notebook tables; the results themselves are data."""

    def table_text(table: Table) -> str:
        from modellint.report import shapes

        return shapes.render(table).rstrip("\n")

    def table_html(table: Table) -> str:
        from modellint.report.notebook_displays import shapes

        return shapes.fragment(table)

    def verification_text(verification: Verification) -> str:
        from modellint.report import verification as report

        return report.render(verification).rstrip("\n")

    def verification_html(verification: Verification) -> str:
        from modellint.report import verification_html as report

        return report.fragment(verification)

    def fix_text(fix: Applied) -> str:
        from modellint.report import live_findings

        return live_findings.fix_of_model(fix)

    for kind, method, display in (
        (Table, "__repr__", table_text),
        (Table, "_repr_html_", table_html),
        (Verification, "__repr__", verification_text),
        (Verification, "_repr_html_", verification_html),
        (Applied, "__str__", fix_text),
    ):
        setattr(kind, method, display)


_register_displays()
