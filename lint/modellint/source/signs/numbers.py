"""Signs of numbers that a narrower type does not hold: as they are written, or computed of numbers that are."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from modellint.source.nodes import of_kind, walk

if TYPE_CHECKING:
    from modellint.source.project import IndexedFile

LARGEST = 65504.0
"""The largest number of float16."""
SMALLEST = 2.0**-24
"""The smallest positive one."""
LONGEST = (1 << 31) - 1
"""The largest number of int32."""
_SCALING = (ast.Mult, ast.Div, ast.Pow, ast.LShift)


class _Extremes(NamedTuple):
    """Of the numbers in a statement: the largest magnitude, the smallest positive one, the largest magnitude of a whole one."""

    largest: float
    smallest: float
    longest: int


_known: WeakKeyDictionary[ast.AST, _Extremes] = WeakKeyDictionary()
"""What was found in statements that are still in use: three signs, and every class of a file, ask the same ones."""


def wide(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether a number beyond float16 may be written down, or asked of a type."""
    return any(one.largest > LARGEST for one in _extremes(file, nodes)) or _names(file, nodes, "finfo")


def tiny(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether a positive number below the smallest one of float16 may be."""
    return any(one.smallest < SMALLEST for one in _extremes(file, nodes)) or _names(file, nodes, "finfo")


def long(file: IndexedFile, nodes: Sequence[ast.stmt]) -> bool:
    """Whether a whole number outside of int32 may be."""
    return any(one.longest > LONGEST for one in _extremes(file, nodes)) or _names(file, nodes, "iinfo")


def _extremes(file: IndexedFile, nodes: Sequence[ast.stmt]) -> Iterator[_Extremes]:
    """Those of classes and functions, and of what stands at the top of the file."""
    for node in (*_loose(file), *nodes):
        found = _known.get(node)
        if found is None:
            numbers = [*_numbers(node)]
            found = _known[node] = _Extremes(
                max((abs(number) for number in numbers), default=0),
                min((number for number in numbers if number > 0), default=1.0),
                max((abs(number) for number in numbers if type(number) is int), default=0),
            )
        yield found


def _numbers(node: ast.stmt) -> Iterator[int | float]:
    """The numbers that are written in a statement, and what is computed of two of them."""
    for part in _of(node, ast.Constant):
        if isinstance(part, ast.Constant) and isinstance(part.value, (int, float)):
            yield part.value
    for both in _of(node, ast.BinOp):
        if isinstance(both, ast.BinOp) and isinstance(both.op, _SCALING):
            yield from _computed(both.op, _number(both.left), _number(both.right))


def _of(node: ast.stmt, kind: type[ast.expr]) -> Sequence[ast.AST]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return of_kind(node, kind)
    return [part for part in walk(node) if isinstance(part, kind)]


def _number(node: ast.expr) -> int | float | None:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return inner.value if isinstance(inner, ast.Constant) and isinstance(inner.value, (int, float)) else None


def _computed(op: ast.operator, left: int | float | None, right: int | float | None) -> Iterator[int | float]:
    if left is None or right is None:
        return
    try:
        if isinstance(op, ast.Mult):
            yield left * right
        elif isinstance(op, ast.LShift) and isinstance(left, int) and isinstance(right, int):
            yield left << min(right, 128)
        elif isinstance(op, ast.Pow) and right <= 128:
            # A sign that was left out may have made it small.
            yield from (left**right, left**-right)
        elif isinstance(op, ast.Div):
            yield left / right
    except (ArithmeticError, ValueError):
        return


def _names(file: IndexedFile, nodes: Sequence[ast.stmt], name: str) -> bool:
    return name in file.source.text and any(
        getattr(part, "attr", getattr(part, "id", "")) == name
        for node in (*_loose(file), *nodes)
        for part in walk(node)
    )


def _loose(file: IndexedFile) -> list[ast.stmt]:
    """The statements of a file that are no functions, classes or imports."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return [node for node in file.tree.body if not isinstance(node, kinds)]
