"""Attributes of live modules that hold modules, parameters or tensors beside what PyTorch registers."""

from __future__ import annotations

import re
from collections import UserDict, UserList, deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from modellint.live.code.attribute_usage import Reading, is_reference, reading_of
from modellint.live.code.class_source import Binding, binders_of, binding_of
from modellint.live.unregistered_state import Held, reachable_state
from modellint.results.diagnostic import Place

if TYPE_CHECKING:
    from modellint.live.subject import Subject

SEQUENCES: tuple[type, ...] = (list, tuple, set, frozenset, deque, UserList)
MAPPINGS: tuple[type, ...] = (Mapping, UserDict)

_PLAIN = r"\w+(\[(\"[^\"]*\"|[^\]\"]*)\])*"


class HeldAttribute(NamedTuple):
    """What one attribute of one module holds."""

    parts: tuple[Held, ...]
    class_name: str
    """The class that binds the attribute."""
    place: Place | None

    @property
    def attribute(self) -> str:
        """The attribute's name."""
        return self.parts[0].attribute

    @property
    def owner(self) -> object:
        """The module."""
        return self.parts[0].owner

    @property
    def value(self) -> object:
        """What the attribute is."""
        first = self.parts[0]
        return getattr(type(first.owner), first.attribute) if first.on_class else vars(first.owner)[first.attribute]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all modules whose attribute of this name holds it."""
        first = self.parts[0]
        also = (
            holder
            for part in self.parts
            for holder in part.others
            if holder.attribute == first.attribute and type(holder.owner) is type(first.owner)
        )
        return tuple(dict.fromkeys(path for value in (first, *also) for path in value.paths))

    @property
    def kind(self) -> str:
        """How a message calls the container; empty where the attribute is the value itself."""
        if not self.parts[0].container:
            return ""
        value = self.value
        for kind in (list, tuple, dict, set):
            if type(value) is kind:
                return f"plain {kind.__name__}"
        word = self.parts[0].container
        return word if word == "function" else f"`{word}`"

    @property
    def is_keyed(self) -> bool:
        """Whether what holds the values goes by name, like a dict, and not by position, like a list."""
        value = self.value
        if issubclass(type(value), SEQUENCES) or not self.parts[0].container:
            return False
        return issubclass(type(value), MAPPINGS) or not self.parts[0].route.rstrip("]}")[-1:].isdigit()

    @property
    def is_plain(self) -> bool:
        """Whether the attribute is the value itself, or leads to it through lists, tuples and dicts alone."""
        if self.parts[0].container and not issubclass(type(self.value), (list, tuple, dict)):
            return False
        return all(re.fullmatch(_PLAIN, part.route) is not None for part in self.parts)

    @property
    def is_on_purpose(self) -> bool:
        """Whether the author keeps the value from PyTorch on purpose: by `object.__setattr__`, or inside an object of another class."""
        value = self.value
        if not self.parts[0].container:
            return not self.parts[0].on_class
        kind = type(value)
        if issubclass(kind, (*SEQUENCES, *MAPPINGS)) or hasattr(kind, "__dataclass_fields__"):
            return False
        return not (hasattr(kind, "__attrs_attrs__") or kind.__module__ in ("types", "functools"))

    @property
    def usage(self) -> Reading:
        """How the methods of the module's class use its attributes, by their source."""
        return reading_of(type(self.owner))

    @property
    def is_reference(self) -> bool:
        """Whether a list or tuple is there to keep one module from being registered: `self.owner = [owner]`."""
        return is_reference(self.owner, self.attribute, self.value)

    @property
    def binding(self) -> Binding | None:
        """The statement of the class that binds the attribute."""
        return binding_of(type(self.owner), self.attribute, self.value)

    @property
    def binders(self) -> frozenset[str]:
        """The methods of the class that bind the attribute."""
        return binders_of(type(self.owner), self.attribute)


def held_attributes(subject: Subject, *kinds: str) -> Iterator[HeldAttribute]:
    """Unregistered values of some kinds (``module``, ``parameter``, ``tensor``, ``alias``), grouped by attribute."""
    by_attribute: dict[tuple[int, str], list[Held]] = {}
    for value in reachable_state(subject):
        if value.kind in kinds:
            by_attribute.setdefault((id(value.owner), value.attribute), []).append(value)
    for parts in by_attribute.values():
        class_name, place = subject.attribute_place(parts[0].owner, parts[0].attribute)
        yield HeldAttribute(tuple(parts), class_name, place)
