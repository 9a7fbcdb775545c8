"""Reads behind a write: whether what is read of a tensor later are parts that the write does not reach, or are assigned anew before."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Tensor, alternatives, of_kind, once, parents_in, walk
from modellint_rules.mutation.shared_memory import indices, item_of

if TYPE_CHECKING:
    from modellint.authoring import Write

_MOST_USES = 64
"""How many reads of a variable behind a write are looked at."""


def is_elsewhere(value: Tensor, write: Write) -> bool:
    """Whether a view is of another part of the tensor than that which is assigned to: `x[:, 1:]`, for `x[:, 0] = v`."""
    place = item_of(write)
    for target in alternatives(write.target):
        written, whole = (
            (place, target) if place is not None else (getattr(target, "node", None), getattr(target, "base", None))
        )
        if place is not None and write.how == "augmented":
            whole = getattr(target, "base", None)
        if whole is None or not isinstance(value.node, ast.Subscript) or not isinstance(written, ast.Subscript):
            return False
        if value.base is not whole or not _share_nothing(written, value.node):
            return False
    return True


def is_read_elsewhere(name: str, value: Tensor, write: Write) -> bool:
    """Whether all that is read of a variable behind a write are other parts of it: `y[:, :-1]`, for a write to `y[:, -1:]`."""
    function, end = write.function, write.statement.end_lineno
    if function is None or end is None:
        return False
    parents = parents_in(function)
    above = parents.get(write.statement)
    while above is not None and above is not function:
        if isinstance(above, (ast.For, ast.AsyncFor, ast.While)):
            return False
        above = parents.get(above)
    places = [getattr(target, "node", None) for target in alternatives(write.target)]
    written = [place for place in places if isinstance(place, ast.Subscript)]
    if len(written) < len(places) or any(
        getattr(target, "base", None) is not value for target in alternatives(write.target)
    ):
        return False
    place = (end, write.statement.end_col_offset or 0)
    uses = once(function, "_loads_by_name", _loads_by_name).get(name, [])
    behind = bisect_left(uses, place, key=position)
    if len(uses) - behind > _MOST_USES:
        return False
    until = _place_of_rebinding(name, write.statement, function)
    for use in uses[behind:]:
        if until is not None and position(use) > until:
            break
        read = parents.get(use)
        if (
            not isinstance(read, ast.Subscript)
            or read.value is not use
            or not all(_share_nothing(part, read) for part in written)
        ):
            return False
    return True


def _place_of_rebinding(name: str, statement: ast.stmt, function: ast.AST) -> tuple[int, int] | None:
    """Where the first assignment to a variable ends that always runs behind a statement: the variable stands for something else then."""
    parents = parents_in(function)
    within: ast.AST = statement
    if any(part is not function for kind in (ast.FunctionDef, ast.Lambda) for part in of_kind(function, kind)):
        return None
    while within is not function:
        above = parents.get(within, function)
        if isinstance(above, ast.Try):
            return None
        for block in blocks_of(above):
            behind = block[block.index(within) + 1 :] if within in block else []
            for following in behind:
                match following:
                    case ast.Assign(targets=[ast.Name(id=bound)]) if bound == name:
                        return following.end_lineno or 0, following.end_col_offset or 0
        within = above
    return None


def is_overwritten(name: str, targets: list[Tensor], write: Write) -> bool:
    """Whether the next that is done with a variable is to assign anew what a write changes of it: `h = x[0]; h += 1; x[0] = h % 2`."""
    places = {ast.unparse(target.node) if target.node is not None else "" for target in targets}
    text = places.pop() if len(places) == 1 else ""
    function = write.function
    if not text.startswith(f"{name}[") or function is None:
        return False
    for block in blocks_of(parents_in(function).get(write.statement, function)):
        if write.statement not in block:
            continue
        behind = block[(at := block.index(write.statement) + 1) : at + _MOST_USES]
        following = next((part for part in behind if any(name == each.id for each in of_kind(part, ast.Name))), None)
        match following:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name()) as place], value=value):
                is_plain = all(isinstance(part, (ast.Constant, ast.Slice)) for part in indices(place))
                return name not in _names(value) and is_plain and _names(place) == {name} and ast.unparse(place) == text
    return False


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}


def _loads_by_name(function: ast.AST) -> dict[str, list[ast.Name]]:
    """Where the variables of a function are read, in the order of the text."""
    uses: dict[str, list[ast.Name]] = {}
    for name in sorted(of_kind(function, ast.Name), key=position):
        if isinstance(name.ctx, ast.Load):
            uses.setdefault(name.id, []).append(name)
    return uses


def _share_nothing(written: ast.Subscript, read: ast.Subscript) -> bool:
    """Whether two subscripts of one tensor name parts that share no element."""
    return any(_are_apart(left, right) for left, right in zip(indices(written), indices(read), strict=False))


def _are_apart(left: ast.expr, right: ast.expr) -> bool:
    match left, right:
        case ast.Constant(value=int() as first), ast.Constant(value=int() as second):
            return first != second and (first < 0) is (second < 0)
        case ast.Constant(value=int() as number), ast.Slice(lower=ast.Constant(value=int() as start), step=None):
            return 0 <= number < start
        case ast.Slice(), ast.Constant():
            return _are_apart(right, left)
        case ast.Slice(upper=ast.Constant(value=int() as end)), ast.Slice(lower=ast.Constant(value=int() as start)) if (
            0 < end <= start
        ):
            return True
        case ast.Slice(lower=ast.Constant(value=int() as start)), ast.Slice(upper=ast.Constant(value=int() as end)) if (
            0 < end <= start
        ):
            return True
        case ast.Slice(upper=ast.expr() as end), ast.Slice(lower=ast.expr() as start) if ast.dump(end) == ast.dump(
            start
        ):
            return True
        case ast.Slice(lower=ast.expr() as start), ast.Slice(upper=ast.expr() as end):
            return ast.dump(end) == ast.dump(start)
    return False


def blocks_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements that a statement or function holds."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def position(node: ast.expr) -> tuple[int, int]:
    """The row and column at which an expression begins."""
    return node.lineno, node.col_offset
