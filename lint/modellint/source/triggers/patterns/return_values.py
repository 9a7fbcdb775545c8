"""Signs of what ``forward`` gives back: a dict, or something that is no tensor."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from modellint.source.syntax.ast_walk import Function, called_name, functions_in, of_kind, walk


def returns_dict(run: Sequence[ast.stmt]) -> bool:
    """Whether a dict is made where ``forward`` itself returns something that may be one."""
    return any(_gives(function, _is_dict) for function in functions_in(run) if function.name == "forward")


def returns_others(run: Sequence[ast.stmt]) -> bool:
    """Whether ``forward`` may return a constant, a text, a number or an object, itself or in a tuple, or what it calls may give one."""
    functions = functions_in(run)
    makers = {function.name for function in functions if function.name != "forward" and _gives(function, _is_object)}

    def asks(node: ast.expr) -> bool:
        return _is_other(node) or (isinstance(node, ast.Call) and called_name(node) in makers)

    return any(
        _gives(function, asks) or _gives_part_of_call(function) for function in functions if function.name == "forward"
    )


def _gives_part_of_call(function: Function) -> bool:
    """Whether a function gives back, among others, one of several values that a call gives, or all that attention gives."""
    names: set[str] = set()
    for statement in of_kind(function, ast.Return):
        match statement.value:
            case ast.Tuple(elts=parts):
                if any(isinstance(part, ast.Subscript) and isinstance(part.value, ast.Call) for part in parts):
                    return True
                names.update(part.id for part in parts if isinstance(part, ast.Name))
            case ast.Call(keywords=keywords) if any(word.arg == "need_weights" for word in keywords):
                return True
    return any(
        isinstance(part, ast.Name) and part.id in names
        for node in (of_kind(function, ast.Assign) if names else ())
        if isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Tuple)
        for part in target.elts
    )


def _gives(function: Function, asks: Callable[[ast.expr], bool]) -> bool:
    for statement in of_kind(function, ast.Return):
        for part in _parts(statement.value):
            if asks(part):
                return True
            if isinstance(part, ast.Name) and any(asks(value) for value in _bound(function, part.id)):
                return True
    return False


def _parts(value: ast.expr | None) -> Iterator[ast.expr]:
    match value:
        case None:
            return
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _parts(part)
        case ast.IfExp(body=body, orelse=other):
            yield from _parts(body)
            yield from _parts(other)
        case _:
            yield value


def _bound(function: Function, name: str) -> Iterator[ast.expr]:
    for node in of_kind(function, ast.Assign):
        if any(isinstance(part, ast.Name) and part.id == name for target in node.targets for part in walk(target)):
            yield from _parts(node.value)
    for annotated in of_kind(function, ast.AnnAssign):
        if annotated.value is not None and isinstance(annotated.target, ast.Name) and annotated.target.id == name:
            yield from _parts(annotated.value)
    for call in of_kind(function, ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="append"), args=[value]) if owner == name:
                yield from _elements(function, value)


def _elements(function: Function, value: ast.expr) -> Iterator[ast.expr]:
    """What a list is given, with what a variable that it is given is bound to."""
    for part in _parts(value):
        yield part
        if isinstance(part, ast.Name):
            for node in of_kind(function, ast.Assign):
                if any(isinstance(target, ast.Name) and target.id == part.id for target in node.targets):
                    yield from _parts(node.value)


def _is_dict(node: ast.expr) -> bool:
    match node:
        case ast.Dict() | ast.DictComp():
            return True
        case ast.Call():
            return called_name(node) in ("dict", "OrderedDict", "defaultdict")
    return False


def _is_other(node: ast.expr) -> bool:
    match node:
        case ast.Constant() | ast.JoinedStr():
            return True
        case ast.UnaryOp(operand=inner):
            return _is_other(inner)
        case ast.Call():
            return called_name(node) == "item" or _is_object(node)
    return False


def _is_object(node: ast.expr) -> bool:
    """Whether something is called as a class is, which may be one of the project."""
    return isinstance(node, ast.Call) and called_name(node)[:1].isupper()
