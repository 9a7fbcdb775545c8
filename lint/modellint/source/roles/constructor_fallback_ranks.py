"""Default ranks: of tensors that a constructor makes where it is given none, and of those that conditions ask for."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from modellint.source.engine.mode_conditions import COMPARISONS
from modellint.source.project.symbols import External, IndexedFile, dotted_name
from modellint.source.syntax.ast_walk import of_kind
from modellint.source.syntax.rank_conditions import tensor_of_rank

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_FILLED = re.compile(r"torch\.(?:zeros|ones|empty|full|rand|randn)")


class AskedRank(NamedTuple):
    """A condition on the number of dimensions of a tensor that is an attribute: ``self.scale.dim() > 1``."""

    attribute: str
    operator: type[ast.cmpop]
    number: int

    def holds(self, rank: int) -> bool:
        """Whether it does for a number of dimensions."""
        return COMPARISONS[self.operator](rank, self.number)


def asked_rank(test: ast.expr) -> AskedRank | None:
    """The condition on the rank of an attribute that a test is, if it is one."""
    match test:
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int() as number)]) if (
            type(op) in COMPARISONS
        ):
            match tensor_of_rank(left):
                case ast.Attribute(value=ast.Name(id="self"), attr=name):
                    return AskedRank(name, type(op), number)
    return None


class Substitute(NamedTuple):
    """What a constructor binds an attribute to: an argument, or, where that is None, something else."""

    argument: str
    instead: ast.expr


def substitute(init: _Function, attribute: str) -> Substitute | None:
    """The argument that a constructor binds an attribute to, and what it has in its place where that is None.

    ``self.a = a`` and ``if self.a is None: self.a = b`` (or ``if a is None:``) behind it, or ``self.a = b if a is None else a``; None
    where the attribute is bound in another way too.
    """
    bound = [
        part for part in of_kind(init, ast.Attribute) if part.attr == attribute and not isinstance(part.ctx, ast.Load)
    ]
    first = next((at for at, part in enumerate(init.body) if _binds(part, attribute)), None)
    if first is None:
        return None
    statement = init.body[first]
    assert isinstance(statement, ast.Assign)
    match statement.value:
        case ast.Name(id=name) if len(bound) == 2:
            return _replaced(init.body[first + 1 :], attribute, name)
        case ast.IfExp(test=test, body=instead, orelse=ast.Name(id=name)) if len(bound) == 1:
            return Substitute(name, instead) if _asks_for_none(test, name, attribute) else None
        case ast.IfExp(
            test=ast.Compare(left=ast.Name(id=asked), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]),
            body=ast.Name(id=name),
            orelse=instead,
        ) if len(bound) == 1 and asked == name:
            return Substitute(name, instead)
    return None


def _replaced(body: Sequence[ast.stmt], attribute: str, name: str) -> Substitute | None:
    for statement in body:
        match statement:
            case ast.If(test=test, body=[ast.Assign(value=instead) as inner], orelse=[]):
                if _binds(inner, attribute) and _asks_for_none(test, name, attribute):
                    return Substitute(name, instead)
    return None


def _binds(statement: ast.stmt, attribute: str) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
            return name == attribute
    return False


def _asks_for_none(test: ast.expr, name: str, attribute: str) -> bool:
    match test:
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return ast.unparse(left) in (name, f"self.{attribute}")
    return False


def filled_rank(project: Project, file: IndexedFile, node: ast.expr) -> int | None:
    """The number of dimensions of what `torch.zeros(1)` and the like make, where their sizes are written one by one."""
    if not isinstance(node, ast.Call):
        return None
    dotted = dotted_name(node.func)
    symbol = project.resolve(file, dotted) if dotted is not None else None
    if not isinstance(symbol, External) or _FILLED.fullmatch(symbol.name) is None:
        return None
    if any(word.arg in (None, "size") for word in node.keywords):
        return None
    match node.args:
        case [ast.Tuple(elts=sizes) | ast.List(elts=sizes), *_]:
            return None if any(isinstance(size, ast.Starred) for size in sizes) else len(sizes)
    # A variable may be a tuple.
    are_numbers = all(isinstance(size, ast.Constant) and isinstance(size.value, int) for size in node.args)
    return len(node.args) if node.args and are_numbers and not symbol.name.endswith(".full") else None
