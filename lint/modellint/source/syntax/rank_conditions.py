"""Conditions on ranks: what asks a tensor for its number of dimensions, as it is written."""

from __future__ import annotations

import ast

from modellint.source.syntax.ast_walk import parents_in


def tensor_of_rank(node: ast.expr) -> ast.expr | None:
    """The tensor whose rank an expression is: of ``x.dim()``, ``x.ndim``, ``len(x.shape)`` and ``len(x.size())``."""
    match node:
        case (
            ast.Call(func=ast.Attribute(value=tensor, attr="dim" | "ndimension"), args=[], keywords=[])
            | ast.Attribute(value=tensor, attr="ndim")
            | ast.Call(
                func=ast.Name(id="len"),
                args=[
                    ast.Attribute(value=tensor, attr="shape")
                    | ast.Call(func=ast.Attribute(value=tensor, attr="size"), args=[], keywords=[])
                ],
            )
        ):
            return tensor
    return None


def rank_demanded(statement: ast.stmt, function: ast.AST, name: str) -> int | None:
    """The rank that a variable has at a statement by the conditions around it: ``if x.dim() == 4:``.

    Only where the statement is the first that they lead to, so that nothing between has bound the variable anew.
    """
    parents = parents_in(function)
    child: ast.AST = statement
    while isinstance(parent := parents.get(child), ast.If):
        if child is parent.body[0]:
            match parent.test:
                case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=int() as rank)]):
                    tensor = tensor_of_rank(left)
                    if isinstance(tensor, ast.Name) and tensor.id == name:
                        return rank
        elif child not in parent.orelse[:1]:
            return None
        child = parent
    return None
