"""Expressions to abstract values."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from modellint.source.engine.abstract_values import (
    NUMBER,
    SELF,
    UNKNOWN,
    Argument,
    ClassValue,
    Const,
    Container,
    Function,
    Instance,
    Method,
    Named,
    Number,
    SelfValue,
    Text,
    Union,
    Value,
    VersionTruth,
    alternatives,
    union,
    without_none,
)
from modellint.source.engine.class_state import (
    STEPS,
    STEPS_OF_A_CHARACTER,
    Attributes,
    Binding,
    Fill,
    Frame,
    TooLarge,
    bound_value,
)
from modellint.source.engine.layered_map import LARGE, copied, layered
from modellint.source.engine.mode_conditions import Modes
from modellint.source.engine.version_conditions import version_truth
from modellint.source.project.symbols import ClassRef, External, FileRef, FunctionRef, ValueRef
from modellint.source.syntax.ast_walk import is_property, of_kind

if TYPE_CHECKING:
    from modellint.source.engine.domain import Domain, Observer
    from modellint.source.engine.layered_map import Bound
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile, Symbol

BUILTINS = frozenset(
    {
        "list",
        "tuple",
        "set",
        "frozenset",
        "dict",
        "enumerate",
        "zip",
        "len",
        "range",
        "iter",
        "next",
        "reversed",
        "sorted",
        "map",
        "filter",
        "print",
        "isinstance",
        "issubclass",
        "type",
        "id",
        "str",
        "repr",
        "int",
        "float",
        "bool",
        "sum",
        "min",
        "max",
        "any",
        "all",
        "hasattr",
        "getattr",
        "setattr",
        "delattr",
        "super",
        "callable",
        "hash",
        "abs",
        "round",
        "vars",
        "dir",
        "format",
        "ord",
        "chr",
        "slice",
        "object",
        "property",
        "staticmethod",
        "classmethod",
        "divmod",
        "pow",
        "bytes",
        "complex",
    }
)


_TRANSPOSED = frozenset({"mT", "mH"})
"""Attributes of tensors that are operators."""


class Evaluator(ABC):
    """Reads expressions of one class; the state of ``self`` is in ``attributes``."""

    readers: ClassVar[dict[type[ast.expr], Callable[[Any, Any, Frame], Value]]] = {}
    """What reads each kind of expression."""

    reading = False
    """Whether it is at what methods do with the object, which is built."""
    resolves_abroad = False
    """Whether functions of other files are looked for where methods are read, though they are not followed."""
    file: IndexedFile | None

    def __init__(self, project: Project, cls: ClassRef | None, domain: Domain, recorder: Observer) -> None:
        self.domain = domain
        self.recorder = recorder
        self.modes = Modes(domain.tensor, domain.opaque, project)
        self.project = project
        self.cls = cls
        self.attributes: Attributes = {}
        self.bindings: list[Binding] = []
        self.bound_as: dict[int, set[str]] = {}
        """The attributes that were ever bound to a container, by its identity."""
        self.fills: list[Fill] = []
        self.closures: list[Bound[Value]] = []
        """The locals that functions keep which are defined within others: what holds them may be in them."""
        self.steps = 0
        self._most_steps = STEPS
        self.lineage = project.lineage(cls) if cls is not None else []
        self._class_names = [ref.file.members(ref.node) for ref in self.lineage]
        self.names: dict[tuple[str, str, int], Value] = {}
        self.outer_values: dict[int, Value] = {}

    # What those add that derive from it

    @property
    @abstractmethod
    def length(self) -> int:
        """Characters of what is read."""

    @abstractmethod
    def call(self, node: ast.Call, frame: Frame) -> Value:
        """The value of a call."""

    @abstractmethod
    def apply(self, callee: Value, arguments: list[Value], node: ast.expr, frame: Frame) -> Value:
        """The value of calling ``callee`` with positional arguments."""

    @abstractmethod
    def bind(
        self, target: ast.expr, value: Value, frame: Frame, expression: ast.expr | None = None, form: str = "assign"
    ) -> None:
        """Assign ``value`` to a target."""

    @abstractmethod
    def named_attribute(self, name: Value | None, value: Value, form: str, frame: Frame) -> None:
        """Bind the attribute of ``self`` of that name."""

    def copied_locals(self, frame: Frame) -> Bound[Value]:
        """The local variables as they are now."""
        # A function that is defined within may keep the very dictionary, to see what is bound later.
        known = frame.locals
        if isinstance(known, dict) and len(known) > LARGE and all(kept is not known for kept in self.closures):
            frame.locals = layered(known)
        return copied(frame.locals)

    # Expressions

    def value(self, node: ast.expr, frame: Frame) -> Value:
        """The abstract value of an expression, its effects on ``self`` and on containers noted."""
        self.steps += 1
        if self.steps > self._most_steps:
            self._read_on()
        reader = self.readers.get(type(node))
        return reader(self, node, frame) if reader is not None else UNKNOWN

    def _read_on(self) -> None:
        """Allow as many steps as the text is worth. Raises ``TooLarge`` where it took those already."""
        self._most_steps = max(STEPS, STEPS_OF_A_CHARACTER * self.length)
        if self.steps > self._most_steps:
            raise TooLarge(self._most_steps)

    def _constant(self, node: ast.Constant, frame: Frame) -> Value:
        return Const(node.value)

    def _name(self, node: ast.Name, frame: Frame) -> Value:
        name = node.id
        value = frame.locals.get(name)
        if value is not None:
            return value
        if frame.closure is not None and name in frame.closure:
            return frame.closure[name]
        return self.global_name(name, frame)

    def global_name(self, name: str, frame: Frame) -> Value:
        """What a name means that the function does not bind itself."""
        key = frame.file.path, name, len(frame.within)
        if key not in self.names:
            if (
                self.reading
                and not self.resolves_abroad
                and frame.file is self.file
                and self.project.is_function_elsewhere(frame.file, name)
            ):
                # What would not be followed is not looked for.
                self.names[key] = Named(External(f":{name}"))
                return self.names[key]
            symbol = self.project.resolve(frame.file, name, frame.within)
            if symbol is None and name in BUILTINS:
                self.names[key] = Named(External("builtins." + name))
            else:
                self.names[key] = self.of_symbol(symbol)
        return self.names[key]

    def of_symbol(self, symbol: Symbol | None) -> Value:
        """The value that a name outside the function stands for."""
        match symbol:
            case External() | FileRef():
                return Named(symbol)
            case ClassRef():
                return ClassValue(symbol)
            case FunctionRef():
                return Function(symbol.node, symbol.file)
            case ValueRef():
                key = id(symbol.node)
                if key not in self.outer_values:
                    self.outer_values[key] = UNKNOWN
                    self.outer_values[key] = self.value(symbol.node, Frame(symbol.file))
                return self.outer_values[key]
        return UNKNOWN

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        receiver = self.value(node.value, frame)
        if type(receiver) is Union:
            receiver = without_none(receiver)
        if type(receiver) is Union:
            value = union([self.attribute_of(part, node.attr, frame) for part in receiver.values])
        else:
            value = self.attribute_of(receiver, node.attr, frame)
        if node.attr in _TRANSPOSED:
            self.recorder.operated(self, node, (receiver,), value)
        return value

    def attribute_of(self, receiver: Value, name: str, frame: Frame) -> Value:
        """The value of ``receiver.name``."""
        match receiver:
            case SelfValue():
                if name in self.attributes:
                    return bound_value(self.attributes[name])
                return self.class_attribute(name)
            case Named():
                symbol = self.project.attribute(receiver.symbol, name)
                return self.of_symbol(symbol)
            case ClassValue():
                for ref in self.project.lineage(receiver.ref):
                    value = self._in_class(ref, name)
                    if value is not None:
                        return value
                return Method(receiver, name)
        known = self.domain.attribute(self, receiver, name)
        return Method(receiver, name) if known is None else known

    def class_attribute(self, name: str) -> Value:
        """``self.name`` where no statement read so far has bound it."""
        for ref, names in zip(self.lineage, self._class_names, strict=True):
            if name in names:
                value = self._in_class(ref, name)
                if isinstance(value, Function):
                    if is_property(value.node):
                        return self._read_property(value)
                    return Method(SELF, name)
                if value is not None:
                    return value
        return Method(SELF, name)

    def _read_property(self, getter: Function) -> Value:
        # A property's value is made anew by each read; only what it hands on of `self` matters, and that is owned.
        return UNKNOWN

    def _in_class(self, ref: ClassRef, name: str) -> Value | None:
        node = ref.file.members(ref.node).get(name)
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return Function(node, ref.file, None, ref)
            case ast.ClassDef():
                return ClassValue(ClassRef(ref.file, node, (*ref.within, ref.node)))
            case ast.Assign() | ast.AnnAssign() if node.value is not None:
                return self._class_value(ref, node.value)
        return None

    def _class_value(self, ref: ClassRef, node: ast.expr) -> Value:
        key = id(node)
        if key not in self.outer_values:
            self.outer_values[key] = UNKNOWN
            frame = Frame(ref.file)
            frame.within = (*ref.within, ref.node)
            self.outer_values[key] = self.value(node, frame)
        return self.outer_values[key]

    def _display(self, node: ast.List | ast.Tuple | ast.Set, frame: Frame) -> Value:
        kind = "list" if isinstance(node, ast.List) else "tuple" if isinstance(node, ast.Tuple) else "set"
        container = Container(kind, node, exact=True)
        for element in node.elts:
            if isinstance(element, ast.Starred):
                container.exact = False
                container.items.append(self.element_of(self.value(element.value, frame)))
            else:
                container.items.append(self.value(element, frame))
        return container

    def _dict(self, node: ast.Dict, frame: Frame) -> Value:
        container = Container("dict", node)
        for key, value in zip(node.keys, node.values, strict=True):
            held = self.value(value, frame)
            if key is None:
                for part in alternatives(held):
                    if isinstance(part, Container) and part.kind == "dict":
                        container.keys.extend(part.keys)
                        container.items.extend(part.items)
                    else:
                        container.keys.append(UNKNOWN)
                continue
            container.keys.append(self.value(key, frame))
            container.items.append(held)
        return container

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, frame: Frame) -> Value:
        saved = self.copied_locals(frame)
        self._generators(node.generators, frame)
        self.modes.branches += 1
        element = self.value(node.elt, frame)
        self.modes.branches -= 1
        frame.locals = saved
        kind = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "iterator"}[type(node)]
        return Container(kind, node, [element])

    def _dict_comprehension(self, node: ast.DictComp, frame: Frame) -> Value:
        saved = self.copied_locals(frame)
        self._generators(node.generators, frame)
        container = Container("dict", node)
        self.modes.branches += 1
        container.keys.append(self.value(node.key, frame))
        container.items.append(self.value(node.value, frame))
        self.modes.branches -= 1
        frame.locals = saved
        return container

    def _generators(self, generators: list[ast.comprehension], frame: Frame) -> None:
        for generator in generators:
            value = self.value(generator.iter, frame)
            self.recorder.looped(self, generator.iter, value, frame)
            self.bind(generator.target, self.element_of(value), frame)
            for condition in generator.ifs:
                self.ask(generator, condition, frame)

    def element_of(self, value: Value) -> Value:
        """What iterating over a value gives."""
        if type(value) is Union:
            return union(self.element_of(part) for part in value.values)
        if isinstance(value, Container):
            return value.element()
        known = self.domain.element(self, value)
        if known is not None:
            return known
        match value:
            case Argument() if not value.element:
                return value.item()
            case Instance(kind="module"):
                # An element of a registering container is owned by it, whichever it is.
                return union(value.held) if value.held else UNKNOWN
            case Number():
                return UNKNOWN
            case Const(value=str()):
                return Text(plain=True)
        return UNKNOWN

    def _conditional(self, node: ast.IfExp, frame: Frame) -> Value:
        self.ask(node, node.test, frame)
        condition = self.modes.condition(node.test, frame, self.value, statement=False)
        self.modes.branches += 1
        self.modes.enter(condition)
        body = self._narrowed(node.body, node.test, True, frame)
        self.modes.turn(condition)
        other = self._narrowed(node.orelse, node.test, False, frame)
        self.modes.leave(condition)
        self.modes.branches -= 1
        return union((body, other))

    def _narrowed(self, node: ast.expr, test: ast.expr, held: bool, frame: Frame) -> Value:
        """The value of an expression where a condition holds, or does not."""
        before = {part.id: frame.locals[part.id] for part in of_kind(test, ast.Name) if part.id in frame.locals}
        self.modes.narrow(test, held, frame)
        narrowed = {name: frame.locals[name] for name, value in before.items() if frame.locals[name] is not value}
        value = self.value(node, frame)
        for name, inside in narrowed.items():
            if frame.locals.get(name) is inside:
                frame.locals[name] = before[name]
        return value

    def _boolean(self, node: ast.BoolOp, frame: Frame, site: ast.AST | None = None) -> Value:
        values: list[Value] = []
        modes = self.modes
        guarded = captured = 0
        for part in node.values:
            # Python asks all but the last for their truth.
            asked = site is not None or part is not node.values[-1]
            values.append(self.ask(site or node, part, frame) if asked else self.value(part, frame))
            if modes.guard(part, frame, holds=isinstance(node.op, ast.And)):
                guarded += 1
                modes.training += 1
            if modes.captured(part) is isinstance(node.op, ast.Or):
                captured += 1
                modes.unexported += 1
        modes.training -= guarded
        modes.unexported -= captured
        return union(values)

    def ask(self, site: ast.AST, test: ast.expr, frame: Frame) -> Value:
        """The value of an expression that Python asks for its truth, at ``site``."""
        match test:
            case ast.BoolOp():
                return self._boolean(test, frame, site)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.ask(site, operand, frame)
                return NUMBER
        value = self.value(test, frame)
        self.recorder.asked(self, site, test, value, frame)
        return value

    def _compare(self, node: ast.Compare, frame: Frame) -> Value:
        parts = [self.value(node.left, frame), *(self.value(part, frame) for part in node.comparators)]
        known = self.domain.compared(self, node, parts)
        return self.truth_by_version(node, frame) if known is None else known

    def truth_by_version(self, node: ast.expr, frame: Frame) -> Number:
        """A truth, which PyTorch's version may tell."""
        truth = version_truth(node, self.project, frame.file)
        return NUMBER if truth is None else VersionTruth(truth)

    def _unary(self, node: ast.UnaryOp, frame: Frame) -> Value:
        if isinstance(node.op, ast.Not):
            asked = self.ask(node, node.operand, frame)
            return VersionTruth(not asked.truth) if isinstance(asked, VersionTruth) else NUMBER
        known = self.domain.unary(self, node, self.value(node.operand, frame))
        return NUMBER if known is None else known

    def _binary(self, node: ast.BinOp, frame: Frame) -> Value:
        # A sum of thousands of terms leans left: descend it in a loop.
        chain: list[ast.BinOp] = []
        leftmost: ast.expr = node
        while isinstance(leftmost, ast.BinOp):
            chain.append(leftmost)
            leftmost = leftmost.left
        value = self.value(leftmost, frame)
        for link in reversed(chain):
            value = self.combine(link, value, self.value(link.right, frame))
        return value

    def combine(self, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
        """The value of a binary operation."""
        known = self.domain.binary(self, node, left, right)
        if known is not None:
            return known
        boxes = [part for part in (*alternatives(left), *alternatives(right)) if isinstance(part, Container)]
        if boxes and isinstance(node.op, (ast.Add, ast.Mult, ast.BitOr)):
            joined = Container(boxes[0].kind, node)
            for box in boxes:
                joined.items.extend(box.items)
                joined.keys.extend(box.keys)
            for side in (left, right) if isinstance(node.op, ast.Add) else ():
                if not any(isinstance(part, Container) for part in alternatives(side)):
                    joined.items.append(self.element_of(side))
            joined.escaped = any(box.escaped for box in boxes)
            return joined
        if _is_number(left) and _is_number(right) and not isinstance(node.op, ast.Div):
            return NUMBER
        if isinstance(node.op, ast.Mod) and _is_text(left):
            parts = right.items if isinstance(right, Container) else [right]
            return Text(_is_plain(left) and all(_is_plain(part) for part in parts))
        if isinstance(node.op, ast.Add) and (_is_text(left) or _is_text(right)):
            return Text(_is_plain(left) and _is_plain(right))
        return UNKNOWN

    def _formatted(self, node: ast.JoinedStr, frame: Frame) -> Value:
        plain = True
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                # A format like `:.2f` can bring a dot in.
                plain = _is_plain(self.value(part.value, frame)) and part.format_spec is None and plain
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                plain = "." not in part.value and plain
        return Text(plain and bool(node.values))

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        value = self.value(node.value, frame)
        known = self.domain.subscript(self, node, without_none(value) if type(value) is Union else value, frame)
        if known is not None:
            return known
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper, node.slice.step):
                if bound is not None:
                    self.value(bound, frame)
            return union(self.sliced(part, node) for part in alternatives(value))
        index = self.value(node.slice, frame)
        return union(self.indexed(part, index) for part in alternatives(value))

    def sliced(self, receiver: Value, node: ast.Subscript) -> Value:
        """What a slice of a value that is in no domain gives."""
        if isinstance(receiver, Container) and receiver.kind in ("list", "tuple"):
            part = Container(receiver.kind, node, receiver.items)
            part.escaped = receiver.escaped
            return part
        return receiver if isinstance(receiver, (Argument, Instance)) else UNKNOWN

    def indexed(self, receiver: Value, index: Value) -> Value:
        """What an item of such a value is."""
        if isinstance(receiver, Container):
            if receiver.kind == "dict":
                return self._dict_item(receiver, index)
            if receiver.kind in ("list", "tuple") and isinstance(index, Container):
                # Python takes no tuple or list for the place of an item.
                return UNKNOWN
            if receiver.exact and isinstance(index, Const) and isinstance(index.value, int):
                if -len(receiver.items) <= index.value < len(receiver.items):
                    return receiver.items[index.value]
                return UNKNOWN
            return union(receiver.items)
        if isinstance(receiver, (ClassValue, Named)):
            return receiver  # a generic class with its type argument
        return self.element_of(receiver)

    def _dict_item(self, receiver: Container, index: Value) -> Value:
        if isinstance(index, Const) and len(receiver.keys) == len(receiver.items):
            exact = [
                item
                for key, item in zip(receiver.keys, receiver.items, strict=True)
                if isinstance(key, Const) and key.value == index.value
            ]
            if exact and all(isinstance(key, Const) for key in receiver.keys):
                return exact[-1]
        return union(receiver.items)

    def _lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        closure = {**(frame.closure or {}), **frame.locals}
        self.closures.append(closure)
        return Function(node, frame.file, closure, frame.owner)

    def _walrus(self, node: ast.NamedExpr, frame: Frame) -> Value:
        value = self.value(node.value, frame)
        self.bind(node.target, value, frame, node.value)
        return value

    def _inner(self, node: ast.Await | ast.Starred, frame: Frame) -> Value:
        return self.value(node.value, frame)

    def _yield(self, node: ast.Yield | ast.YieldFrom, frame: Frame) -> Value:
        if frame.yielded is None:
            frame.yielded = []
        if node.value is not None:
            value = self.value(node.value, frame)
            frame.yielded.append(self.element_of(value) if isinstance(node, ast.YieldFrom) else value)
        return UNKNOWN

    def _call(self, node: ast.Call, frame: Frame) -> Value:
        return self.call(node, frame)


