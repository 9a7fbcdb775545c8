"""What the methods of one class, or the functions outside of classes, do: the questions that rules about calls ask."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from modellint.results.diagnostic import Diagnostic, Fix, Severity
from modellint.source.domains.parameter_kinds import tensor_argument
from modellint.source.domains.tensors import CONVOLUTIONS, Shape, Size, Tensor, is_fixed
from modellint.source.engine.abstract_values import (
    Argument,
    Container,
    Function,
    Instance,
    Number,
    Value,
    alternatives,
    union,
)
from modellint.source.engine.asserted_conditions import tested_classes
from modellint.source.engine.class_state import Attributes, Binding
from modellint.source.engine.mode_conditions import is_tensor_class
from modellint.source.facts.call_result_uses import HandedOn, compared_with, ends_in_python, only_for_a_loss
from modellint.source.facts.execution_order import is_read_first, setting_flags
from modellint.source.facts.recorded_operations import Call, Loop, Operation, Question, Recorder, Write
from modellint.source.project.attribute_uses import class_functions
from modellint.source.project.symbols import ClassRef
from modellint.source.roles.code_roles import (
    binds_a_loss,
    is_for_capture_only,
    is_never_exported,
    is_training_only,
    severity_in,
)
from modellint.source.syntax.ast_walk import of_kind, parents_in, walk
from modellint.source.syntax.computed_names import HOLE, is_numbered, name_pattern
from modellint.source.syntax.edit_builder import Rewriter
from modellint.source.syntax.message_statements import only_reports
from modellint.source.triggers.patterns import shows

if TYPE_CHECKING:
    from modellint.rule import Rule
    from modellint.settings import Destination
    from modellint.source.domains.static_sizes import StaticSizes
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
        self._contexts = contexts
        self.project = project
        self.destination = goal
        self.file = file
        self.ref = ref
        self.name = ref.node.name if ref is not None else None
        self._plain = reading
        """How the class is read, which need not have begun."""
        self._unread = True
        self.whole = True
        """Whether all methods are to be read, or `forward` and what it runs only."""
        self._rest: list[Function] = []
        self._bindings_of: dict[str, list[Binding]] = {}
        self._sorted = 0
        self._writes_of: dict[tuple[bool, str], list[Write]] = {}
        self._writes_sorted = 0
        self._static_sizes: dict[ast.AST, StaticSizes] = {}
        if ref is not None:
            self.methods = list(self._own_methods())
        elif contexts:
            # What modules of other files run.
            self.methods = [Function(node, file) for node in dict.fromkeys(context.function for context in contexts)]
        else:
            self.methods = list(_functions_outside(file, project))

    @property
    def _reading(self) -> Reading:
        """The same, with the object built: a rule that only looks at the text does not wait for that."""
        if self.ref is not None:
            self._plain.build()
        return self._plain

    @property
    def flow(self) -> Recorder:
        """What the functions do, read when it is first asked for: many rules only ask how the object is built."""
        self._read()
        return self._reading.kept

    def _read(self) -> None:
        if self._unread:
            self._unread = False
            if self._contexts and self.ref is not None:
                owner = self.ref
                entries = [
                    (Function(context.function, self.file, None, owner), context.arguments)
                    for context in self._contexts
                ]
                self._reading.read_entries(entries)
            elif self._contexts:
                calls = [(Function(context.function, self.file), context.arguments) for context in self._contexts]
                self._reading.read_calls(calls)
            elif self.ref is None:
                self._reading.read_functions(self.methods)
            else:
                called = _called_on_self(self.methods)
                # What a class inherits is read with the class that wrote it, or where it is called from here.
                own = [f for f in self.methods if f.owner is not None and f.owner.node is self.ref.node]
                self._rest = [f for f in own if _name(f) != "forward" and _name(f) not in called]
                self._reading.read_methods([f for f in self.methods if _name(f) == "forward"])
        if self.whole and self._rest:
            rest, self._rest = self._rest, []
            self._reading.read_methods(rest)

    def close(self) -> None:
        """Take apart what points back at itself: nothing collects cycles in a run, and they would keep every tree."""
        vars(self).clear()

    @property
    def lineage(self) -> list[ClassRef]:
        """The class and its bases in the project, in the order in which Python asks them."""
        return self._plain.interpreter.lineage

    def _own_methods(self) -> Iterator[Function]:
        seen = {"__init__"}
        for ref in self.lineage:
            if ref.file is not self.file:
                continue
            # Of several functions of a name, such as overloads, the last stays.
            for name, node in {node.name: node for node in class_functions(ref.node)}.items():
                if name not in seen:
                    seen.add(name)
                    yield Function(node, ref.file, None, ref)

    @property
    def calls(self) -> Iterator[list[Call]]:
        """Every call of the file that was read, with all its readings."""
        yield from self.flow.calls.values()

    def readings(self, node: ast.AST | None) -> Sequence[Call]:
        """The readings of one call, such as the `node` of an `Instance`, whose arguments they have; none for anything else."""
        return self.flow.calls.get(node, ()) if isinstance(node, ast.Call) else ()

    def is_compiled(self, readings: Sequence[Call | Question | Loop]) -> bool:
        """Whether TorchScript may compile what is around a call, a question or a loop in every reading: a trace keeps it as it is then."""
        if not all(reading.decorated for reading in readings):
            return False
        from modellint.source.facts.compiled_functions import is_compiled

        return all(any(is_compiled(self.project, function) for function in reading.decorated) for reading in readings)

    def passed(self, module: Instance) -> Iterator[Value]:
        """What a module of the project is built with, as far as its `forward` certainly calls it, or each layer in it."""
        from modellint.source.facts.passed_layers import runs_arguments

        run = runs_arguments(module.callee) if isinstance(module.callee, ClassRef) else {}
        for name, place in run.items():
            for call in self.readings(module.node):
                value = None if call.arguments.spread else call.arguments.get(place, name)
                if value is not None:
                    yield value

    def passed_classes(self, module: Instance) -> Iterator[str]:
        """The classes of layers that a module of the project is given, builds without arguments, and certainly runs, by their names."""
        from modellint.source.facts.passed_layers import runs_classes

        run = runs_classes(module.callee) if isinstance(module.callee, ClassRef) else {}
        for name, place in run.items():
            for call in self.readings(module.node):
                value = None if call.arguments.spread else call.arguments.get(place, name)
                if value is not None and value.external_name is not None:
                    yield value.external_name

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
        from modellint.source.roles.module_calls import is_given_lists

        forward = self._forward
        if self.ref is None or forward is None:
            return False
        return is_given_lists(self.project, self.ref, forward, name)

    def is_given_one_for(self, names: Sequence[str], row: int) -> bool:
        """Whether all calls of the class's `forward` in the project give one variable for several arguments, still unbound at a row."""
        from modellint.source.roles.module_calls import is_given_one_for

        forward = self._forward
        return (
            self.ref is not None
            and forward is not None
            and is_given_one_for(self.project, self.ref, forward, names, row)
        )

    @property
    def _forward(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        node = next((method.node for method in self.methods if _name(method) == "forward"), None)
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
        yield from self.flow.writes.values()

    @property
    def operations(self) -> Iterator[list[Operation]]:
        """Every binary operation and subscript on tensors, with all its readings."""
        yield from self.flow.operations.values()

    @property
    def questions(self) -> Iterator[list[Question]]:
        """Everything that Python asks for its truth, with all its readings."""
        yield from self.flow.questions.values()

    @property
    def loops(self) -> Iterator[list[Loop]]:
        """Everything that a loop or a comprehension goes through, with all its readings."""
        yield from self.flow.loops.values()

    def sizes(self, node: ast.expr) -> list[Tensor]:
        """The tensors of which an expression is the shape or a size, or whose sizes are unpacked into it; not those that are fixed."""
        found: list[Tensor] = []
        for operation in self.flow.operations.get(node, ()):
            if _is_open(operation.result):
                found += (part.tensor for part in alternatives(operation.operands[0]) if isinstance(part, Shape))
        for value in self.flow.unpackings.get(node, ()):
            found += (part.tensor for part in alternatives(value) if isinstance(part, Shape))
        for call in self.flow.calls.get(node, ()):
            if call.method in ("size", "len") and _is_open(call.result):
                of = call.receiver if call.method == "size" else call.arguments.get(0)
                parts = alternatives(of) if of is not None else ()
                if parts and call.method == "len" and _is_of_another_class(call):
                    continue
                # How many parts `unbind` and `chunk` give, the code says as a rule.
                found += (
                    part for part in parts if isinstance(part, Tensor) and part.made_by not in ("unbind", "chunk")
                )
        return found

    def is_fixed_by_weights(self, tensor: Tensor, dim: int) -> bool:
        """Whether a layer of torch takes the tensor whose weights say how large a dimension of it is."""
        return dim in self._dims_of_weights.get(tensor.node, ())

    def is_fixed_by_lists(self, tensor: Tensor, dim: int) -> bool:
        """Whether the size of a dimension says how often loops of a fixed number of turns have filled a list."""
        size = tensor.layout.size(dim) if tensor.layout is not None else None
        if size is None or not size[1].powers:
            return False
        return all(isinstance(symbol, tuple) or symbol in self._counted_symbols for symbol, _ in size[1].powers)

    def is_fixed_by_operands(self, tensor: Tensor, dim: int) -> bool:
        """Whether a sum or product is computed of a batch of known rank, of a dimension of which the code says the size.

        Of what else it is computed of, no rank is known: it is taken to be no larger.
        """
        if tensor.rank is not None or not isinstance(tensor.node, ast.BinOp) or dim == 0:
            return False
        readings = self.flow.operations.get(tensor.node, ())
        return bool(readings) and all(
            any(all(_tells_size(part, dim) for part in alternatives(operand)) for operand in reading.operands)
            for reading in readings
        )

    @cached_property
    def _counted_symbols(self) -> frozenset[object]:
        from modellint.source.facts.list_lengths import counted_symbols

        return counted_symbols(self.flow)

    @cached_property
    def _dims_of_weights(self) -> dict[ast.AST | None, set[int]]:
        """By where tensors are made, the dimensions that are channels of a convolution which takes them, or features of a linear layer.

        So is the last dimension of what is multiplied by a matrix that does not depend on what the caller gives.
        """
        dims: dict[ast.AST | None, set[int]] = {}
        for tensor, last in self._times_weights():
            dims.setdefault(tensor.node, set()).update(last)
        for readings in self.calls:
            for call in readings:
                layers = [part for part in alternatives(call.callee) if isinstance(part, Instance)]
                taken = [_DIMS_OF_WEIGHTS.get(part.name, frozenset()) for part in layers if part.kind == "module"]
                given = call.arguments.get(0, "input") if any(taken) else None
                for part in alternatives(given) if given is not None else ():
                    if isinstance(part, Tensor) and part.node is not None:
                        dims.setdefault(part.node, set()).update(*taken)
                        if part.base is not None and part.base.made_by == "stack" and _merges_second(part.node):
                            # With the channels of each part, these say how many parts there are.
                            dims.setdefault(part.base.node, set()).update(*taken)
        return dims

    def _times_weights(self) -> Iterator[tuple[Tensor, Sequence[int]]]:
        """The tensors that stand on the left of a product with a matrix of weights, each with its last dimension."""
        for readings in self.calls:
            for call in readings:
                if call.name.rpartition(".")[2] in _PRODUCTS and call.name.startswith("torch."):
                    left = call.receiver or call.arguments.get(0, "input")
                    right = call.arguments.get(0 if call.receiver is not None else 1, "other")
                    if left is not None and right is not None:
                        yield from _multiplied(left, right, call.method in _OF_MATRICES)
        for operations in self.operations:
            for operation in operations:
                if isinstance(operation.node, ast.BinOp) and isinstance(operation.node.op, ast.MatMult):
                    yield from _multiplied(operation.operands[0], operation.operands[1], False)

    @property
    def returned(self) -> Iterator[Value]:
        """What ``forward`` gives back, return by return."""
        inside = {node for method in self.methods if _name(method) == "forward" for node in walk(method.node)}
        yield from (value for node, value in self.flow.returns if node in inside)

    @property
    def bindings(self) -> list[Binding]:
        """Every statement that binds an attribute of ``self``."""
        self._read()
        return self._reading.interpreter.bindings

    @property
    def built(self) -> list[Binding]:
        """The bindings of attributes that building the object runs."""
        return self._reading.interpreter.bindings[: self._reading.built]

    def built_of(self, attribute: str) -> list[Binding]:
        """Those of ``built`` that bind an attribute."""
        return self._built_of.get(attribute, [])

    @cached_property
    def _built_of(self) -> dict[str, list[Binding]]:
        found: dict[str, list[Binding]] = {}
        for binding in self.built:
            found.setdefault(binding.attribute, []).append(binding)
        return found

    def bindings_of(self, attribute: str) -> list[Binding]:
        """Those of ``bindings`` that bind an attribute."""
        every = self.bindings
        for binding in every[self._sorted :]:
            self._bindings_of.setdefault(binding.attribute, []).append(binding)
        self._sorted = len(every)
        return self._bindings_of.get(attribute, [])

    def attribute_writes(self, attribute: str) -> list[Write]:
        """The first readings of the statements that bind an attribute outside ``__init__``."""
        self._sort_writes()
        return self._writes_of.get((True, attribute), [])

    def part_writes(self, attribute: str) -> list[Write]:
        """The first readings of the statements that change what an attribute holds in place, or a part of that."""
        self._sort_writes()
        return self._writes_of.get((False, attribute), [])

    def changed_elsewhere(self, call: Call) -> list[Value]:
        """The arguments that a call changes in place, where a function of another file does that."""
        from modellint.source.facts.argument_effects import changed_arguments

        return changed_arguments(self.project, self.file, call)

    def _sort_writes(self) -> None:
        writes = self.flow.writes
        if len(writes) != self._writes_sorted:
            self._writes_sorted = len(writes)
            self._writes_of = {}
            for write, *_ in writes.values():
                name = write.attribute if write.how == "attribute" else _written_attribute(write.node)
                if name is not None:
                    self._writes_of.setdefault((write.how == "attribute", name), []).append(write)

    def has_escaped(self, value: Container | Instance) -> bool:
        """Whether building the object gave a value to code that cannot be seen."""
        return value.escaped if self._unread else id(value) in self._reading.given_away

    def attribute(self, name: str) -> Value:
        """What an attribute of ``self`` holds once the object is built."""
        found = self._reading.interpreter.attributes.get(name, ())
        return union([binding.value for binding in found])

    @property
    def attributes(self) -> Attributes:
        """The attributes of ``self`` once the object is built."""
        return self._reading.interpreter.attributes

    @cached_property
    def _reads(self) -> dict[str, list[ast.AST]]:
        """Attributes of ``self`` that are read, each with the functions that read it."""
        found: dict[str, list[ast.AST]] = {}
        for function in self.methods:
            names = [*function.node.args.posonlyargs, *function.node.args.args]
            if not names:
                continue
            # Filled in, or asked for its shape: no look at what it holds.
            unread = {
                id(node.value)
                for node in walk(function.node)
                if (isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load))
                or (isinstance(node, ast.Attribute) and node.attr in _ABOUT)
            }
            for node in walk(function.node):
                match node:
                    case ast.Attribute(value=ast.Name(id=owner), attr=attribute, ctx=ast.Load()) if (
                        owner == names[0].arg
                    ):
                        if id(node) not in unread:
                            found.setdefault(attribute, []).append(function.node)
                    case ast.Call(
                        func=ast.Name(id="getattr"),
                        args=[ast.Name(id=owner), ast.Constant(value=str() as attribute), *_],
                    ):
                        if owner == names[0].arg:
                            found.setdefault(attribute, []).append(function.node)
                    case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=owner), name, *_]):
                        pattern = name_pattern(name) if owner == names[0].arg else None
                        if pattern is not None:
                            found.setdefault(pattern, []).append(function.node)
                    case ast.AugAssign(target=ast.Attribute(value=ast.Name(id=owner), attr=attribute)) if (
                        owner == names[0].arg
                    ):
                        found.setdefault(attribute, []).append(function.node)
                    case _:
                        pass
        return found

    def is_read_in_forward(self, attribute: str) -> bool:
        """Whether ``forward``, or what it runs, reads an attribute; any method may be what a ``forward`` of another file runs."""
        readers = self._readers_of(attribute)
        if self.in_forward:
            return any(node in self._reached for node in readers)
        return self.defines("forward") and (bool(readers) or self._inherited_forward_reads(attribute))

    def _readers_of(self, attribute: str) -> list[ast.AST]:
        """The functions that read an attribute, by its name or by one that numbers are put into."""
        readers = [*self._reads.get(attribute, ())]
        for name in self._reads if HOLE in attribute else self._reads_with_holes:
            if (HOLE in name and is_numbered(attribute, name)) or (HOLE in attribute and is_numbered(name, attribute)):
                readers += self._reads[name]
        return readers

    @cached_property
    def _reads_with_holes(self) -> list[str]:
        return [name for name in self._reads if HOLE in name]

    @cached_property
    def _reached(self) -> set[ast.AST]:
        """What `forward` runs, and the methods that this mentions without calling them: a table of them may be all that does."""
        functions = {_name(f): f.node for f in self.methods}
        found = set(self.in_forward)
        pending = list(found)
        while pending:
            for node in walk(pending.pop()):
                match node:
                    case ast.Attribute(value=ast.Name(id="self"), attr=name) if functions.get(name, node) not in found:
                        if name in functions:
                            found.add(functions[name])
                            pending.append(functions[name])
                    case _:
                        pass
        return found

    def _inherited_forward_reads(self, attribute: str) -> bool:
        """Whether the `forward` of a base class in another file, or a method that it runs, reads an attribute."""
        pending, seen = ["forward"], set()
        while pending:
            name = pending.pop()
            method = next((m for ref in self.lineage if (m := ref.file.members(ref.node).get(name)) is not None), None)
            if name in seen or not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            seen.add(name)
            for node in walk(method):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                    if node.attr == attribute and not isinstance(node.ctx, ast.Store):
                        return True
                    pending.append(node.attr)
        return False

    def readers(self, attribute: str) -> list[ast.AST]:
        """The methods that read an attribute of ``self``, but for ``__init__`` and those that only build or show the object."""
        return [node for node in dict.fromkeys(self._reads.get(attribute, ())) if not self.is_aside(node)]

    def is_read_first(self, attribute: str) -> bool:
        """Whether `forward` reads what an attribute of ``self`` was at the end of the last call."""
        functions = {_name(f): f.node for f in self.methods if not isinstance(f.node, ast.Lambda)}
        forward = functions.get("forward")
        if forward is None or not is_read_first(attribute, forward, functions):
            return False
        return not any(self._is_given(name, value) for name, value in setting_flags(attribute, forward, functions))

    def _is_given(self, name: str, value: bool) -> bool:
        """Whether all that call the class's `forward` in the project give True, or False, for an argument."""
        from modellint.source.roles.module_calls import flag_given

        forward = self._forward
        return (
            self.ref is not None and forward is not None and flag_given(self.project, self.ref, forward, name) is value
        )

    def top_functions(self) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
        """The functions of the file that stand in no class."""
        return self.file.functions

    def is_aside(self, function: ast.AST | None) -> bool:
        """Whether a method only builds, saves, moves or shows the object; by its name, or as nothing else calls it."""
        name = getattr(function, "name", "")
        return function not in self.in_forward and (name in self._aside or _ASIDE.match(name) is not None)

    @cached_property
    def _aside(self) -> set[str]:
        callers: dict[str, set[str]] = {}
        for ref in self.lineage:
            for function in class_functions(ref.node) if ref.file is self.file else ():
                for name in _called_on_self([Function(function, self.file)]):
                    callers.setdefault(name, set()).add(function.name)
        found = {"__init__", *(name for method in self.methods if _ASIDE.match(name := _name(method)))}
        while more := {name for name, by in callers.items() if by <= found} - found:
            found |= more
        return found

    @cached_property
    def in_forward(self) -> frozenset[ast.AST]:
        """The functions that ``forward`` runs, itself included; or those that modules of other files or classes are seen to run."""
        functions = {_name(f): f.node for f in self.methods}
        outside = self.file.functions
        found: set[ast.AST] = set()
        pending: list[ast.AST] = [functions["forward"]] if "forward" in functions else []
        if self._contexts:
            pending = [context.function for context in self._contexts]
        if self.ref is None and not self._contexts:
            return frozenset()
        while pending:
            function = pending.pop()
            if function in found:
                continue
            found.add(function)
            for call in of_kind(function, ast.Call):
                match call.func:
                    case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if name in functions:
                        pending.append(functions[name])
                    case ast.Name(id=name) if name in outside:
                        pending.append(outside[name])
                    case _:
                        pass
            for kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda):
                found.update(of_kind(function, kind))
        return frozenset(found)

    def shows(self, sign: str) -> bool:
        """Whether the class, its bases in the file and the functions that ``forward`` runs show a sign."""
        nodes = [ref.node for ref in self.lineage if ref.file is self.file]
        run = [node for node in self.in_forward if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        return shows(sign, self.file, [*nodes, *run], run)

    def statement_of(self, node: ast.AST, function: ast.AST | None) -> ast.stmt | None:
        """The statement of a function that a node stands in."""
        parents = parents_in(function) if function is not None else {}
        found: ast.AST | None = node
        while found is not None and not isinstance(found, ast.stmt):
            found = parents.get(found)
        return found

    def conditions(self, node: ast.AST, function: ast.AST | None) -> Iterator[ast.expr]:
        """The conditions around a node in its function, innermost first."""
        parents = parents_in(function) if function is not None else {}
        child: ast.AST = node
        while (parent := parents.get(child)) is not None:
            if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and child is not parent.test:
                yield parent.test
            child = parent

    @property
    def is_never_exported(self) -> bool:
        """Whether the class is no part of what is exported: a loss, a metric or a search by its name or a base's, or in a test."""
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
        from modellint.source.roles.constructor_flags import is_switched_off

        places = (ref for ref in self.lineage if ref.file is self.file)
        owner = next((ref for ref in places if any(part is function for part in class_functions(ref.node))), None)
        return owner is not None and is_switched_off(self.project, owner, function, getattr(node, "lineno", 0))

    def by_default(self, value: Value) -> tuple[Value, frozenset[str]]:
        """What a value is if the constructor's arguments have their defaults, and which arguments those are; none where it needs none.

        A default is what the project builds: whoever relies on it asks `keeps_defaults`, which is not for nothing.
        """
        parts = alternatives(value)
        names = frozenset(name for part in parts if (name := self._is_of_argument(part)) is not None)
        if not names or len(parts) == 1:
            return value, frozenset()
        rest = union(part for part in parts if self._is_of_argument(part) is None)
        return (rest, names) if not rest.is_unseen else (value, frozenset())

    def _is_of_argument(self, value: Value) -> str | None:
        """The argument of the constructor that a value is, or that it is an object made by."""
        if isinstance(value, Argument) and not value.element:
            return value.name if value.name in self._defaults else None
        if isinstance(value, Instance) and value.kind == "unresolved" and isinstance(value.node, ast.Call):
            func = value.node.func
            return value.name if isinstance(func, ast.Name) and func.id == value.name in self._defaults else None
        return None

    @cached_property
    def _defaults(self) -> frozenset[str]:
        """The arguments with defaults of the class's own constructor, but for those of methods that are read for themselves."""
        own = {node.name: node for node in class_functions(self.ref.node)} if self.ref is not None else {}
        init = own.pop("__init__", None)
        if init is None:
            return frozenset()
        placed = [*init.args.posonlyargs, *init.args.args]
        names = {part.arg for part in placed[len(placed) - len(init.args.defaults) :]}
        names.update(
            part.arg
            for part, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)
            if default is not None
        )
        called = _called_on_self(self.methods)
        others = (part.arg for name, node in own.items() if name not in called for part in of_kind(node, ast.arg))
        return frozenset(names.difference(others))

    def keeps_defaults(self, names: Iterable[str]) -> bool:
        """Whether everyone in the project who builds the class leaves some arguments of its constructor as they are by default."""
        from modellint.source.roles.constructor_flags import keeps_default

        ref = self.ref
        return all(ref is not None and keeps_default(self.project, ref, name) for name in names)

    def is_left_none(self, name: str) -> bool:
        """Whether everyone in the project who builds the class, and somebody does, gives None for an argument of its constructor."""
        from modellint.source.roles.constructor_flags import is_left_none

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
        """Whether an expression only reaches elements of the tuple of the class's own `forward` that no caller in the project reads.

        Conversion drops it then. So it is where other modules alone build the class, and all that call it are known.
        """
        from modellint.source.roles.module_calls import is_discarded

        ref = self.ref
        if ref is None or ref.file.members(ref.node).get("forward") is not function:
            return False
        places = self._handed_on.returned(node, function)
        return bool(places) and is_discarded(self.project, ref, places or frozenset())

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
            from modellint.source.domains.static_sizes import StaticSizes

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
        found: dict[ast.AST, str | None] = {}
        for method in self.methods if self.ref is not None else ():
            arguments = method.node.args
            names = [*arguments.posonlyargs, *arguments.args]
            static = any(getattr(d, "id", "") in _UNBOUND for d in getattr(method.node, "decorator_list", ()))
            for kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda):
                for function in (method.node, *of_kind(method.node, kind)):
                    found.setdefault(function, names[0].arg if names and not static else None)
        return found

    def holds(self, node: ast.AST) -> bool:
        """Whether a node stands in the class, in a base of it in the file, or in a function of the file."""
        return node in self._held

    @cached_property
    def _held(self) -> set[ast.AST]:
        places = [ref.node for ref in self.lineage if ref.file is self.file]
        return {part for place in (*places, *self.file.functions.values()) for part in walk(place)}

    def _is_of_library(self, call: ast.Call) -> bool:
        """Whether it calls a function by its dotted name, `torch.special.i0(x)`, and no method of an object."""
        readings = self.flow.calls.get(call, ())
        return any(reading.name and reading.receiver is None for reading in readings)

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


