"""Constant arguments: those of a call that become constants of the model, as a program takes tensors alone, or as somebody says so."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch

from modellint.live.inputs.model_inputs import Inputs

if TYPE_CHECKING:
    from torch import nn

    from modellint.live.inputs.input_spec import InputSpec

_PLAIN = (bool, int, float, str, type(None), torch.dtype)


@contextmanager
def bound(model: nn.Module, inputs: Inputs) -> Iterator[tuple[Inputs, Mapping[str, Any]]]:
    """The inputs without constants, and the constants by the names of their arguments; inside of the block ``forward`` fills them in.

    Nothing is bound where ``forward`` has no names for it, or is no method.
    """
    signature = inspect.signature(model.forward)
    names, named = _named(signature, inputs)
    rest = _rest(signature)
    constants = {
        name: value for name, value in named.items() if _is_constant(value) and (rest or name in signature.parameters)
    }
    own = vars(model).get("forward")
    is_method = own is None or (isinstance(own, MethodType) and own.__self__ is model)
    if not constants or len(constants) == len(named) or not is_method or not _has_names(signature, inputs):
        yield inputs, {}
        return
    vars(model)["forward"] = MethodType(_filled(signature, constants, function_of(model), {}), model)
    try:
        yield _without(inputs, names, constants), constants
    finally:
        if own is None:
            del vars(model)["forward"]
        else:
            vars(model)["forward"] = own


def ranged(inputs: Inputs, specs: Sequence[InputSpec]) -> Inputs:
    """Inputs that hold the ranges of what they were made from, by position or name."""
    places = count()
    keys: list[str | int] = [next(places) if spec.name is None else spec.name for spec in specs]
    given = {key: spec.range for key, spec in zip(keys, specs, strict=True) if spec.range is not None}
    return inputs._replace(ranges={**inputs.ranges, **given})


def with_constants(model: nn.Module, inputs: Inputs, wanted: Sequence[str]) -> tuple[nn.Module, Inputs]:
    """A module of the same state whose ``forward`` takes no such arguments, as they are always what they are in the inputs; and the rest.

    Tensors become buffers that no ``state_dict`` has. Raises ``ValueError`` for arguments that the inputs do not have, and for
    a compiled module, which has no other ``forward``.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(f"constant: {type(model).__name__} is compiled, and keeps its inputs")
    signature = inspect.signature(model.forward)
    names, named = _named(signature, inputs)
    if unknown := [name for name in wanted if name not in named]:
        raise ValueError(f"constant: there is no input {unknown[0]!r}, but {', '.join(map(repr, named)) or 'none'}")
    if len({*wanted}) == len(named):
        raise ValueError("constant: of a model whose inputs are all constant nothing is left to be computed")
    twin = twin_of(model)
    constants, tensors = {}, {}
    for name in wanted:
        value = named[name]
        if isinstance(value, torch.Tensor):
            tensors[name] = f"constant_{name}"
            twin.register_buffer(tensors[name], value.detach().clone(), persistent=False)
        else:
            constants[name] = value
    vars(twin)["forward"] = MethodType(_filled(signature, constants, function_of(model), tensors), twin)
    return twin, _without(inputs, names, {*wanted})


def twin_of(model: nn.Module) -> nn.Module:
    """A module of the same class, parameters and modules, to which attributes and buffers can be added."""
    cls = type(model)
    twin = cls.__new__(cls)
    vars(twin).update(vars(model))
    vars(twin)["_buffers"] = dict(model._buffers)
    vars(twin)["_non_persistent_buffers_set"] = {*model._non_persistent_buffers_set}
    return twin


def function_of(model: nn.Module) -> Callable[..., Any]:
    """The function that a model's ``forward`` is, to be called with the model."""
    own = vars(model).get("forward")
    if own is None:
        return type(model).forward
    if isinstance(own, MethodType) and own.__self__ is model:
        return own.__func__
    return lambda _, *args, **kwargs: own(*args, **kwargs)


def _named(signature: inspect.Signature, inputs: Inputs) -> tuple[list[str], dict[str, Any]]:
    """The names of positional arguments, and all arguments by name."""
    names = [*signature.parameters][: len(inputs.args)]
    return names, dict(zip(names, inputs.args, strict=False)) | dict(inputs.kwargs)


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


def _filled(
    signature: inspect.Signature, constants: Mapping[str, Any], base: Callable[..., Any], tensors: Mapping[str, str]
) -> Any:
    """A ``forward`` that takes the arguments that are no constants, and fills these in; tensors are the model's attributes."""
    rest = _rest(signature)
    bound = {*constants, *tensors}
    kept = [parameter for name, parameter in signature.parameters.items() if name not in bound]
    taken = signature.replace(parameters=kept)

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        filled = {**constants, **{name: getattr(self, attribute) for name, attribute in tensors.items()}}
        arguments = {**taken.bind(*args, **kwargs).arguments, **filled}
        others = {name: value for name, value in filled.items() if name not in signature.parameters}
        if others:
            arguments[rest] = {**arguments.get(rest, {}), **others}
        in_order = OrderedDict((name, arguments[name]) for name in signature.parameters if name in arguments)
        call = inspect.BoundArguments(signature, in_order)
        return base(self, *call.args, **call.kwargs)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    forward.__signature__ = taken.replace(parameters=[own, *taken.parameters.values()])  # type: ignore[attr-defined]
    return forward


def _without(inputs: Inputs, names: list[str], constants: Container[str]) -> Inputs:
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
