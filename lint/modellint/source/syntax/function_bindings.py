"""Bindings of one function: what its statements bind, append and return, by a single walk through its syntax."""

from __future__ import annotations

import ast

from modellint.source.syntax.ast_walk import walk

_FILLS = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "appendleft", "extendleft"})
_BINDING: frozenset[type[ast.AST]] = frozenset(
    {
        ast.Assign,
        ast.AnnAssign,
        ast.NamedExpr,
        ast.AugAssign,
        ast.For,
        ast.AsyncFor,
        ast.comprehension,
        ast.With,
        ast.AsyncWith,
    }
    | {ast.Return, ast.Yield, ast.YieldFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Call}
)


class FunctionBindings:
    """What one function binds to names and to attributes of ``self``, and what it returns."""

    __slots__ = (
        "calls_outside",
        "fills",
        "is_init",
        "locals",
        "loose",
        "node",
        "parameters",
        "returns",
        "self_name",
        "stores",
    )

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.node = node
        self.is_init = node.name == "__init__"
        arguments = node.args
        self.parameters: dict[str, ast.expr | None] = {
            part.arg: part.annotation for part in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        }
        self.self_name = next(iter(self.parameters), "")
        self.locals: dict[str, list[ast.expr | None]] = {}
        self.stores: list[tuple[str, ast.expr]] = []
        self.fills: list[tuple[str, ast.expr]] = []
        self.returns: list[ast.expr] = []
        self.calls_outside = False
        self.loose: list[ast.expr] = []
        """Arguments of calls that may bind them to ``self`` elsewhere."""
        for variadic in (arguments.vararg, arguments.kwarg):
            if variadic is not None:
                self.locals[variadic.arg] = [None]
        for part in walk(node):
            if part.__class__ in _BINDING and part is not node:
                self._read(part)

    def _read(self, node: ast.AST) -> None:
        match node:
            case ast.Assign():
                for target in node.targets:
                    self._bind(target, node.value)
            case ast.AnnAssign() if node.value is not None:
                self._bind(node.target, node.value)
            case ast.NamedExpr():
                self._bind(node.target, node.value)
            case ast.AugAssign():
                attribute = self.attribute(node.target)
                if attribute is not None:
                    self.fills.append((attribute, node.value))
                    self.stores.append((attribute, node.value))
                elif isinstance(node.target, ast.Name):
                    self.locals.setdefault(node.target.id, []).append(node.value)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._bind_names(node.target, node.iter)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    if item.optional_vars is not None:
                        self._bind_names(item.optional_vars, None)
            case ast.Return() | ast.Yield() | ast.YieldFrom() if node.value is not None:
                self.returns.append(node.value)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.locals.setdefault(node.name, []).append(None)
            case ast.Lambda():
                self.returns.append(node.body)
            case ast.Call():
                self._read_call(node)
            case _:
                pass

    def _read_call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if name in _FILLS and isinstance(node.func, ast.Attribute):
            attribute = self.attribute(node.func.value)
            if attribute is not None:
                self.fills.extend((attribute, argument) for argument in arguments)
            elif isinstance(node.func.value, ast.Name):
                # What is put into a local box counts as one of its values.
                self.locals.setdefault(node.func.value.id, []).extend(arguments)
        elif name in ("setattr", "__setattr__") or self._reaches_self(node):
            self.loose.extend(arguments)
            self.calls_outside |= not isinstance(node.func, ast.Attribute) or name == "__setattr__"

    def _reaches_self(self, node: ast.Call) -> bool:
        """Whether a call may bind its arguments to ``self``: a method of it, or a function that is given it."""
        if isinstance(node.func, ast.Attribute):
            receiver = node.func.value
            if isinstance(receiver, ast.Name):
                return receiver.id == self.self_name
            return isinstance(receiver, ast.Call) and getattr(receiver.func, "id", "") == "super"
        given_self = any(isinstance(argument, ast.Name) and argument.id == self.self_name for argument in node.args)
        return given_self and not getattr(node.func, "id", "")[:1].isupper()

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        attribute = self.attribute(target)
        if isinstance(target, ast.Subscript):
            if attribute is not None:
                self.fills.append((attribute, value))
            elif isinstance(target.value, ast.Name):
                self.locals.setdefault(target.value.id, []).append(value)
        elif attribute is not None:
            self.stores.append((attribute, value))
        else:
            self._bind_names(target, value)

    def _bind_names(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self.locals.setdefault(target.id, []).append(value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                attribute = self.attribute(element)
                if attribute is not None and value is not None:
                    part = ast.Subscript(value, ast.Constant(0), ast.Load())
                    self.stores.append((attribute, part if isinstance(value, ast.Call) else value))
                else:
                    self._bind_names(element, value)
        elif isinstance(target, ast.Starred):
            self._bind_names(target.value, value)

    def attribute(self, node: ast.expr) -> str | None:
        """The attribute of ``self`` that an expression names, through any subscripts."""
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self.self_name:
            return node.attr
        return None
