"""What one reading of a class keeps: the attributes of ``self`` as they stand, and who did what to them."""

from __future__ import annotations

import ast
from itertools import count, pairwise
from typing import TYPE_CHECKING

from modellint.source.engine.abstract_values import (
    UNKNOWN,
    WIDEST,
    Argument,
    Container,
    Instance,
    Value,
    alternatives,
    union,
)
from modellint.source.engine.layered_map import Bound, apart, copied

if TYPE_CHECKING:
    from modellint.source.project.symbols import ClassRef, IndexedFile

STEPS = 400_000
"""Statements and expressions that may be read for any class; the widest real class needs a hundredth of it."""
STEPS_OF_A_CHARACTER = 4
"""As many may be read for each character of a class and its bases, where that is more: three times what chains of short methods take."""


class TooLarge(Exception):
    """A class, or what stands outside of classes, took more steps than its text allows."""

    def __init__(self, steps: int) -> None:
        super().__init__(f"more than {steps:,} steps")
        self.steps = steps


class Binding:
    """One statement that binds an attribute of ``self``.

    ``form``: ``assign``, ``annotated``, ``augmented``, ``setattr``, ``dunder`` (``__setattr__`` of ``object`` or ``super()``) or
    ``register``. ``expression`` is the right-hand side, where there is one of its own.
    """

    __slots__ = ("attribute", "expression", "file", "form", "looped", "method", "number", "statement", "value")

    numbers = count()

    def __init__(
        self,
        attribute: str,
        statement: ast.stmt,
        expression: ast.expr | None,
        value: Value,
        form: str,
        frame: Frame,
    ) -> None:
        self.attribute = attribute
        self.statement = statement
        self.expression = expression
        self.value = value
        self.form = form
        self.file = frame.file
        self.method = frame.function
        self.looped = frame.loops > 0
        self.number = next(self.numbers)
        """Later ones have higher numbers."""


class Bindings(tuple[Binding, ...]):
    """Bindings of which one holds, which one cannot be told, with the bounds of their numbers."""

    first: int
    last: int

    @classmethod
    def of(cls, bindings: tuple[Binding, ...]) -> Bindings:
        """The same with the bounds, which are looked for if they are not known."""
        if isinstance(bindings, Bindings):
            return bindings
        made = cls(bindings)
        numbers = [one.number for one in bindings]
        made.first, made.last = min(numbers, default=0), max(numbers, default=0)
        return made

    def joined(self, others: Bindings) -> Bindings:
        """These, and those of the others that are not among them."""
        apart = self.last < others.first or others.last < self.first
        made = Bindings(self + (others if apart else tuple(one for one in others if one not in self)))
        made.first, made.last = min(self.first, others.first), max(self.last, others.last)
        return made


class Fill:
    """One statement that adds to a plain container: ``append``, ``self.d[k] = …``, ``+=``."""

    __slots__ = ("container", "file", "how", "local", "statement", "value")

    def __init__(
        self, container: Container, how: str, value: Value, statement: ast.stmt, file: IndexedFile, local: bool
    ) -> None:
        self.container = container
        self.how = how
        self.value = value
        self.statement = statement
        self.file = file
        self.local = local


class Initialisation:
    """How one class's own ``__init__`` goes about calling its base's."""

    __slots__ = ("called", "early", "first_state")

    def __init__(self) -> None:
        self.called = False
        self.first_state: ast.stmt | None = None
        """The first statement that sets a module, parameter or buffer."""
        self.early = False
        """Whether that statement ran before the base's ``__init__``."""


class Frame:
    """One call of one function: its locals and what it gave back so far."""

    __slots__ = (
        "breaks",
        "closure",
        "file",
        "function",
        "locals",
        "loops",
        "order",
        "owner",
        "returned",
        "self_name",
        "sharing",
        "statement",
        "within",
        "yielded",
    )

    def __init__(self, file: IndexedFile, function: str = "", owner: ClassRef | None = None) -> None:
        self.file = file
        self.function = function
        self.owner = owner
        self.within: tuple[ast.AST, ...] = ()
        self.locals: Bound[Value] = {}
        self.closure: Bound[Value] | None = None
        self.self_name: str | None = None
        self.returned: list[Value] = []
        self.yielded: list[Value] | None = None
        self.statement: ast.stmt | None = None
        self.loops = 0
        self.breaks: list[State] = []
        self.sharing: dict[Value, dict[str, None]] = {}
        """The variables that were ever bound to a tensor with memory of the one that is the key."""
        self.order: dict[str, int] = {}
        """The variables that were ever bound to a tensor, numbered as they were first bound."""


Attributes = Bound[tuple[Binding, ...]]
State = tuple[Bound[Value], Attributes]


def join_locals(states: list[Bound[Value]]) -> Bound[Value]:
    """Locals after branches that meet: a name bound in some of them only keeps what those gave it."""
    if len(states) == 1:
        return states[0]
    first, *others = states
    joined = copied(first)
    for other in others:
        for name, value in apart(joined, other):
            mine = joined.get(name)
            if mine is None:
                joined[name] = value
            elif mine is not value:
                both = union((mine, value))
                joined[name] = both if len(alternatives(both)) <= WIDEST else UNKNOWN
    return joined


def join_attributes(states: list[Attributes]) -> Attributes:
    """Attributes after branches that meet."""
    if len(states) == 1:
        return states[0]
    joined = copied(states[0])
    for before, other in pairwise(states):
        # What both say was joined with the one before.
        for name, bindings in apart(before, other):
            mine = joined.get(name)
            if mine is None:
                joined[name] = bindings
            elif mine is not bindings:
                joined[name] = Bindings.of(mine).joined(Bindings.of(bindings))
    return joined


def join_bound(before: Attributes, after: Attributes, bound: set[str]) -> Attributes:
    """``join_attributes`` of what was and of what came out of it, where no other names than these were bound; changes ``before``."""
    new = [name for name in bound if name in after and name not in before]
    if len(new) > 1:
        # In the order of `after`, which begins with all of `before`.
        wanted = set(new)
        new = [name for name in after if name in wanted]
    for name in (*(bound & before.keys()), *new):
        bindings, mine = after.get(name, ()), before.get(name, ())
        if mine is not bindings:
            before[name] = mine + tuple(binding for binding in bindings if binding not in mine)
    return before


def escape(value: Value) -> None:
    """Note that code which cannot be seen got hold of ``value`` and may have registered what is in it."""
    pending = list(alternatives(value))
    while pending:
        part = pending.pop()
        if isinstance(part, Container):
            if not part.escaped:
                part.escaped = True
                for item in part.items:
                    pending.extend(alternatives(item))
        elif isinstance(part, Instance):
            if not part.escaped:
                part.escaped = True
                for held in part.held:
                    pending.extend(alternatives(held))
        elif isinstance(part, Argument):
            part.escaped = True
            part.item().escaped = True


def bound_value(bindings: tuple[Binding, ...] | None) -> Value:
    """What an attribute with these live bindings holds."""
    if not bindings:
        return UNKNOWN
    return union(binding.value for binding in bindings)
