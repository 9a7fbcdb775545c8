"""Model inputs: the arguments that a model is called with, and which of their sizes and values may vary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Self


FlexibleShapes: TypeAlias = Mapping["str | int", Mapping[int, tuple[int, int]]]


class Listed(tuple[int, int]):
    """Bounds of a dimension that takes some sizes alone: the least and the largest of ``sizes``, which keep their order.

    Where several dimensions have such lists, the first sizes of all go together, then the second, as Core ML's enumerated shapes have it.
    """

    sizes: tuple[int, ...]

    def __new__(cls, sizes: Iterable[int]) -> Self:
        """Bounds of these sizes, the first of which is the example's."""
        listed = tuple(sizes)
        bounds = super().__new__(cls, (min(listed), max(listed)))
        bounds.sizes = listed
        return bounds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listed) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash(self.sizes)

    def __repr__(self) -> str:
        return repr(list(self.sizes))


def with_lists(flexible: Mapping[str | int, Mapping[int, Sequence[int]]]) -> FlexibleShapes:
    """Flexible dimensions as callers give them: a tuple is a pair of bounds, a list names the sizes. Raises ``ValueError``."""
    limits = {key: {at: _limits(sizes) for at, sizes in dimensions.items()} for key, dimensions in flexible.items()}
    lengths = {
        len(each.sizes) for dimensions in limits.values() for each in dimensions.values() if isinstance(each, Listed)
    }
    if len(lengths) > 1:
        raise ValueError(
            "flexible: dimensions list different numbers of sizes: the first of each go together, and so on"
        )
    for key, dimensions in limits.items():
        if len({isinstance(each, Listed) for each in dimensions.values()}) > 1:
            raise ValueError(f"flexible: {key!r} has listed sizes and bounds: Core ML has one or the other of an input")
    return limits


def _limits(sizes: Sequence[int]) -> tuple[int, int]:
    if isinstance(sizes, (Listed, tuple)) and len(sizes) == 2:
        return sizes
    if isinstance(sizes, tuple) or len({*sizes}) < 2 or min(sizes) < 1:
        raise ValueError(f"flexible: {sizes!r} is neither a pair of bounds, (1, 8), nor a list of sizes, [16, 64, 256]")
    return Listed(sizes)


class Inputs(NamedTuple):
    """What the model is called with."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    flexible: Mapping[str | int, Mapping[int, tuple[int, int]]] = {}
    """For arguments by position or name, the dimensions whose size may vary, each with its bounds, both included, or ``Listed`` sizes."""
    ranges: Mapping[str | int, tuple[float, float]] = {}
    """For arguments by position or name, the values that they take, from the first up to the second, which is not among them."""

    @classmethod
    def of(cls, example: Any) -> Inputs:
        """A tuple is positional, a dict keyword arguments; what is ``Inputs`` stays so, and anything else is the one argument."""
        match example:
            case cls():
                return example
            case tuple() | list():
                return cls(tuple(example))
            case dict():
                return cls((), dict(example))
            case _:
                return cls((example,))
