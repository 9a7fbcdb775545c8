"""The place of what is made, which every part of the lowering asks for."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from typing import Any, TypeVar

import libcst as cst

from modellint.source.syntax.cst_to_ast.token_positions import Span, measured

Located = TypeVar(
    "Located",
    bound=ast.expr | ast.stmt | ast.pattern | ast.arg | ast.keyword | ast.alias | ast.excepthandler,
)
LOAD = ast.Load()
STORE = ast.Store()


class Placing:
    """The positions of one module's nodes, in bytes of the normalised source."""

    def __init__(self, module: cst.Module, parsed: str, source: str) -> None:
        self._module = module
        self._spans = measured(module, parsed.encode("utf-8"))
        self._source = source.encode("utf-8")
        self._lines = [0]
        self._lines += [found.end() for found in re.finditer(rb"\n", self._source)]

    def _expr(self, node: cst.CSTNode, ctx: ast.expr_context = LOAD) -> ast.expr:
        raise NotImplementedError

    def _span(self, node: cst.CSTNode) -> Span:
        """Span without the parentheses around an expression."""
        return self._spans[node]

    def _outer(self, node: Any) -> Span:
        """Span of an expression or pattern including its parentheses."""
        if node.lpar:
            return Span(self._span(node.lpar[0]).start, self._span(node.rpar[-1]).end)
        return self._span(node)

    def _parenthesized(self, node: Any) -> Span:
        """Span including the innermost parentheses, which ``ast`` counts for a few displays."""
        if node.lpar:
            return Span(self._span(node.lpar[-1]).start, self._span(node.rpar[0]).end)
        return self._span(node)

    def _position(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1]

    def _place(self, node: Located, start: int, end: int) -> Located:
        node.lineno, node.col_offset = self._position(start)
        node.end_lineno, node.end_col_offset = self._position(end)
        return node

    def _at(self, node: Located, origin: cst.CSTNode) -> Located:
        return self._place(node, *self._span(origin))

    def _slice_text(self, start: int, end: int) -> str:
        return self._source[start:end].decode("utf-8")
