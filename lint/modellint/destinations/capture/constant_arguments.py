"""Constant arguments: a program takes tensors alone, so that flags, numbers and words of a call become constants of the model."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch

from modellint.live.inputs.model_inputs import Inputs

if TYPE_CHECKING:
    from torch import nn

_PLAIN = (bool, int, float, str, type(None), torch.dtype)


@contextmanager
def bound(model: nn.Module, inputs: Inputs) -> Iterator[tuple[Inputs, Mapping[str, Any]]]:
    """The inputs without constants, and the constants by the names of their arguments; inside of the block ``forward`` fills them in.

    Nothing is bound where ``forward`` has no names for it, or is not its class's own.
    """
    signature = inspect.signature(model.forward)
    names = [*signature.parameters][: len(inputs.args)]
    named = dict(zip(names, inputs.args, strict=False)) | dict(inputs.kwargs)
    rest = _rest(signature)
    constants = {
        name: value for name, value in named.items() if _is_constant(value) and (rest or name in signature.parameters)
    }
    if not constants or len(constants) == len(named) or "forward" in vars(model) or not _has_names(signature, inputs):
        yield inputs, {}
        return
    vars(model)["forward"] = MethodType(_filled(signature, constants), model)
    try:
        yield _without(inputs, names, constants), constants
    finally:
        del vars(model)["forward"]


def _is_constant(value: Any) -> bool:
    match value:
        case list() | tuple():
            return all(map(_is_constant, value))
        case dict():
            return all(map(_is_constant, value.values()))
    return isinstance(value, _PLAIN)


def _has_names(signature: inspect.Signature, inputs: Inputs) -> bool:
    """Whether each positional argument has a parameter of its own, and none is one of ``*args``."""
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    return inspect.Parameter.VAR_POSITIONAL not in kinds[: len(inputs.args)] and len(kinds) >= len(inputs.args)


def _rest(signature: inspect.Signature) -> str:
    """The name of the ``**`` parameter; empty where there is none."""
    kinds = inspect.Parameter.VAR_KEYWORD
    return next((name for name, parameter in signature.parameters.items() if parameter.kind is kinds), "")


def _filled(signature: inspect.Signature, constants: Mapping[str, Any]) -> Any:
    """A ``forward`` that takes the arguments that are no constants, and fills the constants in."""
    rest = _rest(signature)
    kept = [parameter for name, parameter in signature.parameters.items() if name not in constants]
    taken = signature.replace(parameters=kept)

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        arguments = {**taken.bind(*args, **kwargs).arguments, **constants}
        others = {name: value for name, value in constants.items() if name not in signature.parameters}
        if others:
            arguments[rest] = {**arguments.get(rest, {}), **others}
        in_order = OrderedDict((name, arguments[name]) for name in signature.parameters if name in arguments)
        call = inspect.BoundArguments(signature, in_order)
        return type(self).forward(self, *call.args, **call.kwargs)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    forward.__signature__ = taken.replace(parameters=[own, *taken.parameters.values()])  # type: ignore[attr-defined]
    return forward


def _without(inputs: Inputs, names: list[str], constants: Mapping[str, Any]) -> Inputs:
    """The inputs without constants; the positions of what remains are counted anew."""
    kept = [at for at, name in enumerate(names) if name not in constants]
    places: dict[str | int, str | int] = {at: new for new, at in enumerate(kept)}
    places |= {str(at): str(new) for new, at in enumerate(kept)}
    return Inputs(
        tuple(inputs.args[at] for at in kept),
        {name: value for name, value in inputs.kwargs.items() if name not in constants},
        {places.get(key, key): limits for key, limits in inputs.flexible.items()},
        {places.get(key, key): span for key, span in inputs.ranges.items()},
    )
