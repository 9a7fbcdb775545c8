"""Model in single precision: weights of another floating type as the float32 numbers that they are, or are nearest to.

Of a model of float32, what it casts to bfloat16 as it runs: Core ML has no such type, and a package would not round there.
"""

from __future__ import annotations

import copy
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from modellint.destinations.comparison.reference_runs import copied
from modellint.live.inputs.model_inputs import Inputs
from modellint.results.exported import SINGLE_PRECISION, WITHOUT_CASTS, Change


class InSinglePrecision(NamedTuple):
    """A copy of a model that computes in float32, and its inputs."""

    model: nn.Module
    inputs: Inputs
    change: Change
    """It notes of which type the model was, and how far its own outputs for the example are from the copy's."""


def in_single_precision(model: nn.Module, inputs: Inputs) -> InSinglePrecision | None:
    """The model with all that it has and takes of bfloat16, float16 and float64 in float32.

    Where most of it is float32, what else it has says that it wants to round: of that, only casts to bfloat16 are left out. None where
    there are none, or where such a copy cannot be made or does not run. The model is to be in evaluation mode, and is left as it is.
    """
    leaves = [leaf for leaf in pytree.tree_leaves((inputs.args, dict(inputs.kwargs))) if isinstance(leaf, Tensor)]
    floats = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()] or leaves
    kinds = {tensor.dtype for tensor in floats if _is_other(tensor)}
    arguments = (inputs.args, dict(inputs.kwargs))
    try:
        if 2 * sum(map(_is_other, floats)) > len(floats):
            single = copy.deepcopy(model).float()
            args, kwargs = pytree.tree_map(_single, copied(arguments))
            what, code = SINGLE_PRECISION, "NUM007"
        elif _casts(model, arguments):
            single, kinds = _without_casts(copy.deepcopy(model)), {torch.bfloat16}
            args, kwargs = arguments
            what, code = WITHOUT_CASTS, "OPS002"
        else:
            return None
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            own = _run(model, arguments)
            others = _run(single, (args, kwargs))
    except Exception:
        # What cannot be copied, or does not run so, is exported as it is or not at all.
        return None
    names = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
    off = max((_distance(output, reference) for output, reference in zip(own, others, strict=False)), default=0.0)
    note = f"it is compared with the model in float32: that in {names} is {off:.1e} of an output's scale off it"
    return InSinglePrecision(
        single, inputs._replace(args=args, kwargs=kwargs), Change("fixed", what, (), "", note, code)
    )


class _Widening(TorchFunctionMode):
    """Mode in which float32 stands for bfloat16 wherever a type is named."""

    def __init__(self) -> None:
        super().__init__()
        self.was_used = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is Tensor.bfloat16:
            self.was_used = True
            return args[0].float()
        if any(operand is torch.bfloat16 for operand in (*args, *kwargs.values())):
            self.was_used = True
            args = tuple(map(_wide, args))
            kwargs = {name: _wide(value) for name, value in kwargs.items()}
        return function(*args, **kwargs)


def _wide(operand: Any) -> Any:
    return torch.float32 if operand is torch.bfloat16 else operand


def _casts(model: nn.Module, arguments: Any) -> bool:
    """Whether a run of a model names bfloat16, and nothing that it has is of that type."""
    own = (*model.parameters(), *model.buffers(), *pytree.tree_leaves(arguments))
    if any(isinstance(tensor, Tensor) and tensor.dtype == torch.bfloat16 for tensor in own):
        return False
    with _Widening() as widening:
        _run(model, arguments)
    used: bool = widening.was_used
    return used


def _without_casts(model: nn.Module) -> nn.Module:
    """The model, of a class of its own, so that a copy of it does so too."""
    kind = type(model)
    if "forward" in vars(model):
        raise ValueError("a function of its own stands in place of its method")

    @wraps(kind.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with _Widening():
            return kind.forward(self, *args, **kwargs)

    model.__class__ = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
    return model


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
