"""Calls of PyTorch's API in `forward`, resolved to what they certainly run: what the rules about operators share."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from modellint.authoring import (
    Arguments,
    ClassRef,
    Const,
    Instance,
    Number,
    Severity,
    Tensor,
    alternatives,
    called_name,
    parents_in,
    walk,
)

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, Diagnostic, Operation, Rule, Value

_DEEPEST = 4
"""How many modules of the project are built with each other."""
_LOSS = "(?:Loss|Losses|Criterion)(?![a-z])"


class HasKind(Protocol):
    """What is known of a use of PyTorch's API."""

    @property
    def kind(self) -> str:
        """The operator that the front end looks up (``aten::fmod``)."""


class Kind(NamedTuple):
    """A use of which nothing more is known than what it is of."""

    kind: str


Known = TypeVar("Known", bound=HasKind)


class Use(NamedTuple):
    """One thing of PyTorch's API that a call runs."""

    name: str
    """Of a function, method or layer."""
    arguments: Arguments
    """What it is called with; for a layer, what it was built with."""
    node: ast.Call
    """Where these stand."""
    source: Value | None = None
    """What it is applied to: the tensor whose method it is, the first argument of a function, or what a layer is called with."""
    beside: Sequence[Value] = ()
    """The layers that run in a row with it."""
    by_default: bool = False
    """Whether some of its arguments are what the constructor has by default."""


def calls_in_forward(code: Code, ask: Callable[[Use], Known | None]) -> Iterator[tuple[Call, list[Known], bool]]:
    """Every call that ``forward`` makes and that, however it is read, runs something ``ask`` knows; whether by no default path.

    That is what runs in training only, or where a flag has another value than its default only. What no capture runs is left
    out.

    ``ask`` is given the uses of torch's functions, methods and layers. A call whose value only becomes a Python number is left
    out, since a trace keeps the number, and so is what runs for a loss only. Of several calls of one operator in one line the
    first is given.
    """
    if not code.in_forward or re.search(_LOSS, code.name or ""):
        return
    reported: set[tuple[int, str]] = set()
    for every in code.calls:
        readings = [reading for reading in every if not reading.building]
        if not readings:
            continue
        call = readings[0]
        defaults: set[str] = set()
        answers = list(_asked(code, readings, ask, defaults))
        known = [row for row in answers if row is not None]
        if not known or len(known) < len(answers):
            continue
        if not _is_run(code, readings):
            continue
        function, place = call.function, (call.node.func.end_lineno or call.node.lineno, known[0].kind)
        if place in reported or function is None:
            continue
        if code.ends_in_python(call.node, function) or code.is_for_loss_only(call.node, function):
            continue
        if not call.method.endswith("_") and code.is_discarded(call.node, function):
            continue
        if not code.keeps_defaults(defaults):
            continue
        reported.add(place)
        yield call, known, all(reading.training or reading.unusual for reading in readings if reading.exported)


def found_at(
    rule: Rule, code: Code, call: Call, claim: str, severity: Severity, kind: str, advice: str | None
) -> Iterator[Diagnostic]:
    """The finding at a call of an operator (``aten::fmod``; empty where it is not known), unless nobody reads its result."""
    weighed = _unless_unread(code, call, kind, severity, claim)
    if weighed is not None:
        severity, claim = weighed
        yield code.finding(
            rule, call.node, claim, severity=severity, statement=call.statement, advice=advice, operator=kind or None
        )


def _unless_unread(code: Code, call: Call, kind: str, severity: Severity, claim: str) -> tuple[Severity, str] | None:
    """How much an error about a call weighs, and what is said, by where its value goes; None where that is nowhere.

    A capture keeps nothing of what nobody reads, and of code from outside the project nobody can say what it reads.
    """
    if severity is not Severity.ERROR or call.function is None or not kind.startswith("aten::"):
        return severity, claim
    sinks = code.handed_on(call.node, call.function)
    if sinks is None:
        return severity, claim
    names = dict.fromkeys(f"`{ast.unparse(sink.func)}`" for sink in sinks)
    if not names:
        return None
    verb = "was" if len(names) == 1 else "were"
    return Severity.INFO, f"{claim}; its result is only handed to {' and '.join(names)}, which {verb} not read"


class Sign(NamedTuple):
    """An operator that Python writes as a sign."""

    text: str
    kind: str
    """What a trace makes of it (``aten::__or__``)."""
    function: str
    """torch's function for the same."""