_ASIDE = re.compile(
    r"__(?!call__)|_?(?:re)?set_|_?(?:re)?init|reset|_?build|_?make|extra_repr|_apply$|(?:to|cuda|cpu|train|eval)$"
    r"|_?(?:save|load|dump|export|restore|plot|draw|show|log|print|debug|visuali[sz]e|collate|from_pretrained)(?:_|$)"
    r"|_?(?:get_)?debug|state_dict|_(?:save_to|load_from)_|configure|.*_(?:dataloader|hook)$"
)
"""Names of methods that build, move, save or show a module."""
_DIMS_OF_WEIGHTS: dict[str, frozenset[int]] = {
    **{f"torch.nn.{name}": frozenset({1, -int(name[-2]) - 1}) for name in CONVOLUTIONS},
    **{f"torch.nn.BatchNorm{rank}d": frozenset({1, -rank - 1}) for rank in (2, 3)},
    "torch.nn.Linear": frozenset({-1}),
}
"""Layers of torch whose weights say how large a dimension of their input, which is a batch, is."""
_OF_MATRICES = frozenset({"mm", "spmm"})
_PRODUCTS = _OF_MATRICES | {"matmul"}
"""Operators that take the last dimension of one tensor to be as large as one of the other."""
_ABOUT = frozenset({"shape", "size", "ndim", "dim", "numel", "dtype"})
_UNBOUND = ("staticmethod", "classmethod")


