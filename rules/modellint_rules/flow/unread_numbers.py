"""Def-use of a number that was taken out of a tensor: whether anything that an export runs reads it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from modellint.authoring import External, dotted_name, of_kind, parents_in, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modellint.authoring import Call, Code

_ADDING = frozenset({"append", "extend", "add", "update", "appendleft"})


def is_unread(call: Call, code: Code) -> bool:
    """Whether a number goes into an attribute that nothing which `forward` runs reads, or a variable that only messages or files take."""
    match call.statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return call.function is not None and _is_dead(name, call.statement, call.function, code)
        case ast.Assign(targets=[target]):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=method))) if method in _ADDING:
            pass
        case _:
            return False
    while isinstance(target, ast.Subscript):
        target = target.value
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
        return False
    if target.value.id != code.self_name(call.function):
        return False
    return not any(node.attr == target.attr for function in code.in_forward for node in _read(function))


def _read(function: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a function reads, but for those that it only adds to or stores in."""
    parents = parents_in(function)
    for node in of_kind(function, ast.Attribute):
        if not isinstance(node.ctx, ast.Load):
            continue
        match parents.get(node):
            case ast.Subscript(value=value, ctx=ast.Store()) if value is node:
                continue
            case ast.Attribute(attr=method) as bound if method in _ADDING:
                call = parents.get(bound)
                if isinstance(call, ast.Call) and isinstance(parents.get(call), ast.Expr):
                    continue
        yield node


def _is_dead(name: str, statement: ast.stmt, function: ast.AST, code: Code) -> bool:
    """Liveness: whether a variable is read no more behind a statement that binds it, but for what is printed, raised or written to a file.

    In a loop it may be read by the next turn, unless that binds it first.
    """
    parents = parents_in(function)
    inside = set(walk(statement))
    loads = [
        node
        for node in walk(function)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and node not in inside
    ]
    loads = [node for node in loads if not _is_for_a_message(node, function, code)]
    end = statement.end_lineno or statement.lineno
    if any(node.lineno > end or _is_in_closure(node, function) for node in loads):
        return False
    around = parents.get(statement)
    while around is not None and around is not function:
        if isinstance(around, (ast.While, ast.FunctionDef, ast.Lambda, ast.AsyncFunctionDef)):
            return False
        if isinstance(around, (ast.For, ast.AsyncFor)):
            # Each turn binds the loop's own variables anew.
            bound = {node.id for node in walk(around.target) if isinstance(node, ast.Name)}
            return name in bound or not loads
        around = parents.get(around)
    return True


def _is_for_a_message(node: ast.AST, function: ast.AST, code: Code) -> bool:
    """Whether what is read is only printed, raised or written to a file, or asked whether to do that: `if n > most: print(n)`."""
    parents = parents_in(function)
    child, around = node, parents.get(node)
    while around is not None and not isinstance(around, ast.stmt):
        child, around = around, parents.get(around)
    match around:
        case ast.If(test=test, body=body, orelse=other):
            return child is test and code.only_reports([*body, *other])
        case ast.Expr() | ast.Raise() | ast.Assert():
            return code.only_reports([around]) or _is_written_to_a_file(node, around, code)
    return False


def _is_written_to_a_file(node: ast.AST, statement: ast.stmt, code: Code) -> bool:
    """Whether a statement does nothing with an array of NumPy but write it to a file: `x.tofile(path)`, `np.save(path, x)`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="tofile" | "dump"))) if owner is node:
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute() as function, args=given, keywords=words)):
            dotted = dotted_name(function)
            symbol = code.project.resolve(code.file, dotted) if dotted is not None else None
            is_given = node in given or any(word.value is node for word in words)
            return is_given and isinstance(symbol, External) and symbol.name in _WRITERS
    return False


_WRITERS = frozenset(f"numpy.{name}" for name in ("save", "savez", "savez_compressed", "savetxt"))


def _is_in_closure(node: ast.AST, function: ast.AST) -> bool:
    """Whether a function or class inside of this one holds a node."""
    parents = parents_in(function)
    around = parents.get(node)
    while around is not None and around is not function:
        if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            return True
        around = parents.get(around)
    return False
