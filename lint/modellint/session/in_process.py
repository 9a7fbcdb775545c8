"""Check, fix and verification of a model in the caller's process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError(
        "modellint.check_model needs PyTorch, which is not installed: pip install 'modellint[live]'"
    ) from error
from torch import nn
from torch.utils import _pytree as pytree

from modellint import destinations
from modellint.destinations.destination import PackageError
from modellint.live import checkpoint_file
from modellint.live.code import class_source, places
from modellint.live.fix import FixedModel, fixed_copy
from modellint.live.fixes.wrappers import inside
from modellint.live.garbage_collection import undisturbed
from modellint.live.inputs import lazy_parameters
from modellint.live.inputs.declared_inputs import inputs_of
from modellint.live.inputs.model_inputs import Inputs, with_lists
from modellint.live.snapshot import unchanged
from modellint.results.diagnostic import Diagnostic
from modellint.run import Checker, Job, job_for
from modellint.session import merge
from modellint.session.destination_verdicts import judge
from modellint.session.messages import Action, Check, Request, Verify
from modellint.session.progress_output import Entered, silent
from modellint.session.recording import next_step, recording
from modellint.session.requested_actions import Session
from modellint.session.target import Location, Target
from modellint.settings import Resolver, SettingsError, check_codes, find_root

if TYPE_CHECKING:
    from modellint.destinations.destination import Destination
    from modellint.live.subject import Subject
    from modellint.results.conversion_verdict import Conversion
    from modellint.results.verification import Verification

SPARE = 60.0
"""Seconds that may go by in a check until it is through with what else converts the model."""


class Varying(NamedTuple):
    """How inputs may vary from the example, for arguments by position or name."""

    flexible: Mapping[str | int, Mapping[int, Sequence[int]]] = {}
    """The dimensions whose size may vary, each with its bounds, which both count, or a list of sizes."""
    ranges: Mapping[str | int, tuple[float, float]] = {}
    """The values, from the first up to the second, which is not among them."""

    def of(self, inputs: Inputs) -> Inputs:
        """An example that varies so. Raises ``ValueError`` for arguments that it does not have, and for values outside of a range."""
        known = dict(enumerate(inputs.args)) | dict(inputs.kwargs)
        for name, keys in (("flexible", self.flexible), ("ranges", self.ranges)):
            unknown = next((key for key in keys if key not in known), None)
            if unknown is not None:
                there = ", ".join(map(repr, known))
                raise ValueError(f"{name}: there is no argument {unknown!r} in example_inputs, but {there}")
        for key, (low, high) in self.ranges.items():
            value = known[key]
            if not low < high:
                raise ValueError(f"ranges: that of {key!r} is empty: [{low}, {high})")
            if _has_values(value) and not (low <= float(value.min()) and float(value.max()) < high):
                raise ValueError(f"ranges: the example of {key!r} has values outside of [{low}, {high})")
        flexible = with_lists({**inputs.flexible, **self.flexible})
        return inputs._replace(flexible=flexible, ranges={**inputs.ranges, **self.ranges})


def _has_values(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and bool(value.numel()) and not value.is_complex() and not value.is_meta


def session_of(
    model: nn.Module,
    job: Job,
    action: Action,
    rules: Iterable[str] = (),
    seed: int = 0,
    spare: float = SPARE,
    entered: Entered = silent,
) -> Session:
    """A session in this process, for a model that stands already."""
    name = type(model).__name__
    target, location = Target(name, "", name), Location(None, "", (), False)
    destination = job.resolver.top.goal
    request = Request(target, location, job.root, Path.cwd(), tuple(rules), action, destination, seed=seed)
    return Session(request, lambda: time.monotonic() + spare, entered)


class Examined(NamedTuple):
    """A model that was checked."""

    diagnostics: list[Diagnostic]
    conversion: Conversion | None
    """None where that was not asked for."""
    subject: Subject | None
    """What was checked, with what analyses found; None where it could not be."""


def examine(
    model: nn.Module,
    example_inputs: Any,
    checkpoint: str | os.PathLike[str] | Mapping[str, Any] | None,
    select: tuple[str, ...] | None,
    ignore: tuple[str, ...] | None,
    root: str | os.PathLike[str] | None,
    chosen: Mapping[str, str],
    varying: Varying | None = None,
    spare: float = SPARE,
    entered: Entered = silent,
    is_exported: bool = False,
) -> Examined:
    """What ``modellint.check_model`` finds, sorted, and what is said of the conversion, if that was asked for.

    ``chosen`` are values of settings that go before those of the project; ``spare`` the seconds that there are for trying what else
    converts the model; ``entered`` is told each stage; ``is_exported``: an export of the model follows.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(_no_model(model))
    inputs = _inputs(example_inputs)
    if inputs is not None and varying is not None:
        inputs = varying.of(inputs)
    weights = _checkpoint(checkpoint)
    job = _job(_root(model, root), select, ignore, chosen)
    top = job.resolver.top
    rules = {
        code: rule
        for code, rule in job.rules.items()
        if top.enables(code, rule.default) and rule.holds_for(top.goal.name)
    }
    session = session_of(model, job, Check(), rules, spare=spare, entered=entered)
    try:
        model = _shaped(model, inputs)
    except lazy_parameters.Unshaped as error:
        session.enter("building")
        finding = session.cannot_run(str(error), advice=error.advice)
        return Examined([finding._replace(target=None)] if "LNT003" in rules else [], None, None)
    with undisturbed(), unchanged(model, inputs, values=False):
        has_values = not any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
        subject = session.subject(model, inputs, has_values, weights, is_exported)
        failures = [finding for finding in session.run(subject, rules) if finding.code in rules]
        answer = session.check(subject, rules, failures, asks=_asks, tries=spare > 0)
    shown = tuple(
        finding if finding.path is None else finding._replace(path=job.shown(Path(finding.path)))
        for finding in answer.diagnostics
    )
    settled = merge.settled(Checker(job), (), (), [merge.LiveResult("", shown, asked=answer.asked)])
    left = [finding._replace(target=None) for finding in settled]
    conversion = answer.conversion
    if conversion is not None:
        conversion = conversion._replace(miscompilations=merge.miscompilations(left, rules, conversion.destination))
    return Examined(left, conversion, subject)


