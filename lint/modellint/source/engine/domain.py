"""What the engine and what it is composed of know of each other: domains, which say what values are, and observers of a reading."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from modellint.source.engine.abstract_values import Function, Instance, Method, Value
    from modellint.source.engine.arguments import Arguments
    from modellint.source.engine.class_state import Frame
    from modellint.source.engine.mode_conditions import Modes
    from modellint.source.project.symbols import IndexedFile


class Reader(Protocol):
    """A reading, as a domain or an observer may ask it."""

    reading: bool
    """Whether it is at what methods do with the object, which is built."""
    file: IndexedFile | None
    steps: int
    modes: Modes
    recorder: Observer

    def value(self, node: ast.expr, frame: Frame) -> Value:
        """The abstract value of an expression."""

    def bind(
        self, target: ast.expr, value: Value, frame: Frame, expression: ast.expr | None = None, form: str = "assign"
    ) -> None:
        """Assign ``value`` to a target."""

    def named_attribute(self, name: Value | None, value: Value, form: str, frame: Frame) -> None:
        """Bind the attribute of ``self`` of that name."""

    def sliced(self, receiver: Value, node: ast.Subscript) -> Value:
        """What a slice of a value that is in no domain gives."""

    def indexed(self, receiver: Value, index: Value) -> Value:
        """What an item of such a value is."""


class Domain(Protocol):
    """What is known of some values. It is asked before the engine answers; None means that it has nothing to say."""

    @property
    def tensor(self) -> type[Instance]:
        """The values of the domain that are tensors."""

    @property
    def opaque(self) -> type[Value]:
        """Something that nothing is known of, told from others by where it is made."""

    def attribute(self, reader: Reader, receiver: Value, name: str) -> Value | None:
        """The value of ``receiver.name``."""

    def resolved(self, reader: Reader, value: Value) -> Value:
        """What a value is that is used as one of the domain."""

    def subscript(self, reader: Reader, node: ast.Subscript, receiver: Value, frame: Frame) -> Value | None:
        """The value of ``receiver[…]``."""

    def element(self, reader: Reader, value: Value) -> Value | None:
        """What iterating over a value gives."""

    def unpack(self, reader: Reader, target: ast.Tuple | ast.List, value: Value, frame: Frame) -> bool:
        """Bind the parts of a value, if it is one of the domain."""

    def named(self, reader: Reader, value: Value) -> Value:
        """What a value is once a variable holds it."""

    def binary(self, reader: Reader, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value | None:
        """The value of a binary operation."""

    def unary(self, reader: Reader, node: ast.UnaryOp, operand: Value) -> Value | None:
        """The value of an operation on one operand, but for ``not``."""

    def compared(self, reader: Reader, node: ast.Compare, parts: list[Value]) -> Value | None:
        """The value of a comparison."""

    def arguments(self, reader: Reader, arguments: Arguments) -> Arguments:
        """The arguments of a call, each ``resolved``."""

    def module_output(self, reader: Reader, module: Instance, arguments: Arguments, node: ast.expr) -> Value:
        """What calling a module gives."""

    def external(self, reader: Reader, name: str, arguments: Arguments, node: ast.expr) -> Value | None:
        """What a function or class outside the project gives."""

    def state(self, made: Instance, arguments: Arguments) -> Value:
        """What a new parameter or buffer is."""

    def builtin(self, reader: Reader, name: str, arguments: Arguments, node: ast.expr) -> Value | None:
        """What a builtin gives."""

    def method(
        self, reader: Reader, callee: Method, arguments: Arguments, node: ast.expr, frame: Frame
    ) -> Value | None:
        """What a method gives."""

    def unseen(self, made: Instance, arguments: Arguments) -> Value:
        """What code gives that cannot be seen."""

    def from_caller(
        self, parameter: ast.arg, default: ast.expr | None, function: ast.AST | None, plain: Value
    ) -> Value:
        """What a function that is read for itself is given for one of its parameters; ``plain`` without the domain."""

    def declared(self, annotation: ast.expr, value: Value) -> Value | None:
        """What a parameter with an annotation holds, where that is another value than the one that it is given."""

    def assumed(self, reader: Reader, test: ast.expr, held: bool, frame: Frame) -> None:
        """Take note that a condition is always true, or false: what it is not for raises."""

    def is_given(self, arguments: Arguments) -> bool:
        """Whether a value of the domain is among arguments."""

    def is_made_by(self, function: Function) -> bool:
        """Whether a function may make a value of the domain."""


class Observer(Protocol):
    """What is told what a reading meets, and keeps of it what it wants."""

    def called(
        self, reader: Reader, node: ast.Call, callee: Value, arguments: Arguments, made: Value, frame: Frame
    ) -> None:
        """A call was read."""

    def asked(self, reader: Reader, site: ast.AST, test: ast.expr, value: Value, frame: Frame) -> None:
        """Python asked a value for its truth."""

    def looped(self, reader: Reader, node: ast.expr, value: Value, frame: Frame) -> None:
        """A loop or a comprehension goes through a value."""

    def operated(
        self,
        reader: Reader,
        node: ast.expr | ast.AugAssign,
        operands: tuple[Value, ...],
        made: Value,
        index: tuple[Value, ...] = (),
    ) -> None:
        """An operation on values of a domain was read."""

    def unpacked(self, node: ast.expr, value: Value) -> None:
        """Sizes were bound to the parts of a target."""

    def wrote(
        self, reader: Reader, how: str, node: ast.AST, target: Value, value: Value, attribute: str | None, frame: Frame
    ) -> None:
        """A tensor was changed in place, or an attribute bound."""

    def named(self, name: str, value: Value, frame: Frame) -> None:
        """A local variable is about to be bound."""

    def returned(self, node: ast.Return, value: Value, plain: bool) -> None:
        """A function that is read for itself gave a value back; ``plain``: an exported model runs it whatever flags are set."""
