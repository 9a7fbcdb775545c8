"""Statements that only say something: what is printed, logged, raised or asserted."""

from __future__ import annotations

import ast

MESSAGES = frozenset(
    {"warn", "warning", "info", "debug", "error", "print", "log", "exception", "warning_once", "warn_once"}
)
"""Functions that only say something."""


def is_message(statement: ast.stmt) -> bool:
    """Whether a statement only prints or raises something."""
    match statement:
        case ast.Raise() | ast.Assert():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))):
            return name in MESSAGES
    return False


def only_reports(body: list[ast.stmt]) -> bool:
    """Whether statements do nothing but raise, warn or print."""
    return all(map(_is_said, body))


def _is_said(statement: ast.stmt) -> bool:
    match statement:
        case ast.Raise() | ast.Assert() | ast.Pass():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))):
            return name in MESSAGES
        case ast.If():
            return only_reports([*statement.body, *statement.orelse])
        case ast.Assign(value=ast.Constant(value=str()) | ast.JoinedStr()):
            return any(isinstance(target, ast.Name) for target in statement.targets)
    return False
