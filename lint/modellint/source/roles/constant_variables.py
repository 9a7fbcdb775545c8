"""Constant variables: variables of a function all of whose bindings are constants that are written there, and branches that these rule out.

``for scale, flip in zip(scales, [None, 3, None])``: under ``if flip == 2`` nothing runs. Nothing is told of a variable that is bound in
another way, or whose list something may change.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from modellint.source.roles.constructor_flags import conditions_at
from modellint.source.syntax.ast_walk import of_kind, once, parents_in

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Constants: TypeAlias = tuple[object, ...]
_READERS = frozenset({"zip", "enumerate", "len", "range", "reversed", "sorted", "tuple", "list", "max", "min"})
"""Builtins that leave a list as it is."""
_OPERATORS: Final[dict[type[ast.cmpop], Callable[[object, object], bool]]] = {
    ast.Eq: lambda left, right: bool(left == right),
    ast.NotEq: lambda left, right: bool(left != right),
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
}


def is_ruled_out(function: _Function, row: int) -> bool:
    """Whether a row of a function is reached under conditions only that none of a variable's constants fulfils."""
    left: dict[str, _Constants] = {}
    for test, holds in conditions_at(function.body, row):
        name = _asked(test)
        if name is None:
            continue
        constants = left[name] if name in left else _constants_of(function, name)
        if constants is None:
            continue
        left[name] = tuple(value for value in constants if _truth(test, value) in (None, holds))
        if not left[name]:
            return True
    return False


def _asked(test: ast.expr) -> str | None:
    """The variable that a condition is about, and nothing else: `flip`, `not flip`, `flip == 2`, `flip in (2, 3)`."""
    match test:
        case ast.Name(id=name):
            return name
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _asked(operand)
        case ast.Compare(left=ast.Name(id=name), ops=[_], comparators=[other]) if _literal(other) is not None:
            return name
    return None


def _truth(test: ast.expr, value: object) -> bool | None:
    """What a condition on a variable is where that is a constant; None where it is not understood."""
    match test:
        case ast.Name():
            return bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(operand, value)
            return None if inner is None else not inner
        case ast.Compare(ops=[ast.In() | ast.NotIn() as op], comparators=[ast.Tuple() | ast.List() as other]):
            return (value in (_literal(other) or ())) is isinstance(op, ast.In)
        case ast.Compare(ops=[op], comparators=[ast.expr() as other]) if not isinstance(other, (ast.Tuple, ast.List)):
            compare = _OPERATORS.get(type(op))
            return None if compare is None else any(compare(value, part) for part in _literal(other) or ())
    return None


def _literal(node: ast.expr) -> _Constants | None:
    """The constants that are written down: the one, or those of a list."""
    match node:
        case ast.Constant(value=value) if value is not Ellipsis:
            return (value,)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return (-number,)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) if not any(
            isinstance(part, (ast.Tuple, ast.List)) for part in parts
        ):
            values = [_literal(part) for part in parts]
            return None if None in values else tuple(value for several in values for value in several or ())
    return None


def _constants_of(function: _Function, name: str) -> _Constants | None:
    """All that a variable of a function may be, where its bindings are constants alone; None where they are not."""
    known: dict[str, _Constants | None] = once(function, "_constant_variables", lambda _: {})
    if name not in known:
        known[name] = _look_up(function, name)
    return known[name]


def _look_up(function: _Function, name: str) -> _Constants | None:
    bindings = _bindings(function, name)
    values: list[object] = []
    for part in bindings or ():
        constants = _bound_to(function, part)
        if constants is None:
            return None
        values += constants
    return tuple(values) if bindings else None


def _bindings(function: _Function, name: str) -> list[ast.Name] | None:
    """The places where a function binds a variable; None where it is an argument, or bound in a way that is no name."""
    if any(part.arg == name for part in of_kind(function, ast.arg)) or any(
        name in part.names for kind in (ast.Global, ast.Nonlocal) for part in of_kind(function, kind)
    ):
        return None
    if any(
        part.name == name
        for kind in (ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        for part in of_kind(function, kind)
    ) or any((part.asname or part.name).partition(".")[0] == name for part in of_kind(function, ast.alias)):
        return None
    return [part for part in of_kind(function, ast.Name) if part.id == name and not isinstance(part.ctx, ast.Load)]


def _bound_to(function: _Function, target: ast.Name) -> _Constants | None:
    """What one binding of a variable gives it, where these are constants."""
    parents = parents_in(function)
    path: list[int] = []
    node: ast.AST = target
    around = parents.get(node)
    while isinstance(around, ast.Tuple):
        path.insert(0, around.elts.index(node) if isinstance(node, ast.expr) else 0)
        node, around = around, parents.get(around)
    match around:
        case ast.Assign(value=value) if not path:
            return _literal(value) if not isinstance(value, (ast.Tuple, ast.List)) else None
        case ast.For(iter=values) | ast.comprehension(iter=values) if node is around.target:
            return _elements(function, values, path)
    return None


def _elements(function: _Function, values: ast.expr, path: Sequence[int]) -> _Constants | None:
    """The constants that a loop gives the variable at a place of its target: `for at, (scale, flip) in enumerate(zip(scales, flips))`."""
    match values:
        case ast.Call(func=ast.Name(id="zip"), args=parts, keywords=[]) if path and path[0] < len(parts):
            if not any(isinstance(part, ast.Starred) for part in parts):
                return _elements(function, parts[path[0]], path[1:])
        case ast.Call(func=ast.Name(id="enumerate"), args=[part, *_]) if path and path[0] == 1:
            return _elements(function, part, path[1:])
        case ast.Call(func=ast.Name(id="reversed" | "list" | "tuple"), args=[part], keywords=[]):
            return _elements(function, part, path)
        case ast.Tuple() | ast.List() if not path:
            return _literal(values)
        case ast.Name(id=name) if not path:
            return _list_of(function, name)
    return None


def _list_of(function: _Function, name: str) -> _Constants | None:
    """The constants of a list that a variable is bound to once, and that nothing changes."""
    bindings = _bindings(function, name)
    if bindings is None or len(bindings) != 1:
        return None
    parents = parents_in(function)
    match parents.get(bindings[0]):
        case ast.Assign(targets=[ast.Name()], value=ast.Tuple() | ast.List() as value):
            pass
        case _:
            return None
    reads = [part for part in of_kind(function, ast.Name) if part.id == name and isinstance(part.ctx, ast.Load)]
    return _literal(value) if all(_only_reads(parents.get(part), part) for part in reads) else None


def _only_reads(around: ast.AST | None, part: ast.Name) -> bool:
    match around:
        case ast.Call(func=ast.Name(id=name)):
            return name in _READERS
        case ast.For(iter=values) | ast.comprehension(iter=values):
            return values is part
        case ast.Subscript(ctx=ast.Load()):
            return True
    return False
