"""The abstract values that the interpreter computes with.

Every value is created where the program creates one, and is told from others by identity: a module that is put
into two lists is one ``Instance`` in both. What is not understood is ``UNKNOWN``, and nothing is ever
concluded from it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.annotations import says_tensor

if TYPE_CHECKING:
    from modellint.source.engine.layered_map import Bound
    from modellint.source.project.symbols import ClassRef, External, FileRef, IndexedFile

    Callee: TypeAlias = ClassRef | External


class Value:
    """Base of all abstract values; by itself, something that is not understood."""

    __slots__ = ()

    def __repr__(self) -> str:
        """What it is, with what is simple of what is known of it, for those who print it."""
        if type(self) is Value:
            return "UNKNOWN"
        names = ("kind", "name", "value", "rank")
        known = [(name, getattr(self, name, None)) for name in names if hasattr(self, name)]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in known)})"

    @property
    def number(self) -> int | float | None:
        """The number that it is, where one is written down or told by a type; a truth is none."""
        return None

    @property
    def integer(self) -> int | None:
        """The int that it is, where that is known."""
        return None

    @property
    def is_unseen(self) -> bool:
        """Whether nothing is known of it."""
        return type(self) is Value

    @property
    def is_told_by_type(self) -> bool:
        """Whether it is a number that a type tells, as in `torch.finfo(x.dtype).min`."""
        return False

    @property
    def external_name(self) -> str | None:
        """The dotted name that it is, of something outside the project: ``torch.float32``."""
        return None

    def leaves(self) -> Iterator[Value]:
        """Everything that it holds that is not itself a plain container, nested ones opened."""
        return leaves(self)

    @property
    def is_data(self) -> bool:
        """Whether it certainly is a tensor that depends on what the caller gives."""
        return False

    @property
    def is_tensor(self) -> bool:
        """Whether it certainly is a tensor."""
        return False

    @property
    def is_made(self) -> bool:
        """Whether it certainly is a tensor that the code itself makes, whatever the caller gives."""
        return False

    @property
    def is_always_true(self) -> bool:
        """Whether Python takes it for true whatever it holds, and it is not None."""
        return False

    @property
    def ranks(self) -> range:
        """How many dimensions it may have, where it certainly is a tensor of so many; else any number, and empty."""
        return range(0)


UNKNOWN = Value()
"""What is not understood."""


class Const(Value):
    """A Python constant whose value is known: str, int, float, bool, None, …"""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    @property
    def number(self) -> int | float | None:
        """The constant, where it is a number and no truth."""
        return self.value if isinstance(self.value, (int, float)) and not isinstance(self.value, bool) else None

    @property
    def integer(self) -> int | None:
        """The constant, where it is an int and no truth."""
        return self.value if isinstance(self.value, int) and not isinstance(self.value, bool) else None


class Text(Value):
    """A string whose content is not known; ``plain`` when it can hold no dot and is not empty."""

    __slots__ = ("plain",)

    def __init__(self, plain: bool = False) -> None:
        self.plain = plain


class Number(Value):
    """An int or bool whose value is not known."""

    __slots__ = ()


class VersionTruth(Number):
    """A truth that PyTorch's version tells: `hasattr(F, "scaled_dot_product_attention")`."""

    __slots__ = ("truth",)

    def __init__(self, truth: bool) -> None:
        self.truth = truth


NUMBER = Number()
TEXT = Text()


class Instance(Value):
    """An object made by one call.

    ``kind``: ``module``, ``parameter``, ``tensor``, ``object`` (certainly none of these), or ``unresolved``: made by a
    class or function that cannot be looked into. ``held`` is what was handed to it and may have become part of it.
    ``escaped``: it was handed to code that cannot be seen, or stored under a name that is not known; whoever has
    it now may have registered it.
    """

    __slots__ = ("callee", "escaped", "held", "kind", "name", "node", "stateless")

    def __init__(self, kind: str, node: ast.AST | None, name: str = "", callee: Callee | None = None) -> None:
        self.kind = kind
        self.node = node
        self.name = name
        self.callee = callee
        self.stateless = False
        self.held: list[Value] = []
        self.escaped = False

    @property
    def is_unseen(self) -> bool:
        """Whether nothing is known of it, not even whether it is a module or a tensor."""
        return type(self) is Instance and self.kind == "unresolved"


_MANY = 16
"""A container of so many items is not gone through for each that is added."""

_LONG = 1024
"""One of so many is not copied for each that ``+`` adds."""


