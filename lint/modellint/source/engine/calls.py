"""What calls do to abstract values: builtins, torch, containers, modules, and ``self``."""

from __future__ import annotations

import ast
from abc import abstractmethod
from typing import TYPE_CHECKING

from modellint.source.engine.abstract_values import (
    NUMBER,
    SELF,
    TEXT,
    UNKNOWN,
    Argument,
    Child,
    ClassValue,
    Const,
    Container,
    Function,
    Instance,
    Method,
    Named,
    Partial,
    SelfValue,
    SuperValue,
    Text,
    Union,
    Value,
    alternatives,
    leaves,
    union,
)
from modellint.source.engine.arguments import Arguments
from modellint.source.engine.class_state import Fill, Frame, escape
from modellint.source.engine.expressions import Evaluator
from modellint.source.project import external_name_facts
from modellint.source.project.annotations import is_annotated_module
from modellint.source.project.symbols import External, FileRef
from modellint.source.syntax.computed_names import name_pattern

if TYPE_CHECKING:
    from modellint.source.project.symbols import ClassRef


_LISTS = {"list": "list", "tuple": "tuple", "set": "set", "frozenset": "set", "iter": "iterator"}
_PASSING = frozenset({"reversed", "sorted", "filter"})
_READING = frozenset(
    {"print", "isinstance", "issubclass", "hasattr", "callable", "id", "hash", "delattr", "vars", "dir"}
)
_FILLING = {"append": 0, "add": 0, "appendleft": 0, "insert": 1, "setdefault": 1}


