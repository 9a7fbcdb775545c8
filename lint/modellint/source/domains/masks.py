"""Tensors of truths: masks, by what made them, and by what they are called and used for."""

from __future__ import annotations

import ast
import re

from modellint.source.domains.tensors import MAKERS, Tensor
from modellint.source.syntax.ast_walk import of_kind

CASTS = frozenset({"to", "type", "cuda", "cpu", "float"})
"""Operators that give the same tensor where nothing has to change, else a copy."""

TRUTHS = "truths"
"""Under this is told of a tensor that it holds truths, where nothing else shows it."""


def is_mask(value: object) -> bool:
    """Whether a tensor certainly holds truths."""
    if not isinstance(value, Tensor):
        return False
    if value.made_by in _TRUTHS or (value.told is not None and TRUTHS in value.told):
        return True
    match value.node:
        case ast.Call(func=ast.Name() | ast.Attribute(), args=arguments, keywords=keywords):
            if value.made_by in MAKERS and _says_bool([one.value for one in keywords if one.arg == "dtype"]):
                return True
            if value.made_by in ("to", "type") and _says_bool([*arguments, *(one.value for one in keywords)]):
                return True
            if value.made_by in ("tensor", "as_tensor") and not keywords:
                return isinstance(arguments[0], ast.Compare) if arguments else False
            if value.made_by == "gather" and len(arguments) == 3:
                # `torch.gather(mask.flatten(1), 1, order)`
                return _is_name_of_mask(_root(arguments[0]))
        case ast.UnaryOp(op=ast.Invert()):
            return True
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr() | ast.BitXor()):
            return True
    return value.base is not None and value.made_by not in CASTS and is_mask(value.base)


def _says_bool(types: list[ast.expr]) -> bool:
    """Whether a type that is written down is that of truths."""
    return any(ast.unparse(one) in ("torch.bool", "bool", "th.bool") for one in types)


_TRUTHS = frozenset(
    {
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "isnan",
        "isinf",
        "isfinite",
        "bool",
        "logical_and",
        "logical_or",
        "logical_not",
    }
    | {"logical_xor", "isclose", "isin", "signbit", "any", "all"}
)
"""Operators that give truths."""


def names_mask(node: ast.expr, function: ast.AST | None) -> bool:
    """Whether an expression is, or is a part of, a variable that is called a mask, or that the function uses as one."""
    name = _root(node)
    return _is_name_of_mask(name) or (name != "" and _is_used_as_mask(function, name))


def _is_used_as_mask(function: ast.AST | None, name: str) -> bool:
    """Whether a function uses a variable as truths: in `torch.where`, `masked_fill`, `~m` or `m & n`."""
    if function is None:
        return False
    for call in of_kind(function, ast.Call):
        method = getattr(call.func, "attr", "")
        if method in ("where", "masked_fill", "masked_fill_", "masked_select") and call.args:
            given = call.args[0] if method != "where" or len(call.args) == 3 else call.args[-1]
            if isinstance(given, ast.Name) and given.id == name:
                return True
    inverted = (node.operand for node in of_kind(function, ast.UnaryOp) if isinstance(node.op, ast.Invert))
    both = (
        part
        for node in of_kind(function, ast.BinOp)
        if isinstance(node.op, (ast.BitAnd, ast.BitOr))
        for part in (node.left, node.right)
    )
    return any(isinstance(part, ast.Name) and part.id == name for part in (*inverted, *both))


def _root(node: ast.expr) -> str:
    """The variable of which an index is a part or a view: `mask[:, 0]`, `mask.squeeze(-1)`."""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Call) and (
            not isinstance(node.func, ast.Attribute)
            or node.func.attr in ("nonzero", "argmax", "argwhere", "long", "int")
        ):
            break
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_name_of_mask(name: str) -> bool:
    return re.search(_MASKS, name) is not None and (name.endswith(("mask", "masks")) or not re.search(_INDICES, name))


_MASKS = r"(?i)mask|valid|bool|^is_"
"""Names of truths."""
_INDICES = r"(?i)(?:^|_)i?(?:idx|idcs?|ind|inds|index|indexes|indices|ids?)(?:_|\d|$)"
"""Names of indices: `masked_indices`, `mask_idx`."""
