"""Attribute usage, read from source: what the methods of a live class do with its attributes, and what `forward` runs."""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
import types
import weakref
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple


class Uses(NamedTuple):
    """What one function does with attributes of one of its arguments."""

    reads: frozenset[str] = frozenset()
    """Attributes whose value it asks for, methods and properties among them, and not only its shape or kind."""
    stores: frozenset[str] = frozenset()
    """Attributes that it binds, or whose items it sets."""
    called: frozenset[str] = frozenset()
    """Attributes that it calls as they are: `self.x(…)`."""
    indexed: frozenset[str] = frozenset()
    """Attributes that it takes single items of: `self.x[…]`."""
    otherwise: frozenset[str] = frozenset()
    """Attributes that it neither calls nor indexes but uses: goes through, hands on, asks a method of."""
    in_training: frozenset[str] = frozenset()
    """Attributes that it reads below `if self.training`."""
    names: frozenset[str] = frozenset()
    """Every name behind a dot, whatever stands before it."""
    handed: frozenset[tuple[str, int]] = frozenset()
    """Functions by name that are given the object, and at which position."""
    is_super: bool = False
    """Whether it asks a base class."""


class Reading:
    """Attribute usage of one module class, read from its source or compiled code."""

    def __init__(self, cls: type) -> None:
        self._methods: dict[str, list[types.FunctionType]] = {}
        for base in cls.__mro__:
            if base.__module__.partition(".")[0] == "torch":
                continue
            for name, value in vars(base).items():
                function = _function(value)
                if function is not None:
                    self._methods.setdefault(name, []).append(function)

    @cached_property
    def forward(self) -> Uses:
        """The uses by all that runs when the module is called."""
        return _together(self._reached)

    @cached_property
    def built_by(self) -> frozenset[str]:
        """The methods that run when an object is built."""
        builders = {"__init__", "__post_init__"}
        pending = [*builders]
        while pending:
            for function in self._methods.get(pending.pop(), ()):
                called = (_uses(function, 0).names & self._methods.keys()) - builders - {"forward"}
                builders |= called
                pending.extend(called)
        return frozenset(builders)

    @cached_property
    def everything(self) -> Uses:
        """What all methods do, taken together; those that build the object come in too."""
        return _together([_uses(function, 0) for functions in self._methods.values() for function in functions])

    @cached_property
    def _reached(self) -> list[Uses]:
        reached: list[Uses] = []
        pending = ["forward", "__call__"]
        seen = {*pending, "__init__"}
        while pending:
            name = pending.pop()
            for function in self._methods.get(name, ()):
                uses = _uses(function, 0)
                reached.append(uses)
                for helper, position in uses.handed:
                    value = function.__globals__.get(helper)
                    if isinstance(value, types.FunctionType):
                        reached.append(_uses(value, position))
                for called in uses.names:
                    if called in self._methods and called not in seen:
                        seen.add(called)
                        pending.append(called)
                if not uses.is_super:
                    break
        return reached


def is_reference(owner: object, attribute: str, value: object) -> bool:
    """Whether a list or tuple is there to keep one module from being registered: `self.owner = [owner]`."""
    from modellint.live.code.class_source import binding_of

    if type(value) not in (list, tuple) or len(value) != 1:  # type: ignore[arg-type]
        return False
    bound = binding_of(type(owner), attribute, value)
    match None if bound is None else bound.value:
        case ast.List(elts=[ast.Name(id=name)]) | ast.Tuple(elts=[ast.Name(id=name)]):
            uses = reading_of(type(owner)).everything
            return (bound is not None and name in bound.arguments) or (
                attribute in uses.indexed and attribute not in uses.otherwise | uses.called
            )
    return False


_READINGS: weakref.WeakKeyDictionary[type, Reading] = weakref.WeakKeyDictionary()


def reading_of(cls: type) -> Reading:
    """A class, read once."""
    if cls not in _READINGS:
        _READINGS[cls] = Reading(cls)
    return _READINGS[cls]


