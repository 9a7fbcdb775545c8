"""Parameters that every run writes before it reads them: kernels that `forward` merges anew (reparameterization), in evaluation mode.

A captured program holds the parameters of the model as it is, and would hold what stood in their place before the first run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from modellint.destinations.comparison.reference_runs import copied_inputs, nudged
from modellint.destinations.comparison.side_effect_free_runs import at_rest

if TYPE_CHECKING:
    from torch import Tensor, nn

    from modellint.live.inputs.model_inputs import Inputs

_SHIFT = 0.5
"""The share by which inputs of the second run are others."""


def settle(model: nn.Module, inputs: Inputs) -> tuple[str, ...]:
    """Give parameters the values that a run leaves in them, where another run leaves the same; their names.

    A model that does not run is left as it is.
    """
    try:
        first = _after(model, inputs)
        second = _after(model, nudged(inputs, size=_SHIFT)) if first else {}
    except Exception:
        # The capture will say so.
        return ()
    parameters = dict(model.named_parameters())
    settled = [
        name
        for name, value in first.items()
        if name in second and torch.equal(value, second[name]) and not torch.equal(value, parameters[name])
    ]
    with torch.no_grad():
        for name in settled:
            parameters[name].data = first[name]
    return tuple(settled)


def _after(model: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    """What a run leaves in the parameters that it writes, where that is something else."""
    with at_rest(model, inputs):
        before = {name: (value.data_ptr(), value._version, value.shape) for name, value in _strided(model)}
        args = copied_inputs(inputs)
        model(*args.args, **args.kwargs)
        return {
            name: value.detach().clone()
            for name, value in _strided(model)
            if name in before
            and (value.data_ptr(), value._version) != before[name][:2]
            and value.shape == before[name][2]
        }


def _strided(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [
        (name, value)
        for name, value in model.named_parameters()
        if value.layout is torch.strided and not value.is_meta and not value.is_inference()
    ]
