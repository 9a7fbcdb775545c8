"""Statements of a live model's own code that stand for what is found in it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from modellint.live.binding import written_class
from modellint.live.place import Place, class_node, span_of

if TYPE_CHECKING:
    from modellint.live.subject import Subject


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
    found: dict[Place, None] = {}
    for cls in dict.fromkeys(base for each in classes for base in each.__mro__ if _is_written(base)):
        stands = class_node(cls)
        if stands is None:
            continue
        for statement in _simple(stands[1]):
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
                    found[Place(stands[0], span_of(stands[0], statement))] = None
    return next(iter(found)) if len(found) == 1 else None


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
