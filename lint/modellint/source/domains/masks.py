"""Tensors of truths: masks, by what made them, and by what they are called and used for."""

from __future__ import annotations

import ast
import re

from modellint.source.domains.operator_sets import CASTS, MAKERS
from modellint.source.domains.tensors import Tensor
from modellint.source.engine.abstract_values import Const, Value
from modellint.source.engine.arguments import Arguments
from modellint.source.syntax.ast_walk import of_kind

TRUTHS = "truths"
"""Under this is told of a tensor that it holds truths, where nothing else shows it."""


FLOATS = "floats"
"""Under this is told of whole numbers that coremltools computes them as floats."""


def becomes_floats(name: str, tensor: Tensor, arguments: Arguments) -> bool:
    """Whether coremltools makes floats of the whole numbers that an operator gives, as measured with coremltools 9.0.

    That is where it adds up truths or limits numbers on one side, and in what is computed of such, but for casts.
    """
    if name in ("sum", "cumsum"):
        return _holds_truths(tensor) and _is_whole(arguments.keywords.get("dtype"))
    if name in ("clamp", "clip") and not arguments.spread and None not in arguments.keywords:
        bounds = (arguments.get(0, "min"), arguments.get(1, "max"))
        if sum(bound is None or (isinstance(bound, Const) and bound.value is None) for bound in bounds) == 1:
            return True
    return name in _OF_FLOATS and holds_floats(tensor)


def holds_floats(value: Value) -> bool:
    """Whether coremltools certainly holds the whole numbers of a tensor as floats."""
    part = value if isinstance(value, Tensor) else None
    while part is not None:
        if part.told is not None and FLOATS in part.told:
            return True
        part = part.base if part.made_by not in CASTS else None
    return False


def _holds_truths(tensor: Tensor) -> bool:
    """Whether a tensor certainly holds truths: `a & b` and `~a` may be whole numbers."""
    part: Tensor | None = tensor
    while part is not None:
        if isinstance(part.node, (ast.BinOp, ast.UnaryOp)) or part.made_by == "gather":
            return False
        part = part.base
    return is_mask(tensor)


def _is_whole(dtype: Value | None) -> bool:
    """Whether a type that is given, if one is, is of whole numbers."""
    return dtype is None or dtype.external_name in ("torch.long", "torch.int64")


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


_OF_FLOATS = frozenset(
    {"clamp", "clip", "clamp_min", "clamp_max", "sub", "add", "mul", "remainder", "repeat", "clone", "contiguous"}
)
"""Operators that give whole numbers of whole numbers, and of which coremltools makes floats of floats."""
FLOATING = _OF_FLOATS | {"sum", "cumsum"}
"""Operators of whose whole numbers coremltools may make floats."""


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
