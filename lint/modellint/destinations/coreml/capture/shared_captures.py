"""Shared captures: a model captured once by each route, for its dry run, its verification and whatever else is tried with it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modellint.destinations.capture import torch_export
from modellint.destinations.coreml.capture import routes
from modellint.live.analysis_cache import analysis
from modellint.live.subject import Subject

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs.model_inputs import Inputs


class SharedCaptures:
    """The programs of one model on one set of inputs; a capture that raises is tried again. The model must not change between."""

    def __init__(self) -> None:
        self._trace: tuple[Any, Sequence[warnings.WarningMessage]] | None = None
        self._export: Any = None

    def traced(
        self, model: nn.Module, inputs: Inputs, target: Any
    ) -> tuple[routes.Traced, Sequence[warnings.WarningMessage]]:
        """The model traced, for any deployment target, and what PyTorch warned of. Raises what ``routes.traced`` raises."""
        if self._trace is not None:
            return routes.traced(model, inputs, target, self._trace[0]), self._trace[1]
        with warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always")
            traced = routes.traced(model, inputs, target)
        self._trace = traced.program, messages
        return traced, messages

    def exported(self, model: nn.Module, inputs: Inputs) -> Any:
        """The model exported. Raises what ``torch.export`` raises."""
        if self._export is None:
            self._export = torch_export.exported(model, inputs)
        return self._export


@analysis
def shared_captures(subject: Subject) -> SharedCaptures:
    """The captures of a subject's model on its inputs, as it is."""
    return SharedCaptures()
