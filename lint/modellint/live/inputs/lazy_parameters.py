"""Lazy parameters: those without a shape, which ``nn.LazyLinear`` and its like have until their first call."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from modellint.live.inputs.model_inputs import Inputs

ADVICE = (
    "give its inputs, as in --input 1x3x224x224: a first call gives every parameter its shape",
    "or let a function that calls the model once, and returns it, be the target",
)
"""What to do about a target whose parameters have no shape, where nothing is known to call it with."""
UNREACHED = ("a call with the given inputs does not come to them: take them out, or call them in `forward`",)
"""The same where it is."""


class Unshaped(Exception):
    """Parameters have no shape; the message says which, ``advice`` what to do."""

    def __init__(self, message: str, advice: Sequence[str]) -> None:
        super().__init__(message)
        self.advice = tuple(advice)


def is_unshaped(model: nn.Module) -> bool:
    """Whether a parameter or a buffer of a model has no shape yet."""
    return any(map(_unshaped, model.modules()))


def unshaped_text(model: nn.Module) -> str:
    """Which modules of a model have none."""
    unshaped = [(path, module) for path, module in model.named_modules() if _unshaped(module)]
    path, module = unshaped[0]
    more = f" and {len(unshaped) - 1} more" if len(unshaped) > 1 else ""
    return f"`{path or 'the model'}` ({type(module).__name__}){more} without shapes, which the first call gives"


def shape(model: nn.Module, inputs: Inputs) -> None:
    """Call a model once, in evaluation mode, so that its parameters get their shapes. Raises what ``forward`` raises."""
    modes = {module: module.training for module in model.modules()}
    kept = {buffer: buffer.clone() for buffer in model.buffers() if not is_lazy(buffer)}
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, (tuple(inputs.args), dict(inputs.kwargs)))
    try:
        model.eval()
        with torch.no_grad():
            model(*args, **kwargs)
    finally:
        for module, mode in modes.items():
            module.training = mode
        with torch.no_grad():
            for buffer, value in kept.items():
                buffer.copy_(value)


def shaped(model: nn.Module, inputs: Inputs | None) -> nn.Module:
    """A model whose parameters all have shapes: itself, or else a copy that has been called. Raises ``Unshaped``."""
    if not is_unshaped(model):
        return model
    if inputs is None:
        raise Unshaped(f"left {unshaped_text(model)}", ("call it once, or give example_inputs",))
    memo: dict[int, object] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        if is_lazy(tensor):
            # `copy` cannot: of some kinds PyTorch has no way to copy them.
            kind: Any = type(tensor)
            memo[id(tensor)] = kind(requires_grad=tensor.requires_grad, device=tensor.device, dtype=tensor.dtype)
    clone = copy.deepcopy(model, memo)
    try:
        shape(clone, inputs)
    except Exception as error:
        raised = " ".join(f"{type(error).__name__}: {error}".split())
        raise Unshaped(f"left {unshaped_text(model)}; the call raised {raised}", ()) from error
    if is_unshaped(clone):
        raise Unshaped(f"left {unshaped_text(clone)}", UNREACHED)
    return clone


def _unshaped(module: nn.Module) -> bool:
    tensors = (*module._parameters.values(), *module._buffers.values())
    return any(tensor is not None and is_lazy(tensor) for tensor in tensors)
