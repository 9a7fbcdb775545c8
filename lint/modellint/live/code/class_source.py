"""Class sources: where a live class is defined, and which of its statements binds an attribute."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from modellint.live.code.places import File, file_at, span_of
from modellint.results.diagnostic import Place


class _Bound(NamedTuple):
    """One statement that binds an attribute of `self`, or a name in a class's body."""

    method: str
    """Empty for the class's body."""
    statement: ast.stmt
    value: ast.expr | None
    """What it is bound to; None where that has no expression of its own."""


class _Bindings:
    """What binds attributes in one class, in order."""

    def __init__(self, cls: ast.ClassDef) -> None:
        self._exact: dict[str, list[_Bound]] = {}
        self._open: list[tuple[re.Pattern[str], _Bound]] = []
        for key, bound in _bindings(cls):
            if isinstance(key, str):
                self._exact.setdefault(key, []).append(bound)
            else:
                pattern = _pattern(key)
                if any(character.isalnum() for character in pattern.replace(_ANYTHING, "")):
                    self._open.append((re.compile(pattern, re.DOTALL), bound))

    def of(self, name: str) -> list[_Bound]:
        """What binds an attribute; names that are put together at run time come in where nothing else does."""
        return self._exact.get(name) or [bound for pattern, bound in self._open if pattern.fullmatch(name)]


def _bindings_of(file: File, cls: ast.ClassDef) -> _Bindings:
    if cls not in file.bindings:
        file.bindings[cls] = _Bindings(cls)
    bindings: _Bindings = file.bindings[cls]
    return bindings


_CLASSES: weakref.WeakKeyDictionary[type, tuple[str, ast.ClassDef] | None] = weakref.WeakKeyDictionary()


def class_node(cls: type) -> tuple[str, ast.ClassDef] | None:
    """The file and the statement of a class; None for one that has no source."""
    if cls not in _CLASSES:
        _CLASSES[cls] = _class_node(cls)
    return _CLASSES[cls]


def _class_node(cls: type) -> tuple[str, ast.ClassDef] | None:
    codes = list(_codes(cls))
    if hasattr(cls, "__dataclass_fields__") or hasattr(cls, "__attrs_attrs__"):
        # Methods that a decorator has written stand in no file.
        codes = [code for code in codes if not code.co_filename.startswith("<")]
    if codes and all(code.co_filename.startswith("<") for code in codes):
        return None
    path = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if path is None:
        path = next((code.co_filename for code in codes if not code.co_filename.startswith("<")), None)
    file = file_at(path) if isinstance(path, str) else None
    if file is None:
        return None
    name = Path(file.path).name
    rows = [code.co_firstlineno for code in codes if Path(code.co_filename).name == name]
    if not rows and codes:
        return None
    named = file.classes.get(cls.__qualname__, [])
    if not named and "<locals>" not in cls.__qualname__:
        return None
    first = getattr(cls, "__firstlineno__", None)
    best = max(
        (node for node in named if not rows or any(_covers(node, row) for row in rows)),
        key=lambda node: (node.lineno == first, sum(_covers(node, row) for row in rows), node.lineno),
        default=None,
    )
    return None if best is None else (file.path, best)


def _covers(node: ast.ClassDef, row: int) -> bool:
    start = min((decorator.lineno for decorator in node.decorator_list), default=node.lineno)
    return start <= row <= (node.end_lineno or row)


def _codes(cls: type) -> Iterator[CodeType]:
    for value in vars(cls).values():
        function = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
        if inspect.isfunction(function):
            try:
                yield inspect.unwrap(function).__code__
            except (AttributeError, ValueError):
                yield function.__code__


def place_of_class(cls: type) -> Place | None:
    """The `class` line of a class."""
    definition = class_node(cls)
    return None if definition is None else Place(definition[0], span_of(*definition))


def place_of_attribute(cls: type, name: str, value: object = None) -> tuple[type, Place] | None:
    """The class of ``cls.__mro__`` whose code binds ``self.name``, and the statement that does.

    ``value`` is what the attribute holds. Of several statements the last one counts that makes such a container, else that binds
    anything but `None`; those in ``__init__`` before others, and the class's own body last.
    """
    binding = _bound_by(cls, name, value)
    return None if binding is None else (binding[0], Place(binding[1], span_of(binding[1], binding[2].statement)))


