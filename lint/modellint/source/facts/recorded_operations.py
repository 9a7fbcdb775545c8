"""What is kept of a reading: each call, in-place write and operation on tensors, as often as it is read."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from modellint.source.domains.masks import names_mask
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Method, Named, SelfValue, Value, alternatives
from modellint.source.engine.arguments import Arguments
from modellint.source.engine.class_state import Frame
from modellint.source.project.symbols import External
from modellint.source.syntax.live_variables import is_read_later, read_later
from modellint.source.syntax.message_statements import is_message
from modellint.source.syntax.rank_conditions import rank_demanded
from modellint.source.syntax.written_sizes import literal_sizes

if TYPE_CHECKING:
    from modellint.source.engine.abstract_values import Function
    from modellint.source.engine.domain import Reader


_SHARING_A_STEP = 4
"""So many variables that share memory with what is written to count as a step of the reading."""


class Call:
    """One reading of one call.

    ``name``: the dotted name of what is called, outside the project (``torch.nn.functional.dropout``);
    ``torch.Tensor.view`` for a method of a tensor; else empty. ``callee``: the value that is called. ``method``: the name
    behind the last dot. ``receiver``: whose method it is. ``training``: it is reached in training only; ``quiet``: under
    `no_grad`. ``building``: it is made while the object is built. ``unusual``: it is reached only where a flag of ``forward``, of
    the class or of what is called has another value than its default. ``exported``: nothing around it keeps it out of what is
    exported. ``switched``: it depends on a flag that the caller sets. ``decorated``: the functions around it that have decorators, or
    that TorchScript was given.
    """

    __slots__ = (
        "arguments",
        "building",
        "callee",
        "decorated",
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
        decorated: tuple[Function, ...] = (),
    ) -> None:
        self.decorated = decorated
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
    def rank_demanded(self) -> int | None:
        """The rank that the variable which the call is a method of has by the conditions around it: ``if x.dim() == 4:``."""
        match self.node.func:
            case ast.Attribute(value=ast.Name(id=name)) if self.function is not None:
                return rank_demanded(self.statement, self.function, name)
        return None

    def is_read_later(self, name: str) -> bool:
        """Whether what a local variable holds is read behind the call's statement before it is bound anew; its shape alone is not."""
        return self.function is not None and is_read_later(self.statement, self.function, name)

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
    depends on a flag that the caller sets. ``unusual``: it is reached only where a flag has another value than its default.
    ``exported``: nothing around it keeps it out of what is exported. ``index``: of `x[i, :] = v` the values in the brackets, None for a
    slice.
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
        "unusual",
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
        self.unusual = False
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
    only where a flag has another value than its default. ``exported``: nothing around it keeps it out of what is exported.
    ``index``: of `x[i, j:]` the values in the brackets but for slices, where there are several, or a variable alone.
    """

    __slots__ = ("aside", "exported", "function", "index", "node", "operands", "result", "unusual")

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
        self.exported = True
        self.unusual = unusual
        self.index = index
        self.node = node
        self.function = function
        self.operands = operands
        self.result = result


class Question:
    """One reading of a place where Python asks a value for its truth.

    ``site``: the `if`, `while`, conditional expression, comprehension, `assert`, `not`, `and` or `or` that asks; ``test``: what
    is asked. ``aside``: it is reached in training only, or what is around it keeps it out of what is exported. ``decorated``: as for
    a call.
    """

    __slots__ = ("aside", "decorated", "function", "site", "statement", "test", "value")

    def __init__(
        self,
        site: ast.AST,
        test: ast.expr,
        value: Value,
        statement: ast.stmt,
        function: ast.AST | None,
        aside: bool,
        decorated: tuple[Function, ...] = (),
    ) -> None:
        self.decorated = decorated
        self.site = site
        self.test = test
        self.value = value
        self.statement = statement
        self.function = function
        self.aside = aside


class Loop:
    """One reading of a loop or a comprehension: what it goes through, and whether that is aside, as for a question."""

    __slots__ = ("aside", "decorated", "function", "node", "statement", "value")

    def __init__(
        self,
        node: ast.expr,
        value: Value,
        statement: ast.stmt,
        function: ast.AST | None,
        aside: bool,
        decorated: tuple[Function, ...] = (),
    ) -> None:
        self.decorated = decorated
        self.node = node
        self.value = value
        self.statement = statement
        self.function = function
        self.aside = aside


class Recorder:
    """What is kept of one reading; the engine's ``Observer``."""

    def __init__(self) -> None:
        self.calls: dict[ast.AST, list[Call]] = {}
        self.writes: dict[ast.AST, list[Write]] = {}
        self.operations: dict[ast.expr | ast.AugAssign, list[Operation]] = {}
        self.questions: dict[ast.expr, list[Question]] = {}
        self.loops: dict[ast.expr, list[Loop]] = {}
        self.unpackings: dict[ast.expr, list[Value]] = {}
        self.returns: list[tuple[ast.AST, Value]] = []
        self.plain_returns: dict[ast.Return, list[bool]] = {}
        """Of every `return`, reading by reading, whether an exported model runs it whatever flags are set."""

    def called(
        self, reader: Reader, node: ast.Call, callee: Value, arguments: Arguments, made: Value, frame: Frame
    ) -> None:
        """Keep a call of the file that is read."""
        if frame.file is not reader.file or frame.statement is None:
            return
        modes = reader.modes
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
            function = modes.functions[-1] if modes.functions else None
            aside = modes.unusual > 0, not modes.unexported, modes.switches > 0
            state = modes.training > 0, modes.quiet > 0, not reader.reading, *aside
            self.calls.setdefault(node, []).append(
                Call(
                    node,
                    frame.statement,
                    function,
                    callee,
                    name,
                    method,
                    receiver,
                    arguments,
                    made,
                    *state,
                    modes.decorated,
                )
            )

    def asked(self, reader: Reader, site: ast.AST, test: ast.expr, value: Value, frame: Frame) -> None:
        """Keep a question of the file that is read."""
        if reader.reading and frame.file is reader.file and frame.statement is not None:
            modes = reader.modes
            question = Question(site, test, value, frame.statement, modes.function, modes.is_aside, modes.decorated)
            self.questions.setdefault(test, []).append(question)

    def looped(self, reader: Reader, node: ast.expr, value: Value, frame: Frame) -> None:
        """Keep what a loop of the file goes through."""
        if reader.reading and frame.file is reader.file and frame.statement is not None:
            modes = reader.modes
            loop = Loop(node, value, frame.statement, modes.function, modes.is_aside, modes.decorated)
            self.loops.setdefault(node, []).append(loop)

    def operated(
        self,
        reader: Reader,
        node: ast.expr | ast.AugAssign,
        operands: tuple[Value, ...],
        made: Value,
        index: tuple[Value, ...] = (),
    ) -> None:
        """Keep an operation on tensors."""
        if reader.reading:
            aside = reader.modes.is_aside, reader.modes.unusual > 0
            operation = Operation(node, reader.modes.function, operands, made, *aside, index)
            operation.exported = not reader.modes.unexported
            self.operations.setdefault(node, []).append(operation)

    def unpacked(self, node: ast.expr, value: Value) -> None:
        """Keep the sizes that are bound to the parts of a target."""
        self.unpackings.setdefault(node, []).append(value)

    def wrote(
        self, reader: Reader, how: str, node: ast.AST, target: Value, value: Value, attribute: str | None, frame: Frame
    ) -> None:
        """Keep a change in place, or the binding of an attribute, in the file that is read."""
        if not reader.reading or frame.file is not reader.file or frame.statement is None:
            return
        modes = reader.modes
        sharing = _sharing(target, node, frame, modes.function) if how != "attribute" else ()
        # As long as this is for every write, time and memory grow with the square of the text.
        reader.steps += len(sharing) // _SHARING_A_STEP
        state = modes.training > 0, modes.quiet > 0
        write = Write(how, node, frame.statement, modes.function, target, value, attribute, *state, sharing)
        write.switched = modes.switches > 0
        write.unusual = modes.unusual > 0
        write.exported = not modes.unexported
        place = node.target if isinstance(node, ast.AugAssign) else node
        if isinstance(place, ast.Subscript):
            parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
            write.index = tuple(None if isinstance(part, ast.Slice) else reader.value(part, frame) for part in parts)
        self.writes.setdefault(node, []).append(write)

    def named(self, name: str, value: Value, frame: Frame) -> None:
        """Note that a local variable is about to be bound: what shares memory is looked up by it."""
        for part in alternatives(value):
            if isinstance(part, Tensor):
                frame.sharing.setdefault(part.root, {})[name] = None
                if name not in frame.locals:
                    frame.order[name] = len(frame.order)

    def returned(self, node: ast.Return, value: Value, plain: bool) -> None:
        """Keep what a function that is read for itself gives back."""
        self.returns.append((node, value))
        self.plain_returns.setdefault(node, []).append(plain)


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
