"""The reading of one class, or of the functions of a file: how the object is built, then each method as its caller would enter it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.source.domains.tensor_domain import TensorDomain
from modellint.source.engine.abstract_values import Container, Function, Instance, Value, alternatives
from modellint.source.engine.arguments import NO_ARGUMENTS, Arguments
from modellint.source.engine.class_state import Frame, TooLarge
from modellint.source.engine.interpreter import Interpreter
from modellint.source.engine.state_snapshots import ValueStates
from modellint.source.facts.recorded_operations import Recorder

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef, IndexedFile


class Reading:
    """Everything that a class's methods, or a file's functions, do: an interpreter with tensors as values, and what is kept of it."""

    def __init__(self, project: Project, cls: ClassRef | None, file: IndexedFile) -> None:
        self.kept = Recorder()
        self._domain = TensorDomain()
        self.interpreter = Interpreter(project, cls, file, self._domain, self.kept)
        self.built = 0
        """How many of the bindings stand in what builds the object."""
        self.given_away: set[int] = set()
        """What had escaped when the object was built: what methods do with a tensor later changes nothing about what it is."""
        self._was_built = False
        self._too_large: TooLarge | None = None

    def build(self) -> None:
        """Read ``__init__`` as it builds the object, once. Raises ``TooLarge``, and again whenever it is asked."""
        if self._too_large is not None:
            raise self._too_large
        if not self._was_built:
            self._was_built = True
            try:
                self.interpreter.enter_init()
            except TooLarge as error:
                self._too_large = error
                raise
            self.built = len(self.interpreter.bindings)

    def following_bases(self) -> Reading:
        """A reading of the same class that reads what methods of bases in other files put into the object, too."""
        here = self.interpreter
        assert here.file is not None
        other = Reading(here.project, here.cls, here.file)
        other.interpreter.follows_bases = True
        return other

    def continued(self) -> tuple[Interpreter, ValueStates]:
        """An interpreter that goes on from how the object is built, and the states of the values that it may change."""
        here = self.interpreter
        states = ValueStates(self._values())
        return here.continued(self._domain.copy(), Recorder()), states

    def close(self) -> None:
        """Take apart what points back at itself: nothing collects cycles in a run, and they would keep every tree."""
        for closure in self.interpreter.closures:
            closure.clear()

    def _values(self) -> Iterator[Value]:
        """All values that a method of the object can get hold of."""
        for bindings in self.interpreter.attributes.values():
            yield from (binding.value for binding in bindings)
        yield from self.interpreter.names.values()
        yield from self.interpreter.outer_values.values()

    def read_methods(self, methods: Sequence[Function]) -> None:
        """Read each method of the object that was built as its caller would enter it."""
        here = self.interpreter
        if not here.reading:
            self.given_away = {id(part) for part in self._held() if part.escaped}
        here.allow_escape = False
        here.reading = True
        built = here.attributes
        for function in methods:
            here.attributes = dict(built)
            here.enter(function)
        here.attributes = built

    def read_entries(self, entries: Iterable[tuple[Function, Arguments]]) -> None:
        """Read methods of the object that was built as those run them who hold it; the arguments begin with the object."""
        here = self.interpreter
        if not here.reading:
            self.given_away = {id(part) for part in self._held() if part.escaped}
        here.allow_escape = False
        here.reading = True
        here.modes.decides_flags = True
        built = here.attributes
        for function, arguments in entries:
            here.attributes = dict(built)
            here.enter_call(function, arguments)
        here.attributes = built

    def _held(self) -> Iterator[Container | Instance]:
        """What the attributes hold, and what that holds."""
        every = self.interpreter.attributes.values()
        pending = [part for bindings in every for one in bindings for part in alternatives(one.value)]
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
        self.interpreter.allow_escape = False
        self.interpreter.reading = True
        for function in functions:
            frame = Frame(function.file)
            self.interpreter.invoke(function, NO_ARGUMENTS, ast.Constant(None), frame, entry=True)

    def read_calls(self, calls: Iterable[tuple[Function, Arguments]]) -> None:
        """Read functions that belong to no class as their callers run them."""
        self.interpreter.allow_escape = False
        self.interpreter.reading = True
        self.interpreter.modes.decides_flags = True
        for function, arguments in calls:
            self.interpreter.enter_call(function, arguments)
