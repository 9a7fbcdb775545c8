"""Path conditions: the conditions that hold, or do not, where a row of statements is reached."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from modellint.source.syntax.ast_walk import once

_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def _ends(body: Sequence[ast.stmt]) -> list[tuple[int, ast.expr, bool]]:
    """The branches and assertions that end before what follows: their last row, what they ask, and whether that holds behind them."""
    ends: list[tuple[int, ast.expr, bool]] = []
    for statement in body:
        if isinstance(statement, ast.Assert):
            ends.append((statement.end_lineno or 0, statement.test, True))
        elif isinstance(statement, ast.If):
            leaves = [bool(block) and isinstance(block[-1], _EXITS) for block in (statement.body, statement.orelse)]
            if leaves[0] is not leaves[1]:
                ends.append((statement.end_lineno or 0, statement.test, leaves[1]))
    return ends


def conditions_at(body: Sequence[ast.stmt], row: int) -> Iterator[tuple[ast.expr, bool]]:
    """The conditions that hold, or do not, where a row of statements is reached; those of branches and assertions before it too."""
    if not body:
        return
    for end, test, holds in once(body[0], "_ends_before", lambda _: _ends(body)):
        if end >= row:
            break
        yield test, holds
    # Only one statement holds the row: a long body is not gone through for each.
    at = bisect_right(body, row, key=lambda statement: statement.lineno)
    for statement in body[max(at - 1, 0) : at]:
        if (statement.end_lineno or 0) < row:
            continue
        if isinstance(statement, ast.If):
            if (statement.test.end_lineno or 0) < row:
                holds = row <= (statement.body[-1].end_lineno or 0)
                yield statement.test, holds
                yield from conditions_at(statement.body if holds else statement.orelse, row)
            return
        for field in ("body", "orelse", "finalbody"):
            yield from conditions_at(getattr(statement, field, ()), row)
        for field in ("handlers", "cases"):
            for part in getattr(statement, field, ()):
                yield from conditions_at(part.body, row)
        return
