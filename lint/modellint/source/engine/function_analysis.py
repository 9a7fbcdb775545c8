"""Reads the methods of a class, or the functions of a file, with tensors as values, each as its caller would enter it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING

from modellint.source.domains import tensors
from modellint.source.domains.memory_layout import Dim, Layout
from modellint.source.domains.result_tensors import tensors_in
from modellint.source.domains.tensor_expressions import TensorExpressions
from modellint.source.domains.tensors import Opaque, Tensor
from modellint.source.engine.abstract_values import UNKNOWN, Container, Function, Instance, Named, Value, alternatives
from modellint.source.engine.calls import NO_ARGUMENTS, Arguments
from modellint.source.engine.class_state import Frame, TooLarge
from modellint.source.engine.mode_conditions import is_quiet
from modellint.source.engine.parameter_kinds import shown_tensors
from modellint.source.project.annotations import says_number, says_tensor
from modellint.source.project.symbols import External

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef, IndexedFile


class Flow(TensorExpressions):
    """One reading of everything that a class's methods, or a file's functions, do with tensors."""

    def __init__(self, project: Project, cls: ClassRef | None, file: IndexedFile) -> None:
        super().__init__(project, cls, file)
        self.built = 0
        """How many of the bindings stand in what builds the object."""
        self._was_built = False
        self._too_large: TooLarge | None = None
        self.given_away: set[int] = set()
        """What had escaped when the object was built: what methods do with a tensor later changes nothing about what it is."""

    def build(self) -> None:
        """Read ``__init__`` as it builds the object, once. Raises ``TooLarge``, and again whenever it is asked."""
        if self._too_large is not None:
            raise self._too_large
        if not self._was_built:
            self._was_built = True
            try:
                self.enter_init()
            except TooLarge as error:
                self._too_large = error
                raise
            self.built = len(self.bindings)

    def continued(self) -> Flow:
        """A reading of the same object that goes on from how it was built. It changes values: see ``values``."""
        other = copy(self)
        other.bindings, other.fills = [*self.bindings], [*self.fills]
        other.bound_as = {key: {*names} for key, names in self.bound_as.items()}
        other._named, other._module_values = {**self._named}, {**self._module_values}
        other._parts, other._elements = {**self._parts}, {**self._elements}
        other.calls = {}
        return other

    def close(self) -> None:
        """Take apart what points back at itself: nothing collects cycles in a run, and they would keep every tree."""
        for closure in self.closures:
            closure.clear()

    @property
    def values(self) -> Iterator[Value]:
        """All values that a method of the object can get hold of."""
        for bindings in self.attributes.values():
            yield from (binding.value for binding in bindings)
        yield from self._named.values()
        yield from self._module_values.values()

    def read_methods(self, methods: Sequence[Function]) -> None:
        """Read each method of the object that was built as its caller would enter it."""
        if not self.reading:
            self.given_away = {id(part) for part in self._held() if part.escaped}
        self.allow_escape = False
        self.reading = True
        built = self.attributes
        for function in methods:
            self.attributes = dict(built)
            self._enter(function)
        self.attributes = built

    def _held(self) -> Iterator[Container | Instance]:
        """What the attributes hold, and what that holds."""
        pending = [
            part for bindings in self.attributes.values() for one in bindings for part in alternatives(one.value)
        ]
        seen: set[int] = set()
        while pending:
            part = pending.pop()
            if isinstance(part, (Container, Instance)) and id(part) not in seen:
                seen.add(id(part))
                yield part
                if isinstance(part, Container):
                    pending.extend(inner for item in part.items for inner in alternatives(item))

    def read_functions(self, functions: Iterable[Function]) -> None:
        """Read functions that belong to no class."""
        self.allow_escape = False
        self.reading = True
        for function in functions:
            self.invoke(function, NO_ARGUMENTS, ast.Constant(None), Frame(function.file), entry=True)

    def from_caller(self, parameter: ast.arg, default: ast.expr | None, frame: Frame) -> Value:
        """What a function that is read for itself is given: a tensor, unless its annotation or default says otherwise."""
        plain = super().from_caller(parameter, default, frame)
        if not self.reading:
            return plain
        annotated = says_tensor(parameter.annotation)
        if parameter.arg in ("self", "cls"):
            return plain
        if annotated is False or (isinstance(default, ast.Constant) and default.value is not None):
            return plain
        made = Tensor(
            parameter,
            Layout.unranked(),
            "argument",
            name=parameter.arg,
            certain=annotated is True,
            grad=True if annotated or default is None else None,
            batch=True,
            shown=annotated is True or (bool(self._functions) and parameter.arg in shown_tensors(self._functions[-1])),
        )
        made.dim = Dim.symbol()
        return made

    def global_name(self, name: str, frame: Frame) -> Value:
        """What a name means that the function does not bind itself; what would not be followed is not looked for."""
        key = frame.file.path, name, len(frame.within)
        unseen = self.reading and key not in self._named and frame.file is self.file
        if unseen and self.project.is_function_elsewhere(frame.file, name):
            self._named[key] = Named(External(f":{name}"))
        return super().global_name(name, frame)

    def invoke(
        self, function: Function, arguments: Arguments, node: ast.expr, frame: Frame, entry: bool = False
    ) -> Value:
        """Run a function; its decorators may switch gradients off."""
        quiet = any(is_quiet(decorator) for decorator in getattr(function.node, "decorator_list", ()))
        self._quiet += quiet
        self._functions.append(function.node)
        try:
            made = super().invoke(function, arguments, node, frame, entry)
        finally:
            self._functions.pop()
            self._quiet -= quiet
        if type(made) is Instance and made.kind == "unresolved":
            return self._unseen_tensor(made, arguments)
        return made

    def _bind_parameters(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, given: Arguments, frame: Frame, entry: bool
    ) -> None:
        super()._bind_parameters(node, given, frame, entry)
        if not self.reading or entry:
            return
        for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            value = frame.locals.get(parameter.arg)
            if parameter.annotation is None or not any(
                isinstance(part, Tensor) for part in alternatives(value or UNKNOWN)
            ):
                continue
            if says_number(parameter.annotation):
                frame.locals[parameter.arg] = Opaque()

    def _worth_reading(self, function: Function, arguments: Arguments) -> bool:
        if not self.reading:
            # What helps to build a tensor that the object keeps is followed into other files too; but what those do besides
            # is seldom about tensors, and a library's base class may do a lot.
            if tensors_in(arguments.everything()):
                return True
            abroad = function.file is not self.file
            if abroad and function.owner is not None and getattr(function.node, "name", "") != "__init__":
                return not self._abroad and self._makes_tensors(function)
            return super()._worth_reading(function, arguments) or (
                function.file is self.file and self._makes_tensors(function)
            )
        return function.file is self.file

    def _makes_tensors(self, function: Function) -> bool:
        calls = None if isinstance(function.node, ast.Lambda) else function.file.calls(function.node)
        return calls is not None and any(name.rpartition(".")[2] in tensors.MAKERS for name in calls)