class Container(Value):
    """A plain Python container made at one place.

    ``kind``: ``list``, ``tuple``, ``set``, ``dict``, or ``iterator`` (what ``map``, a generator or ``.values()`` gives).
    ``items`` are the values it may hold (a dict's values); ``keys`` a dict's keys. ``exact`` while ``items`` are its
    elements in order, as for a literal that nothing was added to.
    """

    __slots__ = ("_counted", "_known", "escaped", "exact", "items", "keys", "kind", "node", "origin")

    def __init__(self, kind: str, node: ast.AST | None, items: Iterable[Value] = (), exact: bool = False) -> None:
        self.kind = kind
        self.node = node
        self.items: list[Value] = list(items)
        self._known: set[int] | None = None
        self._counted = 0
        self.keys: list[Value] = []
        self.exact = exact
        self.escaped = False
        self.origin: Value | None = None

    def add(self, value: Value) -> None:
        """Note that the container may hold ``value`` from now on."""
        self.exact = False
        items = self.items
        if len(items) < _MANY:
            if not any(value is item for item in items):
                items.append(value)
            return
        # Others add to the items, too; nobody takes any away.
        if self._known is None:
            self._known = set()
        self._known.update(map(id, items[self._counted :]))
        if id(value) not in self._known:
            items.append(value)
            self._known.add(id(value))
        self._counted = len(items)

    def joined(self, other: Container, node: ast.AST) -> Container:
        """What ``+`` gives. Of a long list one set of items stands for all that it is part of: each may hold what the others do."""
        if len(self.items) < _LONG:
            exact = self.exact and other.exact and self.kind == other.kind
            return Container(self.kind, node, chain(self.items, other.items), exact)
        if len(other.items) < _MANY:
            self.items += other.items
        elif other is not self:
            for item in other.items:
                self.add(item)
        self.exact = False
        total = Container(self.kind, node)
        total.items, total._known, total._counted = self.items, self._known, self._counted
        return total

    def element(self) -> Value:
        """What iterating or indexing may give."""
        if self.kind == "dict":
            return union(self.keys)
        return union(self.items)


class Child(Value):
    """One of the modules inside a module, it is not told which: what `children()` and its like go through."""

    __slots__ = ("parent",)

    def __init__(self, parent: Instance) -> None:
        self.parent = parent

    @property
    def is_unseen(self) -> bool:
        """Nothing is known of it but that."""
        return True


class ClassValue(Value):
    """A class of the project, not an instance of it."""

    __slots__ = ("ref",)

    def __init__(self, ref: ClassRef) -> None:
        self.ref = ref


class Function(Value):
    """A function or lambda whose body can be read; ``closure`` holds the locals where it was defined.

    ``compiled``: it is what `torch.jit.script` or its like gave back.
    """

    __slots__ = ("closure", "compiled", "file", "node", "owner")

    def __init__(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        file: IndexedFile,
        closure: Bound[Value] | None = None,
        owner: ClassRef | None = None,
        compiled: bool = False,
    ) -> None:
        self.compiled = compiled
        self.node = node
        self.file = file
        self.closure = closure
        self.owner = owner


class Method(Value):
    """An attribute of an object that is about to be called: ``receiver.name``."""

    __slots__ = ("name", "receiver")

    def __init__(self, receiver: Value, name: str) -> None:
        self.receiver = receiver
        self.name = name


class Partial(Value):
    """``functools.partial(function, …)``."""

    __slots__ = ("arguments", "function", "keywords")

    def __init__(self, function: Value, arguments: list[Value], keywords: dict[str | None, Value]) -> None:
        self.function = function
        self.arguments = arguments
        self.keywords = keywords


class SelfValue(Value):
    """The module whose class is being read."""

    __slots__ = ()


class SuperValue(Value):
    """``super()`` in a method of ``owner``."""

    __slots__ = ("owner",)

    def __init__(self, owner: ClassRef) -> None:
        self.owner = owner


class Named(Value):
    """A name outside the project, or a file of the project as a namespace."""

    __slots__ = ("symbol",)

    def __init__(self, symbol: External | FileRef) -> None:
        self.symbol = symbol

    @property
    def external_name(self) -> str | None:
        """The dotted name, of something outside the project."""
        return getattr(self.symbol, "name", None)


class Argument(Value):
    """What the caller hands to a method of the class; ``element`` when it is an element of that."""

    __slots__ = ("_element", "annotation", "element", "escaped", "file", "name")

    def __init__(self, name: str, annotation: ast.expr | None, file: IndexedFile, element: bool = False) -> None:
        self.name = name
        self.annotation = annotation
        self.file = file
        self.element = element
        self.escaped = False
        self._element: Argument | None = None

    @property
    def is_said_to_be_tensor(self) -> bool:
        """Whether its annotation says that it is a tensor, or else None."""
        return not self.element and says_tensor(self.annotation) is True

    def item(self) -> Argument:
        """What iterating or indexing it gives: always the same value."""
        if self._element is None:
            self._element = Argument(self.name, self.annotation, self.file, element=True)
        return self._element


class Union(Value):
    """One of several values; made by ``union`` only."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[Value, ...]) -> None:
        self.values = values


SELF = SelfValue()

WIDEST = 64
"""Of a variable with more alternatives, where branches meet, nothing is known: each branch may double their number."""


def union(values: Iterable[Value]) -> Value:
    """The value that is any of ``values``."""
    seen: dict[int, Value] = {}
    for value in values:
        if type(value) is Union:
            for part in value.values:
                seen[id(part)] = part
        else:
            seen[id(value)] = value
    if len(seen) == 1:
        return next(iter(seen.values()))
    if not seen:
        return UNKNOWN
    return Union(tuple(seen.values()))


def alternatives(value: Value) -> tuple[Value, ...]:
    """The values that ``value`` may be."""
    return value.values if type(value) is Union else (value,)


def without_none(value: Value) -> Value:
    """A value that is asked for a part of it: it is not None then."""
    if type(value) is not Union:
        return value
    kept = [part for part in value.values if not (isinstance(part, Const) and part.value is None)]
    return union(kept) if kept else value


def leaves(value: Value, seen: set[int] | None = None) -> Iterator[Value]:
    """Everything that a value holds that is not itself a plain container, nested ones opened."""
    if seen is None:
        seen = set()
    for part in alternatives(value):
        if isinstance(part, Container):
            if id(part) not in seen:
                seen.add(id(part))
                for item in part.items:
                    yield from leaves(item, seen)
        else:
            yield part
