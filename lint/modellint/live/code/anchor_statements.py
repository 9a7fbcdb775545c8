"""Statements of a live model's code that findings are anchored at: loops, calls, returns and changes of attributes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from modellint.live.code.attribute_binding import written_class
from modellint.live.code.class_source import class_node
from modellint.live.code.places import span_of, tree_of
from modellint.results.diagnostic import Place

if TYPE_CHECKING:
    from modellint.live.subject import Subject


Loop = ast.For | ast.AsyncFor | ast.While


def node_at(place: Place) -> ast.stmt | None:
    """The statement that a place stands for."""
    around = _around(place)
    return around[-1] if around else None


def loops_around(place: Place) -> list[Loop]:
    """The loops of the same function that a statement stands in, innermost first; a loop's own first row is in it."""
    loops: list[Loop] = []
    for node in _around(place):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            loops.clear()
        elif isinstance(node, Loop):
            loops.insert(0, node)
    return loops


def function_around(place: Place) -> ast.stmt | None:
    """The function, or the class, that a statement stands in."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return next((statement for statement in reversed(_around(place)) if isinstance(statement, kinds)), None)


@lru_cache(maxsize=4096)
def _around(place: Place) -> tuple[ast.stmt, ...]:
    """The statements that one stands in, outermost first, and itself."""
    statements: list[ast.stmt] = []
    tree = tree_of(place.path)
    pending: list[ast.AST] = [] if tree is None else [tree]
    while pending:
        for child in ast.iter_child_nodes(pending.pop()):
            if isinstance(child, ast.stmt):
                if child.lineno <= place.span.row <= (child.end_lineno or child.lineno):
                    if child.col_offset > place.span.column - 1 and child.lineno == place.span.row:
                        continue
                    statements.append(child)
                    pending.append(child)
            elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
                pending.append(child)
    return tuple(statements)


def calling(subject: Subject, path: str, method: str) -> Place | None:
    """The one statement that calls a method of that name, in the classes of the module at ``path`` and of those around it.

    None where there is none, or several.
    """
    names = path.split(".") if path else []
    module = subject.model
    classes = [type(module)]
    for name in names:
        module = module._modules.get(name) or module
        classes.append(type(module))
    places: dict[Place, None] = {}
    for cls in dict.fromkeys(base for each in classes for base in each.__mro__ if _is_written(base)):
        definition = class_node(cls)
        if definition is None:
            continue
        for statement in _simple(definition[1]):
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
                    places[Place(definition[0], span_of(definition[0], statement))] = None
    return next(iter(places)) if len(places) == 1 else None


def returning(subject: Subject, wanted: Callable[[ast.expr | None], bool]) -> Place | None:
    """The statement with which the model's ``forward`` returns, or its `def` line where several may be meant.

    Of several statements the one counts whose value is ``wanted``.
    """
    cls = written_class(subject.model)
    for base in cls.__mro__ if cls is not None else ():
        if "forward" not in vars(base):
            continue
        stands = class_node(base)
        methods = [node for node in stands[1].body if isinstance(node, ast.FunctionDef)] if stands else []
        forwards = [node for node in methods if node.name == "forward"]
        if stands is None or not forwards:
            break
        returns = [node for node in _simple(forwards[-1]) if isinstance(node, ast.Return)]
        fitting = [node for node in returns if wanted(node.value)]
        chosen = fitting if len(fitting) == 1 else returns
        return Place(stands[0], span_of(stands[0], chosen[0] if len(chosen) == 1 else forwards[-1]))
    return subject.class_place(subject.model)


def _is_written(cls: type) -> bool:
    return cls is not object and cls.__module__.partition(".")[0] != "torch"


def _simple(node: ast.ClassDef | ast.FunctionDef) -> Iterator[ast.stmt]:
    """The statements without blocks below a class or function; of functions inside a function none."""
    pending: list[ast.AST] = list(node.body)
    while pending:
        inner = pending.pop(0)
        if not isinstance(inner, ast.stmt):
            if isinstance(inner, (ast.ExceptHandler, ast.match_case)):
                pending.extend(inner.body)
            continue
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if isinstance(node, ast.ClassDef):
                pending.extend(inner.body)
        elif hasattr(inner, "body"):
            for field in ("body", "orelse", "finalbody", "handlers"):
                pending.extend(getattr(inner, field, ()))
        elif isinstance(inner, ast.Match):
            pending.extend(inner.cases)
        else:
            yield inner


def changing(cls: type, attribute: str, methods: Collection[str] | None = None) -> Place | None:
    """The first statement of a class's methods, but for its constructor, that changes ``self.attribute``.

    With ``methods`` only these are asked. Torch's own classes are not.
    """
    for base in filter(_is_written, cls.__mro__):
        definition = class_node(base)
        if definition is None:
            continue
        path, node = definition
        for method in node.body:
            if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) or method.name == "__init__":
                continue
            if methods is not None and method.name not in methods:
                continue
            for statement in ast.walk(method):
                if isinstance(statement, ast.stmt) and _changes(statement, attribute):
                    return Place(path, span_of(path, statement))
    return None


_GROWING = frozenset({"append", "extend", "insert", "pop", "update", "setdefault", "clear", "remove", "popitem"})


def _changes(statement: ast.stmt, attribute: str) -> bool:
    match statement:
        case ast.Assign(targets=targets):
            return any(_is_part(part, attribute) for target in targets for part in _flat(target))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return _is_part(target, attribute)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value, attr=name))):
            changing = (name.endswith("_") and not name.endswith("__")) or name in _GROWING
            return changing and _is_part(value, attribute)
    return False


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _flat(part)
    else:
        yield target


def _is_part(node: ast.expr, attribute: str) -> bool:
    """Whether an expression is ``self.attribute``, or a part or a view of it."""
    while True:
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return name == attribute
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                node = inner
            case _:
                return False