def _is_of_another_class(call: Call) -> bool:
    """Whether `len(x[0])` stands where `isinstance(x[0], tuple)` holds; of variables the domain takes note itself."""
    asked = call.node.args[0] if call.node.args else None
    if asked is None or isinstance(asked, ast.Name) or call.function is None:
        return False
    classes = tested_classes(asked, call.node, call.function)
    return bool(classes) and not any(map(is_tensor_class, classes))


def _merges_second(node: ast.AST) -> bool:
    """Whether a view joins the second dimension with those behind it: `x.view(b, -1, h, w)`."""
    match node:
        case ast.Call(args=[_, ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)), _, *_]):
            return True
    return False


def _multiplied(left: Value, right: Value, of_matrices: bool) -> Iterator[tuple[Tensor, Sequence[int]]]:
    weights = alternatives(right)
    if not all(isinstance(part, Tensor) and part.is_made and part.batch is None for part in weights):
        return
    for part in alternatives(left):
        if isinstance(part, Tensor) and part.node is not None:
            rank = 2 if of_matrices else part.rank
            yield part, (-1,) if rank is None else (-1, rank - 1)


def _tells_size(value: Value, dim: int) -> bool:
    """Whether a value is a tensor that may hold the batch, and the code says its rank and that a dimension has several elements."""
    return (
        isinstance(value, Tensor)
        and bool(value.batch)
        and value.rank is not None
        and value.has_fixed_size(dim)
        and not value.has_size_one(dim)
    )


