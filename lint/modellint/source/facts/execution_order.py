"""What comes first when `forward` runs: a look at an attribute, or a statement that sets it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from modellint.source.syntax.ast_walk import of_kind, once, walk

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_ABOUT = frozenset({"shape", "size", "ndim", "dim", "numel", "dtype", "device"})
_DEEPEST = 6
_MOST_FLAGS = 8


def is_read_first(attribute: str, forward: _Function, methods: Mapping[str, _Function]) -> bool:
    """Whether `forward`, or a method that it calls, reads an attribute of ``self`` where nothing has certainly set it before.

    Then it reads what the last call left. Its shape, type and device do not count.
    """
    return _Order(attribute, methods).block(forward.body) is True


def setting_flags(attribute: str, forward: _Function, methods: Mapping[str, _Function]) -> Iterator[tuple[str, bool]]:
    """The parameters of `forward` that alone decide, by being true or false, that an attribute is set before it is read; with which."""
    for name in once(forward, "_asked_parameters", _asked_parameters):
        for value in (True, False):
            if _Order(attribute, methods, {name: value}).block(forward.body) is False:
                yield name, value


def _asked_parameters(forward: _Function) -> list[str]:
    """The parameters of a method that conditions of statements name, and that it does not bind anew; the first of them."""
    stored = {part.id for part in of_kind(forward, ast.Name) if not isinstance(part.ctx, ast.Load)}
    asked = {part.id for node in of_kind(forward, ast.If) for part in walk(node.test) if isinstance(part, ast.Name)}
    parameters = (*forward.args.posonlyargs, *forward.args.args, *forward.args.kwonlyargs)[1:]
    return [part.arg for part in parameters if part.arg in asked and part.arg not in stored][:_MOST_FLAGS]


class _Order:
    """One attribute. Every method tells whether a piece of code first reads it (True), first sets it (False), or may do neither."""

    def __init__(
        self, attribute: str, methods: Mapping[str, _Function], flags: Mapping[str, object] | None = None
    ) -> None:
        self.attribute = attribute
        self.methods = methods
        self.running: list[_Function] = []
        self.flags: list[Mapping[str, object]] = [flags or {}]
        """What the parameters of every method that runs are, where the call leaves them at their defaults; those of `forward` first."""

    def block(self, statements: Iterable[ast.stmt]) -> bool | None:
        for statement in statements:
            found = self.statement(statement)
            if found is not None:
                return found
        return None

    def statement(self, node: ast.stmt) -> bool | None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return None
            case ast.Assign(targets=targets, value=value):
                return self.first(value, *targets)
            case ast.AnnAssign(target=target, value=value):
                return self.first(*([value, target] if value is not None else []))
            case ast.AugAssign(target=target, value=value):
                found = self.expression(value)
                if found is None:
                    return True if self.is_it(target) else self.expression(target)
                return found
            case ast.If(test=test, body=body, orelse=other):
                held = self.flag(test)
                # What a test reads is of no account where a flag alone decides it.
                found = self.expression(test) if held is None or self.runs_methods(test) else None
                if found is None and held is not None:
                    return self.block(body if held else other)
                return self.either(body, other) if found is None else found
            case (
                ast.For(target=target, iter=value, body=body, orelse=other)
                | ast.AsyncFor(target=target, iter=value, body=body, orelse=other)
            ):
                found = self.first(value, target)
                return self.block([*body, *other]) if found is None else found
            case ast.While(test=test, body=body, orelse=other):
                found = self.expression(test)
                return self.block([*body, *other]) if found is None else found
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                found = self.first(*(item.context_expr for item in items))
                return self.block(body) if found is None else found
            case ast.Try(body=body, orelse=other, finalbody=last):
                return self.block([*body, *other, *last])
        return self.first(*(part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)))

    def either(self, body: list[ast.stmt], other: list[ast.stmt]) -> bool | None:
        found = self.block(body), self.block(other)
        if True in found:
            return True
        if found[0] is found[1]:
            return found[0]
        # One side sets it: where the other leaves, what follows is behind that.
        idle = other if found[1] is None else body
        return False if idle and isinstance(idle[-1], (ast.Return, ast.Raise)) else None

    def first(self, *nodes: ast.expr) -> bool | None:
        for node in nodes:
            found = self.expression(node)
            if found is not None:
                return found
        return None

    def expression(self, node: ast.expr) -> bool | None:
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=context):
                return None if name != self.attribute else not isinstance(context, ast.Store)
            case ast.Attribute(value=owner, attr=name) if name in _ABOUT and self.is_it(owner):
                return None
            case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="self"), ast.Constant(value=name), *_]):
                return True if name == self.attribute else None
            case ast.Lambda():
                return None
            case ast.Call(func=function, args=given, keywords=words):
                found = self.first(function, *given, *(word.value for word in words))
                return self.call(function, node) if found is None else found
        return self.first(*(part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)))

    def call(self, function: ast.expr, node: ast.Call) -> bool | None:
        name = function.attr if isinstance(function, ast.Attribute) and _is_self(function.value) else ""
        method = self.methods.get(name)
        if method is None or method in self.running or len(self.running) >= _DEEPEST:
            return None
        self.running.append(method)
        self.flags.append(_left_at_default(method, node))
        found = self.block(method.body)
        self.flags.pop()
        self.running.pop()
        return found

    def flag(self, test: ast.expr) -> bool | None:
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                held = self.flag(operand)
                return None if held is None else not held
            case ast.BoolOp(op=op, values=values):
                deciding = isinstance(op, ast.Or)
                parts = [self.flag(value) for value in values]
                return deciding if deciding in parts else None if None in parts else not deciding
            case ast.Name(id=name) if name in self.flags[-1]:
                return bool(self.flags[-1][name])
        return None

    def runs_methods(self, node: ast.expr) -> bool:
        """Whether an expression calls methods of the class, which may set the attribute."""
        return any(
            isinstance(part, ast.Attribute) and part.attr in self.methods and _is_self(part.value)
            for part in walk(node)
        )

    def is_it(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == self.attribute and _is_self(node.value)


def _left_at_default(method: _Function, call: ast.Call) -> dict[str, object]:
    """The parameters that a call of a method does not give, where their defaults are True or False."""
    if any(isinstance(one, ast.Starred) for one in call.args) or any(word.arg is None for word in call.keywords):
        return {}
    named = method.args.args
    defaults: list[tuple[ast.arg, ast.expr | None]] = list(
        zip(named[len(named) - len(method.args.defaults) :], method.args.defaults, strict=True)
    )
    given = {one.arg for one in named[: len(call.args) + 1]} | {word.arg for word in call.keywords}
    every = [*defaults, *zip(method.args.kwonlyargs, method.args.kw_defaults, strict=True)]
    return {
        one.arg: default.value
        for one, default in every
        if one.arg not in given and isinstance(default, ast.Constant) and isinstance(default.value, bool)
    }


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
