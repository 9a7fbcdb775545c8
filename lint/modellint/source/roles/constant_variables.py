"""Constant variables: variables of a function all of whose bindings are constants, and branches that these rule out.

``for scale, flip in zip(scales, [None, 3, None])``: under ``if flip == 2`` nothing runs. An argument is one where all calls in the project
give constants for it. Nothing is told of a variable that is bound in another way, or whose list something may change.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from modellint.source.roles.forward_call_sites.call_arguments import given_for
from modellint.source.syntax.ast_walk import of_kind, once, parents_in
from modellint.source.syntax.path_conditions import conditions_at

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef, IndexedFile

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Constants: TypeAlias = tuple[object, ...]
_READERS = frozenset({"zip", "enumerate", "len", "range", "reversed", "sorted", "tuple", "list", "max", "min"})
"""Builtins that leave a list as it is."""
_OPERATORS: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_ORDERS: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class _Place(NamedTuple):
    """A function, and where it stands."""

    project: Project
    file: IndexedFile
    ref: ClassRef | None
    function: _Function


def is_ruled_out(project: Project, file: IndexedFile, ref: ClassRef | None, function: _Function, row: int) -> bool:
    """Whether a row of a function is reached under conditions only that none of a variable's constants fulfils."""
    left: dict[str, _Constants] = {}
    place = _Place(project, file, ref, function)
    for test, holds in conditions_at(function.body, row):
        name = _asked(test)
        if name is None:
            continue
        constants = left[name] if name in left else _constants_of(place, name, 0)
        if constants is None:
            continue
        left[name] = tuple(value for value in constants if _truth(test, value) in (None, holds))
        if not left[name]:
            return True
    return False


def always_holds(
    project: Project, file: IndexedFile, ref: ClassRef | None, function: _Function, test: ast.expr
) -> bool:
    """Whether a condition in a function is one on a variable alone that all of its constants fulfil."""
    name = _asked(test)
    constants = _constants_of(_Place(project, file, ref, function), name, 0) if name is not None else None
    return bool(constants) and all(_truth(test, value) is True for value in constants or ())


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
            (wanted,) = _literal(other) or (None,)
            compare = _OPERATORS.get(type(op))
            if isinstance(value, (int, float)) and isinstance(wanted, (int, float)):
                compare = compare or _ORDERS.get(type(op))
            return None if compare is None else compare(value, wanted)
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


def _constants_of(place: _Place, name: str, depth: int) -> _Constants | None:
    """All that a variable of a function may be, where its bindings are constants alone; None where they are not."""
    known: dict[str, _Constants | None] = once(place.function, "_constant_variables", lambda _: {})
    if name not in known:
        known[name] = None
        is_argument = any(part.arg == name for part in of_kind(place.function, ast.arg))
        known[name] = _given(place, name, depth) if is_argument else _bound(place.function, name)
    place.project.touch_tree()
    return known[name]


def _given(place: _Place, name: str, depth: int) -> _Constants | None:
    """The constants that all calls of a function give for an argument that it never binds."""
    function = place.function
    arguments = function.args
    own = [part for part in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if part.arg == name]
    if (
        depth
        or not own
        or sum(part.arg == name for part in of_kind(function, ast.arg)) > 1
        or _bindings(function, name)
    ):
        return None
    values: list[object] = []
    calls = given_for(place.project, place.file, place.ref, function, name)
    for value, around in calls or ():
        constants = _literal(value) if not isinstance(value, (ast.Tuple, ast.List)) else None
        if isinstance(value, ast.Name) and around is not None and around is not function:
            constants = _bound(around, value.id)
        if constants is None:
            return None
        values += constants
    return tuple(values) if calls else None


def _bound(function: _Function, name: str) -> _Constants | None:
    bindings = _bindings(function, name) if all(part.arg != name for part in of_kind(function, ast.arg)) else None
    values: list[object] = []
    for part in bindings or ():
        constants = _bound_to(function, part)
        if constants is None:
            return None
        values += constants
    return tuple(values) if bindings else None


def _bindings(function: _Function, name: str) -> list[ast.Name] | None:
    """The places where a function binds a variable; None where it is bound in a way that is no name."""
    if name in once(function, "_bound_otherwise", _bound_otherwise):
        return None
    return [part for part in of_kind(function, ast.Name) if part.id == name and not isinstance(part.ctx, ast.Load)]


def _bound_otherwise(function: _Function) -> frozenset[str]:
    """What a function binds by other statements than those with a plain name for a target."""
    names: list[str | None] = [name for part in of_kind(function, ast.Global) for name in part.names]
    names += [name for part in of_kind(function, ast.Nonlocal) for name in part.names]
    names += [part.name for part in of_kind(function, ast.ExceptHandler)]
    names += [part.name for part in of_kind(function, ast.MatchAs)]
    names += [part.name for part in of_kind(function, ast.MatchStar)]
    names += [part.rest for part in of_kind(function, ast.MatchMapping)]
    names += [part.name for part in of_kind(function, ast.FunctionDef)]
    names += [part.name for part in of_kind(function, ast.AsyncFunctionDef)]
    names += [part.name for part in of_kind(function, ast.ClassDef)]
    names += [(part.asname or part.name).partition(".")[0] for part in of_kind(function, ast.alias)]
    return frozenset(name for name in names if name is not None)


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
    if bindings is None or len(bindings) != 1 or any(part.arg == name for part in of_kind(function, ast.arg)):
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
