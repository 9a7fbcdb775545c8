"""Computed names: what an expression such as ``f"scale{i}"`` says of the attribute that ``getattr`` and ``setattr`` mean by it."""

from __future__ import annotations

import ast
import re

HOLE = "{}"


def name_pattern(node: ast.AST) -> str | None:
    """The name that an expression computes, with ``{}`` for each part that is not spelt out; None where nothing of it is.

    >>> name_pattern(ast.parse("f'scale{i}_x'", mode="eval").body)
    'scale{}_x'
    """
    pattern = _pattern(node)
    if pattern is None or HOLE not in pattern:
        return None
    return pattern if pattern.replace(HOLE, "").strip("_0123456789").isidentifier() else None


def _pattern(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join((_pattern(part) or HOLE) if isinstance(part, ast.Constant) else HOLE for part in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return (_pattern(left) or HOLE) + (_pattern(right) or HOLE)
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str() as text)):
            return re.sub(r"%\d*[a-z]", HOLE, text)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format")):
            return re.sub(r"\{[^{}]*\}", HOLE, text)
    return None


def is_numbered(name: str, pattern: str) -> bool:
    """Whether a name is of a pattern with numbers in its holes."""
    return re.fullmatch(r"\d+".join(map(re.escape, pattern.split(HOLE))), name) is not None
