"""A sign of views that memory may not allow: a `view` of what a permutation, or a part of a tensor, gave."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.source.domains.operator_sets import PERMUTING
from modellint.source.syntax.ast_walk import Function, functions_in, given_to, of_kind, parameters_of, walk

if TYPE_CHECKING:
    pass

MOVING = PERMUTING | frozenset(
    {"chunk", "tensor_split", "split_with_sizes", "hsplit", "vsplit", "dsplit", "real", "imag", "as_strided"}
    | {"broadcast_to", "repeat", "flip", "rearrange", "scaled_dot_product_attention"}
)
"""Those, and others whose result may not."""

_ANYTHING = "*"
"""Stands among the names that a value rests on, where the value itself does what is asked for."""


class _Step:
    """What one place of a function does with names: in the order of the text."""

    __slots__ = ("_rests_on", "asks", "called", "certain", "names", "row", "values")

    def __init__(
        self,
        row: int,
        values: Sequence[ast.expr],
        names: frozenset[str] = frozenset(),
        certain: bool = False,
        called: str = "",
        asks: bool = False,
    ) -> None:
        self.row = row
        self.values = values
        self.names = names
        """What it binds to them."""
        self.certain = certain
        """It runs whenever the function does, so that what it binds is no longer what it was."""
        self.called = called
        """The function that gets the values, where it is a call."""
        self.asks = asks
        """The values are asked for a view."""
        self._rests_on: frozenset[str] | None = None

    @property
    def rests_on(self) -> frozenset[str]:
        """Names of which one must be moved for the values to be."""
        if self._rests_on is None:
            self._rests_on = _rests_on(self.values)
        return self._rests_on


def may_move(nodes: Sequence[ast.stmt]) -> bool:
    """Whether the receiver of a `view` may be what a permutation, or a part of a tensor, gave."""
    functions = functions_in(nodes)
    if not any(_asks_for_view(call) for function in functions for call in of_kind(function, ast.Call)):
        return False
    names = {function.name for function in functions}
    steps = [(function, [step for step in _steps(function) if not step.called or step.called in names])
             for function in functions]  # fmt: skip
    everywhere = {_ANYTHING}
    given: dict[str, set[str]] = {name: set() for name in names}
    size = -1
    while size < len(everywhere) + sum(map(len, given.values())):
        size = len(everywhere) + sum(map(len, given.values()))
        for function, several in steps:
            moved = given[function.name] | everywhere
            for _ in range(2):
                for step in several:
                    if step.rests_on.isdisjoint(moved):
                        if step.certain:
                            moved -= step.names - everywhere
                    elif step.asks:
                        return True
                    elif step.called:
                        for other in functions:
                            if other.name == step.called:
                                given[other.name] |= parameters_of(other)
                    else:
                        moved |= step.names
                        everywhere |= {name for name in step.names if name.startswith(".") or name == function.name}
    return False


def _asks_for_view(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("view", "view_as")


_STEPPING = frozenset(
    {ast.Assign, ast.NamedExpr, ast.AugAssign, ast.AnnAssign, ast.For, ast.comprehension, ast.Return, ast.Call}
)


def _steps(function: Function) -> list[_Step]:
    """What a function does with names, in the order of the rows."""
    kept: list[_Step] | None = vars(function).get("_steps")
    if kept is None:
        kept = vars(function)["_steps"] = sorted(_find_steps(function), key=lambda step: step.row)
    return kept


def _find_steps(function: Function) -> Iterator[_Step]:
    outermost = set(function.body)
    for node in walk(function):
        if node.__class__ not in _STEPPING:
            continue
        row = getattr(node, "lineno", 0)
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                yield _Step(row, given_to(node), called=name)
                if _asks_for_view(node) and isinstance(node.func, ast.Attribute):
                    yield _Step(row, [node.func.value], asks=True)
            case ast.Assign(targets=targets, value=value):
                # What a statement binds holds behind all that its value does.
                bound = frozenset(name for target in targets for name in _bound_names(target))
                whole = all(isinstance(target, (ast.Name, ast.Tuple)) for target in targets)
                yield _Step(node.end_lineno or row, [value], bound, certain=whole and node in outermost)
            case ast.NamedExpr(target=target, value=value) | ast.AugAssign(target=target, value=value):
                yield _Step(row, [value], _bound_names(target))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield _Step(row, [value], _bound_names(target))
            case ast.For(target=target, iter=value):
                yield _Step(row, [value], _bound_names(target))
            case ast.comprehension(target=target, iter=value):
                yield _Step(target.lineno, [value], _bound_names(target))
            case ast.Return(value=ast.expr() as value):
                yield _Step(row, [value], frozenset({function.name}))
            case _:
                pass


def _bound_names(target: ast.expr) -> frozenset[str]:
    """Names that a target binds; `.x` for an attribute, which other methods see too."""
    if isinstance(target, ast.Name):
        return frozenset({target.id})
    parts = walk(target)
    attributes = {"." + part.attr for part in parts if isinstance(part, ast.Attribute)}
    return frozenset(attributes or {part.id for part in parts if isinstance(part, ast.Name)})


def _rests_on(values: Sequence[ast.expr]) -> frozenset[str]:
    """Names of which one must be moved for one of the values to be; ``_ANYTHING`` among them where it moves by itself."""
    found: set[str] = set()
    pending: list[ast.AST] = [*values]
    while pending:
        match pending.pop():
            case ast.Name(id=name):
                found.add(name)
            case ast.Constant() | ast.Lambda():
                pass
            case ast.Attribute(value=inner, attr=name):
                found.add(_ANYTHING if name in ("T", "mT", "H", "mH") else "." + name)
                if name not in ("shape", "device", "dtype", "ndim"):
                    pending.append(inner)
            case ast.Subscript(value=inner, slice=index):
                if not isinstance(index, ast.Constant):
                    found.add(_ANYTHING)
                pending.append(inner)
            case ast.Call(func=function) as call:
                name = getattr(function, "attr", "") or getattr(function, "id", "")
                found.add(_ANYTHING if name in MOVING else name)
                if name not in ("contiguous", "size", "dim", "numel", "len", "int"):
                    pending += given_to(call)
                    if isinstance(function, ast.Attribute):
                        pending.append(function.value)
            case other:
                pending += (part for part in ast.iter_child_nodes(other) if isinstance(part, ast.expr))
    return frozenset(found)
