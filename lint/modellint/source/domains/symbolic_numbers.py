"""Symbolic numbers, as PyTorch's `SymInt` and `SymFloat` are: sizes, what values of tensors decide, and what number types tell.

So is `x.shape`, and whatever nothing is known of but that it is the same wherever its name is read.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.source.domains.memory_layout import Dim
from modellint.source.engine.abstract_values import Number, Value

if TYPE_CHECKING:
    from modellint.source.domains.tensors import Tensor


class Size(Value):
    """An int that is a product of sizes."""

    __slots__ = ("dim",)

    def __init__(self, dim: Dim) -> None:
        self.dim = dim

    @property
    def integer(self) -> int | None:
        """The product, where all sizes are known."""
        return self.dim.value


class Opaque(Value):
    """Something that nothing is known of, under a name: the same wherever the name is read."""

    __slots__ = ("dim",)

    def __init__(self) -> None:
        self.dim = Dim.symbol()

    @property
    def is_unseen(self) -> bool:
        """Nothing is known of it."""
        return True


class OpaqueNumber(Number):
    """An int whose value is not known, under a name."""

    __slots__ = ("dim",)

    def __init__(self) -> None:
        self.dim = Dim.symbol()


class Drawn(OpaqueNumber):
    """A number, or a truth, that Python took out of a tensor, at ``node``: `x.sum().item()`, `not x.any()`."""

    __slots__ = ("node", "tensor")

    def __init__(self, tensor: Tensor, node: ast.AST) -> None:
        super().__init__()
        self.tensor = tensor
        self.node = node

    @property
    def is_length(self) -> bool:
        """Whether it is a size, which a capture keeps as a symbol."""
        return False


class Length(Drawn):
    """A size that values decide, and that a capture keeps as a symbol: `x[mask].size(0)`."""

    __slots__ = ()

    def __init__(self, tensor: Tensor, dim: Dim | None = None) -> None:
        super().__init__(tensor, tensor.node or ast.Constant(None))
        self.dim = dim or self.dim

    @property
    def is_length(self) -> bool:
        """It is."""
        return True


class Shape(Value):
    """`x.shape`, `x.size()`."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Limits(Value):
    """`torch.finfo(dtype)` or `torch.iinfo(dtype)`; ``dtype`` is None where it is not written down, as in `x.dtype`."""

    __slots__ = ("dtype", "whole")

    def __init__(self, whole: bool, dtype: str | None) -> None:
        self.whole = whole
        self.dtype = dtype


class Limit(Number):
    """A number that a type tells, `torch.finfo(x.dtype).min`: where none is written down, that of the usual one."""

    __slots__ = ("limits", "value")

    def __init__(self, limits: Limits, value: float) -> None:
        self.limits = limits
        self.value = value

    @classmethod
    def of(cls, limits: Limits, name: str) -> Limit | None:
        """What `limits.name` is, where that is known."""
        if limits.whole:
            bits = _BITS.get(limits.dtype or "")
            if bits is None or name not in ("min", "max"):
                return None
            return cls(limits, -(1 << bits) if name == "min" else (1 << bits) - 1)
        largest, tiniest, epsilon = _FLOATS.get(limits.dtype or "float32", (None, None, None))
        known = {"max": largest, "min": largest, "tiny": tiniest, "smallest_normal": tiniest, "eps": epsilon}.get(name)
        return None if known is None else cls(limits, -known if name == "min" else known)

    @property
    def is_told_by_type(self) -> bool:
        """It is."""
        return True

    @property
    def number(self) -> float:
        """The number that the type tells."""
        return self.value

    def negated(self) -> Limit:
        """The same with the other sign."""
        return Limit(self.limits, -self.value)


_BITS = {"int64": 63, "long": 63, "int32": 31, "int": 31, "int16": 15, "short": 15, "int8": 7}
_FLOATS = {
    "float16": (65504.0, 6.104e-05, 9.766e-04),
    "half": (65504.0, 6.104e-05, 9.766e-04),
    "bfloat16": (3.3895e38, 1.1755e-38, 7.8125e-03),
    "float32": (3.4028235e38, 1.1754944e-38, 1.1920929e-07),
    "float": (3.4028235e38, 1.1754944e-38, 1.1920929e-07),
    "float64": (1.7976931348623157e308, 2.2250738585072014e-308, 2.220446049250313e-16),
    "double": (1.7976931348623157e308, 2.2250738585072014e-308, 2.220446049250313e-16),
}
"""Of each type the largest number, the smallest normal one, and the distance of 1 to the next."""


def int_of(value: Value | None) -> int | None:
    """A value as an int that is known."""
    return None if value is None else value.integer