def _is_number(value: Value) -> bool:
    return isinstance(value, Number) or (isinstance(value, Const) and isinstance(value.value, int))


def _is_text(value: Value) -> bool:
    return isinstance(value, Text) or (isinstance(value, Const) and isinstance(value.value, str))


def _is_plain(value: Value) -> bool:
    """Whether the value, formatted, is sure to hold no dot."""
    match value:
        case Union():
            return all(_is_plain(part) for part in value.values)
        case Text():
            return value.plain
        case Number():
            return True
        case Const(value=str() as text):
            return "." not in text
        case Const(value=value_):
            return isinstance(value_, int)
    return False


Evaluator.readers = {
    ast.Constant: Evaluator._constant,
    ast.Name: Evaluator._name,
    ast.Attribute: Evaluator._attribute,
    ast.List: Evaluator._display,
    ast.Tuple: Evaluator._display,
    ast.Set: Evaluator._display,
    ast.Dict: Evaluator._dict,
    ast.ListComp: Evaluator._comprehension,
    ast.SetComp: Evaluator._comprehension,
    ast.GeneratorExp: Evaluator._comprehension,
    ast.DictComp: Evaluator._dict_comprehension,
    ast.IfExp: Evaluator._conditional,
    ast.BoolOp: Evaluator._boolean,
    ast.Compare: Evaluator._compare,
    ast.UnaryOp: Evaluator._unary,
    ast.BinOp: Evaluator._binary,
    ast.JoinedStr: Evaluator._formatted,
    ast.Subscript: Evaluator._subscript,
    ast.Lambda: Evaluator._lambda,
    ast.NamedExpr: Evaluator._walrus,
    ast.Await: Evaluator._inner,
    ast.Starred: Evaluator._inner,
    ast.Yield: Evaluator._yield,
    ast.YieldFrom: Evaluator._yield,
    ast.Call: Evaluator._call,
}