def _function(value: object) -> types.FunctionType | None:
    inner = getattr(value, "fget", None) or getattr(value, "func", None) or value
    if isinstance(value, (staticmethod, classmethod)) or not isinstance(inner, types.FunctionType):
        return None
    try:
        unwrapped = inspect.unwrap(inner)
    except ValueError:
        return inner
    return unwrapped if isinstance(unwrapped, types.FunctionType) else inner


_DESCRIBES = frozenset(
    {"shape", "size", "dim", "ndim", "numel", "stride", "device", "dtype", "is_cuda", "requires_grad"}
)
"""Attributes and methods of a tensor that do not tell its values."""
_PARTS = Uses._fields[:-2]


def _together(uses: list[Uses]) -> Uses:
    parts: dict[str, Any] = {part: frozenset().union(*(getattr(use, part) for use in uses)) for part in _PARTS}
    return Uses(**parts)


def _uses(function: types.FunctionType, position: int) -> Uses:
    """What a function does with the attributes of its argument at a position; without its source, by its compiled code."""
    node = _node(function)
    if node is None:
        return _compiled(function.__code__)
    arguments = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    if position >= len(arguments):
        return Uses()
    return _read(node, arguments[position])


def _compiled(code: types.CodeType) -> Uses:
    """What the compiled code of a function without source says; of which object an attribute is, it does not tell."""
    instructions = list(dis.get_instructions(code))
    loads = [step.argval for step in instructions if step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD"))]
    stores = [step.argval for step in instructions if step.opname == "STORE_ATTR"]
    names = frozenset(loads)
    return Uses(reads=names, stores=frozenset(stores), otherwise=names, names=names)


def _node(function: types.FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        return None
    node = tree.body[0] if tree.body else None
    return node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def _read(function: ast.FunctionDef | ast.AsyncFunctionDef, this: str) -> Uses:
    uses: dict[str, set[str]] = {part: set() for part in _PARTS}
    handed: set[tuple[str, int]] = set()
    is_super = False
    for node, parent, in_training in _walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name, ctx=context) if owner == this:
                uses["names"].add(name)
                if isinstance(context, ast.Store):
                    uses["stores"].add(name)
                    if not isinstance(parent, ast.AugAssign):
                        continue
                match parent:
                    case ast.Subscript(ctx=ast.Store()) | ast.Attribute(attr="append" | "extend" | "update"):
                        uses["stores"].add(name)
                    case ast.Attribute(attr=word) if word in _DESCRIBES:
                        pass
                    case _:
                        uses["reads"].add(name)
                if in_training:
                    uses["in_training"].add(name)
                match parent:
                    case ast.Call(func=func) if func is node:
                        uses["called"].add(name)
                    case ast.Subscript(value=value) if value is node:
                        uses["indexed"].add(name)
                    case _:
                        uses["otherwise"].add(name)
            case ast.Attribute(attr=name):
                uses["names"].add(name)
            case ast.Call(
                func=ast.Name(id="getattr"), args=[ast.Name(id=owner), ast.Constant(value=str() as name), *_]
            ) if owner == this:
                for part in ("reads", "names", "otherwise"):
                    uses[part].add(name)
            case ast.Call(func=ast.Name(id="super")):
                is_super = True
            case ast.Call(func=ast.Name(id=helper), args=arguments):
                for position, value in enumerate(arguments):
                    if isinstance(value, ast.Name) and value.id == this:
                        handed.add((helper, position))
            case _:
                pass
    parts: dict[str, Any] = {part: frozenset(names) for part, names in uses.items()}
    return Uses(**parts)._replace(handed=frozenset(handed), is_super=is_super)


def _walk(function: ast.AST) -> Iterator[tuple[ast.AST, ast.AST, bool]]:
    """Every node with its parent and whether it stands below `if self.training`."""
    pending: list[tuple[ast.AST, ast.AST, bool]] = [
        (child, function, False) for child in ast.iter_child_nodes(function)
    ]
    while pending:
        node, parent, in_training = pending.pop()
        yield node, parent, in_training
        tested = isinstance(node, (ast.If, ast.IfExp)) and _asks_for_training(node.test)
        test = getattr(node, "test", None)
        pending.extend(
            (child, node, in_training or (tested and child is not test)) for child in ast.iter_child_nodes(node)
        )


def _asks_for_training(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "training" for node in ast.walk(test))