class Caller(Evaluator):
    """Reads calls."""

    allow_escape = True
    """Whether handing something to code that cannot be seen may register it: not so while ``forward`` runs."""
    _registers_unseen = False
    """Whether buffers or parameters were registered under names that are not known."""

    @abstractmethod
    def invoke(self, function: Function, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        """The value of running a function whose body can be read."""

    @abstractmethod
    def set_attribute(
        self, name: str, value: Value, form: str, frame: Frame, expression: ast.expr | None = None
    ) -> None:
        """Bind an attribute of ``self``."""

    @abstractmethod
    def set_numbered_attribute(self, pattern: str, value: Value, frame: Frame) -> None:
        """Bind one of the attributes of ``self`` whose names an expression computes."""

    @abstractmethod
    def initialised(self, frame: Frame) -> None:
        """Note that ``__init__`` of a base class is called here."""

    def call(self, node: ast.Call, frame: Frame) -> Value:
        """The value of a call, its arguments read first."""
        callee = self.value(node.func, frame)
        positional: list[Value] = []
        spread: list[Value] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                value = self.value(argument.value, frame)
                if isinstance(value, Container) and value.exact and not spread:
                    positional.extend(value.items)
                else:
                    spread.append(value if isinstance(value, Container) else self.element_of(value))
            else:
                value = self.value(argument, frame)
                (spread or positional).append(value)
        keywords: dict[str | None, Value] = {}
        for keyword in node.keywords:
            keywords[keyword.arg] = self.value(keyword.value, frame)
        arguments = Arguments(positional, spread, keywords)
        made = self.apply_to(callee, arguments, node, frame)
        if type(made) is Instance and made.kind == "unresolved" and not made.name:
            made.name = _spelled(node.func)
        self.recorder.called(self, node, callee, arguments, made, frame)
        return made

    def apply(self, callee: Value, arguments: list[Value], node: ast.expr, frame: Frame) -> Value:
        """The value of calling ``callee`` with positional arguments."""
        return self.apply_to(callee, Arguments(arguments, [], {}), node, frame)

    def apply_to(self, callee: Value, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        """The value of calling ``callee``."""
        if self.reading:
            arguments = self.domain.arguments(self, arguments)
        if isinstance(callee, Instance) and callee.kind == "module":
            return self.domain.module_output(self, callee, arguments, node)
        made = self._applied(callee, arguments, node, frame)
        if type(made) is Instance and made.kind == "unresolved" and self.reading:
            return self.domain.unseen(made, _with_state(callee, arguments))
        return made

    def _applied(self, callee: Value, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        match callee:
            case Named(symbol=External() as symbol):
                return self._external(symbol.name, arguments, node, frame)
            case ClassValue():
                return self._construct(callee.ref, arguments, node)
            case Function():
                return self.invoke(callee, arguments, node, frame)
            case Method():
                return self._method(callee, arguments, node, frame)
            case Partial():
                merged = Arguments(
                    [*callee.arguments, *arguments.positional],
                    arguments.spread,
                    {**callee.keywords, **arguments.keywords},
                )
                return self.apply_to(callee.function, merged, node, frame)
            case Union():
                return union([self.apply_to(part, arguments, node, frame) for part in callee.values[:6]])
            case Argument():
                return self._unseen(callee.name, arguments, node)
        return self._unseen("", arguments, node)

    def _unseen(self, name: str, arguments: Arguments, node: ast.expr) -> Instance:
        """A call of code that cannot be seen."""
        self._hand_over(arguments.everything())
        return Instance("unresolved", node, name)

    def _hand_over(self, values: list[Value]) -> None:
        if self.allow_escape or any(isinstance(value, SelfValue) for value in values):
            for value in values:
                escape(value)

    # Names outside the project

    def _external(self, name: str, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        known = self.domain.external(self, name, arguments, node)
        if known is not None:
            return known
        made = self._outside(name, arguments, node, frame)
        if type(made) is Instance and made.kind in ("parameter", "buffer"):
            return self.domain.state(made, arguments)
        return made

    def _outside(self, name: str, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        if name.startswith("builtins."):
            return self._builtin(name[9:], arguments, node, frame)
        first = arguments.get(0)
        if name in external_name_facts.PARAMETER_CLASSES:
            return Instance("parameter", node, name)
        if name in external_name_facts.BUFFER_CLASSES:
            return Instance("buffer", node, name)
        path, _, last = name.rpartition(".")
        if last in ("__init__", "__setattr__", "add_module", "register_module") and isinstance(first, SelfValue):
            if last == "__init__":
                self.initialised(frame)
                self._hand_over(arguments.everything()[1:])
                return UNKNOWN
            return self._on_self(last, Arguments(arguments.positional[1:], [], arguments.keywords), node, frame)
        if external_name_facts.is_module(name):
            return self._module(name, arguments, node)
        if name in external_name_facts.COMPILERS and isinstance(first, Function):
            return Function(first.node, first.file, first.closure, first.owner, compiled=True)
        if name.startswith(external_name_facts.RETURNS_FIRST):
            return first if first is not None else UNKNOWN
        if name.startswith(external_name_facts.MODULE_FACTORIES) and (
            last[:1].islower() or name == "timm.create_model"
        ):
            return Instance("module", node, name)
        if last in ("from_pretrained", "from_config") and path.startswith("transformers."):
            return Instance("module" if "Model" in path or "For" in path else "object", node, name)
        match name:
            case "collections.OrderedDict" | "typing.OrderedDict":
                return self._builtin("dict", arguments, node, frame)
            case "collections.defaultdict":
                return Container("dict", node)
            case "collections.deque":
                return self._builtin("list", arguments, node, frame)
            case "copy.deepcopy" | "copy.copy" if first is not None:
                return union(self._copied(part, node) for part in alternatives(first))
            case "itertools.chain":
                return Container("iterator", node, [self.element_of(value) for value in arguments.positional])
            case "functools.partial" if first is not None:
                return Partial(first, arguments.positional[1:], arguments.keywords)
            case "typing.cast":
                return arguments.get(1) or UNKNOWN
        if name.startswith(("torch.nn.functional.", "torch.ops.")):
            return Instance("tensor", node, name)
        if name.startswith("torch.") and not (path == "torch.nn" and last[:1].isupper()):
            return Instance("tensor" if path in ("torch", "torch.Tensor") else "object", node, name)
        if name.partition(".")[0] in ("numpy", "math", "random", "logging", "warnings", "os"):
            return UNKNOWN
        made = self._unseen(name, arguments, node)
        if external_name_facts.is_module(name) is False:
            made.kind = "object"
        return made

    def _module(self, name: str, arguments: Arguments, node: ast.expr) -> Instance:
        made = Instance("module", node, name, External(name))
        made.stateless = external_name_facts.is_stateless(name)
        for value in arguments.everything():
            made.held.extend(leaves(value))
            if not external_name_facts.is_torch_layer(name):
                escape(value)
        return made

    def _construct(self, ref: ClassRef, arguments: Arguments, node: ast.expr) -> Value:
        is_module = self.project.is_module(ref)
        if is_module:
            made = Instance("module", node, ref.node.name, ref)
            for value in arguments.everything():
                made.held.extend(leaves(value))
            return made
        for base in self.project.bases(ref):
            if isinstance(base, External) and base.name in external_name_facts.PARAMETER_CLASSES:
                return Instance("parameter", node, ref.node.name)
        made = self._unseen(ref.node.name, arguments, node)
        if is_module is False:
            made.kind = "object"
            if self.reading and self.domain.is_given(arguments):
                # A record: its methods and attributes give parts of what it was given.
                for value in arguments.everything():
                    made.held.extend(leaves(value))
        return made

    # Builtins

    def _builtin(self, name: str, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        known = self.domain.builtin(self, name, arguments, node)
        if known is not None:
            return known
        first = arguments.get(0)
        if name in _LISTS:
            container = Container(_LISTS[name], node)
            for value in (first, *arguments.spread):
                if value is None:
                    continue
                for part in alternatives(value):
                    if isinstance(part, Container):
                        container.items.extend([part.element()] if part.kind == "dict" else part.items)
                        container.exact = part.exact and part.kind in ("list", "tuple")
                        container.escaped |= part.escaped
                    else:
                        container.items.append(self.element_of(part))
                        container.origin = part
            return container
        if name in _PASSING:
            value = arguments.get(1) if name == "filter" else first
            return Container("iterator", node, [self.element_of(value)] if value is not None else ())
        if name == "hasattr":
            return self.truth_by_version(node, frame)
        if name in _READING:
            return NUMBER
        match name:
            case "super" if (owner := frame.owner or self.cls) is not None:
                return SuperValue(owner)
            case "dict":
                return self._new_dict(first, arguments, node)
            case "range":
                return Container("iterator", node, [NUMBER])
            case "len" | "int" | "float" | "round" | "abs" | "ord" | "bool" | "any" | "all":
                return NUMBER
            case "enumerate":
                pair = Container("tuple", node, [NUMBER, self.element_of(first or UNKNOWN)], exact=True)
                return Container("iterator", node, [pair])
            case "zip":
                row = Container("tuple", node, [self.element_of(value) for value in arguments.positional], exact=True)
                return Container("iterator", node, [row])
            case "map" if first is not None:
                elements = [self.element_of(value) for value in arguments.positional[1:]]
                return Container("iterator", node, [self.apply(first, elements, node, frame)])
            case "next" if first is not None:
                return self.element_of(first)
            case "getattr":
                return self._getattr(arguments, frame)
            case "setattr" | "object.__setattr__":
                return self._setattr(arguments, "dunder" if "." in name else "setattr", node, frame)
            case "str" | "repr" | "format":
                plain = isinstance(first, Text) and first.plain
                number = first is NUMBER or (isinstance(first, Const) and isinstance(first.value, int))
                return Text(plain=plain or number)
            case "type":
                return first_class if (first_class := _class_of(first)) is not None else UNKNOWN
            case "dict.fromkeys" if first is not None:
                made = Container("dict", node, [arguments.get(1) or UNKNOWN])
                made.keys.append(self.element_of(first))
                return made
        return UNKNOWN

    def _new_dict(self, first: Value | None, arguments: Arguments, node: ast.expr) -> Value:
        made = Container("dict", node)
        for value in (first, *arguments.spread):
            if value is not None:
                self._merge(made, value)
        for key, value in arguments.keywords.items():
            if key is None:
                self._merge(made, value)
            else:
                made.keys.append(Const(key))
                made.items.append(value)
        return made

    def _merge(self, into: Container, value: Value) -> None:
        """Take over the entries of a mapping, or of an iterable of pairs."""
        for part in alternatives(value):
            if isinstance(part, Container) and part.kind == "dict":
                into.keys.extend(part.keys)
                into.items.extend(part.items)
            elif isinstance(part, Container):
                for pair in part.items:
                    for entry in alternatives(pair):
                        if isinstance(entry, Container) and entry.exact and len(entry.items) == 2:
                            into.keys.append(entry.items[0])
                            into.items.append(entry.items[1])
                        else:
                            into.keys.append(UNKNOWN)
            else:
                into.keys.append(UNKNOWN)
                into.items.append(self.element_of(part))

    def _getattr(self, arguments: Arguments, frame: Frame) -> Value:
        receiver, name = arguments.get(0), arguments.get(1)
        if receiver is None or name is None:
            return UNKNOWN
        if isinstance(name, Const) and isinstance(name.value, str):
            return union(self.attribute_of(part, name.value, frame) for part in alternatives(receiver))
        if isinstance(receiver, Named) and isinstance(receiver.symbol, External) and receiver.symbol.name == "torch.nn":
            return Named(External("torch.nn.Module"))
        return UNKNOWN

    def _setattr(self, arguments: Arguments, form: str, node: ast.expr, frame: Frame) -> Value:
        receiver, name, value = arguments.get(0), arguments.get(1), arguments.get(2)
        if receiver is None or value is None:
            return UNKNOWN
        if isinstance(receiver, SelfValue):
            self.named_attribute(name, value, form, frame, node)
        elif isinstance(receiver, Instance) and receiver.kind == "module":
            receiver.held.extend(leaves(value))
        else:
            escape(value)
        return UNKNOWN

    def named_attribute(
        self, name: Value | None, value: Value, form: str, frame: Frame, node: ast.expr | None = None
    ) -> None:
        """Bind the attribute of ``self`` of that name; ``node`` is the call of `setattr` that does."""
        if isinstance(name, Const) and isinstance(name.value, str):
            self.set_attribute(name.value, value, form, frame)
        elif form != "dunder":
            parts = alternatives(value)
            if form == "register":
                self._registers_unseen |= not all(getattr(part, "kind", "") == "module" for part in parts)
            elif all(isinstance(part, self.domain.tensor) and part.kind == "tensor" for part in parts):
                pattern = name_pattern(node.args[1]) if isinstance(node, ast.Call) and len(node.args) == 3 else None
                if pattern is not None and not self._registers_unseen:
                    self.set_numbered_attribute(pattern, value, frame)
                    return
            # Under a name that is not known, but registered.
            escape(value)
            for part in alternatives(value):
                if isinstance(part, Child):
                    escape(part.parent)

    # Methods

    def _method(self, callee: Method, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        known = self.domain.method(self, callee, arguments, node, frame)
        if known is not None:
            return known
        receiver, name = callee.receiver, callee.name
        if name == "__init__" and isinstance(arguments.get(0), SelfValue):
            self.initialised(frame)
        match receiver:
            case SelfValue():
                return self._on_self(name, arguments, node, frame)
            case SuperValue():
                return self._on_super(receiver, name, arguments, node, frame)
            case Container():
                return self._on_container(receiver, name, arguments, node, frame)
            case Instance(kind="module"):
                return self._on_module(receiver, name, arguments, node)
            case Instance(kind="parameter") if name in ("requires_grad_", "share_memory_"):
                return receiver
            case Instance(kind="parameter" | "tensor" | "buffer"):
                return Instance("tensor", node)
            case Instance(kind="unresolved") if name in external_name_facts.SAME_MODULE_METHODS:
                return receiver
            case Argument() if name in ("values", "items"):
                item = receiver.item()
                pair = Container("tuple", node, [UNKNOWN, item], exact=True)
                return Container("iterator", node, [pair if name == "items" else item])
            case Const(value=str()) | Text():
                plain = name in ("lower", "upper", "strip") and isinstance(receiver, Text) and receiver.plain
                return Text(plain) if name != "split" else Container("list", node, [TEXT])
            case Named(symbol=FileRef()) | Named():
                return self._unseen(name, arguments, node)
        return self._unseen(name, arguments, node)

    def _on_self(self, name: str, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        value = arguments.get(1, "module") or arguments.get(1, "param") or arguments.get(1, "tensor")
        if name in ("add_module", "register_module", "register_parameter", "register_buffer", "__setattr__"):
            if value is not None:
                form = "setattr" if name == "__setattr__" else "register"
                if name == "register_buffer":
                    value = Instance("buffer", node)
                self.named_attribute(arguments.get(0, "name"), value, form, frame)
            return UNKNOWN
        function = self.find_method(name)
        if function is not None:
            return self.invoke(function, self._with_self(function, arguments), node, frame)
        if name in external_name_facts.SAME_MODULE_METHODS:
            return SELF
        if name not in external_name_facts.MODULE_READERS:
            self._hand_over(arguments.everything())
        return UNKNOWN

    def find_method(self, name: str, after: ClassRef | None = None) -> Function | None:
        """The method that ``self.name`` means, looked for behind ``after`` in the order of the bases."""
        refs = self.lineage
        if after is not None:
            position = next((i for i, ref in enumerate(refs) if ref.node is after.node), None)
            refs = refs[position + 1 :] if position is not None else []
        for ref in refs:
            found = self._in_class(ref, name)
            if isinstance(found, Function):
                return found
            if found is not None:
                return None
        return None

    def _with_self(self, function: Function, arguments: Arguments) -> Arguments:
        kinds = {getattr(decorator, "id", "") for decorator in getattr(function.node, "decorator_list", ())}
        if "staticmethod" in kinds:
            return arguments
        bound: Value = ClassValue(self.cls) if "classmethod" in kinds and self.cls is not None else SELF
        return Arguments([bound, *arguments.positional], arguments.spread, arguments.keywords)

    def _on_super(self, receiver: SuperValue, name: str, arguments: Arguments, node: ast.expr, frame: Frame) -> Value:
        if name == "__init__":
            self.initialised(frame)
        if name == "__setattr__":
            self.named_attribute(arguments.get(0), arguments.get(1) or UNKNOWN, "dunder", frame)
            return UNKNOWN
        function = self.find_method(name, receiver.owner)
        if function is not None:
            return self.invoke(function, self._with_self(function, arguments), node, frame)
        if name in ("add_module", "register_module", "register_parameter", "register_buffer"):
            return self._on_self(name, arguments, node, frame)
        if name not in external_name_facts.MODULE_READERS:
            self._hand_over(arguments.everything())
        return UNKNOWN

    def _on_module(self, receiver: Instance, name: str, arguments: Arguments, node: ast.expr) -> Value:
        if name in external_name_facts.SAME_MODULE_METHODS:
            return receiver
        if name == "forward":
            return self.domain.module_output(self, receiver, arguments, node)
        if name in ("items", "values", "__iter__"):
            element = self.element_of(receiver)
            pair = Container("tuple", None, [UNKNOWN, element], exact=True)
            return Container("iterator", None, [pair if name == "items" else element])
        if name in ("append", "extend", "insert"):
            for value in arguments.everything():
                receiver.held.extend(leaves(value))
            return receiver
        if name in ("children", "modules", "named_children", "named_modules"):
            child = Child(receiver)
            pair = Container("tuple", None, [TEXT, child], exact=True)
            return Container("iterator", node, [pair if name.startswith("named_") else child])
        if name in external_name_facts.MODULE_READERS:
            return UNKNOWN
        for value in arguments.everything():
            receiver.held.extend(leaves(value))
        return Instance("unresolved", node, name)

    def _on_container(
        self, receiver: Container, name: str, arguments: Arguments, node: ast.expr, frame: Frame
    ) -> Value:
        first = arguments.get(0)
        if name in _FILLING:
            value = arguments.get(_FILLING[name])
            if value is not None:
                self.fill(receiver, name, value, node, frame)
                if receiver.kind == "dict" and first is not None:
                    receiver.keys.append(first)
            return receiver.element() if name == "setdefault" else Const(None)
        if name in ("extend", "update", "extendleft") and receiver.kind != "dict":
            if first is not None:
                self.fill(receiver, name, self.element_of(first), node, frame)
            return Const(None)
        if name == "update":
            before = len(receiver.items)
            self._merge(receiver, self._new_dict(first, arguments, node))
            for value in receiver.items[before:]:
                self._note_fill(receiver, name, value, node, frame)
            return Const(None)
        if name in ("copy", "__copy__"):
            return self._copied(receiver, node)
        if name == "keys":
            return Container("iterator", node, [union(receiver.keys)])
        if name == "values":
            return Container("iterator", node, receiver.items)
        if name == "items":
            pair = Container("tuple", node, [union(receiver.keys), union(receiver.items)], exact=True)
            return Container("iterator", node, [pair])
        if name in ("pop", "get", "popitem", "popleft", "__getitem__"):
            return union(receiver.items)
        return UNKNOWN

    def _copied(self, value: Value, node: ast.AST | None) -> Value:
        match value:
            case Instance():
                made = Instance(value.kind, node, value.name, value.callee)
                made.stateless = value.stateless
                return made
            case Container():
                copy = Container(value.kind, node, value.items, value.exact)
                copy.keys = list(value.keys)
                return copy
            case Argument():
                # A copy is nobody's but the one's who makes it.
                kind = (
                    "module"
                    if is_annotated_module(self.project, value.file, value.annotation, value.element)
                    else "unresolved"
                )
                return Instance(kind, node, value.name)
        return value

    def fill(self, container: Container, how: str, value: Value, node: ast.AST | None, frame: Frame) -> None:
        """Put a value into a plain container."""
        container.add(value)
        self._note_fill(container, how, value, node, frame)

    def _note_fill(self, container: Container, how: str, value: Value, node: ast.AST | None, frame: Frame) -> None:
        if frame.statement is not None:
            held_by_self = any(
                part is container
                for name in self.bound_as.get(id(container), ())
                for binding in self.attributes.get(name, ())
                for part in alternatives(binding.value)
            )
            self.fills.append(Fill(container, how, value, frame.statement, frame.file, not held_by_self))


def _spelled(function: ast.expr) -> str:
    """The name by which a call names what it calls: `Conv` in `Conv[kind](…)`."""
    while isinstance(function, (ast.Subscript, ast.Call)):
        function = function.value if isinstance(function, ast.Subscript) else function.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _class_of(value: Value | None) -> Value | None:
    if isinstance(value, Instance) and value.callee is not None:
        return Named(value.callee) if isinstance(value.callee, External) else ClassValue(value.callee)
    return None


def _with_state(callee: Value, arguments: Arguments) -> Arguments:
    """The arguments of a method of a record of the project, and what the record was built with, which it may give back."""
    if isinstance(callee, Method) and isinstance(callee.receiver, Instance) and callee.receiver.kind == "object":
        return arguments._replace(positional=[*arguments.positional, *callee.receiver.held])
    return arguments
