"""Demand-driven reading of functions: none is read before a rule asks for what only that tells, and those besides `forward` last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from modellint.source.engine.abstract_values import Function
from modellint.source.facts.call_graph import called_on_self, name_of

if TYPE_CHECKING:
    from modellint.source.facts.calling_contexts import Context
    from modellint.source.facts.class_analysis import Reading
    from modellint.source.facts.recorded_operations import Recorder
    from modellint.source.project.symbols import ClassRef, IndexedFile


class DemandDrivenReading:
    """The reading of a class or of a file's functions, as far as it was asked for."""

    def __init__(
        self,
        plain: Reading,
        file: IndexedFile,
        ref: ClassRef | None,
        methods: Sequence[Function],
        contexts: Sequence[Context],
    ) -> None:
        self.plain = plain
        """It without anything read for it."""
        self.whole = True
        """Whether all methods are to be read, or `forward` and what it runs only."""
        self.has_begun = False
        """Whether functions were read, and not only how the object is built."""
        self._file = file
        self._ref = ref
        self._methods = methods
        self._contexts = contexts
        self._rest: list[Function] = []

    @property
    def of_object(self) -> Reading:
        """The same, with the object built: a rule that only looks at the text does not wait for that."""
        if self._ref is not None:
            self.plain.build()
        return self.plain

    @property
    def of_functions(self) -> Reading:
        """The same, with the functions read."""
        self._read()
        return self.of_object

    @property
    def flow(self) -> Recorder:
        """What the functions do, read when it is first asked for: many rules only ask how the object is built."""
        self._read()
        return self.of_object.kept

    def _read(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            self._begin()
        if self.whole and self._rest:
            rest, self._rest = self._rest, []
            self.of_object.read_methods(rest)

    def _begin(self) -> None:
        """Read what is entered first: a class's own `forward`, what modules of other files or classes run, or all functions of a file."""
        ref, file = self._ref, self._file
        if self._contexts and ref is not None:
            entries = [(Function(context.function, file, None, ref), context.arguments) for context in self._contexts]
            self.of_object.read_entries(entries)
        elif self._contexts:
            calls = [(Function(context.function, file), context.arguments) for context in self._contexts]
            self.of_object.read_calls(calls)
        elif ref is None:
            self.of_object.read_functions(self._methods)
        else:
            called = called_on_self(self._methods)
            # What a class inherits is read with the class that wrote it, or where it is called from here.
            own = [f for f in self._methods if f.owner is not None and f.owner.node is ref.node]
            self._rest = [f for f in own if name_of(f) != "forward" and name_of(f) not in called]
            self.of_object.read_methods([f for f in self._methods if name_of(f) == "forward"])