def _is_open(size: Value) -> bool:
    """Whether a size may be another for another input."""
    return isinstance(size, Number) or (isinstance(size, Size) and not is_fixed(size.dim))


def _written_attribute(node: ast.AST) -> str | None:
    """The attribute of an object with a name that a write in place is to, or to a part of."""
    target: ast.AST = node
    if isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Call):
        target = node.func
    while isinstance(target, (ast.Subscript, ast.Attribute, ast.Call)):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            return target.attr
        target = target.func if isinstance(target, ast.Call) else target.value
    return None


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_simple(statement: ast.stmt) -> bool:
    return not hasattr(statement, "body")


def _name(function: Function) -> str:
    return getattr(function.node, "name", "")


def _called_on_self(methods: list[Function]) -> set[str]:
    """Names of the methods that other methods of the class call."""
    found: set[str] = set()
    for function in methods:
        for call in of_kind(function.node, ast.Call):
            match call.func:
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if name != _name(function):
                    found.add(name)
                case _:
                    pass
    return found


def _may_be_called(name: str, text: str) -> bool:
    """Whether a text, or a docstring in it, may call a function of that name."""
    at = text.find(name)
    while at != -1:
        before, end = text[max(0, at - 4) : at], at + len(name)
        whole = not (before[-1:].isalnum() or before.endswith(("_", "."))) and before != "def "
        after = text[end : end + 1]
        if whole and (after in ("(", "\\") or after.isspace()):
            return True
        at = text.find(name, end)
    return False


def _functions_outside(file: IndexedFile, project: Project) -> Iterator[Function]:
    """Functions of a file and methods of its classes that are no modules, but for functions that the file itself calls."""
    called: set[str] = set()
    if any(_may_be_called(name, file.source.text) for name in file.functions):
        calls = (call for statement in file.tree.body for call in of_kind(statement, ast.Call))
        called = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    for node in file.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name not in called:
            yield Function(node, file)
        elif isinstance(node, ast.ClassDef):
            ref = ClassRef(file, node, ())
            if not (node.bases and project.is_module(ref)):
                for method in class_functions(node):
                    yield Function(method, file)
