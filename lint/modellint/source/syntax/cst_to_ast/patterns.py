"""Patterns of `match`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import libcst as cst

from modellint.source.syntax.cst_to_ast.expressions import SINGLETONS, Expressions
from modellint.source.syntax.cst_to_ast.token_positions import identifier, kind_of


class Patterns(Expressions):
    """What a `case` compares with."""

    def __init__(self, module: cst.Module, parsed: str, source: str) -> None:
        super().__init__(module, parsed, source)
        self._patterns: dict[str, Callable[[Any], ast.pattern]] = {
            "MatchAs": self._match_as,
            "MatchClass": self._match_class,
            "MatchList": self._match_sequence,
            "MatchMapping": self._match_mapping,
            "MatchOr": self._match_or,
            "MatchSingleton": self._match_singleton,
            "MatchTuple": self._match_sequence,
            "MatchValue": self._match_value,
        }

    def _pattern(self, node: cst.CSTNode) -> ast.pattern:
        return self._patterns[kind_of(node)](node)

    def _match_value(self, node: cst.MatchValue) -> ast.pattern:
        return self._at(ast.MatchValue(value=self._expr(node.value)), node.value)

    def _match_singleton(self, node: cst.MatchSingleton) -> ast.pattern:
        return self._at(ast.MatchSingleton(value=SINGLETONS[node.value.value]), node.value)

    def _match_as(self, node: cst.MatchAs) -> ast.pattern:
        result = ast.MatchAs(
            pattern=None if node.pattern is None else self._pattern(node.pattern),
            name=None if node.name is None else identifier(node.name.value),
        )
        return self._at(result, node)

    def _match_or(self, node: cst.MatchOr) -> ast.pattern:
        patterns = [self._pattern(item.pattern) for item in node.patterns]
        return self._at(ast.MatchOr(patterns=patterns), node)

    def _match_sequence(self, node: cst.MatchList | cst.MatchTuple) -> ast.pattern:
        patterns = [
            self._match_star(item) if isinstance(item, cst.MatchStar) else self._pattern(item.value)
            for item in node.patterns
        ]
        tuple_like = isinstance(node, cst.MatchTuple)
        span = self._parenthesized(node) if tuple_like else self._span(node)
        return self._place(ast.MatchSequence(patterns=patterns), *span)

    def _match_star(self, node: cst.MatchStar) -> ast.pattern:
        name = None if node.name is None else identifier(node.name.value)
        return self._at(ast.MatchStar(name=name), node)

    def _match_mapping(self, node: cst.MatchMapping) -> ast.pattern:
        result = ast.MatchMapping(
            keys=[self._expr(item.key) for item in node.elements],
            patterns=[self._pattern(item.pattern) for item in node.elements],
            rest=None if node.rest is None else identifier(node.rest.value),
        )
        return self._at(result, node)

    def _match_class(self, node: cst.MatchClass) -> ast.pattern:
        result = ast.MatchClass(
            cls=self._expr(node.cls),
            patterns=[self._pattern(item.value) for item in node.patterns],
            kwd_attrs=[identifier(item.key.value) for item in node.kwds],
            kwd_patterns=[self._pattern(item.pattern) for item in node.kwds],
        )
        return self._at(result, node)
