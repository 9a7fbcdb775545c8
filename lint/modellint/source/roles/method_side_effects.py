"""Side effects of methods: the attributes of `self` that they bind or change in place, and whether a later call sees it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from modellint.source.syntax.ast_walk import functions_in, of_kind, once

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_CHANGES = re.compile(r"[a-z]\w*[a-z]_|append|extend|insert|pop|update|clear")
"""Methods that change what they are called on."""


def keeps_nothing(method: _Function) -> bool:
    """Whether a method is the constructor, or writes nothing to `self`, to a part of it, or in place to what that holds."""
    if method.name == "__init__":
        return True
    return (
        not any(
            _is_of_self(part.value) for part in of_kind(method, ast.Attribute) if not isinstance(part.ctx, ast.Load)
        )
        and not any(
            _is_of_self(part.value) for part in of_kind(method, ast.Subscript) if not isinstance(part.ctx, ast.Load)
        )
        and not any(
            isinstance(call.func, ast.Attribute) and _CHANGES.fullmatch(call.func.attr) and _is_of_self(call.func.value)
            for call in of_kind(method, ast.Call)
        )
    )


def attributes_changed(method: _Function) -> frozenset[str]:
    """The attributes of `self` that a method writes, or changes in place, as a whole or in part; that it only moves one is no change."""
    return once(method, "_changes", _changed_by)


def _changed_by(method: _Function) -> frozenset[str]:
    moved = {target for part in of_kind(method, ast.Assign) if _is_move(part) for target in part.targets}
    bound = (
        part for part in of_kind(method, ast.Attribute) if not isinstance(part.ctx, ast.Load) and part not in moved
    )
    return _attributes_of_self(bound) | _changed_in_place(method)


def _changed_in_place(method: _Function) -> frozenset[str]:
    places = [part.value for part in of_kind(method, ast.Subscript) if not isinstance(part.ctx, ast.Load)]
    places += [
        call.func.value
        for call in of_kind(method, ast.Call)
        if isinstance(call.func, ast.Attribute) and _CHANGES.fullmatch(call.func.attr)
    ]
    return _attributes_of_self(places)


def _attributes_of_self(places: Iterable[ast.expr]) -> frozenset[str]:
    return frozenset(
        part.attr
        for place in places
        if _is_of_self(place)
        for part in ast.walk(place)
        if isinstance(part, ast.Attribute)
    )


def _is_move(statement: ast.Assign) -> bool:
    """Whether a statement puts an attribute on another device, or gives it another type: `self.weight = self.weight.to(x)`."""
    match statement:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id=owner), attr=name)],
            value=ast.Call(
                func=ast.Attribute(
                    value=ast.Attribute(value=ast.Name(id=other), attr=moved),
                    attr="to" | "cuda" | "cpu" | "type_as" | "float" | "double",
                )
            ),
        ):
            return (owner, name) == (other, moved)
    return False


def attributes_remade(method: _Function) -> frozenset[str]:
    """The attributes of `self` that a method only binds to themselves, elsewhere or of another type, or to what no input's values reach.

    `self.window = self.window.to(x)`, or a window made anew for as many channels as an input has: no call leaves anything to the next one.
    """
    return once(method, "_remade", _remade_by)


def _remade_by(method: _Function) -> frozenset[str]:
    stores = [
        part for part in of_kind(method, ast.Attribute) if not isinstance(part.ctx, ast.Load) and _is_of_self(part)
    ]
    values = {
        id(target): part.value
        for part in of_kind(method, ast.Assign)
        for target in part.targets
        if len(part.targets) == 1 and isinstance(target, ast.Attribute)
    }
    flow: _Flow | None = None
    remade: set[str] = set()
    kept = set(_changed_in_place(method))
    for store in stores:
        value = values.get(id(store))
        if value is not None and isinstance(store.value, ast.Name) and not _is_moved(value, store.attr):
            flow = flow or _Flow(method)
            value = None if flow.reaches(value) else value
        (remade if value is not None else kept).add(store.attr)
    return frozenset(remade - kept)


def _is_moved(value: ast.expr, attribute: str) -> bool:
    """Whether a value is an attribute of `self` by methods that move it: `self.window.to(x.device)`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MOVES:
        value = value.func.value
    match value:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name == attribute
    return False


