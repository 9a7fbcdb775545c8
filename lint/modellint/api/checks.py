"""Checks of source and of models in memory, fixes of these, and their shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.api.arguments import chosen, codes_of
from modellint.api.check_report import Report, report_of
from modellint.results.progress import Progress
from modellint.results.shape_table import Table
from modellint.results.verification import Verification

if TYPE_CHECKING:
    from torch import nn

    from modellint.source.syntax.source_text import SourceText


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
    from modellint.session.progress_output import reporting

    settings = chosen(frontend, deployment_target, precision, destination)
    varying = Varying(flexible or {}, ranges or {})
    codes = codes_of(select), codes_of(ignore)
    with reporting(progress, model) as entered:
        examined = examine(model, example_inputs, checkpoint, *codes, root, settings, varying, entered=entered)
    return report_of(examined.diagnostics, examined.conversion)


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
    from modellint.session.progress_output import reporting

    settings = chosen(frontend, deployment_target, precision, destination)
    with reporting(progress, model) as entered:
        result, home = fixed(model, example_inputs, root, settings, entered)
        examined = examine(result.model, example_inputs, None, None, None, home, settings, entered=entered)
    left = report_of(examined.diagnostics, examined.conversion)
    return result.model, replace(left, fixed=result.applied, undone=result.undone)


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
    from modellint.session.progress_output import reporting

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
    overrides: dict[str, Any] = {key: (codes_of(value), f"--{key}") for key, value in (codes or {}).items()}
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
    from modellint.source.syntax.source_text import SourceText, Undecodable

    if not str(filename).endswith(".ipynb"):
        return SourceText(text.removeprefix("\ufeff"))
    from modellint.source.syntax.notebook import NotebookText

    try:
        return NotebookText.decode(text.encode("utf-8"))
    except Undecodable as error:
        raise ValueError(f"{filename}: {error}") from None
