"""Comparison of a model with its ML Programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modellint.destinations.comparison.comparison import Comparison
from modellint.destinations.comparison.reference_runs import copied
from modellint.destinations.coreml.capture.routes import arguments
from modellint.destinations.coreml.package.emulated_predictor import Predictor

if TYPE_CHECKING:
    from modellint.live.inputs.model_inputs import Inputs

_OF_STATES = "states start with the values of the model's buffers here; Core ML starts them at zero"


class ProgramComparison(Comparison):
    """The same, where programs may come from a trace, which takes inputs in an order of its own."""

    def predictor(self, program: Any) -> Predictor:
        """What runs a converted program. Raises ``UnknownOperations``."""
        predictor = Predictor(program, dict(self.model.named_buffers()))
        if predictor.is_stateful and _OF_STATES not in self.notes:
            self.notes.append(_OF_STATES)
        return predictor

    def leaves(self, inputs: Inputs, route: str) -> list[Any]:
        """The inputs, flat, as a program takes them that was captured by that route."""
        leaves: list[Any] = copied(arguments(self.model, inputs, "trace" if route == "trace" else "export"))
        return leaves
