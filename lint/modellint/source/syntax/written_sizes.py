"""Sizes that a program writes out as numbers."""

from __future__ import annotations

import ast

from modellint.source.syntax.ast_walk import called_name


def literal_sizes(call: ast.Call) -> list[ast.expr]:
    """The sizes that a reshaping is told, where all of them are numbers and there are several."""
    if (
        called_name(call) not in ("view", "reshape", "expand")
        or call.keywords
        or not isinstance(call.func, ast.Attribute)
    ):
        return []
    given = call.args
    if isinstance(call.func.value, ast.Name) and call.func.value.id == "torch":
        given = given[1:]
    if len(given) == 1 and isinstance(given[0], (ast.Tuple, ast.List)):
        given = given[0].elts
    known = [part for part in given if isinstance(part, ast.Constant) and type(part.value) is int]
    return list(given) if len(known) == len(given) > 1 else []