def fixed(
    model: nn.Module,
    example_inputs: Any,
    root: str | os.PathLike[str] | None,
    chosen: Mapping[str, str],
    entered: Entered = silent,
) -> tuple[FixedModel, Path]:
    """The copy that ``modellint.fix_model`` gives, and the folder whose settings hold for it."""
    if not isinstance(model, nn.Module):
        raise TypeError(_no_model(model, "fix_model"))
    inputs = _inputs(example_inputs)
    # A wrapper's class is not at home in the user's project.
    job = _job(_root(inside(model), root), None, None, chosen)
    model = ready(model, inputs)
    entered("fixing")
    with undisturbed():
        return fixed_copy(model, inputs, job.resolver.top.goal, places.Project(job.root), judge=judge), job.root


def verified(
    model: nn.Module,
    example_inputs: Any,
    varying: Varying,
    root: str | os.PathLike[str] | None,
    chosen: Mapping[str, str],
    seed: int,
    entered: Entered = silent,
    record: Path | None = None,
) -> Verification:
    """What ``modellint.verify`` shows. Raises ``OSError`` where the case cannot be written."""
    inputs = varying.of(prepared(model, example_inputs))
    job = job_of(model, root, chosen)
    destination = destinations.named(job.resolver.top.goal.name)
    if not destination.is_installed:
        raise ImportError(f"modellint.verify needs {destination.requirement}")
    _check_record(destination, record)
    model = ready(model, inputs)
    with recording(record) as case, undisturbed(), unchanged(model, inputs, values=False):
        action = Verify("layers", record=case)
        # It gives no findings, but what a comparison may miss counts.
        rules = {code: rule for code, rule in job.rules.items() if rule.hides}
        answer = session_of(model, job, action, seed=seed, entered=entered).verify(model, inputs, rules, action)
        is_recorded = case is not None and case.is_dir()
    assert answer.verification is not None
    return answer.verification if record is None else answer.verification.noting(next_step(record, None, is_recorded))


