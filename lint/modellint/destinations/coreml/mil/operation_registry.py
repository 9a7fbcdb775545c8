"""Registry of MIL operations: a function, or a table of PyTorch's functions, says which operations it computes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

_Function = TypeVar("_Function", bound=Callable[..., Any])
_CONTEXT = ("opset", "declared", "constants")


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of MIL.

    Args:
        compute: The function. Its parameters are named as the operation's inputs. One that is annotated as a ``Tensor``
            is given tensors, every other one Python's numbers, strings and lists; an input that a program leaves out
            is not given. Three further names may be asked for: ``opset`` (15 to 26: the iOS version that the operation's
            definition is of), ``declared`` (the output variables: tuple of `Declared`) and ``constants`` (the names of the
            inputs that are constants of the program).
        tensors: Names of the parameters that take tensors.
        context: Which of these are asked for.
        moves: Results are numbers of the inputs, moved: rounding them would change nothing.
    """

    compute: Callable[..., Any]
    tensors: frozenset[str]
    context: frozenset[str]
    moves: bool


@dataclass(frozen=True, slots=True)
class Declared:
    """An output as the program declares it: MIL's name of the element type, and sizes (``None``: not known)."""

    dtype: str
    shape: tuple[int | None, ...] | None


class Refusal(Exception):
    """An operation is used in a way that has no agreed meaning, or none that is known here."""


def axis_within(axis: int, rank: int) -> int:
    """An axis of a tensor as a positive number; a negative one counts from the end. Refuses one that the tensor does not have."""
    if not -rank <= axis < rank:
        raise Refusal(f"axis {axis} of a tensor of {rank} axes")
    return axis % rank


_registry: dict[str, Operation] = {}


def operation(*names: str, moves: bool = False) -> Callable[[_Function], _Function]:
    """Register a function as the operation called ``names`` (default: the function's own name)."""

    def register(function: _Function) -> _Function:
        parameters = inspect.signature(function).parameters
        tensors = frozenset(name for name, parameter in parameters.items() if "Tensor" in str(parameter.annotation))
        context = frozenset(_CONTEXT) & frozenset(parameters)
        for name in names or (function.__name__.rstrip("_"),):
            _registry[name] = Operation(function, tensors, context, moves)
        return function

    return register


def unary(functions: Mapping[str, Callable[[Tensor], Tensor]], *, moves: bool = False) -> None:
    """Register functions of one tensor as the operations that they are named after in a table."""

    def of_one(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def compute(x: Tensor) -> Tensor:
            return function(x)

        return compute

    for name, function in functions.items():
        operation(name, moves=moves)(of_one(function))


def binary(functions: Mapping[str, Callable[[Tensor, Tensor], Tensor]], *, moves: bool = False) -> None:
    """Register functions of two tensors as the operations that they are named after in a table."""

    def of_two(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
        def compute(x: Tensor, y: Tensor) -> Tensor:
            return function(x, y)

        return compute

    for name, function in functions.items():
        operation(name, moves=moves)(of_two(function))


@cache
def operations() -> dict[str, Operation]:
    """All operations that can be executed, by name."""
    from modellint.destinations.coreml.mil import operations as package

    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    return _registry