def _named_in(target: ast.expr) -> Iterator[str]:
    return (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


class _Flow:
    """Which variables of a method hold values of its arguments, or of what it keeps in attributes for the next call."""

    def __init__(self, method: _Function) -> None:
        self.kept = attributes_changed(method)
        self.reached = {part.arg for part in of_kind(method, ast.arg)} - {"self"}
        self.aliases: set[str] = set()
        bound = [
            ({name for target in part.targets for name in _named_in(target)} - {"self"}, part.value)
            for part in of_kind(method, ast.Assign)
        ]
        stores = Counter(part.id for part in of_kind(method, ast.Name) if isinstance(part.ctx, ast.Store))
        plain = Counter(
            part.id
            for assign in of_kind(method, ast.Assign)
            for target in assign.targets
            for part in ast.walk(target)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        )
        # What a loop binds, or `+=`, may be anything.
        self.reached |= {name for name, count in stores.items() if count > plain[name]}
        for _ in bound:
            before = len(self.reached) + len(self.aliases)
            for names, value in bound:
                if self.reaches(value):
                    self.reached |= names
                elif self._is_alias(value):
                    self.aliases |= names
            if len(self.reached) + len(self.aliases) == before:
                break

    def _is_alias(self, value: ast.expr) -> bool:
        """Whether an expression is an attribute that the method changes, as it is, or moved."""
        match value:
            case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _MOVES:
                return self._is_alias(owner)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return name in self.kept
            case ast.Name(id=name):
                return name in self.aliases
        return False

    def reaches(self, value: ast.expr) -> bool:
        """Whether an expression may hold such values, and not only their size, type or device; an attribute as it is says nothing new."""
        return not self._is_alias(value) and self._is_reached(value)

    def _is_reached(self, value: ast.expr) -> bool:
        if self._is_alias(value):
            return True
        match value:
            case ast.Attribute(attr=attribute) | ast.Call(func=ast.Attribute(attr=attribute)) if attribute in _ABOUT:
                return False
            case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _MOVES:
                return self._is_reached(owner)
            case ast.Call(func=ast.Attribute(value=owner), args=args, keywords=words):
                return any(map(self._is_reached, (owner, *args, *(word.value for word in words))))
            case ast.Call(func=ast.Name(), args=args, keywords=words):
                return any(map(self._is_reached, (*args, *(word.value for word in words))))
            case ast.Name(id=name):
                return name in self.reached
            case ast.Attribute(value=owner):
                return self._is_reached(owner)
            case ast.Constant():
                return False
            case ast.BinOp() | ast.UnaryOp() | ast.Tuple() | ast.List() | ast.Subscript() | ast.Slice():
                parts = (part for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr))
                return any(map(self._is_reached, parts))
        return True


_MOVES = frozenset({"to", "cuda", "cpu", "type", "type_as", "float", "half", "double", "requires_grad_"})
_ABOUT = frozenset({"size", "shape", "dim", "ndim", "device", "dtype", "get_device", "is_cuda", "numel"})


def binds_first(method: _Function) -> frozenset[str]:
    """The attributes of `self` that a method always binds anew before it reads them: no value of an earlier call is seen."""
    return once(method, "_binds_first", lambda node: frozenset(_bound_first(node.body)[0]))


def _bound_first(body: list[ast.stmt]) -> tuple[set[str], set[str]]:
    """The attributes that statements always bind before they read them, and those that they mention otherwise before."""
    bound: set[str] = set()
    read: set[str] = set()
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Attribute(attr=name) as target], value=value) if _is_of_self(target):
                read |= _mentioned(value) - bound
                bound |= {name} - read
            case ast.If(test=test, body=inner, orelse=other):
                read |= _mentioned(test) - bound
                first, second = _bound_first(inner), _bound_first(other)
                read |= (first[1] | second[1] | (first[0] ^ second[0])) - bound
                bound |= (first[0] & second[0]) - read
            case _:
                read |= _mentioned(statement) - bound
    return bound, read


def _mentioned(node: ast.AST) -> set[str]:
    return {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def makes_by_itself(node: ast.ClassDef, attribute: str) -> bool:
    """Whether a class binds an attribute once, in its constructor, to a list of what it makes there of no argument's parts."""
    return attribute in once(node, "_made_by_itself", _made_by_itself)


def _made_by_itself(node: ast.ClassDef) -> frozenset[str]:
    bindings: Counter[str] = Counter()
    names: Counter[str] = Counter()
    lists: set[str] = set()
    for function in functions_in([node]):
        is_init = function.name == "__init__"
        arguments = {part.arg for part in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
        if is_init:
            names.update(part.attr for part in of_kind(function, ast.Attribute))
        for part in of_kind(function, ast.Assign):
            attributes = {target.attr for target in part.targets if isinstance(target, ast.Attribute)}
            bindings.update(attributes)
            if is_init and isinstance(part.value, (ast.List, ast.ListComp)) and not _names(part.value, arguments):
                lists |= attributes
    return frozenset(name for name in lists if bindings[name] == names[name] == 1)


def _names(value: ast.expr, arguments: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in arguments - {"self"} for part in ast.walk(value))


def _is_of_self(node: ast.expr) -> bool:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "self"