_SIGNS = {
    ast.BitOr: Sign("|", "__or__", "torch.bitwise_or"),
    ast.BitXor: Sign("^", "__xor__", "torch.bitwise_xor"),
    ast.LShift: Sign("<<", "__lshift__", "torch.bitwise_left_shift"),
    ast.BitAnd: Sign("&", "__and__", "torch.bitwise_and"),
    ast.RShift: Sign(">>", "__rshift__", "torch.bitwise_right_shift"),
}


def signs_in_forward(code: Code) -> Iterator[tuple[ast.expr | ast.AugAssign, Sign, bool]]:
    """Every operator on bits that ``forward`` applies to tensors, written as a sign; whether by no default path.

    Of `&`, which converts, only the form that writes in place.
    """
    if not code.in_forward or re.search(_LOSS, code.name or ""):
        return
    reported: set[tuple[int, str]] = set()
    for readings in code.operations:
        node, function = readings[0].node, readings[0].function
        sign = _SIGNS.get(type(node.op)) if isinstance(node, (ast.BinOp, ast.AugAssign)) else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
            continue
        # With None the operation raises, and is none.
        run = [reading for reading in readings if not any(map(_is_none, reading.operands))]
        if sign is None or function is None or not run or not all(map(_of_tensors, run)):
            continue
        if not _is_run(code, readings):
            continue
        if isinstance(node, ast.AugAssign):
            sign = Sign(f"{sign.text}=", sign.kind.replace("__", "__i", 1), sign.function)
        elif isinstance(node, ast.expr) and (
            code.ends_in_python(node, function) or code.is_for_loss_only(node, function)
        ):
            continue
        if (node.lineno, sign.kind) not in reported:
            reported.add((node.lineno, sign.kind))
            yield node, sign, all(reading.aside or reading.unusual for reading in readings)


def rounded_by_one_in_forward(code: Code) -> Iterator[tuple[ast.BinOp, ast.AST | None, bool]]:
    """Every `x % 1` and `x // 1` of what ``forward`` computes from its inputs, once in a line; what it stands in; whether by no
    default path.
    """
    if not code.in_forward or re.search(_LOSS, code.name or ""):
        return
    reported: set[tuple[int, type[ast.operator]]] = set()
    for readings in code.operations:
        node, function = readings[0].node, readings[0].function
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Mod, ast.FloorDiv)):
            continue
        if function is None or not all(map(_by_one, readings)) or not _is_run(code, readings):
            continue
        if code.ends_in_python(node, function) or code.is_for_loss_only(node, function):
            continue
        parent = parents_in(function).get(node)
        if isinstance(node.op, ast.FloorDiv) and isinstance(parent, ast.Return):
            # Of an output coremltools keeps it.
            continue
        if (node.lineno, type(node.op)) not in reported:
            reported.add((node.lineno, type(node.op)))
            yield node, parent, all(reading.aside or reading.unusual for reading in readings)


def inverted_in_forward(code: Code) -> Iterator[tuple[ast.BinOp, bool]]:
    """Every number of Python that ``forward`` divides by a tensor, once in a line; whether by no default path.

    Not where one or more is added to the tensor, which half precision cannot tell from what is added in a conversion, nor a large number:
    what that is divided by is large, too.
    """
    if not code.in_forward or re.search(_LOSS, code.name or ""):
        return
    reported: set[int] = set()
    for readings in code.operations:
        node, function = readings[0].node, readings[0].function
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or node.lineno in reported:
            continue
        # What a variable holds is found by no look at the text.
        if not isinstance(node.left, (ast.Constant, ast.UnaryOp)):
            continue
        if function is None or not all(map(_inverts, readings)) or not _is_run(code, readings):
            continue
        # A capture keeps nothing of what nobody reads.
        if _is_one_or_more(node.right) or code.handed_on(node, function) == []:
            continue
        if code.ends_in_python(node, function) or code.is_for_loss_only(node, function):
            continue
        reported.add(node.lineno)
        yield node, all(reading.aside or reading.unusual for reading in readings)


_LARGE = 1000


def _inverts(operation: Operation) -> bool:
    left, right = (alternatives(operand) for operand in operation.operands)
    numbers = all(
        isinstance(part, Const) and part.number is not None and 0 < abs(part.number) < _LARGE for part in left
    )
    return numbers and all(map(_may_be_small, right))


def _may_be_small(value: Value) -> bool:
    """Whether a value certainly is a tensor, and none of integers, which is refused."""
    if not isinstance(value, Tensor) or not value.is_tensor or value.origin == "unseen":
        return False
    if value.made_by in _TO_INTEGERS or value.node is None:
        return value.made_by not in _TO_INTEGERS
    counts = [call for call in walk(value.node) if isinstance(call, ast.Call) and called_name(call) == "arange"]
    floats = any(
        (isinstance(part, ast.Constant) and type(part.value) is float)
        or (isinstance(part, ast.keyword) and part.arg == "dtype")
        or (isinstance(part, ast.Attribute) and part.attr in ("float", "to", "type_as", "half", "double"))
        for part in walk(value.node)
    )
    return not counts or floats


