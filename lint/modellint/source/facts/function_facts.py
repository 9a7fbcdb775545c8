"""Facade of what is known of the methods of one class, or of functions outside of classes: the questions that rules about calls ask."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from modellint.results.diagnostic import Diagnostic, Fix, Severity
from modellint.source.domains.parameter_kinds import tensor_argument
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Container, Instance, Value, union
from modellint.source.engine.class_state import Attributes, Binding
from modellint.source.facts.attributes.reads import AttributeReads
from modellint.source.facts.attributes.writes import AttributeWrites, by_attribute
from modellint.source.facts.call_graph import CallGraph, functions_of, name_of, self_names
from modellint.source.facts.call_result_uses import HandedOn, compared_with, ends_in_python, only_for_a_loss
from modellint.source.facts.default_arguments import ConstructorDefaults
from modellint.source.facts.demand_driven_reading import DemandDrivenReading
from modellint.source.facts.dynamic_dimensions import (
    dims_of_weights,
    is_sized_by_operands,
    symbols_of_operands,
    symbols_of_weights,
    tensors_sized_by,
)
from modellint.source.facts.recorded_operations import Call, Loop, Operation, Question, Recorder, Write
from modellint.source.project.container_attribute_uses import class_functions
from modellint.source.project.symbols import ClassRef
from modellint.source.roles.code_roles import (
    binds_a_loss,
    is_for_capture_only,
    is_never_exported,
    is_training_only,
    severity_in,
)
from modellint.source.syntax.ast_walk import conditions_around, statement_around, walk
from modellint.source.syntax.edit_builder import Rewriter
from modellint.source.syntax.message_statements import only_reports
from modellint.source.triggers.patterns import shows

if TYPE_CHECKING:
    from modellint.rule import Rule
    from modellint.settings import Destination
    from modellint.source.domains.input_independent_shapes import StaticSizes
    from modellint.source.facts.calling_contexts import Context
    from modellint.source.facts.class_analysis import Reading
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile


class Code:
    """The functions of one module class, or all those of a file that belong to none, read with tensors as values."""

    def __init__(
        self,
        project: Project,
        file: IndexedFile,
        ref: ClassRef | None,
        goal: Destination,
        reading: Reading,
        contexts: Sequence[Context] = (),
    ) -> None:
        self.project = project
        self.destination = goal
        self.file = file
        self.ref = ref
        self.name = ref.node.name if ref is not None else None
        self._static_sizes: dict[ast.AST, StaticSizes] = {}
        lineage = reading.interpreter.lineage
        entries = [context.function for context in contexts]
        self.methods = functions_of(project, file, lineage, entries)
        self._call_graph = CallGraph(file, lineage, self.methods, entries)
        self._reads = AttributeReads(lineage, self.methods, self._call_graph)
        self._writes = AttributeWrites()
        self._defaults = ConstructorDefaults(ref, self.methods)
        self.reading = DemandDrivenReading(reading, file, ref, self.methods, contexts)
        """How far it was read."""

    @property
    def flow(self) -> Recorder:
        """What the functions do."""
        return self.reading.flow

    def close(self) -> None:
        """Take apart what points back at itself: nothing collects cycles in a run, and they would keep every tree."""
        vars(self).clear()

    @property
    def lineage(self) -> list[ClassRef]:
        """The class and its bases in the project, in the order in which Python asks them."""
        return self.reading.plain.interpreter.lineage

    @property
    def calls(self) -> Iterator[list[Call]]:
        """Every call of the file that was read, with all its readings."""
        yield from self.reading.flow.calls.values()

    def readings(self, node: ast.AST | None) -> Sequence[Call]:
        """The readings of one call, such as the `node` of an `Instance`, whose arguments they have; none for anything else."""
        return self.reading.flow.calls.get(node, ()) if isinstance(node, ast.Call) else ()

    def is_compiled(self, readings: Sequence[Call | Question | Loop]) -> bool:
        """Whether TorchScript may compile what is around a call, a question or a loop in every reading: a trace keeps it as it is then."""
        if not all(reading.decorated for reading in readings):
            return False
        from modellint.source.facts.torchscript_functions import is_compiled

        return all(any(is_compiled(self.project, function) for function in reading.decorated) for reading in readings)

    def passed(self, module: Instance) -> Iterator[Value]:
        """What a module of the project is built with, as far as its `forward` certainly calls it, or each layer in it."""
        from modellint.source.facts.passed_layers import passed

        return passed(module, self.readings)

    def passed_classes(self, module: Instance) -> Iterator[str]:
        """The classes of layers that a module of the project is given, builds without arguments, and certainly runs, by their names."""
        from modellint.source.facts.passed_layers import passed_classes

        return passed_classes(module, self.readings)

    def one_by_one(self, call: Call) -> Instance | None:
        """The row of layers that a loop goes through in order to call each, where a call of its variable is what does."""
        if not isinstance(call.node.func, ast.Name):
            return None
        from modellint.source.facts.passed_layers import one_by_one

        return one_by_one(call, self.loops)

    def picked(self, call: Call) -> Instance | None:
        """The layer that a call picks out of an attribute by a number or name, or the row that a loop over its numbers calls one by one."""
        if not isinstance(call.node.func, ast.Subscript) or self.ref is None:
            return None
        from modellint.source.facts.passed_layers import picked

        return picked(call, self._bound_once, self.ref.node)

    def _bound_once(self, attribute: str) -> Value | None:
        """What one statement alone binds an attribute to."""
        bindings = self.bindings_of(attribute)
        return bindings[0].value if len(bindings) == 1 else None

    def is_given_lists(self, name: str) -> bool:
        """Whether all that call the class's `forward` in the project give it a list for an argument."""
        from modellint.source.roles.forward_call_sites.call_arguments import is_given_lists

        forward = self._forward
        if self.ref is None or forward is None:
            return False
        return is_given_lists(self.project, self.ref, forward, name)

    def is_given_scalars(self, name: str, function: ast.AST | None) -> bool:
        """Whether a function is the class's `forward`, and all calls of it in the project give numbers of Python for an argument."""
        from modellint.source.roles.scalar_arguments import is_given_scalars

        forward = self._forward
        if self.ref is None or forward is None or forward is not function:
            return False
        return is_given_scalars(self.project, self.ref, forward, name)

    def is_given_one_for(self, names: Sequence[str], row: int) -> bool:
        """Whether all calls of the class's `forward` in the project give one variable for several arguments, still unbound at a row."""
        from modellint.source.roles.forward_call_sites.call_arguments import is_given_one_for

        forward = self._forward
        return (
            self.ref is not None
            and forward is not None
            and is_given_one_for(self.project, self.ref, forward, names, row)
        )

    @property
    def _forward(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        node = next((method.node for method in self.methods if name_of(method) == "forward"), None)
        return node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None

    def absent_outputs(self, statement: ast.Return) -> frozenset[int]:
        """The places of a tuple that the class's own `forward` returns, at a `return` that always runs, that hold None by what it calls."""
        from modellint.source.facts.absent_outputs import absent_outputs

        ref = self.ref
        forward = ref.file.members(ref.node).get("forward") if ref is not None else None
        if ref is None or not isinstance(forward, ast.FunctionDef):
            return frozenset()
        return absent_outputs(self.project, ref, forward, statement)

    def opaque_call(self, ref: ClassRef, method: str) -> str | None:
        """A call of a method of a class that is neither PyTorch's nor Python of the project, as it is written; None where there is none."""
        from modellint.source.facts.opaque_calls import opaque_call

        return opaque_call(self.project, ref, method)

    @property
    def writes(self) -> Iterator[list[Write]]:
        """Every in-place write, and every binding of an attribute outside ``__init__``, with all its readings."""
        yield from self.reading.flow.writes.values()

    @property
    def operations(self) -> Iterator[list[Operation]]:
        """Every binary operation and subscript on tensors, with all its readings."""
        yield from self.reading.flow.operations.values()

    @property
    def questions(self) -> Iterator[list[Question]]:
        """Everything that Python asks for its truth, with all its readings."""
        yield from self.reading.flow.questions.values()

    @property
    def loops(self) -> Iterator[list[Loop]]:
        """Everything that a loop or a comprehension goes through, with all its readings."""
        yield from self.reading.flow.loops.values()

    def sizes(self, node: ast.expr) -> list[Tensor]:
        """The tensors of which an expression is the shape or a size, or whose sizes are unpacked into it; not those that are fixed."""
        return tensors_sized_by(node, self.reading.flow)

    def is_fixed_by_weights(self, tensor: Tensor, dim: int) -> bool:
        """Whether a layer of torch takes the tensor whose weights say how large a dimension of it is."""
        if dim in self._dims_of_weights.get(tensor.node, ()):
            return True
        layout = (tensor.refined or tensor).layout
        size = layout.size(dim) if layout is not None else None
        if size is None or not size[1].powers:
            return False
        return all(isinstance(symbol, tuple) or symbol in self._symbols_of_weights for symbol, _ in size[1].powers)

    @cached_property
    def _symbols_of_weights(self) -> frozenset[object]:
        return symbols_of_weights(self.reading.flow)

    def is_fixed_by_lists(self, tensor: Tensor, dim: int) -> bool:
        """Whether the size of a dimension says how often loops of a fixed number of turns have filled a list."""
        size = tensor.layout.size(dim) if tensor.layout is not None else None
        if size is None or not size[1].powers:
            return False
        return all(isinstance(symbol, tuple) or symbol in self._counted_symbols for symbol, _ in size[1].powers)

    def is_fixed_by_operands(self, tensor: Tensor, dim: int) -> bool:
        """Whether a sum or product is computed of a batch of known rank, of a dimension of which the code says the size.

        Of what else it is computed of, no rank is known: it is taken to be no larger. So is a size of what `forward` always adds a
        parameter to, which has another size than 1 there.
        """
        if is_sized_by_operands(tensor, dim, self.flow):
            return True
        layout = (tensor.refined or tensor).layout
        size = layout.size(dim) if layout is not None else None
        return (
            size is not None
            and bool(size[1].powers)
            and all(isinstance(symbol, tuple) or symbol in self._symbols_of_operands for symbol, _ in size[1].powers)
        )

    @cached_property
    def _symbols_of_operands(self) -> frozenset[object]:
        return symbols_of_operands(self.flow)

    @cached_property
    def _counted_symbols(self) -> frozenset[object]:
        from modellint.source.facts.list_lengths import counted_symbols

        return counted_symbols(self.reading.flow)

    @cached_property
    def _dims_of_weights(self) -> dict[ast.AST | None, set[int]]:
        return dims_of_weights(self.reading.flow)

    @property
    def returned(self) -> Iterator[Value]:
        """What ``forward`` gives back, return by return."""
        inside = {node for method in self.methods if name_of(method) == "forward" for node in walk(method.node)}
        yield from (value for node, value in self.reading.flow.returns if node in inside)

    @property
    def bindings(self) -> list[Binding]:
        """Every statement that binds an attribute of ``self``."""
        return self.reading.of_functions.interpreter.bindings

    @property
    def built(self) -> list[Binding]:
        """The bindings of attributes that building the object runs."""
        reading = self.reading.of_object
        return reading.interpreter.bindings[: reading.built]

    def built_of(self, attribute: str) -> list[Binding]:
        """Those of ``built`` that bind an attribute."""
        return self._built_of.get(attribute, [])

    @cached_property
    def _built_of(self) -> dict[str, list[Binding]]:
        return by_attribute(self.built)

    def bindings_of(self, attribute: str) -> list[Binding]:
        """Those of ``bindings`` that bind an attribute."""
        return self._writes.bindings_of(attribute, self.bindings)

    def attribute_writes(self, attribute: str) -> list[Write]:
        """The first readings of the statements that bind an attribute outside ``__init__``."""
        return self._writes.rebinding(attribute, self.reading.flow.writes)

    def part_writes(self, attribute: str) -> list[Write]:
        """The first readings of the statements that change what an attribute holds in place, or a part of that."""
        return self._writes.in_place(attribute, self.reading.flow.writes)

    def changed_elsewhere(self, call: Call) -> list[Value]:
        """The arguments that a call changes in place, where a function of another file does that."""
        from modellint.source.facts.argument_effects import changed_arguments

        return changed_arguments(self.project, self.file, call)

    def has_escaped(self, value: Container | Instance) -> bool:
        """Whether building the object gave a value to code that cannot be seen."""
        return id(value) in self.reading.of_object.given_away if self.reading.has_begun else value.escaped

    def attribute(self, name: str) -> Value:
        """What an attribute of ``self`` holds once the object is built."""
        found = self.reading.of_object.interpreter.attributes.get(name, ())
        return union([binding.value for binding in found])

    @property
    def attributes(self) -> Attributes:
        """The attributes of ``self`` once the object is built."""
        return self.reading.of_object.interpreter.attributes

    def is_read_in_forward(self, attribute: str) -> bool:
        """Whether ``forward``, or what it runs, reads an attribute; any method may be what a ``forward`` of another file runs."""
        return self._reads.is_read_in_forward(attribute)

    def readers(self, attribute: str) -> list[ast.AST]:
        """The methods that read an attribute of ``self``, but for ``__init__`` and those that only build or show the object."""
        return self._reads.readers(attribute)

    def is_read_first(self, attribute: str) -> bool:
        """Whether `forward` reads what an attribute of ``self`` was at the end of the last call."""
        if not self._reads.is_read_first(attribute):
            return False
        return not any(self._is_given(name, value) for name, value in self._reads.setting_flags(attribute))

    def is_reset_by_holders(self, attribute: str) -> bool:
        """Whether all modules of the project that run an object of the class have it set an attribute anew before."""
        from modellint.source.roles.reset_states import is_reset_by_holders

        return self.ref is not None and is_reset_by_holders(self.project, self.ref, attribute)

    def _is_given(self, name: str, value: bool) -> bool:
        """Whether all that call the class's `forward` in the project give True, or False, for an argument."""
        from modellint.source.roles.forward_call_sites.call_arguments import flag_given

        forward = self._forward
        return (
            self.ref is not None and forward is not None and flag_given(self.project, self.ref, forward, name) is value
        )

    def top_functions(self) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
        """The functions of the file that stand in no class."""
        return self.file.functions

    def is_aside(self, function: ast.AST | None) -> bool:
        """Whether a method only builds, saves, moves or shows the object; by its name, or as nothing else calls it."""
        return self._call_graph.is_aside(function)

    @cached_property
    def in_forward(self) -> frozenset[ast.AST]:
        """The functions that ``forward`` runs, itself included; or those that modules of other files or classes are seen to run."""
        return self._call_graph.in_forward

    def shows(self, sign: str) -> bool:
        """Whether the class, its bases in the file and the functions that ``forward`` runs show a sign."""
        nodes = [ref.node for ref in self.lineage if ref.file is self.file]
        run = [node for node in self.in_forward if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        return shows(sign, self.file, [*nodes, *run], run)

    def statement_of(self, node: ast.AST, function: ast.AST | None) -> ast.stmt | None:
        """The statement of a function that a node stands in."""
        return statement_around(node, function)

    def conditions(self, node: ast.AST, function: ast.AST | None) -> Iterator[ast.expr]:
        """The conditions around a node in its function, innermost first."""
        return conditions_around(node, function)

    @property
    def is_never_exported(self) -> bool:
        """Whether the class is no part of what is exported: a loss, a metric, a search, in a test, or what gives images of PIL."""
        return is_never_exported(self)

    @property
    def is_training_only(self) -> bool:
        """Whether only training runs the class: what is never exported, a discriminator, or what stands by losses or augmentation."""
        return is_training_only(self)

    def severity_at(self, usual: Severity, node: ast.AST, function: ast.AST | None) -> Severity:
        """How much a finding weighs: what probably only training, a flag for messages or a search runs is worth knowing only."""
        return severity_in(self, usual, node, function)

    def is_switched_off(self, node: ast.AST, function: ast.AST | None) -> bool:
        """Whether a place is reached in training only, or with a flag of the constructor that nothing in the project switches on."""
        from modellint.source.roles.constructor_flags.flag_conditions import is_switched_off

        places = (ref for ref in self.lineage if ref.file is self.file)
        owner = next((ref for ref in places if any(part is function for part in class_functions(ref.node))), None)
        return owner is not None and is_switched_off(self.project, owner, function, getattr(node, "lineno", 0))

    def by_default(self, value: Value) -> tuple[Value, frozenset[str]]:
        """What a value is if the constructor's arguments have their defaults, and which arguments those are; none where it needs none.

        A default is what the project builds: whoever relies on it asks `keeps_defaults`, which is not for nothing.
        """
        return self._defaults.by_default(value)

    def keeps_defaults(self, names: Iterable[str]) -> bool:
        """Whether everyone in the project who builds the class leaves some arguments of its constructor as they are by default."""
        from modellint.source.roles.constructor_flags.flag_conditions import keeps_default

        ref = self.ref
        return all(ref is not None and keeps_default(self.project, ref, name) for name in names)

    def is_left_none(self, name: str) -> bool:
        """Whether everyone in the project who builds the class, and somebody does, gives None for an argument of its constructor."""
        from modellint.source.roles.constructor_flags.flag_conditions import is_left_none

        return self.ref is not None and is_left_none(self.project, self.ref, name)

    @staticmethod
    def only_reports(statements: list[ast.stmt]) -> bool:
        """Whether statements do nothing but raise, warn or print."""
        return only_reports(statements)

    def is_for_capture_only(self, node: ast.AST, function: ast.AST | None) -> bool:
        """Whether only `torch.export` and its like run a place, which a trace does not reach."""
        return is_for_capture_only(self, node, function)

    def is_for_loss_only(self, node: ast.expr, function: ast.AST) -> bool:
        """Whether an expression is for a loss: under `if labels is not None`, in a function called a loss, or given to one."""
        return only_for_a_loss(node, function)

    def is_a_loss(self, statement: ast.stmt) -> bool:
        """Whether a statement computes what it calls a loss."""
        return binds_a_loss(statement)

    def compared_with(self, node: ast.expr) -> list[ast.expr]:
        """What the value of an expression is compared with, where nothing else comes of it in its function; empty where something may."""
        functions = [method.node for method in self.methods if any(part is node for part in walk(method.node))]
        return compared_with(node, functions[0]) if functions else []

    def ends_in_python(self, node: ast.expr, function: ast.AST) -> bool:
        """Whether the value of an expression certainly becomes a number, a condition or a text, and no tensor: a trace drops it."""
        return ends_in_python(node, function)

    def handed_on(self, node: ast.expr, function: ast.AST) -> list[ast.Call] | None:
        """The calls of code that was not read to which alone the value of an expression goes; None where it goes elsewhere, too."""
        return self._handed_on.of(node, function)

    def is_discarded(self, node: ast.expr, function: ast.AST) -> bool:
        """Whether an expression only reaches elements of a tuple that a function gives back, and no caller in the project reads.

        Conversion drops it then. The function is the class's own `forward`, where other modules alone build the class, or one at the top
        of the file; all that call it are known.
        """
        from modellint.source.roles.forward_call_sites.unused_results import is_discarded, is_discarded_of

        ref = self.ref
        of_class = ref is not None and ref.file.members(ref.node).get("forward") is function
        of_file = isinstance(function, ast.FunctionDef) and function in self.file.tree.body
        places = self._handed_on.returned(node, function) if of_class or of_file else None
        if not places:
            return False
        if ref is not None and of_class:
            return is_discarded(self.project, ref, places)
        return isinstance(function, ast.FunctionDef) and is_discarded_of(self.project, self.file, function, places)

    @cached_property
    def _handed_on(self) -> HandedOn:
        return HandedOn(self.readings)

    def has_static_size(self, node: ast.expr, function: ast.AST | None) -> bool:
        """Whether a tensor of a method has the same sizes behind batch and channels whatever the input, by how it is made."""
        if not any(method.node is function for method in self.methods) or not isinstance(
            function, (ast.FunctionDef, ast.AsyncFunctionDef)
        ):
            return False
        if function not in self._static_sizes:
            from modellint.source.domains.input_independent_shapes import StaticSizes

            self._static_sizes[function] = StaticSizes(
                function, lambda name: not self.attribute_writes(name), self.file.names
            )
        return self._static_sizes[function].of(node) > 0

    def tensor_argument(self, function: ast.AST) -> str | None:
        """The first argument of a function that is required and is a tensor."""
        return tensor_argument(function)

    @cached_property
    def own_functions(self) -> set[ast.AST]:
        """The methods of the class and of its bases in the file."""
        return {f for ref in self.lineage if ref.file is self.file for f in class_functions(ref.node)}

    def defines(self, name: str) -> bool:
        """Whether the class, or a base of it in the project, defines a method of its own by that name."""
        return any(name in ref.file.members(ref.node) for ref in self.lineage)

    def self_name(self, function: ast.AST | None) -> str | None:
        """How a function of the class names the module that it belongs to; None for one that does not know it."""
        return self._self_names.get(function) if function is not None else None

    @cached_property
    def _self_names(self) -> dict[ast.AST, str | None]:
        return self_names(self.methods) if self.ref is not None else {}

    def holds(self, node: ast.AST) -> bool:
        """Whether a node stands in the class, in a base of it in the file, or in a function of the file."""
        return node in self._held

    @cached_property
    def _held(self) -> set[ast.AST]:
        places = [ref.node for ref in self.lineage if ref.file is self.file]
        return {part for place in (*places, *self.file.functions.values()) for part in walk(place)}

    def _is_of_library(self, call: ast.Call) -> bool:
        """Whether it calls a function by its dotted name, `torch.special.i0(x)`, and no method of an object."""
        readings = self.reading.flow.calls.get(call, ())
        return any(reading.name and reading.receiver is None for reading in readings)

    def is_saved_on_cpu(self, path: ast.expr, function: ast.AST | None, takers: Sequence[ast.expr]) -> bool:
        """Whether every place of the project that may save what a function loads from a path moves it to the CPU before.

        ``takers``: the modules whose `load_state_dict` is given all that is loaded.
        """
        from modellint.source.roles.files.saved_states import is_saved_on_cpu

        return is_saved_on_cpu(self.project, self.file, path, function, takers)

    @cached_property
    def rewriter(self) -> Rewriter:
        """Places and names of the file."""
        return Rewriter(self.file)

    def finding(
        self,
        rule: Rule,
        node: ast.stmt | ast.expr,
        message: str,
        *,
        attribute: str | None = None,
        severity: Severity | None = None,
        fix: Fix | None = None,
        statement: ast.stmt | None = None,
        advice: str | None = None,
        operator: str | None = None,
    ) -> Diagnostic:
        """A finding of ``rule`` at a node of the file; ``statement`` is the one it stands in, whose last line may suppress it."""
        rewriter = self.rewriter
        span = (
            rewriter.call_span(node, self._is_of_library(node)) if isinstance(node, ast.Call) else rewriter.span(node)
        )
        last = (
            self.rewriter.span(statement).end_row if statement is not None and _is_simple(statement) else span.end_row
        )
        return rule.found(
            message,
            span,
            severity=severity,
            fix=self.rewriter.keeping_comments(fix),
            class_name=self.name,
            attribute=attribute,
            noqa_row=last,
            advice=advice,
            operator=operator,
        )


def _is_simple(statement: ast.stmt) -> bool:
    return not hasattr(statement, "body")