class Binding(NamedTuple):
    """The statement that ``place_of_attribute`` tells, as its syntax has it."""

    method: str
    """The method it stands in; empty for the class's body."""
    value: ast.expr | None
    """What it binds; None where that has no expression of its own."""
    arguments: frozenset[str]
    """The names of the method's arguments."""


def binding_of(cls: type, name: str, value: object = None) -> Binding | None:
    """What binds ``self.name`` in the code of a class; ``value`` is what the attribute holds."""
    binding = _bound_by(cls, name, value)
    if binding is None:
        return None
    bound, node = binding[2], binding[3]
    arguments: set[str] = set()
    for method in node.body:
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name == bound.method:
            arguments.update(argument.arg for argument in ast.walk(method.args) if isinstance(argument, ast.arg))
    return Binding(bound.method, bound.value, frozenset(arguments))


def binders_of(cls: type, name: str) -> frozenset[str]:
    """The methods in the code of a class and its bases that bind ``self.name`` to anything but `None`."""
    methods: set[str] = set()
    for base in cls.__mro__:
        definition = None if base.__module__.partition(".")[0] == "torch" else class_node(base)
        file = None if definition is None else file_at(definition[0])
        if definition is not None and file is not None:
            bindings = _bindings_of(file, definition[1]).of(name)
            methods.update(each.method for each in bindings if each.method and _likeness(each.value, None)[1])
    return frozenset(methods)


def _bound_by(cls: type, name: str, value: object) -> tuple[type, str, _Bound, ast.ClassDef] | None:
    in_bodies: list[tuple[type, str, _Bound, ast.ClassDef]] = []
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] == "torch":
            continue
        definition = class_node(base)
        file = None if definition is None else file_at(definition[0])
        if definition is None or file is None:
            continue
        bound = _bindings_of(file, definition[1]).of(name)
        in_methods = [binding for binding in bound if binding.method]
        if in_methods:
            # Of several that are as likely the last one.
            in_methods.reverse()
            best = max(in_methods, key=lambda each: (*_likeness(each.value, value), each.method == "__init__"))
            return base, definition[0], best, definition[1]
        in_bodies.extend((base, definition[0], binding, definition[1]) for binding in bound[-1:])
    return in_bodies[0] if in_bodies else None


_MAKERS: dict[str, frozenset[str]] = {
    "list": frozenset({"list", "sorted"}),
    "dict": frozenset({"dict", "defaultdict", "OrderedDict"}),
    "set": frozenset({"set", "frozenset"}),
    "tuple": frozenset({"tuple"}),
}
_DISPLAYS: dict[str, tuple[type[ast.expr], ...]] = {
    "list": (ast.List, ast.ListComp),
    "dict": (ast.Dict, ast.DictComp),
    "set": (ast.Set, ast.SetComp),
    "tuple": (ast.Tuple,),
}


def _likeness(expression: ast.expr | None, value: object) -> tuple[bool, bool]:
    """Whether an expression surely makes a container of the value's type, and whether it may make the value at all."""
    kind = next((word for word, built_in in _BUILT_IN.items() if isinstance(value, built_in)), type(value).__name__)
    match expression:
        case ast.Constant(value=None):
            return False, False
        case ast.Call(func=ast.Name(id=maker) | ast.Attribute(attr=maker)):
            return maker in _MAKERS.get(kind, ()) or maker == type(value).__name__, True
        case ast.BinOp(left=left, right=right):
            return _likeness(left, value)[0] or _likeness(right, value)[0], True
    displays = _DISPLAYS.get(kind, ())
    if isinstance(expression, displays):
        return True, True
    # `self.x = []` is not what makes a tensor.
    return False, not isinstance(expression, sum(_DISPLAYS.values(), ()))


_BUILT_IN: dict[str, type | tuple[type, ...]] = {"list": list, "dict": dict, "set": (set, frozenset), "tuple": tuple}

