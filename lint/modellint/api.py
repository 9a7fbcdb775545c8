"""What Python programs call: the same checks, in the caller's process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modellint.results.diagnostic import Diagnostic, Severity
from modellint.results.shape_table import Table

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.fixes.applied import Applied
    from modellint.results.verification import Verification


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
        fixes = [f"fixed: {one}" for one in self.fixed] + [f"not fixed: {one}" for one in self.undone]
        return "\n".join([*fixes, text, *([self.verdict] if self.verdict else [])])

    def _repr_html_(self) -> str:
        from modellint.report import notebook

        return notebook.render(self.diagnostics, self.verdict, self.fixed, self.undone)


def check_model(
    model: nn.Module,
    example_inputs: Any = None,
    *,
    flexible: Mapping[str | int, Mapping[int, tuple[int, int]]] | None = None,
    ranges: Mapping[str | int, tuple[float, float]] | None = None,
    checkpoint: str | PathLike[str] | Mapping[str, Any] | None = None,
    select: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    root: str | PathLike[str] | None = None,
    frontend: str | None = None,
    deployment_target: str | None = None,
    precision: str | None = None,
) -> Report:
    """Check a model as it stands in memory, and leave it exactly as it was.

    ``example_inputs`` is what the model is called with, once, in evaluation mode, on tensors without values: a tuple of
    arguments, a dict of keyword arguments, or the one argument. Without it what needs a run is not checked.
    ``flexible`` and ``ranges`` are those of ``verify``. ``checkpoint`` is a
    file (``.pt``, ``.pth``, ``.safetensors``) or a dict that is to fit the model. ``select`` and ``ignore`` are codes or the
    beginnings of codes, such as ``"REG"``; without them the settings of the project hold, which is the one of the model's class,
    or the folder ``root``. So it is with ``frontend`` (``auto``, ``trace`` or ``export``), ``deployment_target`` (as in
    ``"iOS16"``) and ``precision`` (``fp16`` or ``fp32``), which say what the model is to be converted by and for.

    Raises ``TypeError`` for what is no model, ``ValueError`` for unknown codes and words, and for a checkpoint that cannot be read, which
    is refused where it holds anything but tensors, and ``OSError`` for one that cannot be opened.
    """
    from modellint.session.in_process import Varying, examine

    words = chosen(frontend, deployment_target, precision)
    varying = Varying(flexible or {}, ranges or {})
    return _report(*examine(model, example_inputs, checkpoint, _codes(select), _codes(ignore), root, words, varying))


def fix_model(
    model: nn.Module,
    example_inputs: Any = None,
    *,
    root: str | PathLike[str] | None = None,
    frontend: str | None = None,
    deployment_target: str | None = None,
    precision: str | None = None,
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

    words = chosen(frontend, deployment_target, precision)
    found, home = fixed(model, example_inputs, root, words)
    left = _report(*examine(found.model, example_inputs, None, None, None, home, words))
    return found.model, replace(left, fixed=found.applied, undone=found.undone)


def _report(found: Sequence[Diagnostic], verdict: Mapping[str, Any] | None) -> Report:
    """The findings, and whether coremltools converts the model."""
    if verdict is None:
        return Report(tuple(found))
    from modellint.report import targets

    return Report(tuple(found), withheld(verdict["convertible"], found), targets.line_of(verdict, found))


def withheld(convertible: bool | None, found: Sequence[Diagnostic]) -> bool | None:
    """A verdict, or None where it is no and no error stands for it: what is in the way was not asked for, or is excused."""
    if convertible is False and all(finding.severity < Severity.ERROR for finding in found):
        return None
    return convertible


def chosen(frontend: str | None, deployment_target: str | None, precision: str | None) -> dict[str, str]:
    """The settings that arguments stand for. Raises ``ValueError`` for unknown words."""
    from modellint.settings import FRONTENDS, PRECISIONS, TARGETS

    given = {
        "frontend": (frontend, FRONTENDS),
        "deployment-target": (deployment_target, tuple(TARGETS)),
        "precision": (precision, PRECISIONS),
    }
    for name, (word, words) in given.items():
        if word is not None and word not in words:
            raise ValueError(f"{name.replace('-', '_')} must be one of {', '.join(words)}, not {word!r}")
    return {name: word for name, (word, _) in given.items() if word is not None}


def _codes(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    words = [given] if isinstance(given, str) else given
    if words is None:
        return None
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f"select and ignore take codes, such as 'REG001', not {given!r}")
    return tuple(code for word in words for code in word.replace(",", " ").split())


def shapes(
    model: nn.Module,
    example_inputs: Any,
    *,
    flexible: Mapping[str | int, Mapping[int, tuple[int, int]]] | None = None,
) -> Table:
    """What every layer of a model takes and gives, its parameters and its memory; the table prints readably.

    ``example_inputs`` is a tuple of arguments, a dict of keyword arguments, or the one argument; tensors on the meta device will
    do. ``flexible`` gives, for arguments by position or name, the bounds of dimensions that are to stay symbols:
    ``{0: {0: (1, 8)}}``. The model is run once on tensors without values, and left as it was. Where the run fails, the table
    goes as far as it, and its ``failure`` says why. Raises ``TypeError`` for what is no model.
    """
    from torch import nn

    from modellint.live.capture.run import capture
    from modellint.live.garbage_collection import undisturbed
    from modellint.live.inputs.model_inputs import Inputs
    from modellint.live.shape_table import table_of
    from modellint.live.subject import Subject
    from modellint.settings import Destination

    if not isinstance(model, nn.Module):
        raise TypeError(f"an nn.Module is needed, not {type(model).__name__}")
    from modellint.session.in_process import ready

    inputs = Inputs.of(example_inputs)._replace(flexible=flexible or {})
    model = ready(model, inputs)
    has_values = not any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    subject = Subject(model, inputs, Path.cwd(), Destination(), has_values=has_values)
    with undisturbed():
        return table_of(subject, capture(subject, symbolic=True))


def _shown(table: Table) -> str:
    """A table of shapes as Python shows it."""
    from modellint.report.shapes import render

    return render(table).rstrip("\n")


# How results are displayed is no matter of the data.
Table.__repr__ = _shown  # type: ignore[method-assign,assignment]


def verify(
    model: nn.Module,
    example_inputs: Any,
    *,
    flexible: Mapping[str | int, Mapping[int, tuple[int, int]]] | None = None,
    ranges: Mapping[str | int, tuple[float, float]] | None = None,
    root: str | PathLike[str] | None = None,
    frontend: str | None = None,
    deployment_target: str | None = None,
    precision: str | None = None,
    seed: int = 0,
) -> Verification:
    """Convert a model, execute the result on this machine, and compare it with the model, which is left as it was.

    ``example_inputs`` is a tuple of arguments, a dict of keyword arguments, or the one argument; more inputs are made of its shapes
    and kinds, from ``seed``. ``flexible`` gives, for arguments by position or name, the bounds of dimensions whose size may vary:
    ``{0: {0: (1, 8)}}``, and ``ranges`` the values that arguments take, as in ``{"ids": (0, 1000)}``, the end excluded. ``frontend``,
    ``deployment_target`` and ``precision`` are those of ``check_model``.

    The result's ``ok`` says whether the model converts and agrees: in float32 within ten times PyTorch's own rounding,
    element by element (``outputs``, each with its ``max_abs_error`` in the output's own units), and in float16 (``half``) well
    enough; ``verdict`` is ``undecided`` where either cannot be said. ``first_difference`` is where it first does
    not. What is executed is the meaning of an ML Program as this package reads it, not Apple's hardware.

    Raises ``TypeError`` for what is no model or without inputs, ``ValueError`` for unknown words, ``ImportError`` without
    coremltools. A model that does not convert raises nothing: its ``verdict`` says so.
    """
    from modellint.session.in_process import Varying, verified

    words = chosen(frontend, deployment_target, precision)
    return verified(model, example_inputs, Varying(flexible or {}, ranges or {}), root, words, seed)


def check_source(text: str, filename: str = "model.py") -> Report:
    """Check the text of a file.

    ``filename`` says where it stands: imports are followed from there, and the settings of its project hold. The
    file itself is not read, and need not exist. Raises ``modellint.settings.SettingsError`` for unusable settings.
    """
    from modellint.run import Checker, Job, all_rules, load_plugins
    from modellint.settings import Resolver, find_root
    from modellint.source.syntax.text import SourceText

    path = Path(filename).absolute()
    root = find_root(path)
    resolver = Resolver(root, None, False, {}, None)
    rules = all_rules(load_plugins(resolver.top.plugins, root))
    resolver.use_codes(rules)
    settings = resolver.of_folder(path.parent)
    checker = Checker(Job(root, resolver, rules, None, Path.cwd()))
    enabled = checker.job.rules_for(path, settings)
    checked = checker.check_text(SourceText(text.removeprefix("\ufeff")), path, filename, enabled, settings)
    return Report(tuple(finding for finding in checked.diagnostics if finding.code in enabled))
