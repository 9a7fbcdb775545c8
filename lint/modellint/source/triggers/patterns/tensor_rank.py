"""A sign of tensors of many dimensions: what is written of their shapes, and what adds a dimension."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, walk
from modellint.source.syntax.written_sizes import literal_sizes

if TYPE_CHECKING:
    pass

_SHAPED = frozenset(
    {"view", "view_as", "reshape", "reshape_as", "unflatten", "permute", "as_strided"}
    | {"expand", "expand_as", "broadcast_to", "repeat", "tile"}
    | {"zeros", "ones", "empty", "full", "rand", "randn", "new_zeros", "new_ones", "new_empty", "new_full"}
)
"""Functions that are told sizes."""
_GROWING = frozenset(
    {"unsqueeze", "stack", "unfold", "unflatten", "diag_embed", "one_hot", "view_as_real", "as_strided"}
)
"""Functions that add a dimension."""
_MOST = 5
_OF_RANK_THREE = frozenset({"LSTM", "GRU", "RNN", "MultiheadAttention", "bmm", "baddbmm", "TransformerEncoderLayer"})
_RANKS = {"1d": 3, "2d": 4, "3d": 5}
"""Ranks of what layers take, by the ends of their names."""


def gets_wide(nodes: Sequence[ast.stmt]) -> bool:
    """Whether a tensor may get more than five dimensions."""
    widest = max([2, *map(_widest_of_layers, nodes)])
    grown = 0
    rows: list[tuple[int, int]] = []
    """Of shapes that are written in part: how many sizes are, and how many stretches of unknown length stand between."""
    repeated: set[ast.expr] = set()
    for outer in nodes:
        for call in of_kind(outer, ast.Call):
            name = called_name(call)
            if name in _SHAPED:
                rows.append(_row(call.args))
                rows.extend(_row(one.elts) for one in call.args if isinstance(one, (ast.Tuple, ast.List)))
                if name == "expand" and isinstance(call.func, ast.Attribute):
                    # `x[:, :, None].expand(b, h, n, t, d)`: what is added counts among what is written.
                    repeated.add(call.func.value)
            elif name == "einsum":
                widest = max(widest, _letters(call.args))
            if name in _GROWING:
                grown += 1 if isinstance(outer, ast.ClassDef) else 2
        for items in of_kind(outer, ast.Tuple):
            if isinstance(items.ctx, ast.Store):
                widest = max(widest, len(items.elts))
        values = (assignment.value for assignment in of_kind(outer, ast.Assign))
        rows.extend(_row(value.elts) for value in values if isinstance(value, (ast.Tuple, ast.List)))
        sums = (node for node in of_kind(outer, ast.BinOp) if isinstance(node.op, ast.Add))
        rows.extend(_row_of(node) for node in sums if _is_row(node.left) or _is_row(node.right))
        for part in of_kind(outer, ast.Subscript):
            if part not in repeated or not isinstance(part.slice, ast.Tuple):
                grown += _added(part)
    widest = max([widest, *(written for written, unknown in rows if not unknown)])
    widest = max([widest, *(written + unknown * (widest - 1) for written, unknown in rows if unknown)])
    if grown and any(_grows(part) for outer in nodes for loop in _loops(outer) for part in walk(loop)):
        grown += 2
    return widest > _MOST or (grown > 0 and widest + grown > _MOST)


def _widest_of_layers(node: ast.stmt) -> int:
    """The largest rank that the layers and functions take which a class or function names."""
    names = {part.attr for part in of_kind(node, ast.Attribute)}
    names.update(part.id for part in of_kind(node, ast.Name))
    found = [_RANKS.get(name[-2:].lower(), 0) for name in names if name[-1:] in "dD"]
    return max([0 if names.isdisjoint(_OF_RANK_THREE) else 3, *found])


def _loops(node: ast.stmt) -> Iterator[ast.AST]:
    for kind in (ast.For, ast.While, ast.ListComp, ast.GeneratorExp):
        yield from of_kind(node, kind)


def _added(node: ast.Subscript) -> int:
    """How many dimensions a subscript adds."""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return sum(isinstance(item, ast.Constant) and item.value is None for item in items)


def _grows(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _GROWING
        case ast.Subscript():
            return _added(node) > 0
    return False


def _row(given: Sequence[ast.expr]) -> tuple[int, int]:
    unknown = sum(isinstance(one, ast.Starred) for one in given)
    return len(given) - unknown, unknown


def _row_of(node: ast.expr) -> tuple[int, int]:
    if isinstance(node, (ast.Tuple, ast.List)):
        return _row(node.elts)
    if isinstance(node, ast.BinOp):
        one, other = _row_of(node.left), _row_of(node.right)
        return one[0] + other[0], one[1] + other[1]
    return 0, 1


def _letters(given: Sequence[ast.expr]) -> int:
    """How many dimensions the longest term of an equation has; more than there may be where it is not written out."""
    equation = given[0].value if given and isinstance(given[0], ast.Constant) else None
    if not isinstance(equation, str) or "." in equation:
        return _MOST + 1
    return max(len(term.strip()) for term in equation.replace("->", ",").split(","))


def _is_row(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, (ast.Tuple, ast.List)) or (isinstance(node, ast.Attribute) and node.attr == "shape")


def pins_sizes(run: Sequence[ast.stmt]) -> bool:
    """Whether a tensor may be reshaped to sizes that are all numbers."""
    return any(literal_sizes(call) for function in functions_in(run) for call in of_kind(function, ast.Call))
