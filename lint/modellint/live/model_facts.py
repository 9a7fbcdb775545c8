"""Live models as rules see them: a subject, and every question about it, answered when it is first asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from modellint.live.capture import fake_tensor_run

if TYPE_CHECKING:
    import ast

    import torch
    from torch import nn

    from modellint.live.attribute_contents import HeldAttribute
    from modellint.live.capture.data_dependence import Reach
    from modellint.live.capture.inplace_writes import LostWrite, Write
    from modellint.live.capture.item_assignments import ItemAssignment
    from modellint.live.capture.loop_iterations import LongLoop
    from modellint.live.capture.outputs import Part
    from modellint.live.capture.records import Call, Failure, Run, TensorFact
    from modellint.live.capture.retained_autograd_graphs import KeptGraph
    from modellint.live.capture.scalar_operands import ScalarOperand
    from modellint.live.capture.state_changes import Change
    from modellint.live.capture.tensor_to_python import Concretization
    from modellint.live.checkpoint_comparison import Comparison
    from modellint.live.code import attribute_binding
    from modellint.live.code.attribute_usage import Reading
    from modellint.live.hooks import Hook
    from modellint.live.subject import Entry, State, Subject
    from modellint.live.unregistered_state import Held
    from modellint.results.conversion_verdict import Blocker, Verdict
    from modellint.results.diagnostic import Diagnostic, Place, Severity
    from modellint.results.verification import Verification
    from modellint.rule import Rule
    from modellint.settings import Destination


class LiveModel:
    """One live model under examination: what it holds, what one run of it showed, and what the destination says.

    Nothing here changes it. What a rule may ask depends on its ``live_needs``; without the need an answer is None or empty.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.model: nn.Module = subject.model
        self.destination: Destination = subject.destination
        self.has_values = subject.has_values
        """Whether parameters hold numbers; they do not on the meta device."""

    def finding(
        self,
        rule: Rule,
        message: str,
        *,
        at: Place | None,
        modules: Iterable[str] = (),
        severity: Severity | None = None,
        class_name: str | None = None,
        attribute: str | None = None,
        operator: str | None = None,
        advice: str | None = None,
    ) -> Diagnostic:
        """A finding of ``rule``; ``modules`` are the paths of all instances that show it."""
        finding = rule.found(
            message,
            None if at is None else at.span,
            severity=severity,
            class_name=class_name,
            attribute=attribute,
            advice=advice,
            operator=operator,
        )
        path, library = (None, ()) if at is None else (at.path, (at.library,) if at.library else ())
        return finding._replace(path=path, evidence="live", modules=tuple(dict.fromkeys(modules)), library=library)

    # What it holds: `structure`, `values`, `checkpoint`

    @property
    def modules(self) -> tuple[Entry, ...]:
        """Every registered module once, in the order of ``named_modules``."""
        return self._subject.modules

    @property
    def state(self) -> tuple[State, ...]:
        """Every parameter and buffer once, with all its names, persistent or not."""
        return self._subject.state

    @property
    def unregistered_state(self) -> tuple[Held, ...]:
        """What the model holds in plain attributes, and PyTorch does not register."""
        from modellint.live.unregistered_state import unregistered_state

        return unregistered_state(self._subject)

    @property
    def reachable_state(self) -> tuple[Held, ...]:
        """Unregistered state, and the registered state that plain attributes lead to as well."""
        from modellint.live.unregistered_state import reachable_state

        return reachable_state(self._subject)

    def held_attributes(self, *kinds: str) -> Iterator[HeldAttribute]:
        """What plain attributes hold of some kinds (``module``, ``parameter``, ``tensor``, ``alias``), by attribute."""
        from modellint.live.attribute_contents import held_attributes

        return held_attributes(self._subject, *kinds)

    @property
    def overlapping_state(self) -> Iterator[tuple[State, State]]:
        """Pairs of saved parameters and buffers that share memory without being the same."""
        from modellint.live.state_memory_layout import overlaps

        return overlaps(state for state in self.state if state.persistent)

    @property
    def checkpoint_comparison(self) -> Comparison | None:
        """The checkpoint's keys and shapes beside the model's."""
        from modellint.live.checkpoint_comparison import compare

        return compare(self._subject)

    # Where it is written

    def binding(self, path: str) -> attribute_binding.Binding:
        """The statement from which a module or tensor hangs that is registered at ``path``; its ``keywords()`` are those of ``finding``."""
        from modellint.live.code.attribute_binding import binding_of

        return binding_of(self._subject, path)

    def attribute_place(self, module: nn.Module, name: str) -> tuple[str, Place | None]:
        """The name of the class whose code binds ``self.name``, and where it does."""
        return self._subject.attribute_place(module, name)

    def class_of(self, path: str, attribute: str) -> str | None:
        """The name of the class whose code binds an attribute of the module at ``path``; None where no module is there."""
        return self._subject.class_of(path, attribute)

    def class_place(self, module: nn.Module) -> Place | None:
        """The `class` line of the module's class, unless that is torch's own."""
        return self._subject.class_place(module)

    def owns(self, place: Place) -> bool:
        """Whether a place is in a file of the project."""
        return self._subject.project.owns(place.path)

    def holder(self, path: str) -> tuple[nn.Module, str]:
        """The nearest module around ``path`` that is not torch's own, and its attribute that leads there."""
        return self._subject.holder(path)

    def returning(self, wanted: Callable[[ast.expr | None], bool]) -> Place | None:
        """The `return` of the model's `forward` whose expression is ``wanted``."""
        from modellint.live.code.anchor_statements import returning

        return returning(self._subject, wanted)

    def calling(self, path: str, method: str) -> Place | None:
        """The statement of the project that calls a method of what is registered at ``path``."""
        from modellint.live.code.anchor_statements import calling

        return calling(self._subject, path, method)

    @property
    def own_class(self) -> type[nn.Module] | None:
        """The first of the model's classes that is not torch's own."""
        from modellint.live.code.attribute_binding import written_class

        return written_class(self.model)

    # What a run showed: `run`

    @property
    def run(self) -> Run | None:
        """One run with the given inputs, recorded."""
        return fake_tensor_run.captured_run(self._subject)

    @property
    def tensors_read(self) -> frozenset[str] | None:
        """The names of the tensors that the run took, registered or not; None where it did not end."""
        return fake_tensor_run.tensors_read(self._subject)

    @property
    def input_facts(self) -> tuple[TensorFact, ...]:
        """The tensors that the model was given and used, each once."""
        from modellint.live.capture.data_dependence import inputs_of

        return () if self.run is None else inputs_of(self.run)

    @property
    def state_read(self) -> frozenset[str]:
        """The names of the model's own tensors that an operator took."""
        from modellint.live.capture.data_dependence import state_read

        return frozenset() if self.run is None else state_read(self.run)

    @property
    def outputs(self) -> Iterator[Part]:
        """Everything that the model returned, with how to get there."""
        from modellint.live.capture.outputs import parts_of

        return iter(()) if self.run is None else parts_of(self.run.output)

    @property
    def scalar_operands(self) -> Iterator[ScalarOperand]:
        """The numbers that calls fill tensors with, add to them, multiply them by, or guard them with."""
        from modellint.live.capture.scalar_operands import scalar_operands

        return iter(()) if self.run is None else scalar_operands(self.run)

    @staticmethod
    def depends_on(operand: ScalarOperand, data: Reach) -> bool:
        """Whether a tensor that a number is combined with depends on data."""
        from modellint.live.capture.scalar_operands import depends_on_data

        return depends_on_data(operand, data)

    def is_weighted_logarithm(self, operand: ScalarOperand) -> bool:
        """Whether the run takes the logarithm of what comes of a number and a tensor, and only multiplies that by the tensor."""
        from modellint.live.capture.scalar_operands import is_weighted_logarithm

        return self.run is not None and is_weighted_logarithm(operand, self.run)

    @property
    def concretizations(self) -> tuple[Concretization, ...]:
        """Where Python took a value out of a tensor: a truth, a number, an array."""
        from modellint.live.capture.tensor_to_python import concretizations

        return concretizations(self._subject)

    @property
    def item_assignments(self) -> Iterator[ItemAssignment]:
        """The assignments to items of tensors."""
        from modellint.live.capture.item_assignments import item_assignments

        return iter(()) if self.run is None else item_assignments(self.run)

    @property
    def input_writes(self) -> Iterator[tuple[str, Write]]:
        """The in-place writes to inputs, each with the input's name."""
        from modellint.live.capture.inplace_writes import input_writes

        return iter(()) if self.run is None else input_writes(self._subject, self.run)

    @property
    def lost_writes(self) -> tuple[LostWrite, ...]:
        """The in-place writes that a trace loses."""
        from modellint.live.capture.inplace_writes import lost_writes

        return lost_writes(self._subject)

    @property
    def state_changes(self) -> tuple[Change, ...]:
        """The attributes that hold something else after the run than before."""
        from modellint.live.capture.state_changes import state_changes

        return state_changes(self._subject)

    @property
    def kept_graphs(self) -> Iterator[KeptGraph]:
        """The tensors that keep the graph of the last call."""
        from modellint.live.capture.retained_autograd_graphs import kept_graphs

        return kept_graphs(self._subject)

    @property
    def long_loops(self) -> Iterator[LongLoop]:
        """The loops that take more turns on larger inputs."""
        from modellint.live.capture.loop_iterations import long_loops

        return long_loops(self._subject)

    def flexible_calls(self, names: frozenset[str]) -> Iterator[Call]:
        """The calls of some functions whose input has a flexible size in its last dimensions."""
        from modellint.live.capture.resized_runs import flexible_calls

        return flexible_calls(self._subject, names)

    @property
    def resized_failures(self) -> Iterator[Failure]:
        """How runs ended that were given inputs of other sizes."""
        from modellint.live.capture.resized_runs import failures

        return failures(self._subject)

    # What the destination says: `conversion`, `execution`

    @property
    def verdict(self) -> Verdict | None:
        """The verdict that counts: by the first route that converts, or else the one with the fewest blockers."""
        from modellint.live.conversion_analyses import verdicts
        from modellint.results.conversion_verdict import choose

        return choose(verdicts(self._subject), self.destination.frontend)

    def blockers(self, *kinds: str) -> Iterator[tuple[Blocker, str]]:
        """What stands in the way by the route that counts, of these kinds, each with what captured the model."""
        from modellint.live.conversion_analyses import blockers

        return blockers(self._subject, *kinds)

    @property
    def execution(self) -> Verification | None:
        """What the converted model computes against PyTorch; None where that cannot be said."""
        from modellint.live.conversion_analyses import execution

        return execution(self._subject)

    # What is known of a class, a module or a tensor by itself

    @staticmethod
    def usage(cls: type) -> Reading:
        """How the methods of a class use its attributes, by their source."""
        from modellint.live.code.attribute_usage import reading_of

        return reading_of(cls)

    @staticmethod
    def place_of(cls: type) -> Place | None:
        """The `class` line of a class."""
        from modellint.live.code.class_source import place_of_class

        return place_of_class(cls)

    @staticmethod
    def has_state(module: nn.Module) -> bool:
        """Whether a module has weights, buffers or a mode to lose."""
        from modellint.live.unregistered_state import has_state

        return has_state(module)

    @staticmethod
    def depends_on_mode(module: nn.Module) -> bool:
        """Whether a module computes something else in training."""
        from modellint.live.mode_dependence import depends_on_mode

        return depends_on_mode(module)

    @staticmethod
    def hooks(module: nn.Module) -> Iterator[Hook]:
        """The hooks that are registered on a module itself."""
        from modellint.live.hooks import hooks_of

        return hooks_of(module)

    @staticmethod
    def disorder(tensor: torch.Tensor) -> str | None:
        """How a tensor lies in memory, where that is not in the order of its dimensions."""
        from modellint.live.state_memory_layout import disorder

        return disorder(tensor)
