"""Table of decompositions: which function stands for which operator, and how exact it is."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

Function = Callable[..., Any]
Tensor = Any
"""The annotation of a parameter that is a tensor."""
Number = Any
"""The annotation of a parameter that is a number, known before a run."""
Dtype = Any
"""The annotation of a parameter that is one of PyTorch's types of elements."""
Operand = Any
"""The annotation of a parameter that is a tensor or a number: Python's own number where it is known and has no axes."""
BIT_EQUAL = "bit-equal"


def within(ulps: int) -> str:
    """Exactness class: the results are off by at most so many units in the last place of float32."""
    return f"≤ {ulps} ulps"


class Decomposition(NamedTuple):
    """One function that stands for an operator, or some of its overloads.

    It raises ``NotImplementedError`` for arguments that it is not written for, or gives ``NotImplemented``.
    """

    operator: str
    """As in ``aten::addcmul``."""
    names: tuple[str, ...]
    """The operator without its namespace if that is `aten`, or overloads of it in small letters, as in ``prod.dim_int``."""
    function: Function
    exactness: str


_TABLE: list[Decomposition] = []


def decomposes(operator: str, *overloads: str, exactness: str = BIT_EQUAL) -> Callable[[Function], Function]:
    """Register a function for an operator; ``overloads`` are further names, or overloads where they begin with a point."""
    names = dict.fromkeys((operator, *(operator + name if name[:1] == "." else name for name in overloads)))

    def add(function: Function) -> Function:
        _TABLE.append(
            Decomposition(operator if "::" in operator else f"aten::{operator}", tuple(names), function, exactness)
        )
        return function

    return add


@cache
def decompositions() -> Sequence[Decomposition]:
    """All decompositions; of several for one operator the first that takes the arguments counts."""
    package = importlib.import_module(__name__.rpartition(".")[0])
    for name in sorted(module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")):
        importlib.import_module(name)
    return tuple(_TABLE)
