"""Flexible dimensions: symbols for sizes that may vary, as they go through a run, and what they are shown as."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

import torch
from torch._guards import Source
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

_LETTERS = {4: ("N", "C", "H", "W"), 5: ("N", "C", "D", "H", "W")}


class Flexible(int):
    """A size that depends on flexible dimensions: the number at their lower bounds, shown as a formula."""

    _symbols: Symbols
    _expression: Any

    @classmethod
    def of(cls, symbols: Symbols, expression: Any) -> int:
        """The size of an expression; a plain integer where nothing in it varies."""
        expression = symbols.resolved(expression)
        value = int(symbols.lowest(expression))
        if expression.is_number:
            return value
        size = cls(value)
        size._symbols = symbols
        size._expression = expression
        return size

    def __str__(self) -> str:
        expression = self._symbols.resolved(self._expression)
        return str(int(expression)) if expression.is_number else self._symbols.shown(expression)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class _Named(Source):
    """Where a symbol comes from: an input's dimension."""

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "text", text)

    @property
    def _name_template(self) -> str:
        return str(vars(self)["text"])


if isinstance(Source.__dict__["name"], FunctionType):
    # A method until torch 2.9, a property since.
    setattr(_Named, "name", lambda self: str(vars(self)["text"]))  # noqa: B010


class Symbols:
    """The flexible dimensions of one run, each a symbol with bounds."""

    def __init__(self) -> None:
        self.environment = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
        self._names: dict[Any, str] = {}
        self._low: dict[Any, int] = {}

    def tensor(self, mode: FakeTensorMode, like: torch.Tensor, bounds: Mapping[int, tuple[int, int]]) -> torch.Tensor:
        """A fake of a tensor's type whose sizes are symbols where they are flexible, without any memory."""
        rank = like.dim()
        flexible = {dimension % rank: limits for dimension, limits in bounds.items() if -rank <= dimension < rank}
        sizes = [
            self._size(self._letter(rank, dimension), flexible[dimension]) if dimension in flexible else size
            for dimension, size in enumerate(like.shape)
        ]
        with mode:
            return torch.empty(sizes, dtype=like.dtype, device="cpu" if like.is_meta else like.device)

    def _letter(self, rank: int, dimension: int) -> str:
        letters = _LETTERS.get(rank, ("N", "L", "M"))
        letter = letters[dimension] if dimension < len(letters) else f"D{dimension}"
        taken = set(self._names.values())
        return next(name for name in (letter, *(f"{letter}{count}" for count in range(2, 1000))) if name not in taken)

    def _size(self, name: str, limits: tuple[int, int]) -> Any:
        low, high = limits
        # Sizes 0 and 1 broadcast and would be taken for constants.
        hint = min(max(low, 2), high)
        source = _Named(name)
        symbol = self.environment.create_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        self._names[symbol] = name
        self._low[symbol] = low
        return self.environment.create_symintnode(symbol, hint=hint, source=source)

    def size(self, value: Any) -> int:
        """A size as a plain integer or a ``Flexible``."""
        return Flexible.of(self, value.node.expr) if isinstance(value, torch.SymInt) else int(value)

    def resolved(self, expression: Any) -> Any:
        """An expression with what the run has found to be equal or constant since."""
        return self.environment.replace(expression)

    def lowest(self, expression: Any) -> Any:
        """The value of an expression at the lower bounds."""
        import sympy

        return expression.subs({symbol: sympy.Integer(low) for symbol, low in self._low.items()})

    def shown(self, expression: Any) -> str:
        """An expression with the names of the inputs' dimensions."""
        import sympy

        names = {symbol: sympy.Symbol(name, integer=True, positive=True) for symbol, name in self._names.items()}
        return _plain(str(expression.xreplace(names)).replace(" ", ""))


def _plain(text: str) -> str:
    """A formula without parentheses that stand directly around others."""
    opened: list[int] = []
    pairs: dict[int, int] = {}
    for position, char in enumerate(text):
        if char == "(":
            opened.append(position)
        elif char == ")":
            pairs[opened.pop()] = position
    doubled = {start for start, end in pairs.items() if pairs.get(start + 1) == end - 1}
    doubled |= {pairs[start] for start in doubled}
    return "".join(char for position, char in enumerate(text) if position not in doubled)