_BY_NAME = frozenset({"register_buffer", "register_parameter", "register_module", "add_module", "__setattr__"})
"""Methods of a module that bind an attribute whose name is their first argument."""


def _bindings(cls: ast.ClassDef) -> Iterator[tuple[str | ast.expr, _Bound]]:
    """Every attribute that a class's code binds: its name, or the expression that makes the name."""
    for statement in cls.body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                arguments = (*statement.args.posonlyargs, *statement.args.args)
                if arguments:
                    yield from _bound_in(statement, statement.name, arguments[0].arg)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield target.id, _Bound("", statement, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                # A field of a dataclass has no value there.
                yield name, _Bound("", statement, value)
            case _:
                pass


def _bound_in(method: ast.AST, name: str, this: str) -> Iterator[tuple[str | ast.expr, _Bound]]:
    pending = list(ast.iter_child_nodes(method))[::-1]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            for target, value in _targets(node):
                key = _attribute_name(target, this)
                if key is not None:
                    yield key, _Bound(name, node, value)
            for call in _calls(node):
                binding = _binding_of_call(call, this)
                if binding is not None:
                    yield binding[0], _Bound(name, node, binding[1])
        pending.extend(list(ast.iter_child_nodes(node))[::-1])


def _targets(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    match statement:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _unpacked(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case ast.AugAssign(target=target, value=value):
            yield target, value
        case ast.For(target=target) | ast.AsyncFor(target=target):
            yield from _unpacked(target, None)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield from _unpacked(item.optional_vars, None)
        case _:
            pass


def _unpacked(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            values: list[ast.expr | None] = [None] * len(parts)
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(parts):
                values = list(value.elts)
            for part, item in zip(parts, values, strict=True):
                yield from _unpacked(part, item)
        case ast.Starred(value=inner):
            yield from _unpacked(inner, None)
        case _:
            yield target, value


def _attribute_name(target: ast.expr, this: str) -> str | ast.expr | None:
    match target:
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == this:
            return name
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=owner), attr="__dict__"), slice=key) if owner == this:
            return _literal(key)
        case ast.Subscript(value=ast.Call(func=ast.Name(id="vars"), args=[ast.Name(id=owner)]), slice=key) if (
            owner == this
        ):
            return _literal(key)
    return None


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """The calls in a statement itself, those in statements inside of it excepted."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            yield node
        pending.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))


def _binding_of_call(call: ast.Call, this: str) -> tuple[str | ast.expr, ast.expr | None] | None:
    """The attribute that a call binds, and to what: `setattr(self, "x", …)`, `self.register_buffer("x", …)`."""
    arguments = list(call.args)
    match call.func:
        case ast.Name(id="setattr") | ast.Attribute(value=ast.Name(id="object"), attr="__setattr__"):
            if not arguments or not isinstance(arguments[0], ast.Name) or arguments[0].id != this:
                return None
            arguments = arguments[1:]
        case ast.Attribute(value=ast.Name(id=owner), attr=method) if owner == this and method in _BY_NAME:
            pass
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=method) if method in _BY_NAME:
            pass
        case _:
            return None
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "name"), None)
    if named is None:
        if not arguments:
            return None
        named, *arguments = arguments
    return _literal(named), arguments[0] if arguments else None


def _literal(node: ast.expr) -> str | ast.expr:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else node


_ANYTHING = ".+?"


def _pattern(node: ast.expr) -> str:
    """What a name that is put together at run time looks like: `f"layer{i}"`, `"conv%d" % i`, `"norm" + str(i)`."""
    match node:
        case ast.Constant(value=str() as text):
            return re.escape(text)
        case ast.JoinedStr(values=parts):
            return "".join(map(_pattern, parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _pattern(left) + _pattern(right)
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mod()):
            return _ANYTHING.join(map(re.escape, re.split(r"%[-0-9.]*[a-z]", text)))
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format")):
            return _ANYTHING.join(map(re.escape, re.split(r"\{[^{}]*\}", text)))
    return _ANYTHING
