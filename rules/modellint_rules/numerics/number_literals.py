"""Number literals that operators of `forward` combine with tensors: what the rules about literals share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from modellint.authoring import Tensor, Value, alternatives

if TYPE_CHECKING:
    from modellint.authoring import Call, Code

FILL = "fill"
"""The tensor gets the number for its elements."""
TERM = "term"
FACTOR = "factor"
FLOOR = "floor"
"""The tensor gets no smaller than the number."""

_OF_METHODS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "masked_fill": ((FILL, 1, "value"),),
    "masked_fill_": ((FILL, 1, "value"),),
    "index_fill": ((FILL, 2, "value"),),
    "index_fill_": ((FILL, 2, "value"),),
    "fill_": ((FILL, 0, "value"),),
    "new_full": ((FILL, 1, "fill_value"),),
    "where": ((FILL, 1, "other"),),
    "add": ((TERM, 0, "other"),),
    "add_": ((TERM, 0, "other"),),
    "sub": ((TERM, 0, "other"),),
    "sub_": ((TERM, 0, "other"),),
    "mul": ((FACTOR, 0, "other"),),
    "mul_": ((FACTOR, 0, "other"),),
    "clamp": ((FLOOR, 0, "min"),),
    "clamp_": ((FLOOR, 0, "min"),),
    "clip": ((FLOOR, 0, "min"),),
    "clamp_min": ((FLOOR, 0, "min"),),
    "clamp_min_": ((FLOOR, 0, "min"),),
}
_OF_FUNCTIONS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "torch.full": ((FILL, 1, "fill_value"),),
    "torch.full_like": ((FILL, 1, "fill_value"),),
    "torch.tensor": ((FILL, 0, "data"),),
    "torch.scalar_tensor": ((FILL, 0, "s"),),
    "torch.where": ((FILL, 1, "input"), (FILL, 2, "other")),
    "torch.nn.functional.pad": ((FILL, 3, "value"),),
}
_SHARED = ("masked_fill", "index_fill", "add", "sub", "mul", "clamp", "clip", "clamp_min")
for _name in _SHARED:
    ((_how, _at, _keyword),) = _OF_METHODS[_name]
    # Behind the tensor that the method is of.
    _OF_FUNCTIONS[f"torch.{_name}"] = ((_how, _at + 1, _keyword),)
ONLY_TENSORS = frozenset({"masked_fill", "masked_fill_", "index_fill", "index_fill_", "new_full"})
"""Methods that nothing but a tensor has."""


_HALF = r"float16|half|fp16"
_JUDGES = r"Discriminator|Critic"


def is_judge(code: Code) -> bool:
    """Whether a class is one that only training runs: a loss, a metric, a discriminator, or what stands by losses or augmentation."""
    names = [ref.node.name for ref in code.lineage]
    near = "/".join(code.file.path.split("/")[-2:])
    return (
        code.is_never_exported or "loss" in near or "augment" in near or any(re.search(_JUDGES, name) for name in names)
    )


class NumberUse(NamedTuple):
    """One place where an operator combines a number with a tensor.

    ``numbers`` and ``tensors`` are what the number, and what it meets, may be, reading by reading.
    """

    node: ast.expr | ast.stmt
    statement: ast.stmt
    how: str
    numbers: list[Value]
    tensors: Sequence[tuple[Value, ...]]
    written: ast.expr | None
    """The expression of the number."""

    def known(self) -> list[int | float] | None:
        """Every number that it may be; None where one is not known."""
        numbers = [part.number for value in self.numbers for part in alternatives(value)]
        known = [number for number in numbers if number is not None]
        return known if len(known) == len(numbers) else None

    def met(self) -> Iterator[Value]:
        """What it may be combined with, of any reading."""
        for values in self.tensors:
            for value in values:
                yield from alternatives(value)


def number_uses(code: Code) -> Iterator[NumberUse]:
    """Every place where code that `forward` runs, in an exported model too, combines a known number with a tensor."""
    for use, function in (*_in_calls(code), *_in_operations(code), *_in_writes(code)):
        if use.known() is None or not (function in code.in_forward or _is_for_a_subclass(code, function)):
            continue
        if any(re.search(_HALF, ast.unparse(test)) for test in code.conditions(use.node, function)):
            # What runs for models in half precision knows about it.
            continue
        node = use.node
        expression = node if function is not None and isinstance(node, ast.expr) else None
        if expression is None or function is None or not _is_lost(code, expression, function):
            yield use


def name_of_number(code: Code, use: NumberUse) -> tuple[object, ...] | None:
    """What names the number of a use, a variable of a function or an attribute of the class; None where it is written in place.

    All uses of one such number have one cause, and are mended where it is bound.
    """
    match use.written:
        case ast.Name(id=name):
            around = [m.node for m in code.methods if m.node.lineno <= use.node.lineno <= (m.node.end_lineno or 0)]
            return (around[-1].lineno if around else 0, name, *(use.known() or ()))
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return ("self", name, *(use.known() or ()))
    return None


def _is_for_a_subclass(code: Code, function: ast.AST | None) -> bool:
    """Whether a method stands in a class that has no `forward`, such as one that others inherit from: theirs runs it."""
    if code.in_forward or function is None or code.defines("forward") or code.is_aside(function):
        return False
    return any(method.node is function for method in code.methods)


def _is_lost(code: Code, node: ast.expr, function: ast.AST) -> bool:
    return code.ends_in_python(node, function) or code.is_for_loss_only(node, function)


def _in_calls(code: Code) -> Iterator[tuple[NumberUse, ast.AST | None]]:
    for readings in code.calls:
        call = readings[0]
        if any(each.training or not each.exported or each.building or each.arguments.spread for each in readings):
            continue
        for how, at, keyword in _taken(call):
            numbers = [reading.arguments.get(at, keyword) for reading in readings]
            known = [number for number in numbers if number is not None]
            if known and len(known) == len(numbers):
                met = [
                    (*reading.arguments.everything(), *([] if reading.receiver is None else [reading.receiver]))
                    for reading in readings
                ]
                written = _argument(call, at, keyword)
                yield NumberUse(call.node, call.statement, how, known, met, written), call.function


def _taken(call: Call) -> tuple[tuple[str, int, str], ...]:
    if call.name in _OF_FUNCTIONS:
        return _OF_FUNCTIONS[call.name]
    if call.receiver is not None and (call.name.startswith("torch.Tensor.") or call.method in ONLY_TENSORS):
        return _OF_METHODS.get(call.method, ())
    return ()


def _argument(call: Call, at: int, keyword: str) -> ast.expr | None:
    if at < len(call.node.args):
        return call.node.args[at]
    return next((word.value for word in call.node.keywords if word.arg == keyword), None)


def _in_operations(code: Code) -> Iterator[tuple[NumberUse, ast.AST | None]]:
    for readings in code.operations:
        node = readings[0].node
        function = readings[0].function
        if not isinstance(node, (ast.BinOp, ast.AugAssign)) or any(reading.aside for reading in readings):
            continue
        how = TERM if isinstance(node.op, (ast.Add, ast.Sub)) else FACTOR if isinstance(node.op, ast.Mult) else None
        statement = code.statement_of(node, function)
        if how is None or statement is None:
            continue
        written = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
        for at in (0, 1):
            numbers = [reading.operands[at] for reading in readings]
            if all(part.number is not None for value in numbers for part in alternatives(value)):
                met = [(reading.operands[1 - at],) for reading in readings]
                yield NumberUse(node, statement, how, numbers, met, written[at]), function


def _in_writes(code: Code) -> Iterator[tuple[NumberUse, ast.AST | None]]:
    for readings in code.writes:
        write = readings[0]
        if write.how == "item" and not any(reading.training or not reading.exported for reading in readings):
            values = [reading.value for reading in readings]
            written = write.statement.value if isinstance(write.statement, ast.Assign) else None
            targets = [(reading.target,) for reading in readings]
            yield NumberUse(write.statement, write.statement, FILL, values, targets, written), write.function


def depends_on_data(value: Value) -> bool:
    """Whether a value is a tensor that depends on what the caller gives."""
    return isinstance(value, Tensor) and value.batch is not None


def is_float(value: Value) -> bool:
    """Whether it certainly is a tensor of floating-point numbers."""
    return isinstance(value, Tensor) and value.is_float
