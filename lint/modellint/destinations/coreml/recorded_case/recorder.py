"""Recorder: the sets of inputs of a comparison as a package takes them, with PyTorch's outputs, for a case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from modellint.destinations.coreml.mil.element_types import as_dtype
from modellint.destinations.coreml.private.mil_programs import deployment_target, images
from modellint.destinations.coreml.recorded_case import case_files, predict
from modellint.destinations.coreml.recorded_case.case_files import CaseError, Manifest

if TYPE_CHECKING:
    from modellint.destinations.comparison.comparison import ComparedRow
    from modellint.destinations.coreml.package.emulated_predictor import Predictor
    from modellint.destinations.coreml.verify.program_comparison import ProgramComparison

MOST = 16
"""Sets of inputs in a case."""


class Recorder:
    """Sets of inputs of one comparison: all predictions in a row, those of the example's kind, and the first of the others.

    Args:
        comparison: Which tells of each set that was compared.
        predictor: What runs the program of the package.
        route: By which the program was captured.
    """

    def __init__(self, comparison: ProgramComparison, predictor: Predictor, route: str) -> None:
        self._comparison = comparison
        self._predictor = predictor
        self._route = route
        self._single: list[ComparedRow] = []
        self._rows: list[ComparedRow] = []
        comparison.on_compared = self._take

    @property
    def has_outputs(self) -> bool:
        """Whether anything was compared, and the model has as many outputs as the package."""
        count = len(self._predictor.output_names)
        rows = (*self._single, *self._rows)
        return bool(rows) and all(len(expected) == count for compared in rows for expected in compared.expected)

    def _take(self, compared: ComparedRow) -> None:
        if len(compared.row) > 1:
            self._rows.append(compared)
            return
        self._single.append(compared)
        _limit(self._single, MOST)

    def write(self, folder: Path, package: Path, spec: Any) -> None:
        """Write the case; ``spec`` is the package's specification."""
        _limit(self._single, MOST - len(self._rows))
        rows = [*self._single, *self._rows]
        inputs = self._states()
        outputs: dict[str, Any] = {}
        for number, compared in enumerate(rows):
            for step, (taken, expected) in enumerate(zip(compared.row, compared.expected, strict=True)):
                values = self._predictor.named(self._comparison.leaves(taken, self._route))
                inputs |= {f"{number}.{step}.{name}": self._array(name, value) for name, value in values.items()}
                outputs |= {f"{number}.{step}.{at}": _plain(value) for at, value in enumerate(expected)}
        manifest = self._manifest(rows, inputs, outputs, deployment_target(spec))
        case_files.write(folder, manifest, {predict.INPUTS: inputs, case_files.OUTPUTS: outputs}, package)

    def _array(self, name: str, value: Tensor) -> Any:
        """An input in the type that the program declares."""
        return _plain(as_dtype(value.detach(), self._predictor.executor.inputs[name].dtype))

    def _states(self) -> dict[str, Any]:
        # Core ML keeps them in float16.
        return {f"state.{name}": _plain(as_dtype(value, "fp16")) for name, value in self._predictor.initial.items()}

    def _manifest(
        self, rows: Sequence[ComparedRow], inputs: Mapping[str, Any], outputs: Mapping[str, Any], target: str
    ) -> Manifest:
        names = self._predictor.output_names
        paths = [*self._comparison.reference.paths, *("" for _ in names)][: len(names)]
        described = {name: inputs[f"0.0.{name}"] for name in self._predictor.input_names}
        described |= {name: inputs[f"state.{name}"] for name in self._predictor.initial}
        described |= {name: outputs[f"0.0.{at}"] for at, name in enumerate(names)}
        return Manifest(
            case_files.FORMAT,
            case_files.VERSION,
            "",
            "",
            "",
            {},
            tuple(self._predictor.input_names),
            tuple(names),
            tuple(paths),
            tuple(self._predictor.initial),
            {name: str(value.dtype) for name, value in described.items()},
            {name: value.shape for name, value in described.items()},
            tuple(compared.label for compared in rows),
            tuple(len(compared.row) for compared in rows),
            tuple(compared.usual for compared in rows),
            self._comparison.seed,
            torch.__version__,
            version("coremltools"),
            target,
        )


def _limit(compared: list[ComparedRow], most: int) -> None:
    """Leave out what is beyond so many: the last that is not of the example's kind, or else the last."""
    while len(compared) > most:
        unusual = (at for at in reversed(range(len(compared))) if not compared[at].usual)
        del compared[next(unusual, -1)]


def check_recordable(spec: Any, name: str) -> None:
    """Raise ``CaseError`` for a package that takes images or gives labels, of which a case holds no arrays."""
    if images(spec):
        raise CaseError(f"{name} takes images, which a case cannot hold: record the model converted with ct.TensorType")
    if spec.description.predictedFeatureName:
        raise CaseError(f"{name} gives labels, which a case cannot hold: record the model converted without labels")


def _plain(value: Tensor) -> Any:
    """A tensor as an array; numpy has no bfloat16, of which float32 has every number."""
    value = value.detach().resolve_conj().resolve_neg()
    return (value.float() if value.dtype is torch.bfloat16 else value).cpu().numpy()
