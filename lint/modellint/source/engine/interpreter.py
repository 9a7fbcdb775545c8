"""Statements: runs ``__init__`` of one module class, then whatever other method binds attributes, on abstract values."""

from __future__ import annotations

import ast
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

from modellint.source.engine.abstract_values import SELF, ClassValue, Function, SelfValue, Value
from modellint.source.engine.arguments import Arguments
from modellint.source.engine.class_state import Frame, join_bound
from modellint.source.engine.control_flow import CONTROL_FLOW
from modellint.source.engine.function_inlining import Inliner
from modellint.source.engine.layered_map import copied
from modellint.source.engine.mode_conditions import Modes
from modellint.source.project.symbols import ClassRef

if TYPE_CHECKING:
    from modellint.source.engine.domain import Domain, Observer
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile


class Interpreter(Inliner):
    """One reading of one module class, or of functions that belong to none."""

    runners: ClassVar[dict[type[ast.stmt], Callable[[Any, Any, Frame], bool | None]]] = {}
    """What runs each kind of statement."""

    def __init__(
        self, project: Project, cls: ClassRef | None, file: IndexedFile | None, domain: Domain, recorder: Observer
    ) -> None:
        super().__init__(project, cls, domain, recorder)
        self.file = cls.file if cls is not None else file

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

    # Statements

    def block(self, statements: list[ast.stmt], frame: Frame) -> bool:
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
        self.allow(node, True, frame)
        self.assume(node.test, True, frame)


Interpreter.runners = {
    **CONTROL_FLOW,
    ast.Assign: Interpreter._assign,
    ast.AnnAssign: Interpreter._annotated,
    ast.AugAssign: Interpreter._augmented,
    ast.Expr: Interpreter._expression,
    ast.Delete: Interpreter._delete,
    ast.Import: Interpreter._import,
    ast.ImportFrom: Interpreter._import,
    ast.FunctionDef: Interpreter._function,
    ast.AsyncFunctionDef: Interpreter._function,
    ast.ClassDef: Interpreter._class,
    ast.Assert: Interpreter._assert,
}
