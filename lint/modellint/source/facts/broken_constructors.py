"""Broken constructors: classes of which there can be no object, as what builds one always asks for a name that is bound nowhere."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import TypeAlias

from modellint.source.project.symbols import ClassRef, IndexedFile
from modellint.source.syntax.ast_walk import functions_in, of_kind, once

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 3
"""How many methods call each other."""
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.BoolOp, ast.IfExp)
"""Expressions of which a part may not be run."""
_HEADS = ("value", "test", "iter", "exc")
"""What a statement runs before its blocks."""


def cannot_be_built(ref: ClassRef) -> bool:
    """Whether the own constructor of a class always fails with a `NameError`: it runs `xrange(3)`, which no file and no builtin is."""
    return once(ref.node, "_cannot_be_built", lambda _: _fails(ref))


def _fails(ref: ClassRef) -> bool:
    methods = {function.name: function for function in functions_in([ref.node])}
    init = methods.get("__init__")
    if init is None or ref.within or any(alias.name == "*" for alias in of_kind(ref.file.tree, ast.alias)):
        return False
    return _always_asks(init, methods, ref.file, 0)


def _always_asks(function: _Function, methods: dict[str, _Function], file: IndexedFile, depth: int) -> bool:
    """Whether all that runs a function asks for a name that is bound nowhere in the file."""
    for expression in _always_run(function.body):
        for part in _parts(expression):
            match part:
                case ast.Name(id=name, ctx=ast.Load()) if not hasattr(builtins, name):
                    if name not in once(file.tree, "_bound_names", _bound_names):
                        return True
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if depth < _DEEPEST:
                    called = methods.get(name)
                    if (
                        isinstance(called, ast.FunctionDef)
                        and not called.decorator_list
                        and called is not function
                        and _always_asks(called, methods, file, depth + 1)
                    ):
                        return True
    return False


def _always_run(body: list[ast.stmt]) -> Iterator[ast.expr]:
    """The expressions that a function runs whenever it is called."""
    for statement in body:
        if isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.For, ast.If)):
            yield from (part for field in _HEADS if isinstance(part := getattr(statement, field, None), ast.expr))
        elif not isinstance(statement, (ast.Assert, ast.Pass, ast.FunctionDef, ast.Import, ast.ImportFrom)):
            return
        if any(isinstance(part, (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)) for part in ast.walk(statement)):
            return


def _parts(expression: ast.expr) -> Iterator[ast.expr]:
    """An expression and what it always runs, in no order."""
    pending = [expression]
    while pending:
        part = pending.pop()
        yield part
        if not isinstance(part, _LATER):
            children = (
                child.value if isinstance(child, ast.keyword) else child for child in ast.iter_child_nodes(part)
            )
            pending += (child for child in children if isinstance(child, ast.expr))


def _bound_names(tree: ast.Module) -> set[str]:
    """All names that a file binds somewhere, in whatever scope."""
    names = {part.id for part in of_kind(tree, ast.Name) if not isinstance(part.ctx, ast.Load)}
    names |= {part.arg for part in of_kind(tree, ast.arg)}
    names |= {(alias.asname or alias.name).partition(".")[0] for alias in of_kind(tree, ast.alias)}
    names |= {part.name for part in of_kind(tree, ast.ExceptHandler) if part.name is not None}
    names |= {name for part in of_kind(tree, ast.Global) for name in part.names}
    names |= {part.name for part in of_kind(tree, ast.FunctionDef)}
    names |= {part.name for part in of_kind(tree, ast.AsyncFunctionDef)}
    names |= {part.name for part in of_kind(tree, ast.ClassDef)}
    names |= {part.name for part in of_kind(tree, ast.MatchAs) if part.name is not None}
    names |= {part.name for part in of_kind(tree, ast.MatchStar) if part.name is not None}
    return names | {"__file__", "__name__", "__class__", "__doc__", "__package__", "__path__", "__spec__", "__loader__"}
