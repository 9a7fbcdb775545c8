"""Sizes that are values: the unbacked symbols of an export, where they stand in shapes, and what they can be at most."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class UnknownUse(Exception):
    """A size is used in a way that padding would change, or that is not known."""


def is_of_values(value: Any) -> bool:
    """Whether a size, number or truth value, or a size of a tensor among these, is a value of a run."""
    leaves = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, (torch.Tensor, *SYMBOLS))]
    return any(bool(free_unbacked_symbols(leaf)) for leaf in leaves)


def axes(value: Any) -> set[int]:
    """The axes of a tensor whose sizes are values."""
    shape = value.shape if isinstance(value, torch.Tensor) else ()
    return {axis for axis, size in enumerate(shape) if is_of_values(size)}


def is_prefix(shape: Sequence[Any]) -> bool:
    """Whether the elements that there are of a padded tensor stand before all others: no axis before such a size is longer than one."""
    rest = [size for size in shape if not (isinstance(size, int) and size == 1)]
    return not any(map(is_of_values, rest[1:]))


def equal(first: Any, second: Any) -> bool:
    """Whether two sizes are the same, by their numbers or expressions."""
    if isinstance(first, int) or isinstance(second, int):
        return isinstance(first, int) and isinstance(second, int) and first == second
    return bool(sympy.expand(first.node.expr - second.node.expr) == 0)


class Bounds:
    """The greatest values of symbols, as asked for."""

    def __init__(self) -> None:
        self._bounds: dict[Any, int] = {}
        self._fixed: dict[Any, int] = {}

    def fix(self, size: Any, number: int) -> None:
        """Take down that a size is one number in every run."""
        self._fixed[sympy.expand(size.node.expr)] = number

    def limit(self, size: Any, number: int) -> None:
        """Take down that a size, if it is a symbol, is at most a number in every run."""
        if isinstance(symbol := size.node.expr, sympy.Symbol):
            self._bounds[symbol] = min(self._bounds.get(symbol, number), number)

    def fixed(self, size: Any) -> int | None:
        """How great a size is in every run; None where that varies."""
        return self._fixed.get(sympy.expand(size.node.expr))

    def of(self, size: Any) -> int:
        """The greatest that a size can be. Raises `UnknownUse`."""
        if isinstance(size, int):
            return size
        if not isinstance(size, torch.SymInt):
            raise UnknownUse("a truth value or a number of a tensor")
        if (number := self.fixed(size)) is not None:
            return number
        expression, shapes = size.node.expr, size.node.shape_env
        for symbol in expression.free_symbols - self._bounds.keys():
            upper = shapes.bound_sympy(symbol).upper
            if not upper.is_Integer or int(upper) > sys.maxsize // 4:
                raise UnknownUse("a size without a bound")
            self._bounds[symbol] = int(upper)
        found = expression.xreplace({symbol: sympy.Integer(self._bounds[symbol]) for symbol in expression.free_symbols})
        # A size that shrinks as another grows (`24 - n`) is greatest where that is least.
        grows = all(
            part.is_Integer and part > 0 for part in map(sympy.expand(expression).diff, expression.free_symbols)
        )
        if not found.is_Integer or not (grows or found == shapes.bound_sympy(expression).upper):
            raise UnknownUse("a size that does not grow with the values it is computed from")
        return int(found)


def linear(size: Any) -> tuple[Any, int, int]:
    """A size as a symbol times a factor, and an offset. Raises `UnknownUse` where it is something else."""
    expression = sympy.expand(size.node.expr)
    symbols = list(expression.free_symbols)
    if len(symbols) != 1 or not expression.diff(symbols[0]).is_Integer:
        raise UnknownUse("a size of more than one value")
    return symbols[0], int(expression.diff(symbols[0])), int(expression.subs(symbols[0], 0))
