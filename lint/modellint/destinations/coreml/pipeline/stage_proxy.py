"""Stage of a pipeline as its package computes it: called like the module, executed here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from modellint.destinations.comparison.program import RunError
from modellint.destinations.comparison.reference_runs import copied
from modellint.destinations.coreml.capture.routes import arguments
from modellint.destinations.coreml.package.emulated_predictor import Predictor, keeps_states
from modellint.destinations.coreml.package.input_output_specification import declared_sizes
from modellint.destinations.coreml.private.mil_programs import read_package
from modellint.destinations.coreml.verify.package import argument_names
from modellint.live.inputs import constant_arguments
from modellint.live.inputs.model_inputs import Inputs

if TYPE_CHECKING:
    from torch import Tensor, nn


class ExecutedStage:
    """A package that is called like the module that it is of.

    Args:
        name: Of the stage.
        module: In evaluation mode when it is called.
        example: What it was exported with: what is no tensor there is a constant of the package.
        package: As it is saved.
        rounds: Whether fp16 numbers are rounded to half precision.

    Raises:
        UnknownOperations: For a program that cannot be executed.
        PackageError: For a package that holds no program.
    """

    def __init__(self, name: str, module: nn.Module, example: Inputs, package: Path, *, rounds: bool) -> None:
        self._name = name
        self._module = module
        program, spec = read_package(str(package))
        with constant_arguments.bound(module, example) as (taken, constants):
            names = argument_names(module, taken)
        self._constants = constants
        self._predictor = Predictor(
            program,
            dict(module.named_buffers()),
            names,
            sizes=declared_sizes(spec.description),
            rounds=rounds,
        )
        self.keeps_states = keeps_states(program)
        """Whether it has states, which Core ML keeps in float16."""

    def begin(self) -> None:
        """Give states the values that the module's buffers have."""
        self._predictor.executor.begin(self._predictor.initial)

    def __call__(self, inputs: Inputs) -> list[Tensor]:
        """The outputs of a prediction, flat as the module gives them; states go on from the one before.

        Raises ``Misfit`` for inputs that the package does not take, and ``RunError``.
        """
        inputs = inputs._replace(args=copied(inputs.args), kwargs=copied(dict(inputs.kwargs)))
        with constant_arguments.bound(self._module, inputs) as (taken, constants):
            self._expect(constants)
            leaves = arguments(self._module, taken, "trace")
        with torch.no_grad():
            outputs = self._predictor.executor(self._predictor.named(leaves))
        return [outputs[name] for name in self._predictor.output_names]

    def _expect(self, constants: Mapping[str, Any]) -> None:
        for key in {**self._constants, **constants}:
            if key in self._constants and key in constants and constants[key] != self._constants[key]:
                raise RunError(
                    f"the package of {self._name} has {key}={self._constants[key]!r} as a constant, and is called with {constants[key]!r}"
                )
