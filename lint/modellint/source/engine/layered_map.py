"""Names and what they are bound to, where there are so many that a copy at every branch would cost the square of the text."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, MutableMapping
from typing import Any, TypeVar, overload

V = TypeVar("V")
W = TypeVar("W")
Bound = MutableMapping[str, V]
"""What a reading keeps of names: a dict, or the like of it where it is large."""

LARGE = 200
"""A dict of more names is kept in layers once it is copied; a smaller one is copied as fast."""
_THICK = 100
"""So many names may be bound above a layer before both become one."""


class Layered(MutableMapping[str, V]):
    """A map whose copies share a layer that nobody changes, and have what was bound since above it, each its own.

    Its order is that of a dict. A dict that is given becomes the layer, and may not be changed by others from then on.
    """

    __slots__ = ("_above", "_layer", "_own_layer")

    def __init__(self, layer: dict[str, V], above: dict[str, V] | None = None) -> None:
        self._layer = layer
        self._above = above if above is not None else {}
        self._own_layer = False
        """Whether no other has this layer: then ``_above`` is empty, and it may be changed."""

    def __getitem__(self, name: str) -> V:
        above = self._above
        return above[name] if name in above else self._layer[name]

    @overload
    def get(self, name: str, default: None = None, /) -> V | None: ...
    @overload
    def get(self, name: str, default: V, /) -> V: ...
    @overload
    def get(self, name: str, default: W, /) -> V | W: ...
    def get(self, name: str, default: Any = None, /) -> Any:
        """What a name is bound to."""
        above = self._above
        return above[name] if name in above else self._layer.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._above or name in self._layer

    def __setitem__(self, name: str, value: V) -> None:
        (self._layer if self._own_layer else self._above)[name] = value

    def __delitem__(self, name: str) -> None:
        if not self._own_layer:
            self._layer, self._above, self._own_layer = self._flat(), {}, True
        del self._layer[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._flat())

    def __len__(self) -> int:
        return len(self._layer) + sum(name not in self._layer for name in self._above)

    def items(self) -> ItemsView[str, V]:
        """The names with what they are bound to as it is now; what is bound later does not show."""
        return self._flat().items()

    def clear(self) -> None:
        """Forget all names."""
        self._layer, self._above, self._own_layer = {}, {}, True

    def copy(self) -> Layered[V]:
        """Another map of the same names."""
        if len(self._above) > _THICK:
            self._layer, self._above = self._flat(), {}
        self._own_layer = False
        return Layered(self._layer, dict(self._above))

    def apart(self, other: Layered[V]) -> list[str] | None:
        """The names of another map that this one may know otherwise, new ones in its order; None where that may be any."""
        if self._layer is not other._layer:
            return None
        return [*other._above, *(name for name in self._above if name not in other._above and name in self._layer)]

    def _flat(self) -> dict[str, V]:
        return {**self._layer, **self._above}


def layered(known: Bound[V]) -> Bound[V]:
    """The map in whose place a map is kept that is about to be copied."""
    return Layered(known) if isinstance(known, dict) and len(known) > LARGE else known


def copied(known: Bound[V]) -> Bound[V]:
    """A copy, which changes apart from what it is a copy of."""
    return known.copy() if isinstance(known, Layered) else dict(known)


def apart(known: Bound[V], other: Bound[V]) -> list[tuple[str, V]]:
    """What another map says of the names that a map may know otherwise."""
    if isinstance(known, Layered) and isinstance(other, Layered):
        names = known.apart(other)
        if names is not None:
            return [(name, other[name]) for name in names]
    return list(other.items())
