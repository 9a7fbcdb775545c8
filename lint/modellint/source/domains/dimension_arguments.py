"""Sizes and dimension numbers among the values that an operator is given."""

from __future__ import annotations

from collections.abc import Sequence

from modellint.source.domains import data_dependent_sizes
from modellint.source.domains.memory_layout import BY_DEFAULT, Dim
from modellint.source.domains.symbolic_numbers import Length, Opaque, OpaqueNumber, Shape, Size, int_of
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import (
    NUMBER,
    Argument,
    Const,
    Container,
    Instance,
    Method,
    Number,
    SelfValue,
    Union,
    Value,
)


def dim_of(value: Value | None) -> Dim | None:
    """A value as a size; None where it is not understood."""
    match value:
        case Union():
            # `def __init__(self, heads=1)`: whatever the caller says.
            parts = [part for part in value.values if not isinstance(part, Const)]
            dims = {dim_of(part) for part in parts}
            if len(parts) == 1 and isinstance(parts[0], Argument) and any(int_of(part) == 1 for part in value.values):
                return Dim.symbol(("argument", id(parts[0]), BY_DEFAULT))
            return dims.pop() if len(dims) == 1 else None
        case Const(value=bool()):
            return None
        case Const(value=int() as number):
            return Dim.of(number) if number >= 0 else None
        case Size() | OpaqueNumber() | Opaque():
            return value.dim
        case Tensor():
            return None if value.certain else value.dim
        case Instance(kind="unresolved"):
            return Dim.symbol(("made", id(value)))
        case Argument() if not isinstance(value, Tensor):
            return Dim.symbol(("argument", id(value)))
        case Method(receiver=Argument() as receiver, name=name):
            return Dim.symbol(("attribute", id(receiver), name))
        case Method(receiver=SelfValue(), name=name):
            # No class of the project binds it: a number of a class of torch's, as the `num_groups` of `nn.GroupNorm`.
            return Dim.symbol(("attribute", name))
    return None


def sizes_of(values: Sequence[Value], spread: Sequence[Value]) -> list[Dim | None] | None:
    """The sizes that an operator is given, one by one or in one tuple; None where not even their number is known."""
    if spread:
        return None
    if len(values) == 1:
        only = values[0]
        if isinstance(only, Container):
            if not only.exact:
                return None
            values = only.items
        elif isinstance(only, Shape):
            layout = only.tensor.layout
            return None if layout is None or layout.sizes is None else list(layout.sizes)
        elif isinstance(only, Union):
            if not _is_count(only):
                return _in_common(only)
        elif not isinstance(only, (Const, Size, Argument, Method, Number)):
            return None
    if any(isinstance(value, (Shape, Container)) for value in values):
        return None
    return [dim_of(value) for value in values]


def _in_common(value: Union) -> list[Dim | None] | None:
    """What several tuples of one length agree on."""
    rows = [part.items for part in value.values if isinstance(part, Container) and part.exact]
    if len(rows) != len(value.values) or len({len(row) for row in rows}) != 1:
        return None
    columns = [{dim_of(item) for item in column} for column in zip(*rows, strict=True)]
    return [column.pop() if len(column) == 1 else None for column in columns]


def _is_count(value: Union) -> bool:
    """Whether a value is a number, or whatever the caller says in the place of one."""
    numbers = [part for part in value.values if isinstance(part, Const) and type(part.value) is int]
    others = [part for part in value.values if isinstance(part, (Size, Argument, Number))]
    return bool(numbers) and len(numbers) + len(others) == len(value.values)


def ints_of(values: Sequence[Value]) -> list[int] | None:
    """Dimension numbers, one by one or in one tuple; None where they are not known."""
    if len(values) == 1 and isinstance(values[0], Container):
        if not values[0].exact:
            return None
        values = values[0].items
    found = [int_of(value) for value in values]
    return None if not found or None in found else [number for number in found if number is not None]


def size(tensor: Tensor, dim: int) -> Value:
    """`tensor.size(dim)`."""
    decided = dim == 0 and tensor.told is not None and data_dependent_sizes.is_of_values(tensor)
    found = tensor.layout.size(dim) if tensor.layout is not None else None
    if decided:
        return Length(tensor, found[1] if found is not None else None)
    if found is None:
        return NUMBER
    # Telling a dimension apart assumes nothing but that there is one.
    tensor.layout = found[0]
    return Size(found[1])
