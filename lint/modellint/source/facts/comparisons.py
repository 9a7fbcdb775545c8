"""Comparisons: code that measures a prediction by the truth, or that processes run together, as its arguments and calls tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.facts.training_parts import runs_in_evaluation
from modellint.source.project.symbols import External, IndexedFile, dotted_name
from modellint.source.syntax.ast_walk import called_name, of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_PREDICTED = re.compile(r"pred(?:icted|ictions?|s)?_(\w+)")
_TRUE = re.compile(r"(?:true|gt|ground_truth|targets?)_(\w+)")
_PREDICTION = re.compile(r"pred(?:icted|ictions?|s)?")
_TRUTH = re.compile(r"labels?|targets?|gts?|truth|ground_truths?")
_COLLECTIVE = re.compile(
    r"torch\.distributed\.(?:\w+\.)*(?:all_(?:gather|reduce|to_all)|reduce_scatter|broadcast|barrier)\w*"
)
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def compares_with_truth(function: _Function) -> bool:
    """Whether a function has to be given a prediction and the truth of one thing: `pred_boxes, true_boxes`; a helper, `pred, label`."""
    return once(function, "_compares_with_truth", _compares_with_truth)


def _compares_with_truth(function: _Function) -> bool:
    arguments = [*function.args.posonlyargs, *function.args.args]
    required = [part.arg for part in arguments[: len(arguments) - len(function.args.defaults)]]
    predicted, true = (
        {match[1] for name in required if (match := pattern.fullmatch(name))} for pattern in (_PREDICTED, _TRUE)
    )
    if predicted & true:
        return True
    # What a `forward` takes besides may be there for training alone.
    bare = [name for name in required if name != "self"] if function.name != "forward" else []
    return len(bare) == 2 and any(map(_PREDICTION.fullmatch, bare)) and any(map(_TRUTH.fullmatch, bare))


def gives_nothing_in_evaluation(forward: _Function) -> bool:
    """Whether a `forward` gives something back in training, and nothing otherwise: it prints or keeps what it has found."""
    returns = [part for part in of_kind(forward, ast.Return) if not _is_none(part.value)]
    return bool(returns) and not any(part in returns for part in runs_in_evaluation(forward))


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def runs_with_collectives(project: Project, file: IndexedFile, function: _Function, row: int) -> bool:
    """Whether all that runs a row of a function has processes exchange tensors, before or behind it."""
    names = once(function, "_collectives", lambda node: [*_collectives(project, file, node)])
    return bool(names) and _comes_with(function.body, row, frozenset(names))


def _collectives(project: Project, file: IndexedFile, function: _Function) -> Iterator[int]:
    """The rows of calls that processes have to make together."""
    for call in of_kind(function, ast.Call):
        dotted = dotted_name(call.func) if _MAY_BE.search(called_name(call)) else None
        symbol = project.resolve(file, dotted) if dotted is not None else None
        if isinstance(symbol, External) and _COLLECTIVE.fullmatch(symbol.name):
            yield call.lineno


_MAY_BE = re.compile(r"all_(?:gather|reduce|to_all)|reduce_scatter|broadcast|barrier")


def _comes_with(body: Sequence[ast.stmt], row: int, rows: frozenset[int]) -> bool:
    at = next((at for at, part in enumerate(body) if part.lineno <= row <= (part.end_lineno or 0)), None)
    if at is None:
        return False
    for before in reversed(body[:at]):
        if _calls(before, rows):
            return True
    for behind in body[at:]:
        if _calls(behind, rows) and not (behind is body[at] and hasattr(behind, "body")):
            return True
        if any(isinstance(part, _EXITS) for part in ast.walk(behind)):
            break
    blocks = (getattr(body[at], field, ()) for field in ("body", "orelse", "finalbody"))
    return any(_comes_with(block, row, rows) for block in blocks)


def _calls(statement: ast.stmt, rows: frozenset[int]) -> bool:
    """Whether a plain statement makes one of the calls."""
    return not hasattr(statement, "body") and any(
        statement.lineno <= row <= (statement.end_lineno or 0) for row in rows
    )
