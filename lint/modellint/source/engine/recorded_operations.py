"""What is kept of a reading: each call, in-place write and operation on tensors, as often as it is read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from modellint.source.domains.masks import names_mask
from modellint.source.domains.tensors import Opaque, Tensor
from modellint.source.engine.abstract_values import (
    UNKNOWN,
    Instance,
    Method,
    Named,
    SelfValue,
    Value,
    alternatives,
    union,
)
from modellint.source.engine.calls import Arguments
from modellint.source.engine.class_state import Frame
from modellint.source.engine.mode_conditions import Modes
from modellint.source.project.symbols import External
from modellint.source.syntax.live_variables import is_read_later, read_later
from modellint.source.syntax.messages import is_message
from modellint.source.triggers.patterns.tensor_rank import literal_sizes

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef, IndexedFile


_SHARING_A_STEP = 4
"""So many variables that share memory with what is written to count as a step of the reading."""


class Call:
    """One reading of one call.

    ``name``: the dotted name of what is called, outside the project (``torch.nn.functional.dropout``);
    ``torch.Tensor.view`` for a method of a tensor; else empty. ``callee``: the value that is called. ``method``: the name
    behind the last dot. ``receiver``: whose method it is. ``training``: it is reached in training only; ``quiet``: under
    `no_grad`. ``building``: it is made while the object is built. ``unusual``: it is reached only where a flag of ``forward``, of
    the class or of what is called has another value than its default. ``exported``: nothing around it keeps it out of what is
    exported. ``switched``: it depends on a flag that the caller sets.
    """

    __slots__ = (
        "arguments",
        "building",
        "callee",
        "exported",
        "function",
        "method",
        "name",
        "node",
        "quiet",
        "receiver",
        "result",
        "statement",
        "switched",
        "training",
        "unusual",
    )

    def __init__(
        self,
        node: ast.Call,
        statement: ast.stmt,
        function: ast.AST | None,
        callee: Value,
        name: str,
        method: str,
        receiver: Value | None,
        arguments: Arguments,
        result: Value,
        training: bool,
        quiet: bool,
        building: bool,
        unusual: bool,
        exported: bool,
        switched: bool,
    ) -> None:
        self.exported = exported
        self.switched = switched
        self.node = node
        self.callee = callee
        self.statement = statement
        self.function = function
        self.name = name
        self.method = method
        self.receiver = receiver
        self.arguments = arguments
        self.result = result
        self.training = training
        self.quiet = quiet
        self.building = building
        self.unusual = unusual

    @property
    def refused(self) -> bool:
        """Whether it is a view that raises, whichever of its tensors it is given."""
        return all(isinstance(part, Tensor) and part.refused for part in alternatives(self.result))

    def has(self, index: int, keyword: str) -> bool:
        """Whether an argument is given, or may be: behind a star it cannot be told."""
        return (
            bool(self.arguments.spread)
            or index < len(self.arguments.positional)
            or keyword in self.arguments.keywords
            or None in self.arguments.keywords
        )

    @property
    def literal_sizes(self) -> list[ast.expr]:
        """The sizes that a reshaping is told, where all of them are numbers and there are several."""
        return literal_sizes(self.node)

    @property
    def is_of_self(self) -> bool:
        """Whether it is a method of the module itself: `self.register_buffer(…)`."""
        return isinstance(self.receiver, SelfValue)

    @property
    def is_message(self) -> bool:
        """Whether it stands in what is only printed or raised."""
        return is_message(self.statement)


class Write:
    """One reading of one statement that changes a tensor in place, or binds an attribute outside ``__init__``.

    ``how``: ``method`` (``add_``), ``item`` (``x[i] = v``), ``augmented`` (``x += v``), ``attribute`` (``self.x = v``),
    ``data`` (``x.data = v``).
    ``sharing``: the local variables that may hold memory of what is changed in place, with what they hold; those that are read
    behind it or written to, and all of them where an index is no number and no slice. ``switched``: it
    depends on a flag that the caller sets. ``exported``: nothing around it keeps it out of what is exported. ``index``: of `x[i, :] = v`
    the values in the brackets, None for a slice.
    """

    __slots__ = (
        "attribute",
        "exported",
        "function",
        "how",
        "index",
        "node",
        "quiet",
        "sharing",
        "statement",
        "switched",
        "target",
        "training",
        "value",
    )

    def __init__(
        self,
        how: str,
        node: ast.AST,
        statement: ast.stmt,
        function: ast.AST | None,
        target: Value,
        value: Value,
        attribute: str | None,
        training: bool,
        quiet: bool,
        sharing: tuple[tuple[str, Tensor], ...] = (),
    ) -> None:
        self.how = how
        self.node = node
        self.statement = statement
        self.function = function
        self.target = target
        self.value = value
        self.attribute = attribute
        self.training = training
        self.quiet = quiet
        self.sharing = sharing
        self.switched = False
        self.exported = True
        self.index: tuple[Value | None, ...] = ()

    def is_read_later(self, name: str) -> bool:
        """Whether what a local variable holds is read behind the write before it is bound anew; its shape alone is not."""
        return self.function is not None and is_read_later(self.statement, self.function, name)

    def names_mask(self, index: ast.expr) -> bool:
        """Whether an index is, or is a part of, a variable that is called a mask, or that the function uses as one."""
        return names_mask(index, self.function)


class Operation:
    """One reading of a binary operation or a subscript, on tensors.

    ``aside``: it is reached in training only, or what is around it keeps it out of what is exported. ``unusual``: it is reached
    only where a flag has another value than its default. ``index``: of `x[i, j:]` the values in the brackets but for slices,
    where there are several.
    """

    __slots__ = ("aside", "function", "index", "node", "operands", "result", "unusual")

    def __init__(
        self,
        node: ast.expr | ast.AugAssign,
        function: ast.AST | None,
        operands: tuple[Value, ...],
        result: Value,
        aside: bool = False,
        unusual: bool = False,
        index: tuple[Value, ...] = (),
    ) -> None:
        self.aside = aside
        self.unusual = unusual
        self.index = index
        self.node = node
        self.function = function
        self.operands = operands
        self.result = result


class Question:
    """One reading of a place where Python asks a value for its truth.

    ``site``: the `if`, `while`, conditional expression, comprehension, `assert`, `not`, `and` or `or` that asks; ``test``: what
    is asked. ``aside``: it is reached in training only, or what is around it keeps it out of what is exported.
    """

    __slots__ = ("aside", "function", "site", "statement", "test", "value")

    def __init__(
        self, site: ast.AST, test: ast.expr, value: Value, statement: ast.stmt, function: ast.AST | None, aside: bool
    ) -> None:
        self.site = site
        self.test = test
        self.value = value
        self.statement = statement
        self.function = function
        self.aside = aside


class Loop:
    """One reading of a loop or a comprehension: what it goes through, and whether that is aside, as for a question."""

    __slots__ = ("aside", "function", "node", "statement", "value")

    def __init__(
        self, node: ast.expr, value: Value, statement: ast.stmt, function: ast.AST | None, aside: bool
    ) -> None:
        self.node = node
        self.value = value
        self.statement = statement
        self.function = function
        self.aside = aside


class Recorder(Modes):
    """A reading that keeps the calls, writes and operations that it meets."""

    readers: ClassVar[dict[type[ast.expr], Callable[[Any, Any, Frame], Value]]] = {}
    runners: ClassVar[dict[type[ast.stmt], Callable[[Any, Any, Frame], bool | None]]] = {}

    def __init__(self, project: Project, cls: ClassRef | None, file: IndexedFile) -> None:
        super().__init__(project, cls, file)
        self.calls: dict[ast.AST, list[Call]] = {}
        self.writes: dict[ast.AST, list[Write]] = {}
        self.operations: dict[ast.expr | ast.AugAssign, list[Operation]] = {}
        self.questions: dict[ast.expr, list[Question]] = {}
        self.loops: dict[ast.expr, list[Loop]] = {}
        self.unpacked: dict[ast.expr, list[Value]] = {}

    def called(self, node: ast.Call, callee: Value, arguments: Arguments, made: Value, frame: Frame) -> None:
        """Keep a call of the file that is read."""
        if frame.file is not self.file or frame.statement is None:
            return
        for part in alternatives(callee):
            name, method = "", ""
            receiver: Value | None = None
            match part:
                case Named(symbol=External(name=dotted)):
                    name, method = dotted, dotted.rpartition(".")[2]
                case Method(receiver=Tensor() as owner, name=attribute):
                    name, method, receiver = "torch.Tensor." + attribute, attribute, owner
                case Method(receiver=owner, name=attribute):
                    method, receiver = attribute, owner
            function = self._functions[-1] if self._functions else None
            aside = self._unusual > 0, not self._unexported, self._switches > 0
            state = self._training > 0, self._is_quiet(), not self.reading, *aside
            self.calls.setdefault(node, []).append(
                Call(node, frame.statement, function, callee, name, method, receiver, arguments, made, *state)
            )

    def asked(self, site: ast.AST, test: ast.expr, value: Value, frame: Frame) -> None:
        """Keep a question of the file that is read."""
        if self.reading and frame.file is self.file and frame.statement is not None:
            function = self._functions[-1] if self._functions else None
            aside = self._training > 0 or self._unexported > 0
            question = Question(site, test, value, frame.statement, function, aside)
            self.questions.setdefault(test, []).append(question)

    def _turn(self, node: ast.expr, value: Value, frame: Frame) -> None:
        if self.reading and frame.file is self.file and frame.statement is not None:
            function = self._functions[-1] if self._functions else None
            aside = self._training > 0 or self._unexported > 0
            self.loops.setdefault(node, []).append(Loop(node, value, frame.statement, function, aside))

    def _for(self, node: ast.For | ast.AsyncFor, frame: Frame) -> bool:
        value = self.value(node.iter, frame)
        self._turn(node.iter, value, frame)
        self._loop(node.body, node.orelse, frame, node.target, self.element_of(value))
        return True

    def _generators(self, generators: list[ast.comprehension], frame: Frame) -> None:
        for generator in generators:
            value = self.value(generator.iter, frame)
            self._turn(generator.iter, value, frame)
            self.bind(generator.target, self.element_of(value), frame)
            for condition in generator.ifs:
                self._ask(generator, condition, frame)

    def _operate(
        self, node: ast.expr | ast.AugAssign, operands: tuple[Value, ...], made: Value, index: tuple[Value, ...] = ()
    ) -> None:
        if self.reading:
            function = self._functions[-1] if self._functions else None
            aside = self._training > 0 or self._unexported > 0, self._unusual > 0
            self.operations.setdefault(node, []).append(Operation(node, function, operands, made, *aside, index))

    def _write(self, how: str, node: ast.AST, target: Value, value: Value, attribute: str | None, frame: Frame) -> None:
        if self.reading and frame.file is self.file and frame.statement is not None:
            function = self._functions[-1] if self._functions else None
            state = self._training > 0, self._is_quiet()
            sharing = _sharing(target, node, frame, function) if how != "attribute" else ()
            # As long as this is for every write, time and memory grow with the square of the text.
            self.steps += len(sharing) // _SHARING_A_STEP
            write = Write(how, node, frame.statement, function, target, value, attribute, *state, sharing)
            write.switched = self._switches > 0
            write.exported = not self._unexported
            place = node.target if isinstance(node, ast.AugAssign) else node
            if isinstance(place, ast.Subscript):
                parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
                write.index = tuple(None if isinstance(part, ast.Slice) else self.value(part, frame) for part in parts)
            self.writes.setdefault(node, []).append(write)

    def bind(
        self, target: ast.expr, value: Value, frame: Frame, expression: ast.expr | None = None, form: str = "assign"
    ) -> None:
        """Assign ``value`` to a target."""
        if isinstance(target, ast.Name):
            self.noted(target.id, value, frame)
        super().bind(target, value, frame, expression, form)

    def _bind_parameters(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, given: Arguments, frame: Frame, entry: bool
    ) -> None:
        super()._bind_parameters(node, given, frame, entry)
        for name, value in frame.locals.items():
            frame.order[name] = len(frame.order)
            self.noted(name, value, frame)

    def noted(self, name: str, value: Value, frame: Frame) -> None:
        """Note that a local variable is about to be bound: what shares memory is looked up by it."""
        if self.reading:
            for part in alternatives(value):
                if isinstance(part, Tensor):
                    frame.sharing.setdefault(part.root, {})[name] = None
                    if name not in frame.locals:
                        frame.order[name] = len(frame.order)

    def _bind_attribute(
        self, receiver: Value, name: str, value: Value, form: str, frame: Frame, expression: ast.expr | None
    ) -> None:
        changes = name == "data" and any(isinstance(part, Tensor) for part in alternatives(receiver))
        if changes and frame.statement is not None:
            self._write("data", frame.statement, receiver, value, None, frame)
        super()._bind_attribute(receiver, name, value, form, frame, expression)

    def _bind_item(self, target: ast.Subscript, value: Value, frame: Frame) -> None:
        receiver = self.value(target.value, frame)
        if any(isinstance(part, Tensor) for part in alternatives(receiver)):
            self._write("item", target, receiver, value, None, frame)
            return
        if self.reading and isinstance(target.slice, (ast.Compare, ast.UnaryOp, ast.Name, ast.BinOp)):
            index = self.value(target.slice, frame)
            unseen = all(type(part) in (Value, Opaque, Instance) for part in alternatives(receiver))
            if unseen and isinstance(index, Tensor) and (index.certain or index.shown):
                # What a tensor is an index of is one.
                self._write("item", target, receiver, value, None, frame)
        super()._bind_item(target, value, frame)

    def _augmented(self, node: ast.AugAssign, frame: Frame) -> None:
        current = self.value(node.target, frame)
        if any(isinstance(part, Tensor) for part in alternatives(current)):
            added = self.value(node.value, frame)
            self._write("augmented", node, current, added, None, frame)
            if isinstance(node.target, ast.Attribute) and isinstance(self.value(node.target.value, frame), SelfValue):
                return
            if not isinstance(node.target, ast.Subscript):
                self.bind(node.target, self.combine(node, current, added), frame, node.value, "augmented")
            return
        super()._augmented(node, frame)

    def set_attribute(
        self, name: str, value: Value, form: str, frame: Frame, expression: ast.expr | None = None
    ) -> None:
        """Bind an attribute of ``self``: a registered buffer stays one when a tensor is assigned to it."""
        if self.reading and frame.statement is not None:
            before = self.attributes.get(name, ())
            old = union([binding.value for binding in before]) if before else UNKNOWN
            self._write("attribute", frame.statement, old, value, name, frame)
            if any(isinstance(part, Tensor) and part.kind == "buffer" for part in alternatives(old)):
                return
        super().set_attribute(name, value, form, frame, expression)


def _sharing(target: Value, node: ast.AST, frame: Frame, function: ast.AST | None) -> tuple[tuple[str, Tensor], ...]:
    """The local variables that hold memory of a tensor, and what they hold: those that it may matter for."""
    roots = {part.root for part in alternatives(target) if isinstance(part, Tensor)}
    groups = [frame.sharing[root] for root in roots if root in frame.sharing]
    names: Iterable[str] = {name for group in groups for name in group} if len(groups) > 1 else next(iter(groups), ())
    statement = frame.statement
    if len(groups) == 1 and function is not None and statement is not None and not _is_indexed(node):
        behind, again = read_later(statement, function)
        if len(groups[0]) > len(behind) + len(again):
            names = {name for name in (*behind, *again, _written(node)) if name in groups[0]}
        else:
            wanted = {_written(node), *again}
            names = [name for name in names if name in behind or name in wanted]
    return tuple(
        (name, part)
        for name in sorted(names, key=lambda name: frame.order.get(name, 0))
        if name in frame.locals
        for part in alternatives(frame.locals[name])
        if isinstance(part, Tensor) and part.root in roots
    )


def _written(node: ast.AST) -> str:
    """The variable that a statement changes in place, itself or a part of it."""
    part = node.target if isinstance(node, ast.AugAssign) else node
    while isinstance(part, (ast.Call, ast.Attribute, ast.Subscript)):
        part = part.func if isinstance(part, ast.Call) else part.value
    return part.id if isinstance(part, ast.Name) else ""


def _is_indexed(node: ast.AST) -> bool:
    """Whether a place that is assigned to has an index that is neither a number nor a slice."""
    place = node.target if isinstance(node, ast.AugAssign) else node
    if not isinstance(place, ast.Subscript):
        return False
    parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
    return not all(isinstance(part, (ast.Constant, ast.Slice)) for part in parts)


Recorder.readers = Modes.readers
Recorder.runners = {
    **Modes.runners,
    ast.AugAssign: Recorder._augmented,
    ast.For: Recorder._for,
    ast.AsyncFor: Recorder._for,
}
