"""Argument binding: what a node of a captured program is given, as the parameters of a converter want it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from modellint.destinations.coreml.private import operator_tables


class Call(NamedTuple):
    """A node to be converted."""

    context: Any
    node: Any
    args: list[Any]
    kwargs: dict[str, Any]


class Unfit(Exception):
    """A node's arguments are not those of a converter; the message says why."""


_KINDS = {
    "Tensor": "Tensor",
    "number": "Number",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "ScalarType": "Dtype",
    "List[int]": "list[int]",
    "List[float]": "list[float]",
    "List[Tensor]": "list[Tensor]",
    "List[Optional[Tensor]]": "list[Tensor|None]",
}
"""What a parameter's type in a schema is as an annotation."""


@cache
def _parameters(make: Callable[..., Any]) -> dict[str, tuple[str, Any]]:
    """The names of a converter's parameters with their annotations, as text, and defaults."""
    if isinstance(make, torch._ops.OpOverload):
        return {argument.name: (_kind(argument), _default(argument)) for argument in make._schema.arguments}
    return {
        name: (str(parameter.annotation).replace(" ", ""), parameter.default)
        for name, parameter in inspect.signature(make).parameters.items()
    }


def _kind(argument: Any) -> str:
    text = str(argument.real_type)
    inner = text.removeprefix("Optional[")
    if inner == text:
        return _KINDS.get(text, "object")
    # What is not for Core ML, a device, a layout, is not read.
    return f"{_KINDS[inner[:-1]]}|None" if inner[:-1] in _KINDS else "nothing"


def _default(argument: Any) -> Any:
    return argument.default_value if argument.has_default_value() else inspect.Parameter.empty


def bound(
    make: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], strict: bool = False
) -> dict[str, Any]:
    """Arguments bound to a converter's parameters, by name; ``strict``: a number is no tensor.

    Raises ``Unfit`` where they do not fit the signature, or have to be known before a run and are not.
    """
    parameters = _parameters(make)
    if len(args) > len(parameters):
        raise Unfit(f"{len(args)} arguments")
    values = dict(zip(parameters, args, strict=False))
    for name, value in kwargs.items():
        if name not in parameters or name in values:
            raise Unfit(f"the argument {name}")
        values[name] = value
    arguments = {}
    for name, (kind, default) in parameters.items():
        if name in values:
            arguments[name] = _as_wanted(values[name], kind, name, strict)
        elif default is not inspect.Parameter.empty:
            arguments[name] = default
        else:
            raise Unfit(f"no argument {name}")
    return arguments


def _as_wanted(value: Any, kind: str, name: str, strict: bool) -> Any:
    wanted = kind.removesuffix("|None")
    if kind == "nothing":
        return None
    if value is None:
        if wanted == kind and kind not in ("object", "Any"):
            raise Unfit(f"{name} is None")
        return None
    match wanted:
        case "Tensor":
            if strict and not isinstance(_operand(value), operator_tables.Var):
                raise Unfit(f"{name} is a number")
            return value if isinstance(value, operator_tables.Var) else _constant(value, name)
        case "Operand":
            return _operand(value)
        case "list[Tensor]":
            if not isinstance(value, (list, tuple)):
                raise Unfit(f"{name} is no list of tensors")
            return list(value)
        case "list[Tensor|None]":
            if not isinstance(value, (list, tuple)):
                raise Unfit(f"{name} is no list of tensors")
            return list(value)
        case "list[int]":
            return [int(number) for number in _numbers(value, name)]
        case "list[float]":
            return [float(number) for number in _numbers(value, name)]
        case "int" | "float" | "bool" | "Number":
            return _number(value, wanted, name)
        case "str":
            text = value.val if isinstance(value, operator_tables.Var) else value
            if not isinstance(text, str):
                raise Unfit(f"{name} is no text")
            return text
        case "Dtype":
            number = _number(value, "int", name)
            try:
                return operator_tables.torch_dtype(number)
            except KeyError:
                raise Unfit(f"{name} is a dtype that Core ML does not have") from None
    return value


def _constant(value: Any, name: str) -> Any:
    if isinstance(value, (bool, int, float)):
        return operator_tables.Builder.const(val=value)
    raise Unfit(f"{name} is no tensor")


def _operand(value: Any) -> Any:
    if isinstance(value, operator_tables.Var):
        return value.val.item() if value.val is not None and not value.shape else value
    return value


def _number(value: Any, wanted: str, name: str) -> Any:
    known = value.val if isinstance(value, operator_tables.Var) else value
    if isinstance(known, np.ndarray) and known.size == 1:
        known = known.reshape(()).item()
    if isinstance(known, np.generic):
        known = known.item()
    if not isinstance(known, (bool, int, float)):
        raise Unfit(
            f"{name} is not known before a run" if isinstance(value, operator_tables.Var) else f"{name} is no number"
        )
    match wanted:
        case "int":
            if isinstance(known, float) and not known.is_integer():
                raise Unfit(f"{name} is no integer")
            return int(known)
        case "float":
            return float(known)
        case "bool":
            return bool(known)
    return known


def _numbers(value: Any, name: str) -> list[Any]:
    if isinstance(value, operator_tables.Var):
        if value.val is None:
            raise Unfit(f"{name} is not known before a run")
        return [number.item() for number in np.asarray(value.val).reshape(-1)]
    if isinstance(value, (list, tuple)):
        return [_number(number, "Number", name) for number in value]
    return [_number(value, "Number", name)]
