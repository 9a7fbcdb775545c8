"""Statements: runs ``__init__`` of one module class, then whatever other method binds attributes, on abstract values.

Branches join. A loop body is read twice, so that an attribute which every turn overwrites is seen to keep the last
value only. The last binding wins.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

from modellint.source.engine.abstract_values import (
    SELF,
    UNKNOWN,
    Argument,
    ClassValue,
    Const,
    Container,
    Function,
    Instance,
    Method,
    SelfValue,
    Value,
    alternatives,
    leaves,
    union,
)
from modellint.source.engine.arguments import Arguments
from modellint.source.engine.calls import Caller
from modellint.source.engine.class_state import (
    Attributes,
    Binding,
    Frame,
    State,
    escape,
    join_attributes,
    join_bound,
    join_locals,
)
from modellint.source.engine.layered_map import apart, copied, layered
from modellint.source.engine.mode_conditions import Modes, is_quiet
from modellint.source.project.symbols import ClassRef
from modellint.source.syntax.ast_walk import is_property
from modellint.source.syntax.computed_names import is_numbered

if TYPE_CHECKING:
    from modellint.source.engine.domain import Domain, Observer
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

_DEEPEST_CALL = 8
_DEEPEST_ABROAD = 3
"""Calls within calls that lead through other files than the class's own."""
_MOST_CALLS = 160
"""Calls followed in one reading of ``__init__`` or of another method; more is not a constructor any more."""
_TRY: tuple[type[ast.stmt], ...] = tuple(kind for kind in (ast.Try, getattr(ast, "TryStar", None)) if kind is not None)


class Initialisation:
    """How one class's own ``__init__`` goes about calling its base's."""

    __slots__ = ("called", "early", "first_state")

    def __init__(self) -> None:
        self.called = False
        self.first_state: ast.stmt | None = None
        """The first statement that sets a module, parameter or buffer."""
        self.early = False
        """Whether that statement ran before the base's ``__init__``."""