def _check_record(destination: Destination, record: Path | None) -> None:
    """Raise ``ValueError`` where a case cannot be recorded."""
    try:
        if record is not None:
            destination.check_record(record)
    except PackageError as error:
        raise ValueError(str(error)) from None


def prepared(model: nn.Module, example_inputs: Any) -> Inputs:
    """What a model that is to be converted is called with. Raises ``TypeError`` for what is no model, and without inputs."""
    if not isinstance(model, nn.Module):
        raise TypeError(_no_model(model))
    inputs = _inputs(example_inputs)
    if inputs is None:
        raise TypeError("example_inputs must hold what the model is called with")
    return inputs


def ready(model: nn.Module, inputs: Inputs | None) -> nn.Module:
    """A model whose parameters have shapes: itself, or a copy. Raises ``ValueError`` where a call does not give them."""
    try:
        return _shaped(model, inputs)
    except lazy_parameters.Unshaped as error:
        raise ValueError("; ".join((f"{type(model).__name__}: {error}", *error.advice))) from None


def _shaped(model: nn.Module, inputs: Inputs | None) -> nn.Module:
    if not lazy_parameters.is_unshaped(model):
        return model
    # Drawing the parameters is not to be seen from outside.
    with undisturbed(), torch.random.fork_rng(devices=()):
        return lazy_parameters.shaped(model, inputs)


def job_of(model: nn.Module, root: str | os.PathLike[str] | None, values: Mapping[str, str]) -> Job:
    """The project that a model belongs to, with its settings; ``values`` go before those."""
    return _job(_root(model, root), None, None, values)


def _asks(model: nn.Module) -> str:
    return "give example_inputs"


def _no_model(value: object, function: str = "check_model") -> str:
    if isinstance(value, type) and issubclass(value, nn.Module):
        return f"the model must be built first: {function}({value.__name__}(...), ...)"
    return f"the model must be a torch.nn.Module, not {_described(value)}"


def _described(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"


def _inputs(example: Any) -> Inputs | None:
    if example is None:
        return None
    inputs = inputs_of(example)
    leaves = pytree.tree_leaves((inputs.args, dict(inputs.kwargs)))
    plain = (int, float, complex, str, bytes, type(None), torch.Size, torch.dtype)
    if leaves and all(isinstance(leaf, plain) for leaf in leaves):
        raise TypeError(
            f"example_inputs must hold the tensors that the model is called with, such as torch.randn(1, 3, 224, 224); {example!r} "
            "holds none"
        )
    if not all(isinstance(name, str) for name in inputs.kwargs):
        raise TypeError("example_inputs is a dict, so its keys must be the names of arguments")
    return inputs


def _checkpoint(checkpoint: str | os.PathLike[str] | Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if checkpoint is None or isinstance(checkpoint, Mapping):
        return checkpoint
    if not isinstance(checkpoint, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be a file or a dict of tensors, not {_described(checkpoint)}")
    return checkpoint_file.load(Path(checkpoint))


def _root(model: nn.Module, folder: str | os.PathLike[str] | None) -> Path:
    if folder is not None:
        root = Path(folder).absolute()
        if not root.is_dir():
            raise ValueError(f"root must be a folder: {root} is none")
        return root
    home = class_source.place_of_class(type(model))
    path = Path.cwd() if home is None else Path(home.path)
    if not {"site-packages", "dist-packages"}.isdisjoint(path.parts) or places.is_machinery(str(path)):
        path = Path.cwd()
    return find_root(path)


def _job(root: Path, select: Sequence[str] | None, ignore: Sequence[str] | None, values: Mapping[str, str]) -> Job:
    chosen = {"select": select, "ignore": ignore}
    overrides: dict[str, Any] = {key: (codes, f"{key}=") for key, codes in chosen.items() if codes is not None}
    overrides.update({key: (value, f"{key}=") for key, value in values.items()})
    resolver = Resolver(root, None, False, overrides, None)
    job = job_for(resolver)
    for key, codes in chosen.items():
        try:
            check_codes(codes or (), job.rules, key)
        except SettingsError as error:
            raise ValueError(str(error)) from None
    resolver.use_codes(job.rules)
    return job