def _is_one_or_more(divisor: ast.expr) -> bool:
    match divisor:
        case (
            ast.BinOp(op=ast.Add(), left=ast.Constant(value=number), right=_)
            | ast.BinOp(op=ast.Add(), left=_, right=ast.Constant(value=number))
        ):
            return isinstance(number, (int, float)) and number >= 1
    return False


_TO_INTEGERS = frozenset({"argmax", "argmin", "byte", "char", "int", "long", "randint", "short"})


def _by_one(operation: Operation) -> bool:
    """Whether a tensor that is computed from what `forward` is given is divided by the number one: of integers nobody asks that."""
    left, right = (alternatives(operand) for operand in operation.operands)
    return all(map(_is_given, left)) and all(
        isinstance(part, Const) and type(part.value) in (int, float) and part.value == 1 for part in right
    )


def _is_given(value: Value) -> bool:
    """Whether a value is a tensor of floats, as far as it is known, that is computed from what `forward` is given."""
    return (
        isinstance(value, Tensor)
        and value.origin != "unseen"
        and value.batch is not None
        and value.made_by not in _TO_INTEGERS
    )


def transposed_in_forward(code: Code) -> Iterator[tuple[ast.Attribute, bool]]:
    """Every `x.mT` and `x.mH` of a tensor that ``forward`` reads, once in a line; whether by no default path."""
    if not code.in_forward or re.search(_LOSS, code.name or ""):
        return
    reported: set[tuple[int, str]] = set()
    for readings in code.operations:
        node, function = readings[0].node, readings[0].function
        if not isinstance(node, ast.Attribute) or not _is_run(code, readings):
            continue
        tensors = all(isinstance(part, Tensor) for reading in readings for part in alternatives(reading.operands[0]))
        if (
            not tensors
            or function is None
            or code.ends_in_python(node, function)
            or code.is_for_loss_only(node, function)
        ):
            continue
        if (node.lineno, node.attr) not in reported:
            reported.add((node.lineno, node.attr))
            yield node, all(reading.aside or reading.unusual for reading in readings)


def _is_run(code: Code, readings: Sequence[Call] | Sequence[Operation]) -> bool:
    """Whether `forward` runs it where a model is captured: not under `if not torch.jit.is_tracing():`."""
    return all(reading.function in code.in_forward for reading in readings) and any(
        reading.exported for reading in readings
    )


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def _of_tensors(operation: Operation) -> bool:
    """Whether an operand certainly is a tensor, or both are, if the caller gives what `forward` takes."""
    sides = [alternatives(operand) for operand in operation.operands]
    known = [all(isinstance(part, Tensor) and part.origin != "unseen" for part in side) for side in sides]
    certain = any(all(isinstance(part, Tensor) and part.certain for part in side) for side in sides)
    # A number is shifted by a tensor at times; by a number it is a tensor that is shifted.
    shifted = isinstance(operation.node, ast.BinOp) and isinstance(operation.node.op, (ast.LShift, ast.RShift))
    by_number = shifted and known[0] and all(isinstance(part, (Const, Number)) for part in sides[1])
    return all(known) or (certain and any(known)) or by_number


def shown(name: str) -> str:
    """A name as people write it."""
    for long, short in (("torch.nn.functional.", "F."), ("torch.nn.", "nn."), ("torch.Tensor.", "Tensor.")):
        if name.startswith(long):
            return short + name.removeprefix(long)
    return name


def _asked(
    code: Code, readings: list[Call], ask: Callable[[Use], Known | None], defaults: set[str]
) -> Iterator[Known | None]:
    """What ``ask`` says of each thing that is called in any reading; notes the arguments of the constructor whose defaults it takes."""
    layers = _Layers(code, ask, defaults)
    # What a module that was not followed gives may be anything; beside a reading in which it is a tensor, it is one.
    seen = any(isinstance(reading.receiver, Tensor) and reading.receiver.origin != "unseen" for reading in readings)
    for reading in readings:
        if reading.name.startswith("torch.Tensor.") and not seen:
            yield None
        elif reading.name.startswith("torch.nn.") and reading.method[:1].isupper():
            # It builds a layer, and what runs is where that is called.
            yield None
        elif reading.name:
            source = reading.receiver or reading.arguments.get(0, "input")
            yield _answer(code, Use(reading.name, reading.arguments, reading.node, source), ask, defaults)
        else:
            row = code.one_by_one(reading) or code.picked(reading)
            callee, names = code.by_default(reading.callee)
            parts = (row,) if row is not None else alternatives(callee)
            # `self.act = nn.ReLU() if wide else None`: where it is called, it is none of these.
            parts = tuple(part for part in parts if not (isinstance(part, Const) and part.value is None)) or parts
            if names:
                # What has a name is read by itself.
                defaults |= names
                parts = tuple(part for part in parts if part.external_name is None)
            for part in parts:
                yield layers.of(part, reading.arguments.get(0, "input"))