class Interpreter(Caller):
    """One reading of one module class, or of functions that belong to none."""

    runners: ClassVar[dict[type[ast.stmt], Callable[[Any, Any, Frame], bool | None]]] = {}
    """What runs each kind of statement."""

    def __init__(
        self, project: Project, cls: ClassRef | None, file: IndexedFile | None, domain: Domain, recorder: Observer
    ) -> None:
        super().__init__(project, cls, domain, recorder)
        self.file = cls.file if cls is not None else file
        self.initialisation = Initialisation()
        self.follows_bases = False
        """Whether methods of bases in other files are read for what they put into the object."""
        self.passed_over = False
        """Whether there was such a method, and it was not read."""
        self._in_own_init = False
        self._abroad = 0
        self._start()
        self._own_setattr = any("__setattr__" in names for names in self._class_names)

    def _start(self) -> None:
        self._calls = 0
        self._stack: list[int] = []
        self._bound: set[str] = set()
        """The attributes that were bound in the method that is read."""
        self._exits: list[list[Attributes]] = []
        self._continues: list[list[State]] = []

    def continued(self, domain: Domain, recorder: Observer) -> Interpreter:
        """Another interpreter of the same object, as it is now; both may change the values that it holds."""
        other = copy(self)
        other._start()
        other.domain, other.recorder = domain, recorder
        other.modes = Modes(domain.tensor, domain.opaque, self.project)
        other.attributes = copied(self.attributes)
        other.bindings, other.fills = [*self.bindings], [*self.fills]
        other.bound_as = {key: {*names} for key, names in self.bound_as.items()}
        other.names, other.outer_values = {**self.names}, {**self.outer_values}
        return other

    @property
    def length(self) -> int:
        """Characters of the class and its bases; without a class, of the file."""
        if self.cls is None:
            return len(self.file.source.text) if self.file is not None else 0
        return sum(ref.file.source.length(ref.node) for ref in self.lineage)

    def enter_init(self) -> None:
        """Read ``__init__`` as it builds the object."""
        init = self.find_method("__init__")
        if init is not None:
            self._in_own_init = init.owner is not None and self.cls is not None and init.owner.node is self.cls.node
            self.enter(init)
            self._in_own_init = False

    def run(self, methods: list[Function]) -> None:
        """Read each of ``methods`` from the state that ``__init__`` and those before it leave."""
        self.allow_escape = False
        for function in methods:
            before = self.attributes
            self.attributes = dict(before)
            self._bound = set()
            self.enter(function)
            self.attributes = join_bound(before, self.attributes, self._bound)

    def enter(self, function: Function) -> None:
        """Read a method as its caller would enter it."""
        frame = Frame(function.file, "")
        node = function.node
        arguments: list[Value] = []
        kinds = {getattr(decorator, "id", "") for decorator in getattr(node, "decorator_list", ())}
        names = [*node.args.posonlyargs, *node.args.args]
        if names and "staticmethod" not in kinds:
            arguments.append(ClassValue(self.cls) if "classmethod" in kinds and self.cls is not None else SELF)
        self._calls = self.modes.branches = 0
        self.invoke(function, Arguments(arguments, [], {}), ast.Constant(None), frame, entry=True)

    def enter_call(self, function: Function, arguments: Arguments) -> None:
        """Read a function as one of its callers runs it."""
        self._calls = self.modes.branches = 0
        self.invoke(function, arguments, ast.Constant(None), Frame(function.file))

    # Functions

    def invoke(
        self, function: Function, arguments: Arguments, node: ast.expr, frame: Frame, entry: bool = False
    ) -> Value:
        """Run a function in a frame of its own; its decorators may switch gradients off."""
        decorators = getattr(function.node, "decorator_list", ())
        quiet = any(map(is_quiet, decorators))
        outer = self.modes.decorated
        if decorators or function.compiled:
            self.modes.decorated = *outer, function
        self.modes.quiet += quiet
        self.modes.functions.append(function.node)
        try:
            made = self._invoked(function, arguments, node, frame, entry)
        finally:
            self.modes.functions.pop()
            self.modes.quiet -= quiet
            self.modes.decorated = outer
        return self.domain.unseen(made, arguments) if type(made) is Instance and made.kind == "unresolved" else made

    def _invoked(self, function: Function, arguments: Arguments, node: ast.expr, frame: Frame, entry: bool) -> Value:
        # What cannot be followed any deeper is code that cannot be seen.
        body = function.node
        name = getattr(body, "name", "")
        if id(body) in self._stack or len(self._stack) >= _DEEPEST_CALL or self._calls >= _MOST_CALLS:
            return self._unseen(name, arguments, node)
        if not entry and not isinstance(body, ast.Lambda) and not self._worth_reading(function, arguments):
            return Instance("unresolved", node, body.name)
        abroad = function.file is not self.file
        if abroad and self._abroad >= _DEEPEST_ABROAD:
            return self._unseen(name, arguments, node)
        self._abroad += abroad
        self._calls += 1
        inner = Frame(function.file, name or frame.function, function.owner or frame.owner)
        inner.closure = function.closure
        if function.owner is not None:
            inner.within = function.owner.within
        elif function.closure is not None:
            inner.within = frame.within
        inner.statement = frame.statement
        inner.loops = frame.loops
        self._bind_parameters(body, arguments, inner, entry)
        self._stack.append(id(body))
        try:
            if isinstance(body, ast.Lambda):
                return self.value(body.body, inner)
            self._exits.append([])
            falls_through = self._block(body.body, inner)
            exits = self._exits.pop()
            if falls_through:
                exits.append(self.attributes)
                inner.returned.append(Const(None))
            if exits:
                self.attributes = join_attributes(exits)
        finally:
            self._stack.pop()
            self._abroad -= abroad
        if inner.yielded is not None:
            return Container("iterator", body, inner.yielded)
        results = [value for value in inner.returned if not (isinstance(value, Const) and value.value is None)]
        return union(results or inner.returned or [UNKNOWN])

    def _worth_reading(self, function: Function, arguments: Arguments) -> bool:
        """Whether a call can matter: it is given something that we follow, or makes something, or changes ``self``."""
        if self.reading:
            return function.file is self.file
        # What helps to build a value of a domain that the object keeps is followed into other files too; but what those do besides
        # is seldom about such, and a library's base class may do a lot.
        if self.domain.is_given(arguments):
            return True
        abroad = function.file is not self.file
        if abroad and function.owner is not None and getattr(function.node, "name", "") != "__init__":
            if not self._abroad and self.domain.is_made_by(function):
                return True
            if not self._follows(function, arguments):
                return False
            self.passed_over = not self.follows_bases
            return self.follows_bases
        return self._follows(function, arguments) or (not abroad and self.domain.is_made_by(function))

    def _follows(self, function: Function, arguments: Arguments) -> bool:
        given = arguments.everything()
        if function.owner is not None and given and isinstance(given[0], SelfValue):
            given = given[1:]
        if any(map(_followed, given)):
            return True
        # A library's base class may do a lot besides: of the methods that its `__init__` calls, only `__init__` is followed.
        method = function.owner is not None and getattr(function.node, "name", "") != "__init__"
        if self._abroad and method and function.file is not self.file:
            return False
        # Outside `__init__` a function that is given nothing of ours is taken to compute.
        if not self.allow_escape and function.owner is None and function.closure is None:
            return False
        node = function.node
        return isinstance(node, ast.Lambda) or self.project.makes_objects(function.file, node, self.lineage)

    def _bind_parameters(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, given: Arguments, frame: Frame, entry: bool
    ) -> None:
        parameters = [*node.args.posonlyargs, *node.args.args]
        defaults: list[ast.expr | None] = [None] * (len(parameters) - len(node.args.defaults))
        defaults.extend(node.args.defaults)
        outer = Frame(frame.file)
        outer.within = frame.within
        for index, (parameter, default) in enumerate(zip(parameters, defaults, strict=True)):
            if index < len(given.positional):
                frame.locals[parameter.arg] = given.positional[index]
            else:
                self._bind_parameter(parameter, default, given, frame, outer, entry)
        for parameter, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            self._bind_parameter(parameter, default, given, frame, outer, entry)
        if node.args.vararg is not None:
            rest = given.positional[len(parameters) :]
            many: Value = Container("tuple", node, rest, exact=not given.spread)
            if isinstance(many, Container):
                for value in given.spread:
                    many.items.append(self.element_of(value) if isinstance(value, Container) else value)
            if entry:
                many = Argument(node.args.vararg.arg, None, frame.file)
            frame.locals[node.args.vararg.arg] = many
        if node.args.kwarg is not None:
            frame.locals[node.args.kwarg.arg] = UNKNOWN
        for name, value in frame.locals.items():
            frame.order[name] = len(frame.order)
            if self.reading:
                self.recorder.named(name, value, frame)
        if self.reading and not entry:
            for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if parameter.annotation is not None:
                    declared = self.domain.declared(parameter.annotation, frame.locals.get(parameter.arg, UNKNOWN))
                    if declared is not None:
                        frame.locals[parameter.arg] = declared

    def _bind_parameter(
        self,
        parameter: ast.arg,
        default: ast.expr | None,
        given: Arguments,
        frame: Frame,
        outer: Frame,
        entry: bool,
    ) -> None:
        if parameter.arg in given.keywords:
            value = given.keywords[parameter.arg]
        elif given.spread:
            value = union([self.element_of(part) if isinstance(part, Container) else part for part in given.spread])
        elif None in given.keywords:
            value = UNKNOWN
        else:
            value = self.value(default, outer) if default is not None else UNKNOWN
            if entry:
                caller = self.from_caller(parameter, default, frame)
                value = union((caller, value)) if default is not None else caller
        frame.locals[parameter.arg] = value

    def from_caller(self, parameter: ast.arg, default: ast.expr | None, frame: Frame) -> Value:
        """What a function that is read for itself is given for one of its parameters."""
        plain = Argument(parameter.arg, parameter.annotation, frame.file)
        return self.domain.from_caller(parameter, default, self.modes.function, plain) if self.reading else plain

    # Statements

    def _block(self, statements: list[ast.stmt], frame: Frame) -> bool:
        """Run statements in order; whether the end is reached."""
        modes = self.modes
        modes.blocks.append(None)
        try:
            for statement in statements:
                outer = frame.statement
                frame.statement = statement
                self.steps += 1
                runner = self.runners.get(type(statement))
                falls_through = runner(self, statement, frame) if runner is not None else True
                frame.statement = outer
                if falls_through is False:
                    return False
            return True
        finally:
            if modes.blocks[-1] is None:
                modes.blocks.pop()
            else:
                modes.leave_block()

    def _assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self.value(node.value, frame)
        for target in node.targets:
            self.bind(target, value, frame, node.value)

    def _annotated(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            value = self.value(node.value, frame)
            self.bind(node.target, value, frame, node.value, "annotated")

    def _augmented(self, node: ast.AugAssign, frame: Frame) -> None:
        current = self.value(node.target, frame)
        added = self.value(node.value, frame)
        if self._has_tensor(current):
            self.recorder.wrote(self, "augmented", node, current, added, None, frame)
            if isinstance(node.target, ast.Attribute) and isinstance(self.value(node.target.value, frame), SelfValue):
                return
            if not isinstance(node.target, ast.Subscript):
                self.bind(node.target, self.combine(node, current, added), frame, node.value, "augmented")
            return
        boxes = [part for part in alternatives(current) if isinstance(part, Container)]
        if boxes and isinstance(node.op, (ast.Add, ast.BitOr)) and boxes[0].kind != "tuple":
            if any(isinstance(part, Instance) for part in alternatives(current)):
                escape(added)
            for box in boxes:
                if box.kind == "dict":
                    self._merge(box, added)
                self.fill(box, "+=", self.element_of(added), node, frame)
            return
        modules = [part for part in alternatives(current) if isinstance(part, Instance) and part.kind == "module"]
        if modules:
            for module in modules:
                module.held.extend(leaves(added))
            return
        self.bind(node.target, self.combine(node, current, added), frame, node.value, "augmented")

    def _has_tensor(self, value: Value) -> bool:
        return any(isinstance(part, self.domain.tensor) for part in alternatives(value))

    def bind(
        self, target: ast.expr, value: Value, frame: Frame, expression: ast.expr | None = None, form: str = "assign"
    ) -> None:
        """Assign ``value`` to a target."""
        match target:
            case ast.Name(id=name):
                if self.reading:
                    value = self.domain.named(self, value)
                    self.recorder.named(name, value, frame)
                frame.locals[name] = value
            case ast.Attribute(attr=name):
                self._bind_attribute(self.value(target.value, frame), name, value, form, frame, expression)
            case ast.Subscript():
                self._bind_item(target, value, frame)
            case ast.Tuple() | ast.List():
                self._unpack(target, value, frame)
            case ast.Starred():
                self.bind(target.value, Container("list", target, [self.element_of(value)]), frame)
            case _:
                pass

    def _bind_attribute(
        self, receiver: Value, name: str, value: Value, form: str, frame: Frame, expression: ast.expr | None
    ) -> None:
        if name == "data" and frame.statement is not None and self._has_tensor(receiver):
            self.recorder.wrote(self, "data", frame.statement, receiver, value, None, frame)
        for part in alternatives(receiver):
            if isinstance(part, SelfValue):
                self.set_attribute(name, value, form, frame, expression)
            elif isinstance(part, Instance):
                part.held.extend(leaves(value))
                if part.kind != "module":
                    escape(value)
            elif self.allow_escape:
                escape(value)

    def _bind_item(self, target: ast.Subscript, value: Value, frame: Frame) -> None:
        receiver = self.value(target.value, frame)
        if self._has_tensor(receiver):
            self.recorder.wrote(self, "item", target, receiver, value, None, frame)
            return
        if self.reading and isinstance(target.slice, (ast.Compare, ast.UnaryOp, ast.Name, ast.BinOp)):
            plain = (Value, self.domain.opaque, Instance)
            if self.value(target.slice, frame).is_tensor and all(
                type(part) in plain for part in alternatives(receiver)
            ):
                # What a tensor is an index of is one.
                self.recorder.wrote(self, "item", target, receiver, value, None, frame)
        key = self.value(target.slice, frame) if not isinstance(target.slice, ast.Slice) else UNKNOWN
        parts = alternatives(receiver)
        if any(not isinstance(part, Container) for part in parts):
            # Of `{} if flag else nn.ModuleDict()` only one registers; which it is cannot be told here.
            for part in parts:
                if isinstance(part, Instance):
                    part.held.extend(leaves(value))
            if self.allow_escape or any(isinstance(part, (Instance, Method)) for part in parts):
                escape(value)
        for part in parts:
            if isinstance(part, Container):
                if isinstance(target.slice, ast.Slice):
                    value = self.element_of(value)
                if part.kind == "dict":
                    part.keys.append(key)
                self.fill(part, "item", value, target, frame)

    def _unpack(self, target: ast.Tuple | ast.List, value: Value, frame: Frame) -> None:
        if self.domain.unpack(self, target, value, frame):
            return
        exact = [
            part
            for part in alternatives(value)
            if isinstance(part, Container) and part.exact and len(part.items) == len(target.elts)
        ]
        starred = any(isinstance(element, ast.Starred) for element in target.elts)
        if exact and not starred and len(exact) == len(alternatives(value)):
            for index, element in enumerate(target.elts):
                self.bind(element, union([part.items[index] for part in exact]), frame)
            return
        element_value = self.element_of(value)
        for element in target.elts:
            if isinstance(element, ast.Starred):
                self.bind(element.value, Container("list", element, [element_value]), frame)
            else:
                self.bind(element, element_value, frame)

    def set_attribute(
        self, name: str, value: Value, form: str, frame: Frame, expression: ast.expr | None = None
    ) -> None:
        """Bind an attribute of ``self``; a registered buffer stays one when a tensor is assigned to it."""
        if frame.statement is None:
            return
        if self.reading:
            before = self.attributes.get(name, ())
            old = union([binding.value for binding in before]) if before else UNKNOWN
            self.recorder.wrote(self, "attribute", frame.statement, old, value, name, frame)
            if any(isinstance(part, self.domain.tensor) and part.kind == "buffer" for part in alternatives(old)):
                return
        if form != "dunder" and (self._own_setattr or self._is_property(name)):
            escape(value)
            return
        self._note_state(value, form, frame)
        binding = Binding(name, frame.statement, expression, value, form, frame)
        self.bindings.append(binding)
        self.attributes[name] = (binding,)
        self._bound.add(name)
        for part in alternatives(value):
            if isinstance(part, Container):
                self.bound_as.setdefault(id(part), set()).add(name)

    def set_numbered_attribute(self, pattern: str, value: Value, frame: Frame) -> None:
        """Bind a plain tensor to one of the attributes of ``self`` whose names an expression computes (``scale{}``)."""
        if frame.statement is None or self._own_setattr:
            escape(value)
            return
        if any(
            is_numbered(name, pattern) and any(binding.form == "register" for binding in bindings)
            for name, bindings in self.attributes.items()
        ):
            # A registered buffer stays one when a tensor is assigned to it.
            return
        binding = Binding(pattern, frame.statement, None, value, "setattr", frame)
        self.bindings.append(binding)
        self.attributes[pattern] = (*self.attributes.get(pattern, ()), binding)
        self._bound.add(pattern)

    def _is_property(self, name: str) -> bool:
        for ref, names in zip(self.lineage, self._class_names, strict=True):
            if name in names:
                found = self._in_class(ref, name)
                return isinstance(found, Function) and is_property(found.node)
        return False

    # The base's __init__

    def initialised(self, frame: Frame) -> None:
        """Note that ``__init__`` of a base class is called here."""
        self.initialisation.called = True

    def _note_state(self, value: Value, form: str, frame: Frame) -> None:
        state = self.initialisation
        if not self._in_own_init or form == "dunder" or state.first_state is not None:
            return
        if form == "register" or any(
            isinstance(part, Instance) and part.kind in ("module", "parameter", "buffer")
            for part in alternatives(value)
        ):
            state.first_state = frame.statement
            state.early = not state.called

    # Control flow

    def _state(self, frame: Frame) -> State:
        self.attributes = layered(self.attributes)
        return self.copied_locals(frame), copied(self.attributes)

    def _restore(self, state: State, frame: Frame) -> None:
        frame.locals, self.attributes = copied(state[0]), copied(state[1])

    def _join(self, states: list[State], frame: Frame) -> bool:
        if not states:
            return False
        frame.locals = join_locals([state[0] for state in states])
        self.attributes = join_attributes([state[1] for state in states])
        return True

    def _if(self, node: ast.If, frame: Frame) -> bool:
        modes = self.modes
        self.ask(node, node.test, frame)
        decided = (
            modes.decided(node.test, frame, self.value)
            if self.reading
            else modes.decided_by_words(node.test, frame, self.value)
        )
        condition = modes.condition(node.test, frame, self.value)
        before = self._state(frame)
        after: list[State] = []
        modes.branches += decided is None
        modes.enter(condition)
        modes.narrow(node.test, True, frame)
        if decided is not False and self._block(node.body, frame):
            after.append((frame.locals, self.attributes))
        leaves_early = not after and decided is not False
        reached = len(after)
        self._restore(before, frame)
        modes.narrow(node.test, False, frame)
        modes.turn(condition)
        if decided is not True and self._block(node.orelse, frame):
            after.append((frame.locals, self.attributes))
        modes.leave(condition, early=leaves_early and not node.orelse)
        modes.branches -= decided is None
        if leaves_early and not node.orelse and isinstance(node.body[-1], ast.Raise):
            self._allow(node, False, frame)
            self._assume(node.test, False, frame)
        if self.reading and condition.captured is not None and 0 < reached < len(after):
            # What follows runs behind the branch that an export takes: `loss` is None where it is given no targets.
            after = after[:1] if condition.captured else after[1:]
        return self._join(after, frame)

    def _for(self, node: ast.For | ast.AsyncFor, frame: Frame) -> bool:
        value = self.value(node.iter, frame)
        self.recorder.looped(self, node.iter, value, frame)
        self._loop(node.body, node.orelse, frame, node.target, self.element_of(value))
        return True

    def _while(self, node: ast.While, frame: Frame) -> bool:
        self.ask(node, node.test, frame)
        self._loop(node.body, node.orelse, frame, None, UNKNOWN)
        return True

    def _loop(
        self, body: list[ast.stmt], orelse: list[ast.stmt], frame: Frame, target: ast.expr | None, element: Value
    ) -> None:
        before = self._state(frame)
        outer_breaks, frame.breaks = frame.breaks, []
        frame.loops += 1
        self.modes.branches += 1
        ends: list[State] = []
        # Reading every body twice is exponential in the nesting; the third level is read once.
        for _ in range(2 if frame.loops <= 2 else 1):
            if target is not None:
                self.bind(target, element, frame)
            self._continues.append([])
            reached = self._block(body, frame)
            ends = self._continues.pop()
            if reached:
                ends.append((frame.locals, self.attributes))
            if not ends:
                break
            self._join(ends, frame)
        frame.loops -= 1
        self.modes.branches -= 1
        after = [*ends[:0], *frame.breaks]
        if ends:
            after.insert(0, (frame.locals, self.attributes))
        frame.breaks = outer_breaks
        if not after:
            after = [before]
        self._join(after, frame)
        for name, value in apart(frame.locals, before[0]):
            frame.locals.setdefault(name, value)
        self._block(orelse, frame)

    def _break(self, node: ast.Break, frame: Frame) -> bool:
        frame.breaks.append(self._state(frame))
        return False

    def _continue(self, node: ast.Continue, frame: Frame) -> bool:
        if self._continues:
            self._continues[-1].append(self._state(frame))
        return False

    def _return(self, node: ast.Return, frame: Frame) -> bool:
        frame.returned.append(self.value(node.value, frame) if node.value is not None else Const(None))
        self._exits[-1].append(self.attributes)
        self.attributes = copied(self.attributes)
        if self.reading and len(self.modes.functions) == 1:
            self.recorder.returned(node, frame.returned[-1], self.modes.is_plain)
        return False

    def _raise(self, node: ast.Raise, frame: Frame) -> bool:
        return False

    def _try(self, node: ast.Try, frame: Frame) -> bool:
        before = self._state(frame)
        after: list[State] = []
        self.modes.branches += 1
        reached = self._block(node.body, frame)
        middle = self._state(frame)
        if reached and self._block(node.orelse, frame):
            after.append((frame.locals, self.attributes))
        for handler in node.handlers:
            self._join([before, middle], frame)
            frame.locals, self.attributes = copied(frame.locals), copied(self.attributes)
            if self._block(handler.body, frame):
                after.append((frame.locals, self.attributes))
        self.modes.branches -= 1
        if not after:
            self._restore(middle, frame)
            self._block(node.finalbody, frame)
            return False
        self._join(after, frame)
        return self._block(node.finalbody, frame)

    def _with(self, node: ast.With | ast.AsyncWith, frame: Frame) -> bool:
        quiet = sum(is_quiet(item.context_expr) for item in node.items)
        self.modes.quiet += quiet
        try:
            for item in node.items:
                value = self.value(item.context_expr, frame)
                if item.optional_vars is not None:
                    self.bind(item.optional_vars, UNKNOWN if isinstance(value, Instance) else value, frame)
            return self._block(node.body, frame)
        finally:
            self.modes.quiet -= quiet

    def _match(self, node: ast.Match, frame: Frame) -> bool:
        self.value(node.subject, frame)
        before = self._state(frame)
        after: list[State] = []
        complete = False
        self.modes.branches += 1
        for case in node.cases:
            self._restore(before, frame)
            if case.guard is not None:
                self.value(case.guard, frame)
            elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
                complete = True
            if self._block(case.body, frame):
                after.append((frame.locals, self.attributes))
        self.modes.branches -= 1
        if not complete:
            after.append(before)
        return self._join(after, frame)

    def _expression(self, node: ast.Expr, frame: Frame) -> None:
        self.value(node.value, frame)

    def _delete(self, node: ast.Delete, frame: Frame) -> None:
        for target in node.targets:
            if isinstance(target, ast.Attribute) and isinstance(self.value(target.value, frame), SelfValue):
                self.attributes.pop(target.attr, None)
            elif isinstance(target, ast.Name):
                frame.locals.pop(target.id, None)

    def _import(self, node: ast.Import | ast.ImportFrom, frame: Frame) -> None:
        for name, symbol in self.project.imported(frame.file, node).items():
            frame.locals[name] = self.of_symbol(symbol)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
        # The function sees later bindings of its surroundings too, so it keeps the very dictionary.
        closure = frame.locals if frame.closure is None else {**frame.closure, **frame.locals}
        frame.locals[node.name] = Function(node, frame.file, closure)
        self.closures.append(closure)

    def _class(self, node: ast.ClassDef, frame: Frame) -> None:
        frame.locals[node.name] = ClassValue(ClassRef(frame.file, node, frame.within))

    def _assert(self, node: ast.Assert, frame: Frame) -> None:
        self.value(node.test, frame)
        self.modes.narrow(node.test, True, frame)
        self._allow(node, True, frame)
        self._assume(node.test, True, frame)

    def _assume(self, test: ast.expr, held: bool, frame: Frame) -> None:
        """Take note of what an assertion that nothing goes round says of sizes: whatever else an input is, it raises."""
        if self.reading and not self.modes.branches and not any(self._exits):
            self.domain.assumed(self, test, held, frame)

    def _allow(self, node: ast.If | ast.Assert, held: bool, frame: Frame) -> None:
        """Note which words an argument may be behind an assertion that `__init__`, or another method that is entered, always makes."""
        function = self.modes.function
        if not self.reading and len(self._stack) == 1 and node in getattr(function, "body", ()):
            self.modes.allow(node.test, held, frame)


def _followed(value: Value) -> bool:
    """Whether a value is, or holds, something whose fate we follow."""
    return any(
        isinstance(part, (SelfValue, Function, ClassValue))
        or (isinstance(part, Instance) and part.kind in ("module", "parameter"))
        for part in leaves(value)
    )


Interpreter.runners = {
    ast.Assign: Interpreter._assign,
    ast.AnnAssign: Interpreter._annotated,
    ast.AugAssign: Interpreter._augmented,
    ast.If: Interpreter._if,
    ast.For: Interpreter._for,
    ast.AsyncFor: Interpreter._for,
    ast.While: Interpreter._while,
    ast.Break: Interpreter._break,
    ast.Continue: Interpreter._continue,
    ast.Return: Interpreter._return,
    ast.Raise: Interpreter._raise,
    ast.With: Interpreter._with,
    ast.AsyncWith: Interpreter._with,
    ast.Match: Interpreter._match,
    ast.Expr: Interpreter._expression,
    ast.Delete: Interpreter._delete,
    ast.Import: Interpreter._import,
    ast.ImportFrom: Interpreter._import,
    ast.FunctionDef: Interpreter._function,
    ast.AsyncFunctionDef: Interpreter._function,
    ast.ClassDef: Interpreter._class,
    ast.Assert: Interpreter._assert,
    **dict.fromkeys(_TRY, Interpreter._try),
}
