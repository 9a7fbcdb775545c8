"""Def-use of tables: tensors made of numbers, constants and sizes only, such as positions that are computed anew for a longer input."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import External, Imported, dotted_name, of_kind, once, walk

if TYPE_CHECKING:
    from modellint.authoring import Code, Write

_ABOUT = frozenset({"shape", "device", "dtype", "ndim", "is_cuda", "layout"})
"""Attributes of a tensor that are the same whatever it holds."""
_ASKS = frozenset({"size", "dim", "numel", "nelement", "get_device", "is_floating_point", "element_size"})
"""Methods of the same kind."""
_LIKE = frozenset({"zeros_like", "ones_like", "empty_like", "full_like"})
_NEW = frozenset({"new_zeros", "new_ones", "new_empty", "new_full"})
_MOVES = frozenset({"to", "type", "type_as"})
_PYTHON = frozenset(
    {"int", "float", "bool", "max", "min", "abs", "round", "range", "sum", "len", "list", "tuple", "isinstance"}
)
_ROOTS = ("torch.", "math.", "numpy.")
_RANDOM = ("rand", "normal", "bernoulli", "multinomial", "empty")
_NUMBERS = frozenset({"int", "float", "bool", "str"})
_DEEPEST = 12


def is_made_of_sizes(code: Code, write: Write) -> bool:
    """Whether a statement binds an attribute to what no input and no former state goes into, where only such things are asked for."""
    value = _value(write)
    if value is None or write.function is None:
        return False
    sizes = _Sizes(code)
    return sizes.is_sized(value, write.function) and sizes.is_asked_sizes(write.node, write.function)


def _value(write: Write) -> ast.expr | None:
    """The expression that an attribute is bound to."""
    match write.statement:
        case ast.Assign(targets=[ast.Attribute()], value=value) | ast.AnnAssign(value=ast.expr() as value):
            return value
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="register_buffer"), args=[_, value, *_])):
            return value
    return None


class _Sizes:
    """The expressions of one class that are made of numbers, constants and sizes."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.methods = {getattr(method.node, "name", ""): method.node for method in code.methods}
        self._open: set[tuple[ast.AST | None, str]] = set()
        """The names and attributes that are looked into: what hangs on itself is state."""

    def is_asked_sizes(self, node: ast.AST, function: ast.AST) -> bool:
        """Whether all conditions around a node, and around the calls that lead to its function, ask numbers and sizes."""
        if not all(self.is_sized(test, function) for test in self.code.conditions(node, function)):
            return False
        return all(
            self.is_sized(test, caller)
            for call, caller in self._callers(function)
            for test in self.code.conditions(call, caller)
        )

    def _callers(self, function: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
        name = getattr(function, "name", "")
        for caller in self.code.in_forward:
            for call in of_kind(caller, ast.Call):
                if (
                    isinstance(call.func, ast.Attribute)
                    and call.func.attr == name
                    and self._is_self(call.func.value, caller)
                ):
                    yield call, caller

    def _is_self(self, node: ast.expr, function: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == (self.code.self_name(function) or "self")

    def is_sized(self, node: ast.expr | None, function: ast.AST) -> bool:
        """Whether an expression of a function is made of numbers, constants and sizes."""
        match node:
            case None | ast.Constant():
                return True
            case ast.Attribute(attr=name) if name in _ABOUT:
                return True
            case ast.Name(id=name):
                return self._name(name, function)
            case ast.Attribute(value=owner, attr=name):
                if self._is_self(owner, function):
                    return self._attribute(name)
                return _is_outside(self.code, node) or self.is_sized(owner, function)
            case ast.Call():
                return self._call(node, function)
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                return self._is_self(getattr(left, "value", left), function) or self.is_sized(left, function)
            case (
                ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare() | ast.IfExp() | ast.Subscript() | ast.Slice()
            ):
                return self._parts(node, function)
            case ast.Tuple() | ast.List() | ast.ListComp() | ast.GeneratorExp() | ast.Starred() | ast.JoinedStr():
                return self._parts(node, function)
        return False

    def _parts(self, node: ast.AST, function: ast.AST) -> bool:
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        return all(self.is_sized(part, function) for part in parts)

    def _call(self, call: ast.Call, function: ast.AST) -> bool:
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        match call.func:
            case ast.Name(id=name) if name == "len":
                return True
            case ast.Name(id=name) if name in _PYTHON and name not in self.code.file.names:
                return all(self.is_sized(part, function) for part in arguments)
            case ast.Attribute(attr=name) if name in _ASKS:
                return True
            case ast.Attribute(value=owner, attr=name) if self._is_self(owner, function):
                return name in self.methods and self._returns(name)
            case ast.Attribute(attr=name) if name in _LIKE or name in _NEW:
                return all(self.is_sized(part, function) for part in arguments[name in _LIKE :])
            case ast.Attribute(value=owner, attr=name):
                if _is_outside(self.code, call.func):
                    return not name.startswith(_RANDOM) and all(self.is_sized(part, function) for part in arguments)
                moves = name in _MOVES
                return self.is_sized(owner, function) and (
                    moves or all(self.is_sized(part, function) for part in arguments)
                )
        return False

    def _returns(self, name: str) -> bool:
        key = (None, f"{name}()")
        if key in self._open or len(self._open) > _DEEPEST:
            return False
        self._open.add(key)
        method = self.methods[name]
        results = of_kind(method, ast.Return)
        answer = bool(results) and all(self.is_sized(part.value, method) for part in results)
        self._open.discard(key)
        return answer

    def _attribute(self, name: str) -> bool:
        """Whether all that `forward` binds an attribute to is sized, and nothing that it runs changes a part of it."""
        key = (None, name)
        if key in self._open or len(self._open) > _DEEPEST or name in self.methods:
            return False
        run = self.code.in_forward
        if any(write.function in run for write in self.code.part_writes(name)):
            return False
        self._open.add(key)
        writes = [write for write in self.code.attribute_writes(name) if write.function in run]
        answer = all(
            write.function is not None and (value := _value(write)) is not None and self.is_sized(value, write.function)
            for write in writes
        )
        self._open.discard(key)
        return answer

    def _name(self, name: str, function: ast.AST) -> bool:
        key = (function, name)
        if key in self._open:
            # `n = 2 * n`: what it was before is looked into all the same.
            return True
        if len(self._open) > _DEEPEST:
            return False
        bound: dict[str, list[ast.expr | None]] = once(function, "_sized_bindings", _bindings)
        parameters = getattr(function, "args", None)
        is_parameter = isinstance(parameters, ast.arguments) and name in {
            part.arg for part in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)
        }
        if name not in bound and not is_parameter:
            return _is_global(self.code, name)
        self._open.add(key)
        answer = all(value is not None and self.is_sized(value, function) for value in bound.get(name, ()))
        answer = answer and (not is_parameter or self._parameter(name, function))
        self._open.discard(key)
        return answer

    def _parameter(self, name: str, function: ast.AST) -> bool:
        """Whether a parameter is a number by its annotation or default, or all calls that `forward` runs give it what is sized."""
        arguments: ast.arguments = function.args  # type: ignore[attr-defined]
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: dict[str, ast.expr | None] = {
            part.arg: default for part, default in zip(positional[::-1], arguments.defaults[::-1], strict=False)
        }
        defaults.update(zip((part.arg for part in arguments.kwonlyargs), arguments.kw_defaults, strict=True))
        (parameter,) = (part for part in (*positional, *arguments.kwonlyargs) if part.arg == name)
        default = defaults.get(name)
        if getattr(function, "name", "") == "forward":
            words = (
                {part.id for part in walk(parameter.annotation) if isinstance(part, ast.Name)}
                if parameter.annotation
                else set()
            )
            is_number = isinstance(default, ast.Constant) and isinstance(default.value, (int, float))
            return bool(words & _NUMBERS and not words - _NUMBERS - {"Optional", "None"}) or (not words and is_number)
        at = positional.index(parameter) - 1 if parameter in positional else -1
        calls = list(self._callers(function))
        for call, caller in calls:
            if any(isinstance(part, ast.Starred) for part in call.args) or any(
                part.arg is None for part in call.keywords
            ):
                return False
            keywords = {part.arg: part.value for part in call.keywords}
            value = keywords.get(name, call.args[at] if 0 <= at < len(call.args) else default)
            if value is None or not self.is_sized(value, caller):
                return False
        return bool(calls)


def _is_outside(code: Code, node: ast.expr) -> bool:
    """Whether an expression is a name of PyTorch, NumPy or `math`."""
    dotted = dotted_name(node)
    symbol = code.project.resolve(code.file, dotted) if dotted is not None else None
    return isinstance(symbol, External) and f"{symbol.name}.".startswith(_ROOTS)


def _is_global(code: Code, name: str) -> bool:
    """Whether a name of the file is imported, or a constant."""
    return all(isinstance(part, (Imported, ast.Constant)) for part in code.file.names.get(name, (None,)))


def _bindings(function: ast.AST) -> dict[str, list[ast.expr | None]]:
    """What the local variables of a function are bound to, and what is written to parts of them; None for what is not understood."""
    bound: dict[str, list[ast.expr | None]] = {}

    def bind(target: ast.expr, value: ast.expr | None) -> None:
        base = target
        while isinstance(base, (ast.Subscript, ast.Starred)):
            base = base.value
        if isinstance(target, ast.Subscript) and isinstance(base, ast.Name):
            bound.setdefault(base.id, []).append(target.slice)
        if isinstance(base, ast.Name):
            bound.setdefault(base.id, []).append(value)
        elif isinstance(base, (ast.Tuple, ast.List)):
            for part in base.elts:
                bind(part, value)

    for node in walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    bind(target, value)
            case ast.AnnAssign(target=target, value=value) | ast.AugAssign(target=target, value=value):
                bind(target, value)
            case ast.NamedExpr(target=target, value=value):
                bind(target, value)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                bind(target, value)
            case ast.With(items=items):
                for item in items:
                    if item.optional_vars is not None:
                        bind(item.optional_vars, None)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=arguments) if method.endswith(
                "_"
            ):
                bound.setdefault(name, []).extend(arguments)
            case _:
                pass
    return bound