def _answer(code: Code, use: Use, ask: Callable[[Use], Known | None], defaults: set[str]) -> Known | None:
    """What ``ask`` says of a use, or else of the same with the defaults of the constructor's arguments."""
    answer = ask(use)
    if answer is not None:
        return answer
    positional = [code.by_default(value) for value in use.arguments.positional]
    keywords = {name: code.by_default(value) for name, value in use.arguments.keywords.items()}
    names = frozenset[str]().union(*(names for _, names in (*positional, *keywords.values())))
    if not names:
        return None
    plain = [value for value, _ in positional]
    arguments = use.arguments._replace(
        positional=plain, keywords={name: value for name, (value, _) in keywords.items()}
    )
    answer = ask(use._replace(arguments=arguments, by_default=True))
    if answer is not None:
        defaults |= names
    return answer


_CONTAINERS = (".Sequential", ".ModuleList")


class _Layers(Generic[Known]):
    """What a question says of torch's layers that calling a module runs, as far as this code builds them.

    A loop over characters that append layers leaves thousands of containers of a few calls, in each other: a layer that the same call
    builds is asked about once, beside the same others, and a container, or a module of the project, is gone through once.
    """

    def __init__(self, code: Code, ask: Callable[[Use], Known | None], defaults: set[str]) -> None:
        self.code = code
        self.ask = ask
        self.defaults = defaults
        self._answers: dict[object, tuple[Known | None, object]] = {}

    def of(self, value: Value, source: Value | None) -> Known | None:
        """The first answer that is one; ``source`` is what the module is called with."""
        return self._of(value, source, (), frozenset(), 0)

    def _of(
        self, value: Value, source: Value | None, beside: Sequence[Value], nodes: frozenset[object], depth: int
    ) -> Known | None:
        """``beside`` are the modules of the container that a module stands in, built by ``nodes``."""
        if not (isinstance(value, Instance) and value.kind == "module" and isinstance(value.node, ast.Call)):
            return None
        if value.name.endswith(_CONTAINERS) or isinstance(value.callee, ClassRef):
            key: object = id(value), depth
        else:
            key = value.node, value.name, nodes, id(source), depth
        if key not in self._answers:
            # The values are kept, so that no other one takes their `id`.
            self._answers[key] = None, (value, source)
            answer = next(self._answered(value, value.node, source, beside, depth), None)
            self._answers[key] = answer, (value, source)
        return self._answers[key][0]

    def _answered(
        self, value: Instance, node: ast.Call, source: Value | None, beside: Sequence[Value], depth: int
    ) -> Iterator[Known]:
        code = self.code
        if value.name.endswith(_CONTAINERS):
            yield from self._of_each(value.held, value.held, depth)
            return
        if isinstance(value.callee, ClassRef):
            yield from self._of_each(code.passed(value) if depth < _DEEPEST else (), (), depth + 1)
            for name in code.passed_classes(value) if code.holds(node) else ():
                if name.startswith("torch.nn."):
                    known = self.ask(Use(name, Arguments([], [], {}), node))
                    if known is not None:
                        yield known
            return
        # Under another name, or in another file, whoever woke the rule did not see the class.
        written = getattr(node.func, "attr", ""), getattr(node.func, "id", "")
        own = value.name.rpartition(".")[2] in written or not self.defaults.isdisjoint(written)
        if not own or not code.holds(node):
            return
        uses = (Use(value.name, call.arguments, call.node, source, beside) for call in code.readings(node))
        built = [_answer(code, use, self.ask, self.defaults) for use in uses]
        if built and built[0] is not None and None not in built:
            yield built[0]

    def _of_each(self, values: Iterable[Value], beside: Sequence[Value], depth: int) -> Iterator[Known]:
        nodes = frozenset(getattr(part, "node", None) for part in beside)
        for inner in values:
            known = self._of(inner, None, beside, nodes, depth)
            if known is not None:
                yield known
