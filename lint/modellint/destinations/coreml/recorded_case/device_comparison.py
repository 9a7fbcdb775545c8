"""Comparison of a recorded case: PyTorch's outputs, those of the package executed here, and those that a device predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from modellint.destinations.comparison.output_judgement import but_for, coarse
from modellint.destinations.comparison.program import Misfit, RunError
from modellint.destinations.comparison.tensor_difference import LIMIT, compare
from modellint.destinations.coreml.mil.executor import UnknownOperations
from modellint.destinations.coreml.package.emulated_predictor import Predictor, computes_in_half
from modellint.destinations.coreml.private.mil_programs import read_package
from modellint.destinations.coreml.recorded_case import case_files, predict
from modellint.destinations.coreml.recorded_case.case_files import CaseError, Manifest, Predictions
from modellint.results.verification import AGREES, DIFFERS, UNDECIDED, OnDevice, Output, Recorded, Verification

_NONE_RAN = "no compute unit of the device predicted"


def compared(package: Path, folder: Path) -> Verification:
    """Compare what a device predicted with PyTorch and with the package executed here. Raises ``PackageError``."""
    manifest = case_files.check(package, folder)
    told = case_files.predictions(folder, manifest)
    program, _ = read_package(package)
    case = _Case(folder, manifest, computes_in_half(program) or bool(manifest.states))
    executed, notes = _executed(program, case)
    units = tuple(_unit(told_of, case, executed) for told_of in told)
    recorded = Recorded(
        len(manifest.labels),
        len({prediction.number for prediction in case.judged}),
        case.worst(executed, case.expected),
        units,
    )
    verdict, reason = _verdict(recorded)
    if not case.is_half:
        notes += [note for unit in units for note in _of_single(unit)]
    return Verification(verdict, reason, "package", notes=tuple(notes), recorded=recorded)


def _verdict(recorded: Recorded) -> tuple[str, str]:
    if all(unit.error for unit in recorded.units):
        return UNDECIDED, _NONE_RAN
    if recorded.differing:
        return DIFFERS, f"the device computes something else on {', '.join(recorded.differing)}"
    return AGREES, ""


def _of_single(unit: OnDevice) -> Iterator[str]:
    """Remarks on outputs of a float32 package that agree, and are off by more than float32 explains."""
    for output in unit.outputs:
        if output.ok and output.error > LIMIT and not output.unequal:
            yield (
                f"on {unit.unit} {output.path or output.name} is off by {output.error:.1e} of its scale on {output.case}, more than "
                f"float32 programs are ({LIMIT:g}): this compute unit does not compute in float32, or rounding is magnified"
            )


class _Prediction(NamedTuple):
    """One prediction of a case."""

    number: int
    """Of its set of inputs."""
    step: int
    label: str
    usual: bool

    @property
    def key(self) -> str:
        """What the names of its arrays begin with."""
        return f"{self.number}.{self.step}"


_Outputs = Mapping[str, Sequence[Tensor]]
"""The outputs of predictions, by their keys."""


class _Case:
    """A case's arrays, and how outputs are judged on it."""

    def __init__(self, folder: Path, manifest: Manifest, is_half: bool) -> None:
        self.folder = folder
        self.manifest = manifest
        self.is_half = is_half
        """Whether the package computes in float16, or keeps states in it."""
        self.inputs = _tensors(folder / predict.INPUTS)
        self.predictions = list(_predictions(manifest))
        # float16 is judged on inputs of the example's kind alone.
        self.judged = [prediction for prediction in self.predictions if prediction.usual or not is_half]
        self.expected = self.of_file(folder / case_files.OUTPUTS, range(len(manifest.outputs)))

    def taken(self, name: str) -> Tensor:
        """What a prediction takes, or a state starts with. Raises ``CaseError``."""
        if name not in self.inputs:
            raise CaseError(f"{self.folder / predict.INPUTS} does not hold {name}")
        return self.inputs[name]

    def of_file(self, file: Path, names: Sequence[str | int]) -> _Outputs:
        """The outputs that a file holds by these names. Raises ``CaseError``."""
        tensors = _tensors(file)
        try:
            return {
                prediction.key: [tensors[f"{prediction.key}.{name}"] for name in names]
                for prediction in self.predictions
            }
        except KeyError as error:
            raise CaseError(f"{file} does not hold {error.args[0]}") from None

    def worst(self, outputs: _Outputs, references: _Outputs) -> tuple[Output, ...]:
        """Outputs against references, each from where it is worst; nothing where either was not computed."""
        known: dict[int, Output] = {}
        for prediction in self.judged:
            pairs = zip(outputs.get(prediction.key, ()), references.get(prediction.key, ()), strict=False)
            for at, (value, right) in enumerate(pairs):
                shown = self._judged(at, value, right, prediction)
                if at not in known or (shown.ok, shown.snr) < (known[at].ok, known[at].snr):
                    known[at] = shown
        return tuple(known[at] for at in sorted(known))

    def _judged(self, at: int, value: Tensor, right: Tensor, prediction: _Prediction) -> Output:
        """As Core ML's outputs are judged in any verification: by the ratio of signal to noise."""
        if not prediction.usual and right.is_floating_point() and value.numel() == right.numel():
            # A nan of PyTorch's on inputs that may make no sense to the model is no evidence.
            value = but_for(right.isnan() & ~value.reshape(right.shape).isnan(), value, right)
        shown = coarse(self.manifest.outputs[at], compare(value, right), prediction.label)
        return shown._replace(path=self.manifest.paths[at])


def _predictions(manifest: Manifest) -> Iterator[_Prediction]:
    for number, (label, steps, usual) in enumerate(zip(manifest.labels, manifest.steps, manifest.usual, strict=True)):
        for step in range(steps):
            yield _Prediction(number, step, f"{label}, prediction {step + 1}" if steps > 1 else label, usual)


def _tensors(file: Path) -> dict[str, Tensor]:
    """The arrays of a file. Raises ``CaseError``."""
    try:
        return {name: torch.as_tensor(value) for name, value in case_files.arrays(file).items()}
    except TypeError as error:
        raise CaseError(f"{file} cannot be read: {error}") from None


def _executed(program: Any, case: _Case) -> tuple[_Outputs, list[str]]:
    """What the package gives where it is executed here, and what there is to note. Raises ``CaseError``."""
    states = {name: case.taken(f"state.{name}") for name in case.manifest.states}
    try:
        predictor = Predictor(program, states)
    except UnknownOperations as error:
        return {}, [f"the package cannot be executed here: {error}"]
    outputs: dict[str, Sequence[Tensor]] = {}
    notes = []
    for number, label in enumerate(case.manifest.labels):
        row = [prediction for prediction in case.predictions if prediction.number == number]
        leaves = [[case.taken(f"{prediction.key}.{name}") for name in predictor.input_names] for prediction in row]
        try:
            outputs |= zip((prediction.key for prediction in row), predictor.in_a_row(leaves), strict=True)
        except (Misfit, RunError) as error:
            notes.append(f"the package cannot be executed here on {label}: {error}")
    return outputs, notes


def _unit(told: Predictions, case: _Case, executed: _Outputs) -> OnDevice:
    """What a device predicted on one compute unit. Raises ``CaseError``."""
    shown = OnDevice(told.unit, told.macos, told.machine, told.coremltools, error=told.error)
    if told.error:
        return shown
    predicted = case.of_file(case.folder / predict.DEVICE / f"{told.unit}.npz", case.manifest.outputs)
    return shown._replace(outputs=case.worst(predicted, case.expected), executed=case.worst(predicted, executed))
