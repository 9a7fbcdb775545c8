"""Inlining of functions: each call that can matter is read in the body of what it calls, in a frame of its own, down to some depth."""

from __future__ import annotations

import ast
from abc import abstractmethod
from typing import TYPE_CHECKING

from modellint.source.engine.abstract_values import (
    UNKNOWN,
    Argument,
    ClassValue,
    Const,
    Container,
    Function,
    Instance,
    SelfValue,
    Value,
    leaves,
    union,
)
from modellint.source.engine.arguments import Arguments
from modellint.source.engine.assignments import Assigner
from modellint.source.engine.class_state import Attributes, Frame, State, join_attributes
from modellint.source.engine.mode_conditions import is_quiet

if TYPE_CHECKING:
    from modellint.source.engine.domain import Domain, Observer
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef

_DEEPEST_CALL = 8
_DEEPEST_ABROAD = 3
"""Calls within calls that lead through other files than the class's own."""
_MOST_CALLS = 160
"""Calls followed in one reading of ``__init__`` or of another method; more is not a constructor any more."""


class Inliner(Assigner):
    """Reads the bodies of functions that are called."""

    def __init__(self, project: Project, cls: ClassRef | None, domain: Domain, recorder: Observer) -> None:
        super().__init__(project, cls, domain, recorder)
        self.follows_bases = False
        """Whether methods of bases in other files are read for what they put into the object."""
        self.passed_over = False
        """Whether there was such a method, and it was not read."""
        self._abroad = 0
        self._start()

    def _start(self) -> None:
        self._calls = 0
        self._stack: list[int] = []
        self._bound = set()
        self.exits: list[list[Attributes]] = []
        """The attributes at each `return` so far, of every function that is being read."""
        self.continues: list[list[State]] = []
        """The states at each `continue` so far, of every loop that is being read."""

    @abstractmethod
    def block(self, statements: list[ast.stmt], frame: Frame) -> bool:
        """Run statements in order; whether the end is reached."""

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
            self.exits.append([])
            falls_through = self.block(body.body, inner)
            exits = self.exits.pop()
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

    def allow(self, node: ast.If | ast.Assert, held: bool, frame: Frame) -> None:
        """Note which words an argument may be behind an assertion that `__init__`, or another method that is entered, always makes."""
        function = self.modes.function
        if not self.reading and len(self._stack) == 1 and node in getattr(function, "body", ()):
            self.modes.allow(node.test, held, frame)

    def assume(self, test: ast.expr, held: bool, frame: Frame) -> None:
        """Take note of what an assertion that nothing goes round says of sizes: whatever else an input is, it raises."""
        if self.reading and not self.modes.branches and not any(self.exits):
            self.domain.assumed(self, test, held, frame)


def _followed(value: Value) -> bool:
    """Whether a value is, or holds, something whose fate we follow."""
    return any(
        isinstance(part, (SelfValue, Function, ClassValue))
        or (isinstance(part, Instance) and part.kind in ("module", "parameter"))
        for part in leaves(value)
    )
