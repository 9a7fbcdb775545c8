"""Signs of numbers that a narrower type does not hold: as they are written, or computed of numbers that are."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from modellint.data.number_types import FLOAT16, INT32
from modellint.source.syntax.ast_walk import functions_in, mentioned_in, of_kind, reached_from

if TYPE_CHECKING:
    from modellint.source.project.symbols import IndexedFile

_SCALING = (ast.Mult, ast.Div, ast.Pow, ast.LShift)


class _Numbers(NamedTuple):
    """Of the numbers in a statement: the largest magnitude, the smallest positive one, the largest magnitude of a whole one."""

    largest: float
    smallest: float
    longest: int
    of_types: frozenset[str]
    """What asks a type for its extremes."""


def wide(file: IndexedFile, nodes: Sequence[ast.stmt], run: Sequence[ast.stmt]) -> bool:
    """Whether a number beyond float16 may be written down, or asked of a type."""
    return _any(file, nodes, run, lambda one: one.largest > FLOAT16.largest or "finfo" in one.of_types)


def tiny(file: IndexedFile, nodes: Sequence[ast.stmt], run: Sequence[ast.stmt]) -> bool:
    """Whether a positive number below the smallest one of float16 may be."""
    return _any(file, nodes, run, lambda one: one.smallest < FLOAT16.smallest or "finfo" in one.of_types)


def long(file: IndexedFile, nodes: Sequence[ast.stmt], run: Sequence[ast.stmt]) -> bool:
    """Whether a whole number outside of int32 may be."""
    return _any(file, nodes, run, lambda one: one.longest > INT32.largest or "iinfo" in one.of_types)


def _any(
    file: IndexedFile, nodes: Sequence[ast.stmt], run: Sequence[ast.stmt], asks: Callable[[_Numbers], bool]
) -> bool:
    """Whether something holds of the numbers in what runs, or builds the object, or stands in no function."""
    if any(asks(_numbers_in(node)) for node in _loose(file)):
        return True
    holding = [node for node in nodes if asks(_numbers_in(node))]
    if not holding:
        return False
    functions = functions_in(nodes)
    building = [function for function in functions if function.name == "__init__"] or functions
    reached = reached_from([*dict.fromkeys((*building, *functions_in(run)))], functions)
    if any(asks(_numbers_in(function)) for function in reached):
        return True
    inner = [part for node in holding if isinstance(node, ast.ClassDef) for part in node.body]
    return any(
        asks(_numbers_in(part)) for part in inner if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def _numbers_in(node: ast.stmt) -> _Numbers:
    found: _Numbers | None = vars(node).get("_numbers")
    if found is None:
        numbers = [*_numbers(node)]
        found = vars(node)["_numbers"] = _Numbers(
            max((abs(number) for number in numbers), default=0),
            min((number for number in numbers if number > 0), default=1.0),
            max((abs(number) for number in numbers if type(number) is int), default=0),
            mentioned_in(node) & {"finfo", "iinfo"},
        )
    return found


def _numbers(node: ast.stmt) -> Iterator[int | float]:
    """The numbers that are written in a statement, and what is computed of two of them."""
    for constant in of_kind(node, ast.Constant):
        if isinstance(constant.value, (int, float)):
            yield constant.value
    for both in of_kind(node, ast.BinOp):
        if isinstance(both.op, _SCALING):
            yield from _computed(both.op, _number(both.left), _number(both.right))


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


def _loose(file: IndexedFile) -> list[ast.stmt]:
    """The statements of a file that are no functions, classes or imports."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    found: list[ast.stmt] | None = vars(file.tree).get("_loose")
    if found is None:
        found = vars(file.tree)["_loose"] = [node for node in file.tree.body if not isinstance(node, kinds)]
    return found
