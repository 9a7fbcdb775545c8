"""The domain of tensors: what is known of tensors, shapes and sizes, for the engine to ask."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.source.domains import asserted_sizes, tensor_expressions
from modellint.source.domains.derived_tensors import batch_of, tensors_in
from modellint.source.domains.layer_transfer import module_output
from modellint.source.domains.memory_layout import Dim, Layout
from modellint.source.domains.operator_sets import BINARY, LIKE, MAKERS, REDUCTIONS, SAME, SHOWING, VIEWS, WITHOUT_GRAPH
from modellint.source.domains.parameter_kinds import is_shown_to_be_a_list, shown_numbers, shown_tensors
from modellint.source.domains.symbolic_numbers import Opaque, Shape
from modellint.source.domains.tensor_calls import (
    builtin_result,
    external_result,
    method_result,
    registered_state,
    unseen_tensor,
)
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import NUMBER, Argument, Function, Instance, Method, Value, alternatives
from modellint.source.engine.arguments import Arguments
from modellint.source.project.annotations import says_number, says_tensor

if TYPE_CHECKING:
    from modellint.source.engine.class_state import Frame
    from modellint.source.engine.domain import Reader


_MOST_ASSUMPTIONS = 256
"""So many assertions of one reading are told to all variables that are around them."""


class TensorDomain:
    """What one reading knows of tensors; the engine's ``Domain``."""

    tensor = Tensor
    opaque = Opaque

    def __init__(self) -> None:
        self._parts: dict[tuple[Value, str], Tensor] = {}
        self._elements: dict[Value, Instance] = {}
        self._assumptions = 0

    def copy(self) -> TensorDomain:
        """The same for a reading that goes on from where another is."""
        other = TensorDomain()
        other._parts, other._elements = {**self._parts}, {**self._elements}
        return other

    # Expressions

    def attribute(self, reader: Reader, receiver: Value, name: str) -> Value | None:
        """The value of ``receiver.name``."""
        if isinstance(receiver, Method):
            receiver = self.resolved(reader, receiver)
        return tensor_expressions.attribute_of(receiver, name, reader.modes.quiet > 0)

    def resolved(self, reader: Reader, value: Value) -> Value:
        """What `outputs.last_hidden_state` is, where `outputs` was given by a module that was not followed: maybe a tensor."""
        if not (isinstance(value, Method) and reader.reading):
            return value
        output = value.receiver
        if type(output) is Instance and output.kind == "object" and output.held and _may_be_part(value.name):
            return self._part_of_record(output, value.name)
        if not isinstance(output, Tensor):
            return value
        if output.certain or output.shown or output.origin != "unseen" or not _may_be_part(value.name):
            return value
        key = output, value.name
        if key not in self._parts:
            self._parts[key] = Tensor(
                output.node, Layout.unranked(), "unseen", certain=False, grad=output.grad, assumed=True, batch=output.batch
            )  # fmt: skip
        return self._parts[key]

    def _part_of_record(self, record: Instance, name: str) -> Value:
        """What an attribute of an object is that was built with tensors: maybe one of them."""
        key = record, name
        if key not in self._parts:
            parts = tensors_in(record.held)
            self._parts[key] = Tensor(
                record.node, Layout.unranked(), "unseen", certain=False, grad=None, assumed=True, batch=batch_of(parts)
            )  # fmt: skip
        return self._parts[key]

    def subscript(self, reader: Reader, node: ast.Subscript, receiver: Value, frame: Frame) -> Value | None:
        """The value of ``receiver[…]``."""
        return tensor_expressions.subscript(reader, node, self.resolved(reader, receiver), frame)

    def element(self, reader: Reader, value: Value) -> Value | None:
        """What iterating over a value gives."""
        if isinstance(value, Method):
            value = self.resolved(reader, value)
        if isinstance(value, Tensor):
            return tensor_expressions.element_of(value, value.node or ast.Constant(None))
        if isinstance(value, Shape):
            return NUMBER
        if isinstance(value, Argument) and tensor_expressions.is_row_of_tensors(reader, value):
            return tensor_expressions.element_of_row(value, ast.Constant(None))
        if type(value) is Instance and value.kind == "unresolved" and reader.reading:
            return self._elements.setdefault(value, Instance("unresolved", value.node, value.name))
        return None

    def unpack(self, reader: Reader, target: ast.Tuple | ast.List, value: Value, frame: Frame) -> bool:
        """Bind the parts of a value, if it is a tensor or a shape."""
        return tensor_expressions.unpack(reader, target, value, frame)

    def named(self, reader: Reader, value: Value) -> Value:
        """What a value is once a variable holds it: a number that is not known is told from others by the name that it gets."""
        if isinstance(value, Method):
            value = self.resolved(reader, value)
        return tensor_expressions.told_apart(value)

    def binary(self, reader: Reader, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value | None:
        """The value of a binary operation."""
        return tensor_expressions.combined(reader, node, left, right)

    def unary(self, reader: Reader, node: ast.UnaryOp, operand: Value) -> Value | None:
        """The value of an operation on one operand."""
        return tensor_expressions.unary(node, operand, reader.modes.quiet > 0)

    def compared(self, reader: Reader, node: ast.Compare, parts: list[Value]) -> Value | None:
        """The value of a comparison."""
        return tensor_expressions.compared(node, parts, reader.modes.quiet > 0)

    # Calls

    def arguments(self, reader: Reader, arguments: Arguments) -> Arguments:
        """The arguments of a call, each ``resolved``."""
        if not any(isinstance(value, Method) for value in (*arguments.positional, *arguments.keywords.values())):
            return arguments
        positional = [self.resolved(reader, value) for value in arguments.positional]
        keywords = {name: self.resolved(reader, value) for name, value in arguments.keywords.items()}
        return Arguments(positional, arguments.spread, keywords)

    def module_output(self, reader: Reader, module: Instance, arguments: Arguments, node: ast.expr) -> Value:
        """What calling a module gives."""
        output = module_output(module, arguments.get(0), node, reader.modes.quiet > 0)
        if isinstance(output, Tensor) and output.origin == "unseen" and output.batch is None:
            # What it is given by name, or behind the first.
            output.batch = batch_of(tensors_in(arguments.everything()))
        return output

    def external(self, reader: Reader, name: str, arguments: Arguments, node: ast.expr) -> Value | None:
        """What a function or class outside the project gives."""
        return external_result(name, arguments, node, reader.reading, reader.modes.quiet > 0)

    def state(self, made: Instance, arguments: Arguments) -> Value:
        """A new parameter or buffer as a tensor."""
        return registered_state(made, arguments)

    def builtin(self, reader: Reader, name: str, arguments: Arguments, node: ast.expr) -> Value | None:
        """What a builtin gives."""
        return builtin_result(name, arguments, node, reader.modes.quiet > 0)

    def method(
        self, reader: Reader, callee: Method, arguments: Arguments, node: ast.expr, frame: Frame
    ) -> Value | None:
        """What a method gives."""
        return method_result(reader, callee, arguments, node, frame)

    def unseen(self, made: Instance, arguments: Arguments) -> Value:
        """What code gives that cannot be seen."""
        return unseen_tensor(made, arguments)

    # Functions

    def from_caller(
        self, parameter: ast.arg, default: ast.expr | None, function: ast.AST | None, plain: Value
    ) -> Value:
        """What a function that is read for itself is given: a tensor, unless its annotation or default says otherwise."""
        annotated = says_tensor(parameter.annotation)
        if parameter.arg in ("self", "cls"):
            return plain
        if annotated is False or (isinstance(default, ast.Constant) and default.value is not None):
            return plain
        if annotated is None and function is not None and parameter.arg in shown_numbers(function):
            return plain
        if function is not None and is_shown_to_be_a_list(function, parameter.arg):
            return plain
        made = Tensor(
            parameter,
            Layout.unranked(),
            "argument",
            name=parameter.arg,
            certain=annotated is True,
            grad=True if annotated or default is None else None,
            batch=True,
            shown=annotated is True or (function is not None and parameter.arg in shown_tensors(function)),
        )
        made.dim = Dim.symbol()
        return made

    def declared(self, annotation: ast.expr, value: Value) -> Value | None:
        """What is not known, where a parameter that is called a number is given a tensor."""
        if any(isinstance(part, Tensor) for part in alternatives(value)) and says_number(annotation):
            return Opaque()
        return None

    def assumed(self, reader: Reader, test: ast.expr, held: bool, frame: Frame) -> None:
        """Take note that a condition is always true, or false: of the sizes and the rank that it asks for."""
        self._assumptions += 1
        if self._assumptions <= _MOST_ASSUMPTIONS:
            asserted_sizes.assume(reader, test, held, frame)

    def is_given(self, arguments: Arguments) -> bool:
        """Whether a tensor is among arguments."""
        return bool(tensors_in(arguments.everything()))

    def is_made_by(self, function: Function) -> bool:
        """Whether a function may make a tensor."""
        calls = None if isinstance(function.node, ast.Lambda) else function.file.calls(function.node)
        return calls is not None and any(name.rpartition(".")[2] in MAKERS for name in calls)


def _may_be_part(name: str) -> bool:
    """Whether `outputs.name` may be a tensor among several that a module gave: it is called like no method or fact of one."""
    if name in _OF_TENSORS or name in _OF_OTHERS:
        return False
    return not name.endswith("_") and not name.startswith(("_", "is_", "get_", "to_", "new_", "has_", "use_"))


_OF_TENSORS = SAME | BINARY | REDUCTIONS | VIEWS | SHOWING | LIKE | WITHOUT_GRAPH
_OF_TENSORS |= {"shape", "ndim", "dtype", "device", "requires_grad", "grad", "itemsize", "layout", "backward", "numpy"}
_OF_OTHERS = frozenset({"keys", "values", "items", "get", "pop", "append", "update", "copy", "tensors", "decompose"})
_OF_OTHERS |= {"config", "training"}
"""Methods of containers, and what objects tell of themselves."""
