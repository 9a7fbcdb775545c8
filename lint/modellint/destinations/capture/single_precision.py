"""Model in single precision: weights of another floating type as the float32 numbers that they are, or are nearest to."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from modellint.destinations.comparison.reference_runs import copied
from modellint.live.inputs.model_inputs import Inputs


class InSinglePrecision(NamedTuple):
    """A copy of a model that computes in float32, and its inputs."""

    model: nn.Module
    inputs: Inputs
    note: str
    """Of which type the model was, and how far its own outputs for the example are from the copy's."""


def in_single_precision(model: nn.Module, inputs: Inputs) -> InSinglePrecision | None:
    """The model with all that it has and takes of bfloat16, float16 and float64 in float32.

    None where most of it is float32: what else it has then says that it wants to round. None, too, where such a copy cannot be made or
    does not run. The model is to be in evaluation mode, and is left as it is.
    """
    leaves = [leaf for leaf in pytree.tree_leaves((inputs.args, dict(inputs.kwargs))) if isinstance(leaf, Tensor)]
    floats = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()] or leaves
    kinds = {tensor.dtype for tensor in floats if _is_other(tensor)}
    if 2 * sum(map(_is_other, floats)) <= len(floats):
        return None
    arguments = (inputs.args, dict(inputs.kwargs))
    try:
        single = copy.deepcopy(model).float()
        args, kwargs = pytree.tree_map(_single, copied(arguments))
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            own = _run(model, arguments)
            others = _run(single, (args, kwargs))
    except Exception:
        # What cannot be copied, or does not run so, is exported as it is or not at all.
        return None
    names = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
    off = max((_distance(output, reference) for output, reference in zip(own, others, strict=False)), default=0.0)
    return InSinglePrecision(
        single,
        inputs._replace(args=args, kwargs=kwargs),
        f"it is compared with the model in float32: that in {names} is {off:.1e} of an output's scale off it",
    )


def _is_other(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype != torch.float32


def _single(leaf: Any) -> Any:
    return leaf.float() if isinstance(leaf, Tensor) and _is_other(leaf) else leaf


def _run(model: nn.Module, arguments: Any) -> list[Tensor]:
    """Outputs of a model in float64, from a run of a copy of it, as a run may change the model."""
    args, kwargs = copied(arguments)
    outputs = copy.deepcopy(model)(*args, **kwargs)
    return [leaf.double() for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, Tensor)]


def _distance(output: Tensor, reference: Tensor) -> float:
    if output.shape != reference.shape or not reference.numel():
        return 0.0
    return float((output - reference).abs().max() / reference.abs().max().clamp(min=1e-30))
